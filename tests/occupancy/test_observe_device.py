# SPDX-License-Identifier: Apache-2.0
"""Observation on accelerators: no cell differs from the CPU's, whatever the sensors, the grid and the points."""

from dataclasses import replace

import numpy as np
import pytest

from roadbed.config import Config
from roadbed.core.device_arrays import DeviceArray
from roadbed.core.errors import DeviceError, InputError
from roadbed.core.geometry import Grid
from roadbed.core.tracked_objects import TRACK
from roadbed.occupancy.engine import OccupancyInput
from roadbed.occupancy.observation import model
from roadbed.occupancy.observation.movers import movers_at
from roadbed.occupancy.observation.observe import Observer
from roadbed.occupancy.observation.observe_device import ObserveDevice
from roadbed.occupancy.observation.program import RAY_GROUP, RAY_STRIP
from roadbed.occupancy.placement import lattice_of
from roadbed.occupancy.programs import GROUP, groups_over
from roadbed.runtime.graphs import Launch
from tests.devices import ACCELERATORS, accelerator
from tests.occupancy.drives import SMALL, looked_at, segmented
from tests.occupancy.scenes import box_points, flat_ground, scan_at, sweep

LAYERS = ("probability", "observedness", "surface")


@pytest.fixture(scope="module", params=ACCELERATORS)
def device(request):
    return accelerator(request.param)


@pytest.fixture(scope="module")
def observer(device):
    return ObserveDevice(device, SMALL, lattice_of(SMALL.occupancy.grid))


def observed(observer, given):
    """Queue the observation of a scan."""
    reports, graph = observer.prepare(given)
    graph.run()
    return reports


def assert_same(observer, given, config=SMALL):
    """Every cell of every sensor, bit by bit; gives how many cells say something."""
    reports, expected, size = observed(observer, given), Observer(config)(given), given.grid.size
    for k, view in enumerate(given.sensors):
        for name in LAYERS:
            found = observer.backend.download(getattr(reports, name), k * size, size)
            np.testing.assert_array_equal(found, getattr(expected, name)[k].ravel(), err_msg=f"{view.name}: {name}")
    assert reports.sensors == expected.sensors == tuple(view.name for view in given.sensors)
    return np.count_nonzero(expected.observedness)


@pytest.mark.parametrize("yaw", [0.0, 0.6, 2.2])
@pytest.mark.parametrize("sensor", ["vlp16", "lux4"])
def test_no_cell_of_a_simulated_scan_differs(observer, sensor, yaw):
    """One dense sensor, and four sparse ones at once that look for faces."""
    for scan, ground in segmented(sensor, 2):
        assert assert_same(observer, looked_at(scan, ground, yaw=yaw)) > 3000


@pytest.mark.parametrize("device_config", [SMALL, SMALL.with_changes(occupancy={"without": ["hanging_returns"]})])
def test_no_cell_of_a_crown_differs(device, device_config):
    """Beams pass far beneath some of its returns; at the rim of the crown they do not pass all rays of a cell."""
    rng = np.random.default_rng(3)
    crown = rng.uniform((5.0, -3.0, 1.0), (11.0, 3.0, 3.0), (800, 3))
    scan = scan_at(np.vstack([sweep(), crown]), 0.0)
    given = looked_at(scan, flat_ground(scan), yaw=0.3)
    assert_same(ObserveDevice(device, device_config, lattice_of(SMALL.occupancy.grid)), given, device_config)
    found, plain = (
        Observer(SMALL.with_changes(occupancy={"without": without}))(given).surface
        for without in ((), ("hanging_returns",))
    )
    assert 100 < np.count_nonzero(found) < np.count_nonzero(plain) - 100


def test_points_of_the_ego_vehicle_are_left_out(observer):
    scan, ground = segmented("vlp16", 2)[0]
    own = np.arange(len(scan)) % 3 == 0
    assert_same(observer, looked_at(scan, replace(ground, ego_mask=own)))


