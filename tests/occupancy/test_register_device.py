# SPDX-License-Identifier: Apache-2.0
"""Registration on accelerators: the components, partners and velocities of the CPU, on shapes chosen at random."""

import numpy as np
import pytest

from roadbed.occupancy.arrays import Cells, Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.registration.register import Registration
from roadbed.occupancy.registration.register_device import RegistrationDevice
from tests.devices import ACCELERATORS, accelerator
from tests.occupancy import oracle
from tests.occupancy.models import registration_model
from tests.occupancy.outlines import SHAPE, SPACING, rectangle, seen
from tests.occupancy.test_register import (
    a_truck,
    appearing,
    behind_a_gap,
    changing_speed,
    driving_away,
    further_on,
    parked_cars,
)
from tests.occupancy.test_register_standing import beside_a_wall, out_of_a_shadow

CELLS = Cells(*SHAPE, SPACING)


@pytest.fixture(scope="module", params=ACCELERATORS)
def device(request):
    return accelerator(request.param)


class Both:
    """The CPU's registration and the device's, side by side."""

    def __init__(self, device, config=None, cells=CELLS):
        config = config or registration_model()
        self.device, self.cells = device, cells
        self.ours, self.theirs = RegistrationDevice(device, cells, config), Registration(cells, config)

    def step(self, observation, dt=0.1, motion=None, layers=None):
        """Both agree on every cell and every component; how many of them move."""
        motion = motion or GridMotion()
        uploaded = Observation(*(self.device.upload(layer) for layer in observation))
        held, maturity = (None, None) if layers is None else (self.device.upload(layers.ravel()), layers[3])
        found, expected = self.ours(uploaded, dt, motion, held), self.theirs(observation, dt, motion, maturity)
        label = self.device.download(found.label, 0, expected.label.size).reshape(expected.label.shape)
        np.testing.assert_array_equal(label, expected.label)
        velocity = self.device.download(found.velocity, 0, expected.velocity.size).reshape(-1, 2)
        np.testing.assert_array_equal(velocity, expected.velocity)
        self.velocity = velocity
        return np.count_nonzero(np.isfinite(expected.velocity[:, 0]))


def hit_at(cells):
    """Everything is free but some cells, of which all is hit."""
    probability = np.where(cells, 0.9, 0.1).astype(np.float32)
    surface = np.where(cells, 0xFFFF, 0).astype(np.uint16)
    return Observation(probability, np.ones(cells.shape, np.float32), surface)


def spiral(side):
    """One component that winds inwards: the longest way from its first cell to its last."""
    cells = np.zeros((side, side), bool)
    y, x, dy, dx = 0, -1, 0, 1
    for length in [side] + [n for k in range(side - 1, 0, -2) for n in (k, k)]:
        for _ in range(length):
            y, x = y + dy, x + dx
            cells[y, x] = True
        dy, dx = dx, -dy
    return cells


def test_components_are_those_of_a_flood_fill(device):
    """Sparse, dense, full and empty grids, one long worm, and the most components that fit."""
    rng = np.random.default_rng(1)
    shape = (35, 35)
    grids = [rng.random(shape) < share for share in (0.0, 0.05, 0.3, 0.45, 1.0)] + [spiral(35)]
    dots = np.zeros(shape, bool)
    dots[::2, ::2] = True
    registration = RegistrationDevice(device, Cells(*shape, SPACING), registration_model())
    for cells in [*grids, dots]:
        registration.forget()
        for dt in (0.0, 1.0):  # the first is only stored, the second is shown
            found = registration(Observation(*(device.upload(a) for a in hit_at(cells))), dt, GridMotion())
        label = device.download(found.label, 0, cells.size).reshape(shape)
        np.testing.assert_array_equal(label, oracle.components(cells))
    assert label.max() + 2 == registration._most  # the last place is the background's


def world(rng, k, fastest=3.0, longest=1.8):
    """Boxes of random shapes, each with its own velocity, as they are seen in scan k."""
    places = []
    for column in range(3):
        for row in range(2):
            x, y = 1.5 + 5 * column, 1.5 + 6 * row
            sides = rng.choice(["sw", "nesw", "s", "esw"])
            shape = rectangle(x, y, *rng.uniform(0.4, longest, 2), sides=sides)
            velocity = rng.uniform(-fastest, fastest, 2) * rng.choice([0, 1])
            places.append(shape[rng.random(len(shape)) < 0.9] + 0.1 * k * velocity)
    return np.vstack(places)


