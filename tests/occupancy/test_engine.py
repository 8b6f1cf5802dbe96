# SPDX-License-Identifier: Apache-2.0
"""Every engine by its protocol alone: scans in, masses out, against the oracle and against what moving must mean."""

from dataclasses import replace

import numpy as np
import pytest

from roadbed.config.occupancy import OccupancyConfig
from roadbed.core.geometry import Grid, Pose
from roadbed.occupancy.engine import GridMotion, OccupancyInput
from roadbed.occupancy.hsbof.model import FilterModel
from tests.occupancy import oracle
from tests.occupancy.engines import ENGINES, engine, frame_of
from tests.occupancy.models import NO_MATURITY, changed
from tests.occupancy.scenes import box_points, flat_ground, scan_at, sweep

LATTICE = Grid.centred(12.0, 12.0, 0.5)
CONFIG = OccupancyConfig.parse({"grid": {"length": 12, "width": 12, "spacing": 0.5}, "filter": {"particles": 2000}})
GROUND = sweep(reach=9.0)


@pytest.fixture(params=ENGINES)
def make(request):
    return lambda config=CONFIG, **changes: engine(request.param, config, **changes)


def given(points, time=0.0, dt=0.0, sensor="lidar"):
    scan = scan_at(points, time, sensor=sensor)
    return OccupancyInput.of(scan, flat_ground(scan), LATTICE, None, time, dt)


def nothing(time=0.0, sensor="lidar"):
    return given(np.zeros((0, 3)), time, sensor=sensor)


def street(k):
    """A box that stands, and one that moves."""
    return np.vstack([GROUND, box_points(3.0, -3.0, 1.0, 1.0), box_points(-4.0 + 0.5 * k, 3.0, 2.0, 1.0)])


STILL = {"hit_static": 0.2, "hit_dynamic": 0.0, "empty_to_dynamic": 0.0, "static_to_dynamic": 0.0, "released": 0.0}


@pytest.mark.parametrize("exclusive", [True, False])
def test_masses_agree_with_the_oracle_where_nothing_moves(make, exclusive):
    changes = {**STILL, **NO_MATURITY, "exclusive": exclusive, "empty_to_static": 0.03}
    model = changed(FilterModel.of(CONFIG), **changes)
    under_test = make(CONFIG, **changes)
    for k, dt in enumerate((0.0, 0.1, 0.25, 0.04)):
        before = under_test.prior.astype(np.float64)
        output = frame_of(under_test, given(street(k), time=float(k), dt=dt))
        for cell in np.ndindex(LATTICE.shape):
            masses = tuple(before[(slice(None), *cell)])
            p, seen = float(output.observation[cell]), float(output.observedness[cell])
            expected, _, _ = oracle.cell_update(masses, p, seen, [], model, dt=dt)
            np.testing.assert_allclose(under_test.prior[(slice(None), *cell)], expected[:3], atol=5e-6)
    assert under_test.prior[0].max() > 0.9
    assert under_test.prior[2].max() > 0.9


def test_a_mover_is_dynamic_and_what_stands_is_static(make):
    under_test = make()
    for k in range(16):
        output = frame_of(under_test, given(street(k), 0.1 * k, 0.1 if k else 0.0))
    stands, moves = LATTICE.index(3.0, -3.0), LATTICE.index(-4.0 + 7.5, 3.0)
    assert output.static.ravel()[stands] > 0.9
    assert output.dynamic.ravel()[moves] > 0.5
    assert output.moving.ravel()[moves]
    np.testing.assert_allclose(output.velocity[output.moving].mean(axis=0), [5.0, 0.0], atol=1.0)
    np.testing.assert_array_equal(under_test.prior, [output.static, output.dynamic, output.free])


