# SPDX-License-Identifier: Apache-2.0
"""Clouds without a sensor: maps and tiles get a label for each point, wherever they lie; scans stay scans."""

from dataclasses import replace

import numba
import numpy as np
import pytest

import roadbed
from benchmarks.indoor import room
from benchmarks.maps import Cloud, f1, las_files, merged_scans
from roadbed import Config, GroundFilter, Label, Pipeline, Scan
from roadbed.core.errors import InputError
from roadbed.core.geometry import Pose
from roadbed.ground.cloud.origin_cpu import count_in_boxes, hidden_share
from roadbed.ground.cloud.start_surface import _cell_size, start_surface
from roadbed.ground.mounting.plane_support_cpu import returns_of
from tests.devices import ACCELERATORS, accelerator

pytestmark = pytest.mark.long(20)

NOTE = "no sensor at the origin"


def terrain(x, y):
    return 0.15 * x + 3 * np.sin(x / 20) * np.cos(y / 30)


def tile(seed=0, size=200.0, density=3.0):
    """An aerial tile: hills, a hall, a house and trees, in steps that float32 holds; points (N, 3) and truth."""
    random = np.random.default_rng(seed)
    x, y = random.uniform(0, size, (2, int(density * size**2)))
    z = terrain(x, y) + random.normal(0, 0.03, len(x))
    ground = np.ones(len(x), np.bool_)
    for middle_x, middle_y, length, width, height in ((50, 60, 50, 40, 7), (120, 130, 12, 10, 4)):
        inside = (np.abs(x - middle_x) < length / 2) & (np.abs(y - middle_y) < width / 2)
        z[inside], ground[inside] = terrain(x[inside], y[inside]).max() + height, False
    leaves = (x > 160) & (random.random(len(x)) < 0.7)
    z[leaves] += random.uniform(1.5, 15, np.count_nonzero(leaves))
    points = np.round(np.stack([x, y, z], axis=1) * 256) / 256
    return points.astype(np.float32), ground & ~leaves


@pytest.fixture(scope="module")
def ground():
    return GroundFilter(Config())


@pytest.fixture(scope="module")
def cloud():
    return tile()


@pytest.fixture(scope="module")
def frame(ground, cloud):
    return ground(Scan(cloud[0], has_origin=False))


def agreement(one, other):
    return float((one == other).mean())


def test_hills_are_ground_and_roofs_are_not(cloud, frame):
    points, truth = cloud
    assert f1(Cloud("", frame.scan, truth, np.ones(len(points), np.bool_)), frame.is_ground) > 98.5
    hall = (np.abs(points[:, 0] - 50) < 24) & (np.abs(points[:, 1] - 60) < 19)
    assert frame.is_ground[hall].mean() < 0.01
    x, y = frame.grid.mesh()
    known = np.isfinite(frame.elevation)
    error = (frame.elevation - terrain(x, y))[known]
    assert known.mean() > 0.75
    assert np.sqrt(np.mean(error**2)) < 0.1
    slope = np.gradient(terrain(x, y), axis=1) / frame.grid.spacing
    assert np.median(np.abs(frame.slope[..., 0] - slope)[known]) < 0.03


