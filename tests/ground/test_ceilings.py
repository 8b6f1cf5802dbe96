# SPDX-License-Identifier: Apache-2.0
"""What is kept of the surface for the next scans, on every engine: nothing that is seen from below or that a later scan
refutes, and a ditch as deep as it is."""

from dataclasses import replace

import numpy as np
import pytest

from roadbed import Config, Pose
from roadbed.ground.engine import Rolled
from tests.devices import BACKENDS
from tests.ground import engines
from tests.ground.test_small_components import SIZE, patch

SENSOR = 1.7  # m over the road
AHEAD = slice(SIZE // 2 - 4, SIZE // 2 + 4), slice(SIZE // 2 + 15, SIZE // 2 + 21)  # rows and columns of nodes
ROAD = slice(SIZE // 2 - 4, SIZE // 2 + 4), slice(SIZE // 2 - 9, SIZE // 2 + 9)
CONFIG = Config().with_changes(ground={"stcrf": {"length": SIZE, "width": SIZE}})


def drive(name, scans, highest=0.0):
    """An engine that has kept the surface of scans from one place, and the output of the last."""
    engine = engines.engine(name, CONFIG)
    for k, points in enumerate(scans):
        if k:
            engine.move(Rolled(0, 0, 0.0))
        given = engines.given(CONFIG, points, warm=k > 0, pose=Pose.from_euler(z=SENSOR))
        output = engine.frame(replace(given, rise=highest))
        engine.keep()
    return engine, output


def kept(name, height, rise=0.0, highest=0.0):
    """Effective points that the prior keeps of the road, and of a surface ahead from 12 to 22 m, `height` m over the
    sensor where it begins and rising by `rise` per m: two (rows, columns) arrays. A ceiling is not reported either."""
    ahead = patch(12, 22, -5, 5, height)
    ahead[:, 2] += rise * (ahead[:, 0] - 12)
    points = np.concatenate([patch(-10, 10, -5, 5, -SENSOR), ahead])
    engine, output = drive(name, [points], highest)
    assert np.isfinite(output.elevation[ROAD]).all()
    is_reported = np.isfinite(output.elevation[AHEAD])
    assert is_reported.all() if height < highest or rise else not is_reported.any()
    return engine.prior[0][ROAD], engine.prior[0][AHEAD]


@pytest.mark.parametrize("name", BACKENDS)
def test_a_ceiling_is_not_kept_but_a_bank_and_a_roof_below_the_sensor_are(name):
    for highest in (0.0, 2.5):  # of several sensors
        road, ceiling = kept(name, 3.0, highest=highest)
        assert (road > 1).all()
        assert not ceiling.any()
    for seen_from_above in (kept(name, 0.0, rise=0.3), kept(name, -1.0), kept(name, 3.0, highest=3.5)):
        assert all((effective_points > 1).all() for effective_points in seen_from_above)


def one_layer(down):
    """The returns of one layer, `down` m per m of range, on leaves or cars 15 to 19 m ahead."""
    y = np.arange(-5, 5, 0.01)
    x = 15 + 4 * (0.618034 * np.arange(len(y)) % 1)
    return np.column_stack([x, y, -down * np.hypot(x, y)])


@pytest.mark.parametrize("name", BACKENDS)
def test_a_plane_that_rays_meet_edge_on_below_the_road_is_hardly_kept_or_reported(name):
    road = patch(-10, 10, -5, 5, -SENSOR)
    for ahead, reported in ((one_layer(0.14), False), (patch(15, 19, -5, 5, -SENSOR - 0.7), True)):
        engine, output = drive(name, [np.concatenate([road, ahead])])
        assert np.isfinite(output.elevation[ROAD]).all()
        inside = AHEAD[0], slice(SIZE // 2 + 16, SIZE // 2 + 18)  # away from its ends
        known = np.isfinite(output.elevation[inside]), engine.prior[0][inside] > 1
        assert all(part.all() == reported and (part.mean() < 0.6) != reported for part in known)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_remembered_plane_stays_unless_it_lies_far_over_the_road_of_a_later_scan(name):
    near, ahead = patch(-10, 10, -5, 5, -SENSOR), patch(12, 22, -5, 5, -SENSOR)
    for height, road, stays in ((1.0, near, True), (4.7, near, False), (4.7, np.concatenate([near, ahead]), False)):
        first = np.concatenate([near, ahead + np.array([0, 0, height])])
        engine, _ = drive(name, [first, road], highest=10.0)
        effective_points, heights = engine.prior[0][AHEAD], engine.prior[6][AHEAD]  # the latter times the former
        assert (effective_points > 0).all() if stays else (heights <= effective_points).all()


@pytest.mark.parametrize("name", BACKENDS)
def test_a_ditch_does_not_become_flatter_with_every_scan(name):
    points = patch(-19, 19, -19, 19, -SENSOR)
    points[:, 2] -= 0.4 * np.clip(1 - np.abs(points[:, 1] - 5.5), 0, 1)  # one node wide
    _, first = drive(name, [points])
    _, last = drive(name, [points] * 12)
    ditch = SIZE // 2 + 5, slice(SIZE // 2 - 10, SIZE // 2 + 10)
    assert (last.elevation[ditch] <= first.elevation[ditch] + 0.005).all()
