# SPDX-License-Identifier: Apache-2.0
"""The own vehicle on accelerators: its points and its cells are the CPU's, also on borders, and no scan is fetched."""

from dataclasses import replace

import numpy as np
import pytest

import roadbed
from roadbed import Config, GroundFilter, Label, Pose, Scan
from roadbed.config.shared import BodyConfig
from roadbed.ground.ego import ego_mask
from roadbed.ground.ego.ego_mask import CELLS, EgoMask, without
from roadbed.ground.ego.ego_mask_cpu import mark_cells, mark_inside
from roadbed.ground.ego.ego_mask_device import EgoMaskDevice
from roadbed.ground.engine import EgoPoints
from roadbed.ground.stcrf.buffers import Buffers
from roadbed.ground.stcrf.model import FRAME
from roadbed.runtime.argument_struct import ArgumentStruct
from roadbed.runtime.cpu_backend import CpuBackend
from tests.devices import ACCELERATORS, DRIVERS, accelerator
from tests.ground.test_ego_mask import BODY, posts, road, scans

pytestmark = pytest.mark.long(15)

TILTED = Pose.from_euler(0.3, -0.1, 1.7, roll=0.02, pitch=-0.03, yaw=0.4)
BOX = BodyConfig(front=1.2, rear=-2.4, left=0.9, right=-1.0, top=2.1)


@pytest.fixture(scope="module", params=ACCELERATORS)
def any_device(request):
    return accelerator(request.param, optimise=False)


@pytest.fixture(scope="module", params=[name for name in DRIVERS if name != "cpu"])
def device(request):
    return accelerator(request.param)


