# SPDX-License-Identifier: Apache-2.0
"""The start that climbs: its envelope against a float64 oracle, a hillside and a wall on every engine, and tilt."""

import numpy as np
import pytest

from roadbed import Config, Label, Pose
from roadbed.ground.stcrf.arrays import ActiveNodes, Shape, ShapingPoints
from roadbed.ground.stcrf.model import ENVELOPE_STEPS, FAR_ABOVE
from roadbed.ground.stcrf.start.slope_start_cpu import (
    expect_envelope,
    find_heights,
    lower_envelope,
    may_be_better,
    slope_arrays,
    take_better,
)
from tests.devices import BACKENDS
from tests.ground import engines

SIZE = 60  # m
SPACING, SLOPE = 3.0, 0.8


def oracle_envelope(heights, slope, spacing):
    """min over nodes j of height_j + slope * distance, by paths of steps to the eight neighbours, in float64."""
    rows, columns = heights.shape
    row, column = np.mgrid[:rows, :columns]
    out = np.full(heights.shape, np.inf)
    for j in np.argwhere(np.isfinite(heights)):
        dy, dx = np.abs(row - j[0]), np.abs(column - j[1])
        path = np.maximum(dx, dy) + (np.sqrt(2) - 1) * np.minimum(dx, dy)
        reached = np.maximum(dx, dy) <= ENVELOPE_STEPS
        out = np.where(reached, np.minimum(out, heights[tuple(j)] + slope * spacing * path), out)
    return out


def test_the_envelope_is_the_lowest_surface_of_limited_slope():
    rng = np.random.default_rng(3)
    rows, columns, places = 40, 33, 8
    points = rng.normal(0, 4, (rows * columns, places)).astype(np.float32)
    points[rng.random(points.shape) < 0.6] = FAR_ABOVE  # the places of no point
    points[rng.random(rows * columns) < 0.5] = FAR_ABOVE
    z = points.ravel()
    nodes = rows * columns
    lowest = ShapingPoints(
        np.arange(nodes + 1, dtype=np.int32) * places,
        np.full(nodes, places, np.int32),
        *(z * 0, z * 0, z),
        ActiveNodes.none(rows, columns),  # all nodes are looked at
    )
    shape, heights = Shape(rows, columns, np.float32(SPACING)), slope_arrays(rows, columns).heights
    find_heights(lowest, shape, np.float32(31.0), np.float32(50.0), np.float32(-1.0), heights[0])

    ordered = np.sort(points.astype(float), axis=1)
    second = np.where(
        ordered[:, 1] < FAR_ABOVE, ordered[:, 1], np.where(ordered[:, 0] < FAR_ABOVE, ordered[:, 0], np.inf)
    )
    expected = second.reshape(rows, columns)
    expected[16, 10] = min(expected[16, 10], -1.0)  # the wheels
    found = np.where(heights[0, 1:-1, 1:-1] < FAR_ABOVE, heights[0, 1:-1, 1:-1], np.inf)
    np.testing.assert_allclose(found, expected, rtol=1e-6)

    lower_envelope(heights, np.float32(SLOPE), shape)
    envelope = oracle_envelope(expected, SLOPE, SPACING)
    np.testing.assert_allclose(heights[0, 1:-1, 1:-1], envelope, atol=1e-4)
    planes = np.zeros((rows + 2, 3, columns + 2), np.float32)
    expect_envelope(heights[0], np.float32(0), np.float32(SLOPE), shape, planes)
    along = (envelope[1:-1, 2:] - envelope[1:-1, :-2]) / (2 * SPACING)
    np.testing.assert_allclose(planes[2:-2, 1, 2:-2], np.clip(along, -SLOPE, SLOPE), atol=1e-4)


def config(*without):
    return Config().with_changes(ground={"stcrf": {"length": SIZE, "width": SIZE}, "without": without})


def flat(step=0.4):
    along = np.arange(-SIZE / 2 + step / 2, SIZE / 2, step)
    x, y = (a.ravel() for a in np.meshgrid(along, along))
    return x, y