def test_frames_belong_to_the_caller(make):
    spoilt, left_alone = make(), make()
    for k in range(4):
        ours, theirs = (frame_of(each, given(street(k), 0.1 * k, 0.1 if k else 0.0)) for each in (spoilt, left_alone))
        for name in ("static", "dynamic", "free", "velocity", "moving", "observation", "observedness"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
            getattr(ours, name)[:] = 1


def standing_world(make):
    """An engine that knows a street, and has not been told of anything that moves."""
    under_test = make(CONFIG, **STILL)
    for k in range(3):
        frame_of(under_test, given(street(0), 0.1 * k, 0.1 if k else 0.0))
    return under_test


@pytest.mark.parametrize("steps", [[(2, -1)], [(5, 0), (-3, -1)]])
def test_what_is_known_stays_in_the_world_when_the_grid_rolls(make, steps):
    under_test = standing_world(make)
    before = under_test.prior
    for columns, rows in steps:
        under_test.move(GridMotion.rolled(columns, rows, LATTICE.spacing))
    frame_of(under_test, nothing(0.3))
    after = under_test.prior
    np.testing.assert_allclose(after[:, 1:, :-2], before[:, :-1, 2:], atol=1e-6)
    assert not after[:, 0].any()
    assert not after[:, :, -2:].any()


@pytest.mark.parametrize("turns", [1, 2])
def test_what_is_known_stays_in_the_world_when_the_grid_turns(make, turns):
    """By a quarter about its middle, at once or in two steps: the same cells, seen from another side."""
    under_test = standing_world(make)
    before = under_test.prior
    angle = np.pi / 2 / turns
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    middle = np.array([6.0, 6.0])
    for _ in range(turns):
        under_test.move(GridMotion(rotation, middle - rotation @ middle, None))
    frame_of(under_test, nothing(0.3))
    np.testing.assert_allclose(under_test.prior, np.rot90(before, 1, axes=(1, 2)), atol=1e-4)


def test_what_a_silent_sensor_watched_moves_along_and_fades(make):
    under_test = make()
    seen = frame_of(under_test, given(street(0), 0.0, sensor="front")).observedness
    under_test.move(GridMotion.rolled(3, 1, LATTICE.spacing))
    output = frame_of(under_test, nothing(0.1, sensor="rear"))
    assert (output.observation == 0.5).all()
    np.testing.assert_allclose(output.observedness[:-1, :-3], np.exp(-0.5) * seen[1:, 3:], atol=1e-6)
    assert not output.observedness[:, -3:].any()


def test_forgetting_motion_keeps_what_stands_and_lets_it_fade(make):
    under_test = make()
    for k in range(8):
        frame_of(under_test, given(street(k), 0.1 * k, 0.1 if k else 0.0))
    before = under_test.prior
    assert before[1].max() > 0.3
    under_test.forget_motion(5.0)
    after = under_test.prior
    np.testing.assert_allclose(after[0], before[0] * np.exp(-5.0 / CONFIG.filter.static_memory), rtol=1e-5)
    np.testing.assert_allclose(after[2], before[2] * np.exp(-5.0 / CONFIG.filter.free_memory), rtol=1e-5)
    assert not after[1].any()
    output = frame_of(under_test, nothing(6.0))
    assert not output.moving.any()
    assert not output.dynamic.any()


def test_forgetting_begins_again(make):
    used, fresh = make(), make()
    for k in range(3):
        frame_of(used, given(street(k), 0.1 * k, 0.1 if k else 0.0))
    used.move(GridMotion.rolled(2, 2, 0.5))
    used.forget()
    assert not used.prior.any()
    for k in range(3):
        ours, theirs = (frame_of(each, given(street(k), 0.1 * k, 0.1 if k else 0.0)) for each in (used, fresh))
    for name in ("static", "dynamic", "velocity", "observedness"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


def test_a_turned_and_moved_grid_sees_the_same_world(make):
    one = given(street(0))
    T_ground_grid = Pose.from_euler(0.4, -0.3, yaw=0.5)
    other = replace(one, T_ground_grid=T_ground_grid)
    straight, turned = frame_of(make(), one), frame_of(make(), other)
    x, y = LATTICE.mesh()
    inner = (np.hypot(x, y) < 4).ravel()
    world = T_ground_grid @ np.column_stack([x.ravel(), y.ravel(), 0 * x.ravel()])
    cell = LATTICE.index(world[:, 0], world[:, 1])
    same = (turned.observation.ravel()[inner] > 0.5) == (straight.observation.ravel()[cell[inner]] > 0.5)
    assert same.mean() > 0.95