def test_no_cell_differs_where_points_are_moved_with_their_object(observer):
    """Two objects that overlap, and points on the device as well as on the host."""
    scan, ground = segmented("vlp16", 2)[0]
    given = looked_at(scan, ground, yaw=0.3)
    tracks = np.zeros(2, TRACK)
    tracks["x"], tracks["y"], tracks["heading"] = given.sensors[0].origin[0] + 5.0, given.sensors[0].origin[1], 0.7
    tracks["x"][1] += 4.0
    tracks["length"], tracks["width"], tracks["state"][:, 2:4] = 10.0, 8.0, ((15.0, -4.0), (-9.0, 2.0))
    times = np.random.default_rng(0).uniform(-0.05, 0.05, len(scan)).astype(np.float32)
    movers = movers_at(0.0, tracks, given.T_ground_grid.inverse() @ given.T_ground_sensor)
    moved = replace(given, point_time=times, movers=movers)
    assert assert_same(observer, moved) > 3000
    differs = np.count_nonzero(Observer(SMALL)(moved).surface != Observer(SMALL)(given).surface)
    assert differs > 100
    assert_same(observer, given)  # the next scan has no times
    points = DeviceArray(observer.backend.upload(scan.points), count=len(scan))
    resident = observed(observer, replace(moved, points=points))
    found = observer.backend.download(resident.probability, 0, given.grid.size)
    np.testing.assert_array_equal(found, Observer(SMALL)(moved).probability.ravel())


def test_what_is_already_on_the_device_is_read_there(observer):
    """Points, heights and layers as the ground's engine leaves them: the same cells, and nothing is uploaded."""
    scan, ground = segmented("vlp16", 2)[0]
    given = looked_at(scan, ground)
    backend, surface = observer.backend, given.surface
    layers = [surface.elevation.ravel(), surface.slope.ravel(), surface.variance.ravel()]
    held = DeviceArray(backend.upload(np.concatenate(layers)))
    points = DeviceArray(backend.upload(scan.points), count=len(scan))
    heights = DeviceArray(backend.upload(given.heights), count=len(scan))
    resident = replace(given, points=points, heights=heights, surface=replace(surface, elevation=held))
    reports = observed(observer, resident)
    expected = Observer(SMALL)(given)
    found = backend.download(reports.probability, 0, given.grid.size)
    np.testing.assert_array_equal(found, expected.probability.ravel())


def test_layers_are_copied_and_nothing_beyond_them(observer):
    scan, ground = segmented("vlp16", 2)[0]
    observed(observer, looked_at(scan, ground))  # tells the device the size of the ground's grid
    backend, size = observer.backend, 4 * ground.elevation.size
    given, copy = backend.upload(np.arange(1, 2 * size, dtype=np.float32)), backend.zeros(2 * size, np.float32)
    copying = Launch("take_layers", groups_over(backend, size), GROUP, (observer._views, given, copy))
    backend.graph(observer._program, [copying]).run()
    np.testing.assert_array_equal(backend.download(copy, 0, 2 * size), [*range(1, size + 1), *[0] * size])


@pytest.mark.parametrize("seed", range(3))
def test_random_points_and_rules(device, seed, monkeypatch):
    """Points without a number, heights without a ground, beams beneath things, faces, a small grid and a wide one."""
    rng = np.random.default_rng(seed)
    side = float(rng.choice([8.25, 24.25]))  # the sensor is over the middle of a cell
    monkeypatch.setattr(model, "_SPARSE_RETURNS", float(rng.choice([0, 1e4])))
    changes = {"azimuth_step": 2.0, "min_range": 0.0}
    without = [[], ["underpass"]][int(rng.integers(2))]
    grid = {"length": side, "width": (side + 0.25) / 2, "spacing": 0.25}
    config = Config.parse({"occupancy": {"grid": grid, "observation": changes, "without": without}})
    points = np.column_stack([rng.normal(0, 7, (4000, 2)), rng.uniform(-1, 3, 4000)])
    scan = scan_at(np.vstack([points, np.full((900, 3), [3.1, 1.1, 1.0]), sweep(reach=12.0)]), 0.0)
    scan.points[rng.choice(len(scan), 20)] = np.nan
    scan.points[:9, :2] = 0.0  # straight above or below the sensor, in no direction
    ground = flat_ground(scan)
    ground.height_above_ground[rng.random(len(scan)) < 0.2] = np.nan
    ground.elevation[rng.random(ground.elevation.shape) < 0.2] = np.nan
    ground.variance[rng.random(ground.variance.shape) < 0.2] = 0.3
    given = OccupancyInput.of(scan, ground, lattice_of(config.occupancy.grid))
    assert assert_same(ObserveDevice(device, config, given.grid), given, config) > 300


