# SPDX-License-Identifier: Apache-2.0
"""Opaque ground on accelerators: every point stands that stands on the CPU, and nobody waits for it."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

import roadbed
from roadbed import Config, GroundFilter, Pose, Scan
from roadbed.core.frames import SensorMount
from roadbed.ground.stcrf.buffers import Buffers
from roadbed.ground.stcrf.model import FRAME, NON_GROUND
from roadbed.ground.visibility import cpu
from roadbed.ground.visibility.applies import views_of
from roadbed.ground.visibility.device import VisibilityDevice
from roadbed.ground.visibility.model import VisibilityModel
from tests.devices import ACCELERATORS, DRIVERS, accelerator
from tests.simulated import simulated

pytestmark = pytest.mark.long(17)

LEVEL = Pose.identity()
TILTED = Pose.from_euler(z=1.7, roll=0.02, pitch=-0.03, yaw=0.4)


@pytest.fixture(scope="module", params=[name for name in DRIVERS if name != "cpu"])
def device(request):
    return accelerator(request.param)


@pytest.fixture(scope="module", params=ACCELERATORS)
def any_device(request):
    """The branch of GPUs, too: for the kernels alone, each configuration of which is a program of its own."""
    return accelerator(request.param, optimise=False)


def on_cpu(scan, config, T_vehicle_sensor=TILTED):
    """(N,) what stands, nothing where the scan is dense."""
    views = views_of(scan, T_vehicle_sensor, config)
    found = None if views is None else cpu.non_ground_points(scan.points, views, config)
    return np.zeros(len(scan), bool) if found is None else found


class OnDevice:
    """The kernels alone: one mask per scan, each scan in a slot of its own."""

    def __init__(self, device, config, slots=1):
        self._device, self._config = device, config
        self._buffers = Buffers(device, Config(), slots)
        self._visibility = VisibilityDevice(device, config, self._buffers)
        self._frames = np.zeros(slots, FRAME)

    def __call__(self, *scans, T_vehicle_sensor=TILTED):
        device, buffers = self._device, self._buffers
        buffers.reserve(max(map(len, scans)))
        for slot, scan in enumerate(scans):
            frame, views = self._frames[slot : slot + 1], views_of(scan, T_vehicle_sensor, self._config)
            frame["points"] = device.bind(scan.points, buffers.input_buffer, 3 * slot * buffers.capacity)
            frame["count"], frame["has_non_ground"] = len(scan), views is not None
            if views is not None:
                frame["sensors"] = len(views.origins)
                self._visibility.set_views(views, slot)
        device.enqueue(self._frames, buffers.frames)
        self._visibility.graph.run()
        found = [device.download(buffers.non_ground, slot * buffers.capacity, len(s)) for slot, s in enumerate(scans)]
        return [mask.astype(bool) for mask in found]


@pytest.fixture(scope="module", params=["vlp16", "hdl32e", "lux4"])
def drive(request):
    return simulated(f"sim:city?sensor={request.param}", 2)


@pytest.mark.parametrize("odometry", [True, False])
def test_a_drive_stands_where_it_stands_on_the_cpu(device, drive, odometry):
    """Through the whole filter, which lays scans onto the surface before: the mask of every frame."""
    ground = GroundFilter(Config(), device)
    for given in drive:
        scan = given if odometry else replace(given, T_world_sensor=None)
        ground(scan)
        marks = device.download(ground._method.engine._buffers.non_ground, 0, len(scan))
        found = (marks & NON_GROUND) > 0
        expected = on_cpu(scan, VisibilityModel(), scan.T_vehicle_sensor)
        assert 0 < np.count_nonzero(expected) < len(scan)
        np.testing.assert_array_equal(found, expected)


def test_a_scan_stands_where_it_stands_on_the_cpu(any_device, drive):
    scan = drive[0]
    found = OnDevice(any_device, VisibilityModel())(scan, T_vehicle_sensor=scan.T_vehicle_sensor)[0]
    np.testing.assert_array_equal(found, on_cpu(scan, VisibilityModel(), scan.T_vehicle_sensor))


def scattered(seed, count=1500, around=6.0):
    """Points on a raster, so that ranges, slopes and whole points are equal to each other; some are no returns."""
    rng = np.random.default_rng(seed)
    points = np.round(rng.normal(0, (around, around, 0.5), (count, 3)) * 20) / 20
    points[: count // 4] = 2 * points[-(count // 4) :]  # on the same beams
    points[::11], points[::13, 0], points[::17, 1] = 0, np.nan, np.inf
    points[1] = 3e38, 3e38, -3e38  # their sum is no number, a beam beneath everything there
    points[2] = 2e30, -1e30, 5
    return points.astype(np.float32)


def rig(seed, sensors, count=1500):
    mounts = tuple(SensorMount(f"{k}", Pose.from_euler(x=0.7 * k, y=-0.3 * k, z=0.2)) for k in range(sensors))
    index = np.random.default_rng(seed).integers(0, sensors, count)
    return Scan(scattered(seed, count), channels={"sensor_index": index}, mounts=mounts)


RULES = {
    "sparse": {"densest": 20, "beams": 1000},
    "many beams": {"densest": 20},
    "layered": {"densest": 2, "layered": 25},
}


@pytest.mark.parametrize("rule", RULES)
def test_equal_slopes_crowded_directions_and_what_is_no_return(any_device, rule):
    """Wide directions, so that some hold too many returns for the rule, and some more than there is room for."""
    config = VisibilityModel(120, **RULES[rule])
    on_device, room = OnDevice(any_device, config), config.room
    for seed, crowded in enumerate((30, room + 40, 90, room)):  # left alone: from MOST times the rule's number on
        crowd = np.full((crowded, 3), np.float32((9.0, 0.3, -1.0)))
        crowd[:, 2] += np.float32(0.01) * np.arange(len(crowd), dtype=np.float32)
        points, wall = scattered(seed), around(120, (20, 27, 27.02, 27.02), (-1.8, -1.7, -0.8, -0.79))
        scan = Scan(np.concatenate([points[:700], crowd, points[700:], wall]))
        expected = on_cpu(scan, config)
        assert np.count_nonzero(expected) > 20
        np.testing.assert_array_equal(on_device(scan)[0], expected)


def around(directions, far, up):
    """The same returns (m, m) where each of so many directions begins."""
    angle = np.repeat(np.arange(directions) / directions * 2 * np.pi - np.pi, len(far))
    far, up = np.tile(far, directions), np.tile(up, directions)
    return np.stack([far * np.cos(angle), far * np.sin(angle), up], axis=1).astype(np.float32)


def test_points_on_the_borders_of_directions(any_device):
    """Axes, diagonals and the borders themselves, as near as floats come; what is too near is in no direction."""
    config = VisibilityModel(720)
    rings = around(720, (5.0, 5.02, 9.0, 30.0), (-0.6, -0.4, -1.2, -2.0))
    scan = Scan(np.concatenate([rings, [(0.1, 0, 0.3)]]))  # beneath which every beam ahead would pass
    found = OnDevice(any_device, config)(scan, T_vehicle_sensor=LEVEL)[0]
    np.testing.assert_array_equal(found, on_cpu(scan, config, LEVEL))
    assert found.mean() > 0.4
    assert not found[-1]


@pytest.mark.parametrize(
    ("densest", "returns", "stands"),
    [
        (1, ((27, -1.4197), (27.125, -27.125 / 32), (26.875, -26.875 / 32)), [False, True]),
        (20, ((24, -1.25), (25, -25 / 32), (26, -26 / 32)), [True, False]),
    ],
)
def test_the_first_of_equals_decides(any_device, densest, returns, stands):
    """Two returns of one slope above the first one, equally far from it or as steep: with one of them it stands."""
    config = VisibilityModel(densest=densest)
    on_device = OnDevice(any_device, config)
    first, *others = ((r, 0, z) for r, z in returns)
    for order, expected in zip((others, others[::-1]), stands):
        for place in range(3):
            scan = Scan(np.array([*order[:place], first, *order[place:]]))
            found = on_device(scan, T_vehicle_sensor=LEVEL)[0][place]
            assert on_cpu(scan, config, LEVEL)[place] == found == expected


def test_road_in_a_direction_without_room_is_road(any_device):
    """The road that ends at a wall, where eight returns that tell so are the last of a crowded direction."""
    config = VisibilityModel(densest=3, layered=3)
    stack = [(9.9, 0.02, -0.5), (10, 0.02, -0.4), (10, 0.02, -0.3)]
    crowd = [(29.7, 3.0, -1.0)] * config.room + [(9.9, 1.0, -0.48)] * 8
    scan = Scan(np.concatenate([stack, crowd, around(31, (50,), (-2,))]))
    found = OnDevice(any_device, config)(scan, T_vehicle_sensor=LEVEL)[0]
    assert found[:3].tolist() == [False, True, True]
    np.testing.assert_array_equal(found, on_cpu(scan, config, LEVEL))


def test_slots_look_by_their_own_rules(any_device):
    """A sparse rig, a dense scan that only its directions tell, one that is not asked, and a larger rig at last."""
    config = VisibilityModel(72, densest=10, layered=30, beams=1000)
    on_device = OnDevice(any_device, config, slots=4)
    ahead = np.tile([(27, 0.3, -1.7), (27.02, 0.3, -0.8)], (30, 1))  # a wall, whose foot stands in a scan less dense
    assert on_cpu(Scan(ahead[:20]), config).any()
    scans = (rig(1, 2), Scan(ahead), Scan(scattered(3, 3000)), rig(4, 5))
    assert views_of(scans[1], TILTED, config) is not None
    assert views_of(scans[2], TILTED, config) is None
    for turned in (scans, scans[::-1], (*scans[1:], scans[0])):
        expected = [on_cpu(scan, config) for scan in turned]
        for scan, mask, stands in zip(turned, on_device(*turned), expected):
            if views_of(scan, TILTED, config) is not None:
                np.testing.assert_array_equal(mask, stands)
    assert [bool(on_cpu(scan, config).any()) for scan in scans] == [True, False, False, True]


def test_dense_scans_pay_nothing_and_others_neither_wait_nor_send_a_mask(device):
    """Launches, uploads and waits of a frame, without the rule, with it, and of a scan that is too dense for it."""
    source = roadbed.open("sim:city?sensor=vlp16&frames=1")
    sparse = replace(source[0], T_world_sensor=None)
    dense = replace(sparse, points=np.tile(sparse.points, (4, 1)), channels={}, **dict.fromkeys(_CHANNELS))

    def asked(config, scan):
        ground = GroundFilter(config, device)
        ground(scan)
        before = copy(device.traffic)
        ground(scan)
        now = device.traffic
        return [getattr(now, n) - getattr(before, n) for n in ("graphs", "launches", "uploads", "downloads", "waits")]

    without = Config().with_changes(ground={"without": ["visibility"]})
    assert asked(Config(), dense) == asked(without, dense)
    assert np.subtract(asked(Config(), sparse), asked(without, sparse)).tolist() == [0, 5, 0, 0, 0]


_CHANNELS = ("intensity", "ring", "point_time", "classes")