@pytest.mark.parametrize("seed", range(4))
def test_velocities_are_those_of_the_cpu(device, seed):
    """Shapes that move at random, some half hidden, on grids that stand, roll and turn; few points and many."""
    turn = np.array([[np.cos(0.02), -np.sin(0.02)], [np.sin(0.02), np.cos(0.02)]])
    motions = (
        GridMotion(),
        GridMotion.rolled(1, -1, SPACING),
        GridMotion(turn, np.array([0.03, 0.1]), None),
        GridMotion(shift=np.array([0.07, -0.02]), cells=None),
    )
    config = registration_model(points=(20, 80, 200, 40)[seed], good=0.5, gain=0.3, slack=0.02)
    both, moving = Both(device, config), 0
    for k in range(9):
        rng = np.random.default_rng(seed)
        hidden = np.random.default_rng(seed + 100 * k).random(SHAPE) < 0.2
        moving += both.step(seen(world(rng, k), hidden=hidden), motion=motions[seed])
    assert moving > 3


@pytest.mark.parametrize(
    "motion", [GridMotion.rolled(1, -2, SPACING), GridMotion(shift=np.array([0.07, -0.02]), cells=None)]
)
def test_the_first_of_the_best_shifts_is_taken_however_little_better_it_is(device, motion):
    """Noise in patches between free and unknown cells, of which any shift is believed that is a little better."""
    believed = {
        "same": 1,
        "good": 0,
        "gain": 0,
        "small_same": 1,
        "small_gain": 0,
        "slack": 0,
        "least": 0,
        "fast_least": 0,
    }
    config = registration_model(points=6, refined=False, **believed)  # of few points, many scores are equal
    both, rng, moving = Both(device, config), np.random.default_rng(0), 0
    patches = np.zeros(SHAPE, bool)
    for row, column, side in ((3, 3, 4), (3, 40, 4), (5, 20, 9), (25, 6, 12), (24, 30, 14), (50, 60, 3)):
        patches[row : row + side, column : column + side] = True
    for _ in range(12):
        hit = patches & (rng.random(SHAPE) < 0.7)
        probability = np.where(hit, 0.9, np.where(rng.random(SHAPE) < 0.5, 0.1, 0.5)).astype(np.float32)
        surface = np.where(hit, 1 << rng.integers(0, 16, SHAPE), 0).astype(np.uint16)
        moving += both.step(Observation(probability, np.ones(SHAPE, np.float32), surface), motion=motion)
    assert moving > 20


def test_what_is_fast_is_found_as_on_the_cpu(device):
    """Shapes that cross the grid, on one that rolls and on one that turns."""
    turn = np.array([[np.cos(0.01), -np.sin(0.01)], [np.sin(0.01), np.cos(0.01)]])
    config = registration_model(points=40, good=0.5, gain=0.3, fast_least=4.0)
    for seed, motion in enumerate((GridMotion.rolled(1, 0, SPACING), GridMotion(turn, np.array([0.1, 0.0]), None))):
        both, moving = Both(device, config), 0
        for k in range(4):  # none of them is old enough for what is slow
            moving += both.step(seen(world(np.random.default_rng(seed), k, fastest=15.0, longest=3.0)), motion=motion)
        assert moving > 2


@pytest.mark.parametrize(("scans", "moving"), [(a_truck(), 1), (parked_cars(), 0)], ids=["truck", "parked cars"])
def test_what_drives_fast_is_found_as_on_the_cpu(device, scans, moving):
    both = Both(device, registration_model(fast_span=0))
    assert [both.step(scan) for scan in scans][-1] == moving


@pytest.mark.parametrize(("size", "moving"), [((1.6, 0.2), 0), ((0.4, 1.6), 1)], ids=["a rail", "a front"])
def test_what_left_its_place_is_found_as_on_the_cpu(device, size, moving):
    both = Both(device, registration_model())
    assert [both.step(scan) for scan in further_on(size, 2.4)][-1] == moving


def test_only_what_speeds_up_is_refined_as_on_the_cpu(device):
    """Two cars, of which the first gains and the second loses 6 m/s^2: what the younger scan changes."""
    velocities = []
    for refines in (False, True):
        both = Both(device, registration_model(refined=refines))
        for cars in zip(changing_speed(6, 2), changing_speed(-6, 8)):
            both.step(seen(np.vstack(cars)))
        velocities.append(both.velocity)
    registered, refined = velocities
    assert refined[0, 0] > registered[0, 0] + 0.3
    np.testing.assert_array_equal(refined[1], registered[1])


@pytest.mark.parametrize(("second", "moving"), [(True, 1), (False, 0)])
def test_what_came_into_view_is_found_as_on_the_cpu(device, second, moving):
    both = Both(device, registration_model(second=second))
    assert [both.step(scan) for scan in appearing()][-1] == moving


def test_the_rear_of_a_car_is_found_as_on_the_cpu(device):
    both, scans = Both(device, registration_model(fast_span=0)), driving_away()
    assert [both.step(scan) for scan in [scans[0]] * 3 + scans][-1] == 1


