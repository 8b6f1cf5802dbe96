# SPDX-License-Identifier: Apache-2.0
"""Newborn particles: where, how many, and with which velocities."""

import numpy as np
import pytest

from tests.occupancy.engines import ENGINES, hsbof
from tests.occupancy.models import NO_CHANCE, NO_SURFACE, filter_model
from tests.occupancy.scenes import copies_of, grid_of_boxes
from tests.occupancy.test_hsbof import crowd, place, seen_as

SHAPE, SPACING, OWN = (12, 16), 0.5, (8.0, -3.0)


@pytest.fixture(scope="module", params=ENGINES)
def Filter(request):
    return hsbof(request.param)


def newborn(Filter, p=None, before=lambda filter_: None, **birth):
    """The particles born in one step: by default every cell is seen occupied for the first time."""
    rules = {"traffic": 0.0, "seeded": 0.0, **birth}
    model = filter_model(60_000, hit_static=0.0, hit_dynamic=1.0, **NO_CHANCE, birth=rules)
    filter_ = Filter(SHAPE, SPACING, model)
    before(filter_)
    filter_.step(seen_as(np.full(SHAPE, 0.9) if p is None else p, 1.0), 0.1, ego_velocity=OWN)
    return crowd(filter_)


def test_velocities_fill_a_disc_evenly(Filter):
    for found, radius in ((newborn(Filter, speed=speed), speed) for speed in (6.0, 30.0)):
        squared = (found.vx**2 + found.vy**2) / radius**2
        assert len(squared) > 5000
        assert squared.max() <= 1 + 1e-5
        # Even over the area: the square of the radius is uniform, and no direction is preferred.
        assert np.quantile(squared, [0.25, 0.5, 0.75]) == pytest.approx([0.25, 0.5, 0.75], abs=0.03)
        assert found.vx.mean() == pytest.approx(0, abs=0.03 * radius)
        assert found.vy.mean() == pytest.approx(0, abs=0.03 * radius)


def test_traffic_goes_along_with_the_own_vehicle_or_against_it(Filter):
    found = newborn(Filter, traffic=1.0, traffic_spread=0.0)
    velocity = np.column_stack([found.vx, found.vy])
    along, against = (np.abs(velocity - np.multiply(way, OWN)).max(axis=1) < 1e-4 for way in (1, -1))
    assert (along | against).all()
    assert along.mean() == pytest.approx(0.5, abs=0.03)
    wide = newborn(Filter, traffic=1.0, traffic_spread=2.0)
    off = np.column_stack([wide.vx, wide.vy])
    off -= np.sign(off @ OWN)[:, None] * np.array(OWN)
    assert off.std(axis=0) == pytest.approx([2.0, 2.0], rel=0.06)


def test_neighbours_of_a_mover_are_born_with_its_velocity(Filter):
    """Within the seed radius, scattered by the spread; beyond it with a velocity of their own."""

    def mover(filter_):
        place(filter_, (6, 8), [(4.0, -2.0, 0.8)])
        filter_.masses.dynamic[6, 8] = 0.8

    found = newborn(Filter, None, mover, seeded=1.0, seed_spread=0.3, speed=1e-3)
    own = copies_of(found, [(4.0, -2.0)])
    assert own.any()
    found = type(found)(*(values[~own] for values in found))
    row, column = found.cell // SHAPE[1], found.cell % SHAPE[1]
    # The mover has come from column 8.5 to 9.3.
    near = (np.abs(row - 6) <= 1) & (np.abs(column - 9) <= 1)
    seeded = np.hypot(found.vx, found.vy) > 1
    assert not seeded[~near].any()
    # Four tries at nine cells of which one moves.
    assert seeded[near].mean() == pytest.approx(1 - (8 / 9) ** 4, abs=0.12)
    assert found.vx[seeded].mean() == pytest.approx(4.0, abs=0.15)
    assert found.vy[seeded].mean() == pytest.approx(-2.0, abs=0.15)
    assert found.vx[seeded].std() == pytest.approx(0.3, rel=0.35)


def test_cells_get_particles_by_their_newborn_mass_and_anywhere_in_them(Filter):
    p = np.full(SHAPE, 0.05)
    p[3, 4], p[8, 10] = 0.6, 0.95
    found = newborn(Filter, p)
    share = [np.count_nonzero(found.cell == cell) / len(found.cell) for cell in (3 * 16 + 4, 8 * 16 + 10)]
    # All of an unknown cell becomes dynamic, and the likelihood of unknown mass is nowhere left: both are sure.
    assert share == pytest.approx([0.5, 0.5], abs=0.01)
    inside = (found.x / SPACING) % 1
    assert np.quantile(inside, [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.03)
    np.testing.assert_array_equal(np.floor(found.x / SPACING) + 16 * np.floor(found.y / SPACING), found.cell)


def test_a_newborn_weighs_its_part_of_the_newborn_mass(Filter):
    """Beside an old particle of equal mass, newborns are drawn as often as it, however many they are."""
    config = filter_model(
        4000, exclusive=False, survival=1.0, dynamic_to_static=0.0, unobserved_survival=1.0,
        hit_static=0.0, hit_dynamic=1.0, claimed=0.0, **NO_CHANCE, **NO_SURFACE,
        birth={"traffic": 0, "seeded": 0},
    )  # fmt: skip
    filter_ = Filter(SHAPE, 4.0, config)
    place(filter_, (6, 8), [(0.0, 0.0, 1.0)])
    p = np.full(SHAPE, 0.05)
    p[6, 8] = 0.9
    filter_.step(seen_as(p, 1.0), 0.1)
    found = crowd(filter_)
    assert np.count_nonzero(~copies_of(found, [(0.0, 0.0)])) == pytest.approx(2000, abs=3)


def test_some_newborns_take_the_registered_velocity(Filter):
    """A box that has moved by 0.6 m in half a second, on a grid that has forgotten everything but the hits."""
    birth = {"registered": 0.5, "registered_spread": 0.1}
    config = filter_model(2000, hit_static=0.0, hit_dynamic=1.0, birth=birth)
    filter_ = Filter((30, 40), 0.2, config)
    filter_.step(grid_of_boxes((30, 40), 0.2, [(3.0, 3.0, 1.0, 1.0)]), 0.5)
    filter_.layers[:] = filter_.particles.count = 0
    filter_.step(grid_of_boxes((30, 40), 0.2, [(3.6, 3.0, 1.0, 1.0)]), 0.5)
    found = crowd(filter_)
    registered = (np.abs(found.vx - 1.2) < 0.5) & (np.abs(found.vy) < 0.5)
    assert registered.mean() == pytest.approx(0.5, abs=0.1)