def test_a_plateau_with_trees_is_ground_and_a_bare_one_is_announced(ground):
    random = np.random.default_rng(0)
    x, y = random.uniform(0, 180, (2, 60_000))
    z = random.normal(0, 0.03, len(x))
    plateau = (np.abs(x - 90) < 40) & (np.abs(y - 90) < 40)
    z[plateau] += 6
    bare = ground(Scan(np.stack([x, y, z], axis=1).astype(np.float32), has_origin=False))
    assert not bare.is_ground[plateau].any()
    assert "taken for a roof" in bare.confidence.doubts[0]
    leaves = plateau & ((x // 6 + y // 6) % 4 == 0) & (random.random(len(x)) < 0.6)
    z[leaves] += random.uniform(2, 8, np.count_nonzero(leaves))
    frame = ground(Scan(np.stack([x, y, z], axis=1).astype(np.float32), has_origin=False))
    assert frame.is_ground[plateau & ~leaves].mean() > 0.85
    assert not frame.is_ground[leaves].any()
    assert frame.confidence.is_sure


def test_each_point_gets_one_label(ground, cloud):
    points = cloud[0].copy()
    points[::1000] = np.nan
    points[1::1000] = [np.inf, 0, 0]
    frame = ground(Scan(points, has_origin=False, intensity=np.arange(len(points))))
    usable = np.isfinite(points).all(axis=1)
    assert frame.label.shape == (len(points),)
    assert (frame.label[~usable] == Label.UNKNOWN).all()
    assert (frame.label[usable] != Label.UNKNOWN).all()
    assert np.isfinite(frame.height_above_ground[usable]).all()
    assert (frame.scan.intensity == np.arange(len(points))).all()


@pytest.mark.parametrize("shift", [(4096.0, -2048.0, 512.0), (-100.0, 64.5, -3000.0)])
def test_labels_do_not_depend_on_where_the_cloud_lies(ground, cloud, frame, shift):
    moved = ground(Scan(cloud[0] + np.array(shift, np.float32), has_origin=False))
    assert agreement(moved.label, frame.label) == 1
    assert np.nanmax(np.abs(moved.elevation - frame.elevation - shift[2])) < 1e-3
    assert (moved.grid.x0 - frame.grid.x0, moved.grid.y0 - frame.grid.y0) == shift[:2]


@pytest.mark.parametrize("yaw", [17.0, 90.0, 200.0])
def test_labels_hardly_depend_on_the_axes(ground, cloud, frame, yaw):
    turned = Pose.from_euler(yaw=np.radians(yaw)) @ cloud[0]
    assert agreement(ground(Scan(turned, has_origin=False)).label, frame.label) > 0.985


def test_tiles_agree_at_their_borders(cloud, frame):
    narrow = Config().with_changes(ground={"stcrf": {"length": 80.0, "width": 80.0}})
    tiled = GroundFilter(narrow)(Scan(cloud[0], has_origin=False))
    assert tiled.grid == frame.grid
    assert agreement(tiled.label, frame.label) > 0.998
    both = np.isfinite(tiled.elevation) & np.isfinite(frame.elevation)
    assert (np.isfinite(tiled.elevation) == np.isfinite(frame.elevation)).mean() > 0.99
    assert np.quantile(np.abs(tiled.elevation - frame.elevation)[both], 0.999) < 0.05


def test_a_cloud_without_usable_points_is_unknown(ground):
    for points in (np.zeros((0, 3)), np.full((5, 3), np.nan)):
        frame = ground(Scan(points, has_origin=False))
        assert (frame.label == Label.UNKNOWN).all()
        assert np.isnan(frame.elevation).all()
        assert any("nothing new is known" in note for note in frame.diagnostics)


def test_a_cloud_on_its_side_is_doubtful(ground, cloud):
    y_up = np.ascontiguousarray(cloud[0][:, [1, 2, 0]])
    notes = ground(Scan(y_up, has_origin=False)).diagnostics
    assert any("labels are doubtful" in note for note in notes)


def test_a_map_around_the_origin_is_recognised(ground):
    """Merged scans of a drive, with the origin at the first pose of the sensor, as of a SLAM system."""
    points, truth = merged_scans("city", 31, frames=200)
    drive = roadbed.open("sim:city?sensor=hdl32e&frames=1&seed=31")
    frame = ground(drive.truth(0).T_world_sensor.inverse() @ points)
    assert not frame.has_origin
    assert NOTE in frame.diagnostics[0]
    assert f1(Cloud("", frame.scan, truth, np.ones(len(points), np.bool_)), frame.is_ground) > 97


def test_a_given_origin_or_mounting_is_believed(ground, cloud):
    near = cloud[0] - np.float32([100, 100, terrain(100, 100) + 1.8])
    assert not ground(near).has_origin
    assert ground(Scan(near, has_origin=True)).has_origin
    assert ground(Scan(near, T_vehicle_sensor=Pose.from_euler(z=1.8))).has_origin
    assert ground(Scan(near, T_world_sensor=Pose.identity(), time=0.0)).has_origin
    assert GroundFilter(Config().with_changes(ground={"mounting": {"height": 1.8}}))(near).has_origin


@pytest.mark.parametrize("kind", ["road", "table", "cloud"])
def test_frames_do_not_depend_on_when_doubts_are_looked_for(cloud, kind):
    """On several threads a frame is computed meanwhile, and again where they change the mounting or the origin."""
    points = {
        "road": lambda: roadbed.open("sim:city?sensor=hdl32e&frames=1&seed=31")[0].points,
        "table": lambda: room("vlp16", (12, 15), 0.85, (3.0, 1.6)).scan.points,
        "cloud": lambda: cloud[0] - np.float32([100, 100, terrain(100, 100) + 1.8]),
    }[kind]()
    frames, before = [], numba.get_num_threads()
    try:
        for threads in (1, min(2, numba.config.NUMBA_NUM_THREADS)):
            numba.set_num_threads(threads)
            frames.append(GroundFilter()(points))
    finally:
        numba.set_num_threads(before)
    one, two = frames
    assert (one.has_origin, one.mounting.table > 0) == (kind != "cloud", kind == "table")
    for layer in ("label", "height_above_ground", "elevation", "variance"):
        np.testing.assert_array_equal(getattr(one, layer), getattr(two, layer))
    assert (one.diagnostics, one.mounting.doubt) == (two.diagnostics, two.mounting.doubt)
    np.testing.assert_array_equal(one.mounting.T_vehicle_sensor.matrix, two.mounting.T_vehicle_sensor.matrix)


def test_the_occupancy_is_left_out_and_goes_on_after_the_cloud(cloud):
    with Pipeline() as pipeline:
        drive = roadbed.open("sim:city?sensor=vlp16&frames=3&seed=3")
        before = pipeline(drive[0])
        result = pipeline(Scan(cloud[0], has_origin=False))
        assert result.occupancy is None
        assert not result.ground.has_origin
        after = pipeline(drive[1])
        assert before.ground.has_origin
        assert after.occupancy is not None
        assert after.ground.used_prior


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize("name", ACCELERATORS)
def test_accelerators_give_the_same_labels(cloud, frame, name):
    scan = Scan(cloud[0], has_origin=False)
    device = GroundFilter(Config(), accelerator(name))
    other = device(scan)
    assert agreement(other.label, frame.label) > 0.9999
    assert np.nanmax(np.abs(other.elevation - frame.elevation)) < 1e-3
    near = replace(scan, points=cloud[0] - np.float32([100, 100, 20]), has_origin=None)
    frames = list(device.batch([scan, near, scan]))
    assert [found.has_origin for found in frames] == [False] * 3
    assert agreement(frames[2].label, other.label) == 1


def test_the_start_surface_follows_the_ground_and_not_roofs(cloud):
    points, truth = cloud
    surface = start_surface(points.astype(np.float64))
    x, y, z = points[truth].astype(np.float64).T
    assert np.quantile(np.abs(z - surface.at(x, y)), 0.95) < 0.25
    slope_x, slope_y = surface.slope_at(x, y)
    step = 1e-4
    assert np.median(np.abs((surface.at(x + step, y) - surface.at(x, y)) / step - slope_x)) < 1e-6
    assert np.median(np.abs((surface.at(x, y + step) - surface.at(x, y)) / step - slope_y)) < 1e-6


@pytest.mark.parametrize("points", [[[0, 0, 0]], [[1, 2, 3], [1, 2, 4]], [[0, 0, 0], [500, 0, 9]]])
def test_the_start_surface_of_few_points(points):
    points = np.array(points, float)
    surface = start_surface(points)
    assert np.isfinite(surface.height).all()
    assert surface.at(points[:1, 0], points[:1, 1])[0] == pytest.approx(points[0, 2])


def test_cells_of_a_sparse_cloud_are_found_in_few_passes(monkeypatch):
    x, y = (axis.ravel() for axis in np.mgrid[0:4000:40.0, 0:4000:40.0])  # 16 points in 160 m x 160 m
    passes, unique = [], np.unique
    monkeypatch.setattr(np, "unique", lambda cells: passes.append(1) or unique(cells))
    assert 140 < _cell_size(x, y) < 320
    assert len(passes) <= 12


def test_an_aerial_file(real_data):
    path = real_data / "recordings" / "pdal_warsaw.las"
    (known,) = las_files([path])
    frame = GroundFilter()(known.scan)
    assert NOTE in frame.diagnostics[0]
    assert f1(known, frame.is_ground) > 90
    assert frame.T_world_grid.xyz == known.scan.T_world_sensor.xyz
    assert (frame.label != Label.UNKNOWN).all()
    assert roadbed.open(f"{path}?origin=sensor")[0].has_origin
    with pytest.raises(InputError, match="expected sensor or none"):
        roadbed.open(f"{path}?origin=here")


@pytest.mark.parametrize("name", ["hesai_40p", "hesai_qt128", "hesai_xt32", "velo_vlp32", "autoware_test"])
def test_scans_of_one_sensor_are_not_taken_for_clouds(real_data, name):
    assert GroundFilter()(roadbed.open(str(real_data / "recordings" / f"{name}.pcd"))[0]).has_origin


@pytest.mark.parametrize(
    "folder", ["semantickitti/00", "semantickitti/08-singles", "nuscenes-projected", "solid-state"]
)
def test_scans_of_vehicles_are_not_taken_for_clouds(real_data, ground, folder):
    source = roadbed.open(str(real_data / folder))
    for scan in source[:2]:
        assert ground(replace(scan, T_world_sensor=None)).has_origin


@pytest.mark.parametrize("shift", [(0, 0, 0), (300, 200, 40)])
def test_a_map_with_ground_everywhere_is_sure_wherever_it_lies(cloud, shift):
    frame = GroundFilter()(Scan(cloud[0] + np.float32(shift), has_origin=False))
    assert frame.confidence.is_sure
    assert frame.confidence.surface > 0.9


def test_a_cloud_that_may_be_a_scan_is_sure_only_with_ground_nearly_everywhere(ground, cloud):
    """The density does not fall with the range, but no point lies behind another, as of one sensor."""
    near = cloud[0] - np.float32([100, 100, terrain(100, 100) + 1.8])
    random = np.random.default_rng(0)
    wire, y = random.integers(0, 6, 20_000), random.uniform(-30, 30, 20_000)
    wires = np.stack([1.5 * wire - 4, y, 6 + wire % 3 + 0.002 * y**2], axis=1) + random.normal(0, 0.03, (20_000, 3))
    for points, sure in ((near[(np.abs(near[:, :2]) < 40).all(axis=1)], True), (wires.astype(np.float32), False)):
        frame = ground(points)
        assert "no point lies behind others" in frame.diagnostics[0]
        assert frame.confidence.is_sure == sure
        assert frame.confidence.surface > 0.5
        assert ground(Scan(points, has_origin=False)).confidence.is_sure


def test_points_whose_squares_do_not_fit_single_precision_are_left_out_of_the_origin_test():
    far = np.random.default_rng(0).normal(0, 20, (500, 3)).astype(np.float32)
    scan = np.concatenate([far, far / 4])  # every second point behind another
    extreme = np.float32([[1e30, 0, 0], [0, 0, -1e30], [0, 0, 1e-30], [np.nan, 1, 1], [np.inf, -np.inf, 0], [0, 0, 0]])
    points = np.concatenate([extreme, scan])
    assert np.array_equal(returns_of(points, 2000).T, scan)
    with np.errstate(all="raise"):
        assert hidden_share(points) == pytest.approx(0.5, abs=0.01) == hidden_share(scan)


def test_points_and_ranges_are_counted_per_box():
    points = np.random.default_rng(0).normal(0, 20, (3, 2000)).astype(np.float32)
    reach, boxes = np.linalg.norm(points.astype(np.float64), axis=0), np.floor(points / np.float64(5)).astype(np.int64)
    count, total = count_in_boxes(points, reach, 5.0)
    _, index, expected = np.unique(boxes, axis=1, return_inverse=True, return_counts=True)
    assert sorted(count) == sorted(expected)
    assert np.sort(total) == pytest.approx(np.sort(np.bincount(index.ravel(), reach)))
