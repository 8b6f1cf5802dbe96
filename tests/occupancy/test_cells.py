# SPDX-License-Identifier: Apache-2.0
"""Small rules of the cells: where in a cell a particle fits, how maturity fades, and which cells move together."""

import math

import numpy as np
import pytest

from roadbed.config.occupancy import GridConfig
from roadbed.core.geometry import Pose
from roadbed.kernels.jit import njit
from roadbed.occupancy.hsbof.arrays import Velocities
from roadbed.occupancy.hsbof.cells_cpu import surface_likelihood
from roadbed.occupancy.hsbof.masses_cpu import compose_without_arrivals
from roadbed.occupancy.hsbof.model import SURFACE_REACH, CellRules
from roadbed.occupancy.hsbof.priors_cpu import interpolate_layers, roll_layers
from roadbed.occupancy.hsbof.velocities_cpu import drop_lone_cells
from roadbed.occupancy.placement import GridPlacement
from roadbed.occupancy.registration.arrays import Registered
from tests.occupancy.engines import ENGINES, hsbof
from tests.occupancy.models import filter_model
from tests.occupancy.scenes import flat_ground, scan_at
from tests.occupancy.test_hsbof import SMALL, seen_as


def test_a_particle_fits_best_in_the_middle_of_the_subcell_that_was_hit():
    rules = CellRules.of(
        filter_model(surface_sigma=0.05, surface_floor=0.1), 0.1, 0.2
    )  # subcells of 5 cm, as wide as the standard deviation
    surface = np.zeros((3, 3), np.uint16)
    surface[1, 1] = 1 << (2 * 4 + 1)  # row 2, column 1 of its subcells
    x, y = 4 + 1.5, 4 + 2.5
    assert surface_likelihood(surface, x, y, rules) == pytest.approx(1.0)
    for dx, dy in ((1, 0), (0, -1), (0.5, 0.5), (-1, 1)):
        expected = 0.1 + 0.9 * math.exp(-(dx**2 + dy**2) / 2)
        assert surface_likelihood(surface, x + dx, y + dy, rules) == pytest.approx(expected)
    assert surface_likelihood(surface, 11.5, 11.5, rules) == pytest.approx(0.1)


def test_a_return_beyond_reach_says_nothing_of_a_particle_however_wide_its_spread():
    rules = CellRules.of(filter_model(surface_sigma=1.0, surface_floor=0.1), 0.1, 0.2)
    surface = np.zeros((12, 12), np.uint16)
    surface[6, 6] = 1  # subcell (24, 24)
    for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        near, far = (24.5 + distance * np.array([dx, dy]) for distance in (SURFACE_REACH, SURFACE_REACH + 1))
        assert surface_likelihood(surface, *near, rules) > 0.5
        assert surface_likelihood(surface, *far, rules) < 0.11


@njit()
def composed(s, e, born, u, rules):
    return compose_without_arrivals(s, e, born, u, rules)


@pytest.mark.parametrize(
    ("exclusive", "expected"), [(True, (0.2, 0.2, 0.1, 0.5)), (False, (1 / 3, 1 / 6, 1 / 12, 5 / 12))]
)
def test_masses_of_a_cell_whose_particles_have_left_sum_to_one(exclusive, expected):
    """Others than the static mass fill the rest, in their proportion; or all of them do."""
    rules = CellRules.of(filter_model(), 0.1, 0.2)._replace(exclusive=exclusive)
    assert composed(0.2, 0.1, 0.05, 0.25, rules) == pytest.approx(expected)