def hillside(slope=0.6, foot=8.0):
    """A road with a hillside on its left, and which points lie on the hill."""
    x, y = flat()
    rise = slope * np.maximum(y - foot, 0)
    return np.column_stack([x, y, rise]), y > foot + 1


def street():
    """A road between walls whose feet are hidden: returns from 0.8 m up on the facade, nothing behind it."""
    x, y = flat()
    road = np.column_stack([x, y, np.zeros(x.size)])[np.abs(y) < 8]
    along, height = (a.ravel() for a in np.meshgrid(np.arange(-28, 28, 0.3), np.arange(0.8, 6, 0.7)))
    wall = np.column_stack([along, np.full(along.size, 11.0), height])
    return np.concatenate([road, wall, wall * [1, -1, 1]]), len(road)


def ground_share(name, configuration, points, asked, pose=None):
    output = engines.engine(name, configuration).frame(engines.given(configuration, points, pose=pose))
    return (output.label[asked] == Label.GROUND).mean()


@pytest.mark.parametrize("name", BACKENDS)
def test_a_hillside_is_ground_and_without_the_rule_it_is_lost(name):
    points, on_hill = hillside()
    assert ground_share(name, config(), points, on_hill) > 0.99
    assert ground_share(name, config("slope_aware_start"), points, on_hill) < 0.5


@pytest.mark.parametrize("name", BACKENDS)
def test_a_bank_that_ends_where_nothing_is_seen_keeps_its_slope(name):
    """Two coarse nodes wide, between the road and what is out of view: neighbours would take its slope away."""
    points, on_bank = hillside(slope=0.75, foot=9.0)
    seen = points[:, 1] < 15
    assert ground_share(name, config(), points[seen], on_bank[seen]) > 0.98


@pytest.mark.parametrize("name", BACKENDS)
def test_a_street_between_walls_is_not_climbed(name):
    points, road = street()
    assert ground_share(name, config(), points, slice(0, road)) > 0.99
    assert ground_share(name, config(), points, slice(road, None)) < 0.01


@pytest.mark.parametrize("name", BACKENDS)
def test_a_hillside_goes_on_from_the_last_frames_surface(name):
    """A drive does not climb again: what a scan is the first to see of the hill is met from the surface before it."""
    configuration, (points, _) = config(), hillside()
    engine, upper = engines.engine(name, configuration), points[:, 1] > 20
    engine.frame(engines.given(configuration, points[~upper]))
    engine.keep()
    output = engine.frame(engines.given(configuration, points, warm=True))
    assert (output.label[upper] == Label.GROUND).mean() > 0.99


@pytest.mark.parametrize("degrees", [-8, 8])
def test_the_start_does_not_care_how_the_lattice_is_tilted(degrees):
    points, on_hill = hillside(slope=0.4)
    for pose in (Pose.from_euler(pitch=np.radians(degrees)), Pose.from_euler(roll=np.radians(degrees))):
        assert ground_share("cpu", config(), points, on_hill, pose) > 0.95


@pytest.mark.parametrize(("own", "level_beside", "taken"), [(30, 5, True), (30, 3, False), (3, 5, False)])
def test_a_bank_below_trees_takes_the_slope_if_the_road_beside_it_is_seen(own, level_beside, taken):
    """The node's own returns lie on the slope; trees around it hold most of the region's returns, on no start."""
    counts = np.zeros((3, 7, 7), np.int32)
    counts[0, :2] = 40  # trees
    counts[:, 3, 3] = own, 0, own
    counts[:, 3, 4] = level_beside, level_beside, level_beside
    counts[:, 5, 5] = 30 - own, 0, 30 - own  # the slope explains as many returns of the region in all cases
    sums = np.zeros((5, 7, 7), np.int32)
    assert may_be_better(counts, sums)
    sloped, level = np.ones((9, 9, 9), np.float32), np.zeros((9, 9, 9), np.float32)
    sloped_mean, mean = np.ones((9, 3, 9), np.float32), np.zeros((9, 3, 9), np.float32)
    take_better(counts, sums, sloped, sloped_mean, level, mean)
    assert (level[4, 0, 4], mean[4, 0, 4]) == (float(taken), float(taken))