def crowd(seed=0, count=20_000, pose=TILTED):
    """Points around the vehicle, most of them on borders of the box and of cells; some are no returns."""
    rng = np.random.default_rng(seed)
    there = rng.uniform((-7, -2.2, -0.5), (7, 2.2, 3), (count, 3))
    there[::2] = np.round(there[::2] * 5) / 5
    for axis, borders in enumerate(((BOX.rear, BOX.front, -6, 6), (BOX.right, BOX.left, -1.8, 1.8), (0.25, 2.1, 2.5))):
        chosen = rng.integers(0, count, count // 6)
        there[chosen, axis] = rng.choice(borders, len(chosen))
    points = (pose.inverse() @ there).astype(np.float32)
    points[::97], points[5::101, 0], points[7::103, 1], points[11::107, 2] = 0, np.nan, np.inf, -np.inf
    points[3] = 3e38, -3e38, 3e38
    return Scan(points, time=0.0, T_world_sensor=Pose.identity(), T_vehicle_sensor=pose)


def asked(box=BOX):
    """An own body of which something may be known, and which is looked for."""
    own = EgoMask(Config().vehicle, CpuBackend())
    own.box = box
    return own


class OnDevice:
    """The kernel alone."""

    def __init__(self, device, config):
        self._device, self._buffers, self._argument_struct = (
            device,
            Buffers(device, config, 1),
            ArgumentStruct(FRAME, 1),
        )
        self._ego = EgoMaskDevice(device, config.vehicle, self._buffers, self._argument_struct)

    def __call__(self, scan, query):
        device, buffers, record = self._device, self._buffers, self._argument_struct.records[0]
        buffers.reserve(len(scan))
        record.count, record.given = len(scan), device.bind(scan.points, buffers.input_buffer)
        record.points = record.given
        self._ego.ask(query)
        device.enqueue(self._argument_struct.array, buffers.frames)
        self._ego.graph.run()
        self._ego.fetch()
        device.finish()
        found = EgoPoints()
        self._ego.answer(found)
        input_buffer = getattr(buffers.input_buffer, "device", buffers.input_buffer)
        left = device.download(input_buffer, 0, 3 * len(scan)).reshape(-1, 3) if query.box is not None else scan.points
        return found, left


def cells_of(scan, pose):
    """Which cells around the vehicle hold a point, by the CPU."""
    limits = np.float32([-ego_mask.ALONG, ego_mask.ALONG, -ego_mask.ACROSS, ego_mask.ACROSS, ego_mask.LOW, 2.5])
    occupied = np.zeros(CELLS, np.bool_)
    turn, place = pose.rotation.astype(np.float32), pose.translation.astype(np.float32)
    mark_cells(scan.points, turn, place, limits, np.float32(ego_mask.PER_METRE), occupied)
    return occupied


def test_every_step_of_the_cpu_is_rounded_by_itself():
    """As NumPy does, which knows no product and sum in one: eight points at a time, and the last ones alone."""
    scan = crowd(count=10_003)
    turn, place = TILTED.rotation.astype(np.float32), TILTED.translation.astype(np.float32)
    box = np.float32([BOX.rear, BOX.front, BOX.right, BOX.left, -np.inf, BOX.top])
    inside = np.empty(len(scan), np.bool_)
    mark_inside(0, len(scan), scan.points, turn, place, box, inside)
    x, y, z = scan.points.T
    with np.errstate(all="ignore"):
        u, v, w = (t[0] * x + t[1] * y + t[2] * z + p for t, p in zip(turn, place))
        expected = (box[0] < u) & (u < box[1]) & (box[2] < v) & (v < box[3]) & (w < box[5]) & (box[4] < w)
        searched = (np.abs(u) < 6) & (np.abs(v) < np.float32(1.8)) & (np.float32(0.25) < w) & (w < 2.5)
        column, row = (
            np.minimum(((a + np.float32(b)) * np.float32(5)), n - 1)[searched].astype(int)
            for a, b, n in ((u, 6.0, CELLS[0]), (v, 1.8, CELLS[1]))
        )
        fused = np.float32(sum(np.float64(a) * b for a, b in zip(turn[0], (x, y, z))) + np.float64(place[0]))
    np.testing.assert_array_equal(inside, expected)
    cells = np.zeros(CELLS, np.bool_)
    cells[column, row] = True
    np.testing.assert_array_equal(cells_of(scan, TILTED), cells)
    assert (fused != u)[np.isfinite(u)].any()  # fewer roundings would be seen


@pytest.mark.parametrize("seed", range(3))
def test_points_on_borders_and_what_is_no_number(any_device, seed):
    on_device = OnDevice(any_device, Config())
    pose = TILTED if seed else Pose.from_euler(z=1.7)
    scan = crowd(seed, 20_000 + 7 * seed, pose)
    own = asked()
    expected = own.mask(replace(scan, T_vehicle_sensor=pose))
    found, left = on_device(scan, own.query(replace(scan, T_vehicle_sensor=pose)))
    assert 100 < np.count_nonzero(expected) < len(scan) / 2
    np.testing.assert_array_equal(found.points, expected)
    np.testing.assert_array_equal(found.cells, cells_of(scan, pose))
    np.testing.assert_array_equal(left, without(scan, expected).points)


def test_what_is_not_asked_is_not_answered(any_device):
    """A scan of another size after the first; cells of an earlier look are forgotten."""
    on_device = OnDevice(any_device, Config())
    scan, far = (
        crowd(1),
        Scan(
            np.full((9000, 3), 40, np.float32), time=0.1, T_world_sensor=Pose.from_euler(x=1), T_vehicle_sensor=TILTED
        ),
    )
    found, _ = on_device(scan, asked(None).query(replace(scan, T_vehicle_sensor=TILTED)))
    assert found.points is None
    np.testing.assert_array_equal(found.cells, cells_of(scan, TILTED))
    found, _ = on_device(far, asked().query(replace(far, T_vehicle_sensor=TILTED)))
    assert found.points is None  # none of them lies in the box
    assert not found.cells.any()
    stands = asked()
    stands.update(scan, TILTED)
    found, _ = on_device(scan, stands.query(replace(scan, T_vehicle_sensor=TILTED)))
    assert found.points.any()
    assert found.cells is None
    assert asked(None).query(replace(scan, T_world_sensor=None, T_vehicle_sensor=TILTED)) is None


def test_real_scans(device, real_data):
    on_device = OnDevice(device, Config())
    for path in sorted((real_data / "semantickitti/00/velodyne").glob("*.bin")):
        points = np.fromfile(path, np.float32).reshape(-1, 4)[:, :3]
        scan = Scan(points, time=0.0, T_world_sensor=Pose.identity(), T_vehicle_sensor=Pose.from_euler(z=1.73))
        own = asked(BodyConfig(front=4.0, rear=-4.0, left=1.8, right=-1.8))
        expected = own.mask(replace(scan, T_vehicle_sensor=scan.T_vehicle_sensor))
        found, left = on_device(scan, own.query(replace(scan, T_vehicle_sensor=scan.T_vehicle_sensor)))
        np.testing.assert_array_equal(found.points, expected)
        np.testing.assert_array_equal(found.cells, cells_of(scan, scan.T_vehicle_sensor))
        np.testing.assert_array_equal(left, without(scan, expected).points)


def drive(count=16):
    rng = np.random.default_rng(5)
    return scans(road(rng, [posts(rng)]), count)


def unread(monkeypatch):
    """From now on the host reads no scan for the own vehicle."""
    for name in ("mark_cells", "mark_inside", "copy_without"):
        monkeypatch.setattr(ego_mask, name, None)


def test_a_drive_finds_the_same_box_and_the_same_points(device, monkeypatch):
    expected, here = GroundFilter(Config()), GroundFilter(Config(), device)
    frames = [(scan, expected(scan)) for scan in drive()]
    unread(monkeypatch)
    for scan, frame in frames:
        found = here(scan)
        if frame.ego_mask is None:
            assert found.ego_mask is None
            continue
        np.testing.assert_array_equal(found.ego_mask, frame.ego_mask)
        assert found.ego_mask.dtype == np.bool_
        assert (found.label[found.ego_mask] == Label.UNKNOWN).all()
        assert np.isnan(found.height_above_ground[found.ego_mask]).all()
        assert found.scan is scan
        assert np.isfinite(scan.points).all()
    assert frame.ego_mask[-len(BODY) :].all()
    assert found.used_prior
    assert here._ego.box == expected._ego.box is not None
    np.testing.assert_array_equal(here._ego._seen, expected._ego._seen)


def test_mountings_that_are_estimated(device):
    """Where the host reads the scan for them, it looks for the own vehicle too."""
    expected, here = GroundFilter(Config()), GroundFilter(Config(), device)
    own = []
    for scan in drive(24):
        unknown = replace(scan, T_vehicle_sensor=None)
        one, other = expected(unknown).ego_mask, here(unknown).ego_mask
        np.testing.assert_array_equal(one if one is not None else False, other if other is not None else False)
        own.append(one is not None)
    assert any(own)
    assert here._ego.box == expected._ego.box


@pytest.mark.parametrize("odometry", [True, False])
def test_a_configured_box_and_a_scan_that_does_not_fit(device, odometry):
    """A frame that runs again, and frames without a prior, have left the same points out."""
    config = Config().with_changes(vehicle={"body": BOX.model_dump()})
    expected, here = GroundFilter(config), GroundFilter(config, device)
    given = list(drive(4))
    given[2] = given[2].with_points(given[2].points + np.float32([0, 0, 0.9]))
    for k, scan in enumerate(given):
        scan = scan if odometry else replace(scan, T_world_sensor=None)
        one, other = expected(scan), here(scan)
        np.testing.assert_array_equal(other.ego_mask, one.ego_mask)
        assert other.used_prior is one.used_prior is (odometry and k == 1)
        assert (other.label[other.ego_mask] == Label.UNKNOWN).all()
        assert (other.label != one.label).mean() < 1e-3


class InGpuMemory:
    """An array that the host may not read; the runtime of a CPU device does."""

    def __init__(self, points):
        self._points, self.shape, self.ndim = points, points.shape, points.ndim

    def __len__(self):
        return len(self._points)

    def __dlpack_device__(self):
        return 4, 0  # OpenCL

    def __array__(self, dtype=None, copy=None):
        return self._points


def test_scans_in_gpu_memory_are_searched_where_they_lie(device):
    """The chain over a drive: the same box and points as from the host's memory; the caller's array is left alone."""
    there, here = roadbed.Pipeline(Config(), device), roadbed.Pipeline(Config(), device)
    for scan in drive():
        if device.device.backend == "cuda":
            import cupy

            held = cupy.asarray(scan.points)
        else:
            held = InGpuMemory(scan.points.copy())
        result, expected = there(replace(scan, points=held)), here(scan)
        if expected.ground.ego_mask is not None:
            np.testing.assert_array_equal(result.ground.ego_mask, expected.ground.ego_mask)
        np.testing.assert_array_equal(result.ground.label, expected.ground.label)
        kept = held.get() if device.device.backend == "cuda" else np.asarray(held)
        np.testing.assert_array_equal(kept, scan.points)
    assert expected.ground.ego_mask.any()
    cells = result.occupancy
    x, y = cells.grid.mesh()
    near = (np.abs(x - scan.T_world_sensor.translation[0]) < 3) & (np.abs(y) < 1.2)
    assert not (cells.observation[near] > 0.5).any()
    assert there.ground._ego.box == here.ground._ego.box is not None
