# SPDX-License-Identifier: Apache-2.0
"""The whole stage on made-up scans: what it finds, and what it says about bad input."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import roadbed.occupancy.device
from roadbed import OccupancyFilter
from roadbed.config import Config
from roadbed.core.errors import ConfigError, DeviceError, InputError
from roadbed.core.frames import Scan, SensorMount
from roadbed.core.geometry import Grid, Pose
from roadbed.occupancy.hsbof.buffers import bytes_needed
from roadbed.runtime.backend import byte_count
from tests.devices import ACCELERATORS, accelerator
from tests.occupancy.scenes import box_points, flat_ground, scan_at, sweep

pytestmark = pytest.mark.long(20)

CONFIG = Config.parse(
    {"occupancy": {"grid": {"length": 30, "width": 30, "spacing": 0.25}, "filter": {"particles": 4000}}}
)
GROUND = sweep(reach=16.0)


def scene(time, sensor="lidar", ego=0.0, car=True):
    """A car drives along y = 4 at 5 m/s, a box stands; the sensor may drive along x."""
    things = [box_points(5.0, -4.0, 1.0, 1.0)]
    if car:
        things.append(box_points(-6.0 + 5.0 * time, 4.0, 3.0, 1.5, 1.4))
    world = np.vstack([GROUND + np.array([ego, 0, 0]), *things])
    scan = scan_at(world, time, x=ego, sensor=sensor)
    grid = Grid.centred(80.0, 60.0, 1.0)
    return scan, flat_ground(scan, grid)


def drive(filter_, frames=18, first=0.0, speed=0.0):
    for k in range(frames):
        frame = filter_(*scene(first + 0.1 * k, ego=speed * 0.1 * k))
    return frame


def valid(frame):
    total = frame.static + frame.dynamic + frame.free + frame.unknown
    np.testing.assert_allclose(total, 1, atol=1e-5)
    assert np.isfinite(frame.occupied).all()
    return True


@pytest.mark.parametrize("motion", ["rolling", "vehicle"])
def test_finds_the_moving_car_and_the_standing_box(motion):
    config = CONFIG.with_changes(occupancy={"grid": {"motion": motion}})
    filter_ = OccupancyFilter(config)
    frame = drive(filter_, speed=2.0)
    assert valid(frame)
    assert len(frame.objects) == 1
    found = frame.objects[0]
    ego = 2.0 * 1.7
    middle = np.array([-6.0 + 5.0 * 1.7, 4.0])
    if motion == "vehicle":
        assert frame.T_ground_grid is not None
        middle = middle - [ego, 0]
    else:
        assert frame.T_ground_grid is None
    assert np.linalg.norm(found.position - middle) < 1.0
    assert np.linalg.norm(found.velocity - [5.0, 0.0]) < 0.75
    assert found.extent[0] > found.extent[1]
    assert abs(found.heading) < 0.2
    standing = frame.grid.index(5.0 - (ego if motion == "vehicle" else 0.0), -4.0)
    assert frame.static.ravel()[standing] > 0.9
    assert not frame.moving.ravel()[standing]
    assert sum(frame.timings.values()) > 0


def test_what_moves_is_handed_to_the_ground_along_its_own_axes():
    turned = drive(OccupancyFilter(CONFIG.with_changes(occupancy={"grid": {"motion": "vehicle"}})), speed=2.0)
    grid, moving = turned.moving_cells()
    rows, columns = np.nonzero(moving)
    assert abs(grid.x[columns].mean() - 2.5) < 1.0
    assert abs(grid.y[rows].mean() - 4.0) < 1.0
    straight = drive(OccupancyFilter(CONFIG), speed=2.0)
    assert straight.moving_cells() == (straight.grid, straight.moving)


def test_a_ground_lattice_that_moves_with_the_vehicle_changes_nothing():
    fixed, moved = OccupancyFilter(CONFIG), OccupancyFilter(CONFIG)
    for k in range(6):
        scan, ground = scene(0.1 * k, ego=0.3 * k)
        one = fixed(scan, ground)
        T = Pose.from_euler(-0.3 * k, 0.0, 0.0)
        shifted = replace(
            ground,
            T_grid_sensor=T @ ground.T_grid_sensor,
            grid=replace(ground.grid, x0=ground.grid.x0 - 0.3 * k),
        )
        other = moved(scan, shifted)
    assert one.grid == other.grid
    np.testing.assert_allclose(one.occupied, other.occupied, atol=2e-3)


def test_ids_stay_with_their_objects():
    filter_ = OccupancyFilter(CONFIG)
    ids = set()
    for k in range(24):
        frame = filter_(*scene(0.1 * k))
        if k > 12:
            ids |= {item.id for item in frame.objects}
    assert len(ids) == 1
    assert frame.objects[0].age > 1.0


def test_two_sensors_one_by_one_and_one_falling_silent():
    filter_ = OccupancyFilter(CONFIG)
    for k in range(30):
        silent = k > 15
        sensor = "front" if silent or k % 2 else "rear"
        frame = filter_(*scene(0.05 * k, sensor))
        assert valid(frame)
    assert frame.objects
    assert np.linalg.norm(frame.objects[0].velocity - [5.0, 0.0]) < 1.0


def test_merged_sensors_are_pooled():
    scan, _ = scene(0.0)
    left = replace(scan, sensor="left", T_vehicle_sensor=Pose.from_euler(z=1.7))
    right = replace(left, sensor="right")
    merged = Scan.merged([left, right])
    frame = OccupancyFilter(CONFIG)(merged, flat_ground(merged))
    single = OccupancyFilter(CONFIG)(scan, flat_ground(scan))
    np.testing.assert_allclose(frame.observation, single.observation, atol=2e-3)
    assert (frame.observedness >= single.observedness - 1e-5).all()


def test_another_sensor_at_the_same_time_is_used():
    filter_ = OccupancyFilter(CONFIG)
    drive(filter_, 3)
    frame = filter_(*scene(0.2, "second"))
    assert frame.diagnostics == ()
    assert frame.observation is not None
    assert valid(frame)


def test_scans_without_time_are_taken_for_ten_a_second():
    timed, untimed = OccupancyFilter(CONFIG), OccupancyFilter(CONFIG)
    for k in range(20):
        scan, ground = scene(0.1 * k)
        one, other = timed(scan, ground), untimed(replace(scan, time=None), ground)
    assert one.objects
    assert len(other.objects) == len(one.objects)
    assert other.time == pytest.approx(1.9)
    np.testing.assert_allclose(other.observation, one.observation, atol=1e-6)
    np.testing.assert_allclose(other.objects[0].velocity, one.objects[0].velocity, atol=0.5)


def test_without_odometry_every_scan_stands_alone():
    filter_ = OccupancyFilter(CONFIG)
    scan, ground = scene(0.0)
    expected = OccupancyFilter(CONFIG)(scan, ground)
    for k in range(3):
        scan, ground = scene(0.0)
        alone = replace(scan, T_world_sensor=None, time=0.1 * k)
        frame = filter_(alone, replace(ground, T_world_grid=None))
        np.testing.assert_array_equal(frame.occupied, expected.occupied)
        assert frame.T_world_grid is None
        assert frame.time == pytest.approx(0.1 * k)
    assert not frame.moving.any()


def test_one_scan_without_a_pose_ends_the_drive_before_it():
    filter_ = OccupancyFilter(CONFIG)
    before = drive(filter_)
    scan, ground = scene(1.8)
    alone = filter_(replace(scan, T_world_sensor=None), ground)
    assert alone.diagnostics == ("no pose: this scan stands alone",)
    assert not alone.moving.any()
    after, fresh = filter_(*scene(1.9)), OccupancyFilter(CONFIG)(*scene(1.9))
    np.testing.assert_array_equal(after.occupied, fresh.occupied)
    assert before.objects
    assert not after.objects


def test_a_sensor_may_say_later_where_it_is():
    """The first scans of a live drive come before their transform; one that is lost again changes nothing."""
    filter_ = OccupancyFilter(CONFIG)
    for number, place in enumerate((None, Pose.from_euler(x=2.0, z=1.7), None)):
        scan, ground = scene(0.1 * number)
        filter_(replace(scan, T_vehicle_sensor=place), ground)
    with pytest.raises(InputError, match=r"'lidar': found at two places of the vehicle 2.00 m apart"):
        filter_(*scene(0.3))


def test_two_sensors_of_one_name_are_refused():
    filter_ = OccupancyFilter(CONFIG)
    scan, ground = scene(0.0)
    filter_(scan, ground)
    other = replace(scan, T_vehicle_sensor=Pose.from_euler(x=2.0, z=1.7), time=0.1)
    with pytest.raises(InputError, match=r"'lidar': found at two places of the vehicle 2.00 m apart"):
        filter_(other, ground)
    mounts = (SensorMount("a", Pose.identity()), SensorMount("a", Pose.identity()))
    twice = replace(scan, mounts=mounts, channels={"sensor_index": np.zeros(len(scan), np.uint8)})
    with pytest.raises(InputError, match="one name per sensor, found sensors a, a"):
        filter_(twice, ground)
    assert filter_(replace(scan, time=0.1), ground).diagnostics == ()


def test_too_few_particles_are_reported_and_survived():
    config = CONFIG.with_changes(occupancy={"filter": {"particles": 100}})
    filter_ = OccupancyFilter(config)
    diagnostics: set[str] = set()
    for k in range(10):
        frame = filter_(*scene(0.1 * k))
        diagnostics |= set(frame.diagnostics)
        assert valid(frame)
    assert any("raise occupancy.filter.particles" in note for note in diagnostics)


def test_a_grid_larger_than_memory_is_refused_with_its_size():
    huge = Config.parse({"occupancy": {"grid": {"length": 2000, "width": 2000, "spacing": 0.02}}})
    with pytest.raises(ConfigError, match=r"10,000,000,000 cells.* needs 3[0-9]{3}\.[0-9] GiB, found"):
        OccupancyFilter(huge)


def test_a_grid_without_cells_and_an_unknown_backend_are_refused():
    with pytest.raises(ConfigError, match="holds no cell"):
        OccupancyFilter(Config.parse({"occupancy": {"grid": {"length": 0.3, "width": 10, "spacing": 5.0}}}))
    with pytest.raises(ConfigError, match="backend = 'abacus': input should be 'cpu', 'opencl', 'cuda' or 'auto'"):
        OccupancyFilter(Config.parse({"backend": "abacus"}))


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize("name", ACCELERATORS)
def test_the_filter_runs_where_it_is_told_and_gives_the_cpus_frames(name):
    device = accelerator(name)
    expected = drive(OccupancyFilter(CONFIG), 3)
    asked = CONFIG.with_changes(backend=device.device.backend)
    for filter_ in (OccupancyFilter(asked), OccupancyFilter(CONFIG, device)):
        assert filter_.backend.device.backend == device.device.backend
        frame = drive(filter_, 3)
        for layer in ("occupied", "static", "dynamic", "free", "velocity", "moving"):
            np.testing.assert_array_equal(getattr(frame, layer), getattr(expected, layer))


@pytest.mark.parametrize("name", ACCELERATORS)
def test_a_grid_larger_than_the_device_is_refused_before_anything_is_allocated(name, monkeypatch):
    huge = Config.parse({"occupancy": {"grid": {"length": 2000, "width": 2000, "spacing": 0.02}}})
    device = accelerator(name)
    monkeypatch.setattr(type(device), "zeros", lambda *_: pytest.fail("memory was asked for"))
    with pytest.raises(DeviceError, match=r"10,000,000,000 cells.* needs [\d,]+ MiB, found [\d,]+ MiB"):
        OccupancyFilter(huge, device)


GRIDS = {"length": 40, "width": 40}, {"length": 400, "width": 3.4}, {"length": 3.4, "width": 400}


@pytest.mark.parametrize("grid", GRIDS, ids=["square", "narrow", "short"])
@pytest.mark.parametrize("without", [(), ("registration",)], ids=["usual", "none"])
@pytest.mark.parametrize("name", ACCELERATORS)
def test_the_memory_that_is_announced_for_a_device_is_enough_and_hardly_more(name, without, grid, monkeypatch):
    device, held, announced = accelerator(name, optimise=False), [], []
    zeros, check = type(device).zeros, roadbed.occupancy.device.check_memory

    def counted(self, shape, dtype):
        held.append(byte_count(shape, dtype))
        return zeros(self, shape, dtype)

    def heard(backend, cells, model, other):
        announced.append(bytes_needed(cells, model.particles, model.births) + other)
        check(backend, cells, model, other)

    monkeypatch.setattr(type(device), "zeros", counted)
    monkeypatch.setattr(roadbed.occupancy.device, "check_memory", heard)
    OccupancyFilter(Config.parse({"occupancy": {"grid": grid, "without": without}}), device)
    assert 0.85 * announced[0] < sum(held) <= announced[0]  # a sensor's grids come with its first scan


def test_results_depend_on_the_seed_alone():
    one, same, other = (drive(OccupancyFilter(CONFIG.with_changes(seed=seed)), 8).dynamic for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_filters_in_several_threads_do_not_disturb_each_other():
    scans = [scene(0.1 * k) for k in range(6)]

    def run(_):
        filter_ = OccupancyFilter(CONFIG)
        return [filter_(*item) for item in scans][-1]

    expected = run(None)
    with ThreadPoolExecutor(3) as pool:
        for frame in pool.map(run, range(6)):
            np.testing.assert_array_equal(frame.occupied, expected.occupied)


def test_one_filter_in_several_threads_takes_one_scan_at_a_time():
    filter_ = OccupancyFilter(CONFIG)
    scans = [scene(0.1 * k) for k in range(24)]
    with ThreadPoolExecutor(4) as pool:
        frames = list(pool.map(lambda item: filter_(*item), scans))
    assert all(valid(frame) for frame in frames)
    used = [scan.time for (scan, _), frame in zip(scans, frames) if not frame.diagnostics]
    assert max(used) == max(frame.time for frame in frames)


def test_a_ground_frame_of_another_scan_is_refused():
    scan, ground = scene(0.0)
    with pytest.raises(InputError, match="points, its ground frame"):
        OccupancyFilter(CONFIG)(replace(scan, points=scan.points[:-1]), ground)


def test_an_empty_scan_is_a_scan():
    filter_ = OccupancyFilter(CONFIG)
    empty = scan_at(np.zeros((0, 3)), 0.0)
    frame = filter_(empty, flat_ground(empty))
    assert (frame.unknown == 1).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_papers_preset_tracks_the_car_and_nothing_else(seed):
    config = Config.preset("paper").with_changes(
        seed=seed, occupancy={"grid": {"length": 30, "width": 30, "spacing": 0.25, "ahead": 0.0}}
    )
    frame = drive(OccupancyFilter(config))
    assert valid(frame)
    x, y = frame.grid.mesh()
    car = (abs(x - (-6.0 + 5.0 * 1.7)) < 1.5) & (abs(y - 4.0) < 0.75)
    nearby = (abs(x - (-6.0 + 5.0 * 1.7)) < 2.1) & (abs(y - 4.0) < 1.35)
    assert frame.dynamic[car].sum() > 0.8 * (frame.static + frame.dynamic)[car].sum() > 0
    assert frame.moving[car].sum() > 0.5 * car.sum()
    assert not frame.moving[~nearby].any()
    assert frame.dynamic[~nearby].sum() < 0.05 * frame.dynamic.sum()
    assert len(frame.objects) == 1
    assert np.linalg.norm(frame.objects[0].velocity - [5.0, 0.0]) < 0.75