@pytest.mark.parametrize(("changes", "moving"), [({}, 1), ({"background_time": np.inf}, 0)])
def test_a_person_beside_a_wall_is_found_as_on_the_cpu(device, changes, moving):
    scans, maturity = beside_a_wall()
    layers = np.stack([np.zeros_like(maturity)] * 3 + [maturity, np.zeros_like(maturity)])
    both = Both(device, registration_model(fast_span=0, **changes))
    assert [both.step(scan, layers=layers) for scan in scans][-1] == moving


@pytest.mark.parametrize(("changes", "moving"), [({}, 0), ({"line": 0.0}, 1)])
def test_the_end_of_a_rail_is_found_as_on_the_cpu(device, changes, moving):
    both, found = Both(device, registration_model(**changes)), 0
    for scan, maturity in zip(*out_of_a_shadow()):
        found = both.step(scan, layers=np.stack([np.zeros_like(maturity)] * 3 + [maturity, np.zeros_like(maturity)]))
    assert found == moving


def test_the_background_is_that_of_the_cpu(device):
    """Random hits in components of all sizes, with static life at random, on grids that stand, roll and turn."""
    turn = np.array([[np.cos(0.02), -np.sin(0.02)], [np.sin(0.02), np.cos(0.02)]])
    motions = GridMotion(), GridMotion.rolled(2, -1, SPACING), GridMotion(turn, np.array([0.03, 0.1]), None)
    rng, config = np.random.default_rng(5), registration_model(extent=2.0, most_cells=25)
    for motion in motions:
        both, found = Both(device, config), 0
        for share in (0.1, 0.2, 0.3, 1.0):
            layers = np.zeros((5, *SHAPE), np.float32)
            layers[3] = np.where(rng.random(SHAPE) < 0.1, rng.uniform(0, 2, SHAPE), 0)
            both.step(hit_at(rng.random(SHAPE) < share), motion=motion, layers=layers)
            found += sum(np.count_nonzero(scan.label == len(scan.start) - 1) for scan in both.theirs._history.stored())
        assert found > 500


@pytest.mark.parametrize(("between", "moving"), [("still", 0), ("hidden", 0), ("moving", 1)])
def test_what_did_not_move_in_between_does_not_move_as_on_the_cpu(device, between, moving):
    both = Both(device, registration_model(fast_span=0))
    assert [both.step(scan) for scan in behind_a_gap(between)][-1] == moving


def test_what_stood_starts_as_on_the_cpu(device):
    """Two cars that start, static life at random places, on grids that stand, roll and turn a little."""
    turn = np.array([[np.cos(0.002), -np.sin(0.002)], [np.sin(0.002), np.cos(0.002)]])
    rolled, moving = GridMotion.rolled(1, 0, SPACING), [0, 0]
    motions = GridMotion(), rolled, GridMotion(turn, np.array([0.01, 0.02]), None)
    for motion, freed in zip(motions, (0.2, 0.3, 0.08)):
        for known in (0, 1):
            both = Both(device, registration_model(standing_freed=freed))
            layers = np.zeros((5, *SHAPE), np.float32)
            for k in range(9):
                layers[3] = 1.5 * known * (np.random.default_rng(k).random(SHAPE) < 0.4)
                cars = [
                    rectangle(x + (0.1 * k) ** 2, y, 4.2, 1.8, sides) for x, y, sides in ((3, 2, "sw"), (9, 7, "nw"))
                ]
                bitmap = seen(np.vstack(cars) - (SPACING * k * (motion is rolled), 0))
                moving[known] += both.step(bitmap, motion=motion, layers=layers)
    assert moving[1] > moving[0]


def test_scans_come_at_any_rate_and_places_of_stored_ones_are_used_again(device):
    """A hundred scans a second, then gaps; of a box that crosses the grid."""
    both, x, moving = Both(device), 2.0, 0
    for k in range(70):
        dt = 0.01 if k < 60 else 0.3
        x += 2.0 * dt
        moving += both.step(seen(rectangle(x, 4, 1.0, 0.6)), dt)
    assert moving > 20
    both.ours.forget()
    both.theirs.forget()
    assert both.step(seen(rectangle(x, 4, 1.0, 0.6)), 0.5) == 0


def test_a_registration_that_is_off_shows_nothing(device):
    both = Both(device, registration_model(enabled=False))
    for x in (4.0, 5.0):
        assert both.step(seen(rectangle(x, 4, 1.0, 0.6)), 0.5) == 0


def test_the_memory_that_is_asked_for_is_that_which_is_taken(device, monkeypatch):
    taken, zeros = [], type(device).zeros

    def counted(self, shape, dtype):
        taken.append(int(np.prod(shape)) * np.dtype(dtype).itemsize)
        return zeros(self, shape, dtype)

    monkeypatch.setattr(type(device), "zeros", counted)
    RegistrationDevice(device, Cells(300, 200, SPACING), registration_model())
    needed = RegistrationDevice.bytes_needed(device, 300, 200, registration_model())
    assert needed == pytest.approx(sum(taken), rel=0.1)