def test_what_a_work_group_finds_in_a_ray_goes_on_in_its_next_tile(device):
    """Rays of three tiles: beams pass the nearer ones, and what stands low covers the first bins of the next."""
    grid = {"length": 300, "width": 6, "spacing": 0.2}
    config = Config.parse({"occupancy": {"grid": grid, "observation": {"azimuth_step": 2.0}}})
    grid = lattice_of(config.occupancy.grid)
    assert grid.columns / 2 > 2 * RAY_GROUP * RAY_STRIP
    rng = np.random.default_rng(0)
    along = np.concatenate([rng.uniform(-150, 150, 3000), *(k * 70.4 + rng.uniform(-2, 0, 50) for k in (-2, -1, 1, 2))])
    points = np.column_stack([along, rng.uniform(-2, 2, along.size), rng.uniform(0.0, 1.5, along.size)])
    scan = scan_at(points, 0.0)
    given = OccupancyInput.of(scan, flat_ground(scan, Grid.centred(300, 20, 1.0)), grid)
    assert assert_same(ObserveDevice(device, config, grid), given, config) > 4000


def test_beyond_the_ground_that_is_known_there_is_no_node(device):
    """A grid narrower than the grid one way, then the other, over ground that no two nodes have alike."""
    config = Config.parse({"occupancy": {"grid": {"length": 24, "width": 24, "spacing": 0.25}}})
    scan = scan_at(np.vstack([box_points(9.0, 0.0), box_points(0.0, 9.0), sweep(reach=12.0)]), 0.0)
    observer = ObserveDevice(device, config, lattice_of(config.occupancy.grid))
    for length, width in ((8.0, 40.0), (40.0, 8.0)):
        ground = flat_ground(scan, Grid.centred(length, width, 1.0))
        ground.elevation[:] = np.random.default_rng(0).uniform(-0.5, 0.5, ground.elevation.shape)
        ground.height_above_ground[:] = np.nan  # so that the nodes are asked
        given = OccupancyInput.of(scan, ground, lattice_of(config.occupancy.grid))
        assert assert_same(observer, given, config) > 300


def test_an_empty_scan_says_nothing_and_a_larger_one_finds_room(observer):
    empty = scan_at(np.zeros((0, 3)), 0.0)
    assert assert_same(observer, looked_at(empty, flat_ground(empty))) == 0
    full = scan_at(np.vstack([sweep([box_points(6.0, 0.0)])] * 2), 0.0)
    wide = flat_ground(full, Grid.centred(90.0, 90.0, 0.5))
    assert assert_same(observer, looked_at(full, wide)) > 3000


def test_too_many_sensors_are_refused(observer):
    scan, ground = segmented("vlp16", 2)[0]
    given = looked_at(scan, ground)
    with pytest.raises(InputError, match="scan of 300 sensors: expected fewer than 255"):
        observer.prepare(replace(given, sensors=given.sensors * 300))


def test_a_device_without_room_leaves_the_observer_as_it_was(device, monkeypatch):
    """In the middle of a drive: one clear line, and the next scan is observed as if nothing had been."""
    scan, ground = segmented("vlp16", 2)[0]
    given = looked_at(scan, ground)
    observer = ObserveDevice(device, SMALL, given.grid)
    assert_same(observer, given)
    rig = looked_at(*segmented("lux4", 2)[0])
    zeros, calls = device.zeros, []

    def full(self, shape, dtype):
        calls.append(shape)
        if len(calls) > 4:
            raise DeviceError("a device: 12 MiB do not fit beside what is in use of its 8 MiB")
        return zeros(shape, dtype)

    monkeypatch.setattr(type(device), "zeros", full)
    with pytest.raises(DeviceError, match="do not fit"):
        observer.prepare(rig)
    monkeypatch.undo()
    assert assert_same(observer, given) > 3000
    assert_same(observer, rig)