@pytest.mark.parametrize("dt", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("name", ENGINES)
def test_maturity_fades_with_time_and_not_with_the_number_of_steps(name, dt):
    filter_ = hsbof(name)((1, 1), 0.2, SMALL)
    filter_.masses.static[0], filter_.masses.maturity[0] = 0.9, 2.0
    filter_.step(seen_as([[0.1]], [[0.9]]), dt)
    assert filter_.masses.maturity[0, 0] == pytest.approx(2.0 * 0.8 ** (dt / 0.1), rel=1e-5)


def test_a_cell_moves_with_the_hits_around_it_or_as_its_component():
    """Two rows to the right; a pair among them goes to the left, and a pair is much faster."""
    shape = (4, 12)
    moving, probability = np.zeros(shape, bool), np.full(shape, 0.5, np.float32)
    velocity, label = np.full((*shape, 2), np.nan, np.float32), np.full(shape, -1, np.int32)
    for column, vx in enumerate((4.0, 4.5, -4.0, 3.6, 4.2, 20.0)):
        moving[1:3, column + 2], velocity[1:3, column + 2], probability[1:3, column + 2] = True, (vx, 0.0), 0.9
    label[1:3, 4:8:3] = 0
    found = np.zeros(shape, bool)
    velocities = Velocities(np.zeros(shape, np.float32), velocity, np.zeros((*shape, 3), np.float32), moving)

    def moving_columns(alike, registered=(np.nan, np.nan)):
        registered = Registered(label, np.array([registered], np.float32), np.ones(1, np.int32))
        rule = filter_model(moving={"alike": alike}).moving
        drop_lone_cells(0, len(moving), velocities, probability, registered, rule, found)
        assert (found[1] == found[2]).all()
        assert not found[[0, 3]].any()
        return np.flatnonzero(found[1]).tolist()

    assert moving_columns(0.3) == [2, 3, 5, 6]
    assert moving_columns(0.0) == [2, 3, 4, 5, 6, 7]
    assert moving_columns(0.3, (20.0, 0.0)) == [2, 3, 5, 6, 7]  # the component of the pairs at columns 4 and 7
    moving[:, 7:], moving[1:3, 10] = False, True  # where no hit and no moving cell is near, in a row each
    velocity[1:3, 10], label[1, 10], label[2, 10] = (20.0, 0.0), 0, 0
    assert moving_columns(0.3, (20.0, 0.0))[-1] == 10
    moving[2, 10] = False
    drop = Registered(label, np.array([(20.0, 0.0)], np.float32), np.ones(1, np.int32))
    drop_lone_cells(0, len(moving), velocities, probability, drop, filter_model().moving, found)
    assert not found[1, 10]  # one cell alone is no motion, whatever its component is registered at


@pytest.mark.parametrize("motion", ["rolling", "vehicle"])
def test_the_own_velocity_lies_along_the_grids_axes(motion):
    """A vehicle at 10 m/s towards 120 degrees, in a world that its ground's lattice is turned against."""
    placement = GridPlacement(GridConfig(length=20, width=20, spacing=0.5, motion=motion))
    heading = np.radians(120)
    T_world_grid = Pose.from_euler(3.0, 1.0, yaw=0.5)
    for k in range(3):
        scan = scan_at(np.zeros((0, 3)), 0.1 * k, k * np.cos(heading), k * np.sin(heading), yaw=heading)
        found = placement.follow(scan, flat_ground(scan, T_world_grid=T_world_grid), 0.1).ego_velocity
    along = heading - 0.5 if motion == "rolling" else 0.0
    assert found == pytest.approx((10 * np.cos(along), 10 * np.sin(along)), abs=1e-6)


@pytest.mark.parametrize("columns", [-9, -6, -2, 0, 5, 6, 9])
@pytest.mark.parametrize("rows", [-4, 1, 3])
def test_a_grid_may_roll_farther_than_it_is_wide(columns, rows):
    layers = np.arange(1, 37, dtype=np.float32).reshape(2, 3, 6)
    around = np.full((4, 3, 6), 7, np.float32)
    roll_layers(0, 3, layers, columns, rows, around[1:3])
    for row, column in np.ndindex(3, 6):
        there = 0 <= row + rows < 3 and 0 <= column + columns < 6
        np.testing.assert_array_equal(around[1:3, row, column], layers[:, row + rows, column + columns] if there else 0)
    assert (around[[0, 3]] == 7).all()


@pytest.mark.parametrize(
    ("turn", "shift"),
    [(0, (0, 0)), (0, (-0.8, 0)), (0, (3, -2)), (0, (40, 0)), (0.02, (3.3, -0.2)), (-0.3, (-2.5, 7.1)), (2, (10, 10))],
)
def test_each_cell_of_a_turned_grid_is_interpolated_from_four(turn, shift):
    """Of which those outside of the old grid are zero."""
    layers = np.random.default_rng(0).random((2, 17, 23)).astype(np.float32)
    rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    found = np.full((2, 17, 23), 9, np.float32)
    interpolate_layers(0, 9, layers, rotation, np.array(shift, float), found)
    interpolate_layers(9, 17, layers, rotation, np.array(shift, float), found)
    reach = 60
    padded = np.pad(layers, ((0, 0), (reach, reach), (reach, reach)))
    for row, column in np.ndindex(17, 23):
        x, y = rotation @ (column, row) + shift
        left, low = math.floor(x), math.floor(y)
        four = padded[:, low + reach : low + reach + 2, left + reach : left + reach + 2]
        weights = np.outer((1 - (y - low), y - low), (1 - (x - left), x - left))
        np.testing.assert_allclose(found[:, row, column], (four * weights).sum(axis=(1, 2)), atol=1e-6)


def test_the_nearest_return_is_found_wherever_a_particle_is():
    """Also in cells at the grid's rim; compared with the distances to all returns within reach."""
    rng = np.random.default_rng(0)
    rules = CellRules.of(filter_model(surface_sigma=0.1, surface_floor=0.1), 0.1, 0.2)
    surface = rng.integers(0, 1 << 16, (3, 4)) & rng.integers(0, 1 << 16, (3, 4)) & rng.integers(0, 1 << 16, (3, 4))
    bits = (surface[:, :, None] >> np.arange(16)) & 1
    rows, columns = np.nonzero(bits.reshape(3, 4, 4, 4).transpose(0, 2, 1, 3).reshape(12, 16))
    for x, y in rng.uniform(0, (16, 12), (200, 2)):
        near = (abs(columns - int(x)) <= SURFACE_REACH) & (abs(rows - int(y)) <= SURFACE_REACH)
        nearest = min(((columns + 0.5 - x) ** 2 + (rows + 0.5 - y) ** 2)[near], default=1e9)
        expected = 0.1 + 0.9 * math.exp(-nearest * rules.surface_precision)
        assert surface_likelihood(surface.astype(np.uint16), x, y, rules) == pytest.approx(expected)
