# SPDX-License-Identifier: Apache-2.0
"""The ground on accelerators against the CPU: same labels, same surface, frame after frame; and bad input."""

from dataclasses import replace

import numpy as np
import pytest

from roadbed import Config, GroundFilter, Label, OccupancyFilter, Pose, Scan
from roadbed.core.errors import DeviceError, InputError
from roadbed.ground.stcrf.device import StcrfDevice
from roadbed.runtime.cuda_graphs import DELAY
from tests.devices import ACCELERATORS, accelerator
from tests.ground import engines

pytestmark = pytest.mark.long(80)

HEIGHT = 1.73


@pytest.fixture(scope="module", params=ACCELERATORS)
def device(request):
    return accelerator(request.param)


@pytest.fixture(scope="module", params=ACCELERATORS)
def unoptimised(request):
    """For configurations whose programs no other test uses: building them takes longer than running them."""
    return accelerator(request.param, optimise=False)


def hilly_scan(seed=0, points=20_000, yaw=0.0, x=0.0):
    """A street that rises and falls, with walls, a crowned road, boxes, low outliers and missing returns."""
    rng = np.random.default_rng(seed)
    radius = 3 + 45 * rng.random(points) ** 2
    angle = rng.uniform(-np.pi, np.pi, points)
    east, north = radius * np.cos(angle) + x, radius * np.sin(angle)
    z = 0.6 * np.sin(east / 15) + 0.02 * np.abs(north) + rng.normal(0, 0.02, points)
    wall = np.abs(north) > 14
    z[wall] += rng.uniform(0, 4, points)[wall]
    box = (np.abs(east - 10) < 1) & (np.abs(north - 4) < 1)
    z[box] += rng.uniform(0, 1.5, points)[box]
    z[rng.random(points) < 0.002] -= 2
    world = np.stack([east, north, z], 1)
    T_world_sensor = Pose.from_euler(x, 0, HEIGHT + 0.6 * np.sin(x / 15), yaw=yaw)
    xyz = T_world_sensor.inverse() @ world
    xyz[::97] = 0
    xyz[5:6], xyz[6:7] = np.nan, np.inf
    return Scan(
        xyz.astype(np.float32),
        time=x / 8,
        T_world_sensor=T_world_sensor,
        T_vehicle_sensor=Pose.from_euler(z=HEIGHT),
    )


def off_borders(scan, T_grid_sensor):
    """Without the points within 2 mm of a border between nodes (1 m): rounding says to which of both they belong."""
    with np.errstate(invalid="ignore"):  # what is no number stays
        place = T_grid_sensor @ scan.points.astype(np.float64)
        apart = np.abs(place - np.round(place))[:, :2].min(axis=1)
        return scan.with_points(np.where((apart < 0.002)[:, None], np.float32(0), scan.points))


def assert_alike(found, expected, config):
    """Fewer than 1 label in 10,000 differs, and surfaces by less than 1 mm.

    Where all nodes are reported, those with points are compared: the CPU stops extrapolating somewhere, devices do not.
    """
    seen_only = config.ground.uses("seen_only")
    compared = np.ones(expected.grid.shape, bool) if seen_only else nodes_with_points(expected)
    different = np.count_nonzero(found.label != expected.label)
    assert different <= len(expected.label) / 10_000, f"{different} of {len(expected.label)} labels differ"
    assert np.array_equal(np.isnan(found.height_above_ground), np.isnan(expected.height_above_ground))
    off = np.abs(found.elevation - expected.elevation)[compared]
    assert np.nanmax(off, initial=0) < 1e-3
    known, found_known = ~np.isnan(expected.elevation), ~np.isnan(found.elevation)
    assert np.count_nonzero((known != found_known) & compared) <= 2  # rounding at a threshold
    assert np.array_equal(np.isnan(found.slope), np.stack([~found_known] * 2, axis=-1))
    alike = compared & (known == found_known) if seen_only else compared & known
    np.testing.assert_allclose(found.variance[alike], expected.variance[alike], rtol=2e-2)


def nodes_with_points(frame):
    points = frame.scan.points[np.isfinite(frame.scan.points).all(1)]
    points = frame.T_grid_sensor @ points
    index = frame.grid.index(points[:, 0], points[:, 1])
    seen = np.zeros(frame.grid.size, bool)
    seen[index[index >= 0]] = True
    return seen.reshape(frame.grid.shape)


def alone(scan):
    return Scan(scan.points, T_vehicle_sensor=scan.T_vehicle_sensor)


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_single_scans_of_changing_size_agree_with_the_cpu(device, preset):
    config = Config.preset(preset)
    cpu, accelerated = GroundFilter(config), GroundFilter(config, device)
    for seed, points in ((0, 20_000), (1, 5_000), (2, 1), (3, 30_000)):
        scan = alone(hilly_scan(seed, points))
        assert_alike(accelerated(scan), cpu(scan), config)


@pytest.mark.parametrize("most", [0, 128, 30, 3])
def test_nodes_with_any_number_of_points_agree_with_the_cpu(unoptimised, most):
    """From none to 5,000, of which `most` shape the surface: several ways to share a node among work-items."""
    config = Config.parse({"ground": {"stcrf": {"points_per_node": most, "length": 40, "width": 40}}})
    cpu, accelerated = GroundFilter(config), GroundFilter(config, unoptimised)
    # 131,072 points are thinned out at a time where several work-items share a node.
    scan, rng = alone(hilly_scan(4, 140_000 if most == 3 else 20_000)), np.random.default_rng(0)
    crowd = rng.uniform((4.1, 4.1, -1.8), (4.9, 4.9, 1.0), (5_000, 3))  # a post on the road
    crowd[::3, 2] = -1.7 + 0.01 * rng.random(len(crowd[::3]))
    scan = Scan(np.concatenate([scan.points, crowd.astype(np.float32)]), T_vehicle_sensor=scan.T_vehicle_sensor)
    scan = off_borders(scan, scan.T_vehicle_sensor)
    assert_alike(accelerated(scan), cpu(scan), config)


@pytest.mark.parametrize("outputs", ["host", "both"])
def test_what_a_frame_was_given_is_not_written_again(device, outputs):
    """Also of one that ran twice because it did not fit the surface before it, and where scans grow."""
    ground = GroundFilter(Config(), device, outputs=outputs)
    kept, again = [], 0
    for k in range(8):
        scan = hilly_scan(k, 5_000 + 900 * k, x=0.4 * k)
        if k in (3, 6):
            scan = scan.at(Pose.from_euler(z=0.9) @ scan.T_world_sensor, scan.time)
        frame = ground(scan)
        again += any("does not fit" in note for note in frame.diagnostics)
        given = frame.label, frame.ground_probability, frame.height_above_ground, frame.elevation, frame.variance
        kept.append((given, [array.copy() for array in given]))
    assert again == 4  # up, and down again
    for given, copies in kept:
        for array, copy in zip(given, copies):
            np.testing.assert_array_equal(array, copy)


def test_a_scan_that_does_not_fit_the_device_leaves_it_as_it_was(device, monkeypatch):
    """Memory ends in the middle of growing: one line, and the next scan is read from where kernels look for it."""
    config = Config()
    ground, small = GroundFilter(config, device), [alone(hilly_scan(seed, 4_000)) for seed in (0, 1)]
    expected = [ground(scan) for scan in small]
    asked, zeros = [], type(device).zeros

    def full(self, shape, dtype):
        asked.append(shape)
        if len(asked) > 2:
            raise DeviceError("no room")
        return zeros(self, shape, dtype)

    with monkeypatch.context() as patched:
        patched.setattr(type(device), "zeros", full)
        with pytest.raises(DeviceError, match="no room"):
            ground(alone(hilly_scan(2, 40_000)))
    for scan, frame in zip(reversed(small), reversed(expected)):
        assert_alike(ground(scan), frame, config)


@pytest.mark.parametrize("neighbours", [4, 8])
def test_lattices_of_any_size_agree_with_the_cpu(neighbours):
    """21 x 5 nodes, 7 x 2 wide ones: neither fills the vectors of eight in which a CPU device walks along rows."""
    config = Config.parse({"ground": {"stcrf": {"length": 21, "width": 5, "neighbours": neighbours}}})
    cpu, accelerated = GroundFilter(config), GroundFilter(config, accelerator("opencl", optimise=False))
    for k in range(3):
        scan = hilly_scan(k, 8_000, x=1.3 * k)
        scan = off_borders(scan, scan.T_world_sensor)
        clutter = scan.points[::3, 2]  # up to the edges, where votes and counts end
        clutter += np.random.default_rng(k).uniform(0, 0.7, len(clutter)).astype(np.float32)
        assert_alike(accelerated(scan), cpu(scan), config)


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_a_drive_agrees_with_the_cpu(device, preset):
    config = Config.preset(preset)
    cpu, accelerated = GroundFilter(config), GroundFilter(config, device)
    for k in range(4):
        scan = hilly_scan(k, 15_000, yaw=0.05 * k, x=1.3 * k)
        expected, found = cpu(scan), accelerated(scan)
        assert found.used_prior == expected.used_prior == (k > 0)
        assert_alike(found, expected, config)


# With the later seeds a wide node of the coarse start hardly knows anything, between others that know much.
@pytest.mark.parametrize(("motion", "seed"), [("rolling", 20), ("vehicle", 20), ("rolling", 40), ("vehicle", 60)])
def test_ground_seen_before_is_kept_and_what_neighbours_suggest_is_not(device, motion, seed):
    config = Config.parse({"ground": {"time": {"motion": motion}}})
    cpu, accelerated = GroundFilter(config), GroundFilter(config, device)
    reported = []
    for k in range(6):
        scan = hilly_scan(k + seed, 6_000, yaw=0.05 * k, x=1.3 * k)
        if k >= 4:  # suddenly far above the prior surface, which is then dropped
            scan = replace(scan, points=scan.points + np.float32([0, 0, 0.9]))
        scan = off_borders(scan, scan.T_vehicle_sensor if motion == "vehicle" else scan.T_world_sensor)
        expected, found = cpu(scan), accelerated(scan)
        assert found.used_prior == expected.used_prior == (k not in (0, 4))
        assert_alike(found, expected, config)
        reported.append(np.count_nonzero(~np.isnan(found.elevation)))
    assert reported[0] < reported[1] < reported[3]
    assert reported[4] < 0.8 * reported[3]  # what was seen before is gone with the prior


def test_variance_labels_are_identical(device):
    config = Config.parse({"ground": {"method": "variance"}})
    cpu, accelerated = GroundFilter(config), GroundFilter(config, device)
    for seed, points in ((0, 20_000), (1, 0), (2, 25_000)):
        scan = alone(hilly_scan(seed, max(points, 10)))
        scan = Scan(scan.points[:points], T_vehicle_sensor=scan.T_vehicle_sensor)
        expected, found = cpu(scan), accelerated(scan)
        np.testing.assert_array_equal(found.label, expected.label)
        for name in ("count", "mean", "variance", "lowest", "highest", "ground"):
            np.testing.assert_array_equal(getattr(found.cells, name), getattr(expected.cells, name), err_msg=name)


@pytest.mark.parametrize("method", ["stcrf", "variance"])
def test_empty_and_hopeless_scans(device, method):
    accelerated = GroundFilter(Config.parse({"ground": {"method": method}}), device)
    mounting = Pose.from_euler(z=HEIGHT)
    for points in (np.zeros((0, 3), np.float32), np.zeros((7, 3), np.float32), np.full((5, 3), np.nan, np.float32)):
        frame = accelerated(Scan(points, T_vehicle_sensor=mounting))
        assert frame.label.shape == (len(points),)
        assert np.all(frame.label == Label.UNKNOWN)


def test_too_many_points_are_refused_and_the_next_scan_works(device):
    config = Config.preset("paper")
    engine = StcrfDevice(device, config)
    scan = engines.given(config, hilly_scan().points)
    before = engine.frame(scan)
    with pytest.raises(DeviceError, match="points need"):
        engine.frame(replace(scan, points=np.broadcast_to(np.float32(1), (2**33, 3))))
    np.testing.assert_array_equal(engine.frame(scan).label, before.label)


def test_cells_that_move_stay_out_of_the_ground(device):
    from roadbed.core.geometry import Grid

    cells = Grid.centred(40, 40, 0.4)
    mask = np.zeros(cells.shape, bool)
    mask[40:60, 60:80] = True
    config = Config.preset("default")
    cpu, accelerated = GroundFilter(config), GroundFilter(config, device)
    scan = alone(hilly_scan())
    assert_alike(accelerated(scan, moving=(cells, mask)), cpu(scan, moving=(cells, mask)), config)


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize("preset", ["paper", "default"])
def test_batches_keep_order_and_agree_with_single_scans(device, preset):
    config = Config.preset(preset)
    accelerated = GroundFilter(config, device)
    scans = [alone(hilly_scan(seed, points)) for seed, points in enumerate((4000, 9000, 1, 6000, 5000, 300, 12_000))]
    scans.insert(5, hilly_scan(9, 3000))
    cpu = GroundFilter(config)
    frames = list(accelerated.batch(iter(scans)))
    assert [frame.scan for frame in frames] == scans
    for frame, scan in zip(frames, scans):
        if scan.T_world_sensor is None:
            assert_alike(frame, cpu(scan), config)
        assert len(frame.label) == len(scan)


@pytest.mark.usefixtures("unprobed")
def test_labels_alone_are_the_same_labels(device):
    """Results that are not among the fields are empty, in a batch and alone; the occupancy says that it needs them."""
    config, scans = Config.preset("paper"), [alone(hilly_scan(seed, 5000)) for seed in range(3)]
    everything, labels = GroundFilter(config, device), GroundFilter(config, device, fields=())
    expected = list(everything.batch(scans))
    for frame, full in zip([*labels.batch(scans), labels(scans[2])], [*expected, expected[2]]):
        np.testing.assert_array_equal(frame.label, full.label)
        assert frame.elevation.shape == frame.variance.shape == (0, 0)
        assert frame.ground_probability.size == frame.height_above_ground.size == frame.slope.size == 0
    assert np.isfinite(GroundFilter(config, device, fields=["surface"])(scans[0]).elevation).any()
    with pytest.raises(InputError, match="height_above_ground and surface"):
        OccupancyFilter(config)(scans[2], frame)


@pytest.mark.parametrize("without", [(), ("slope_aware_start",)])
def test_the_coarse_start_is_the_same_in_one_launch_and_in_many(device, without):
    """Groups that wait for each other take what was told in this frame, whatever lies there of the frames before."""
    config = Config.parse({"ground": {"without": without}})
    together, launched = StcrfDevice(device, config), StcrfDevice(device, config)
    assert bool(together._graphs._coarse._groups) == (device.device.backend == "cuda")
    launched._graphs._coarse._groups = 0
    scans = [hilly_scan(seed, 20_000, x=40.0 * seed).points for seed in range(3)]
    for k in range(60 if device.device.backend == "cuda" else 3):
        given = engines.given(config, scans[k % 3] + np.float32([0, 0, HEIGHT]))
        found, expected = (engine.frame(given) for engine in (together, launched))
        np.testing.assert_allclose(found.elevation, expected.elevation, rtol=0, atol=2e-5)
        assert np.count_nonzero(found.label != expected.label) <= 2  # rounding at a threshold


def test_profile_has_the_phases_of_the_method(device):
    kernels = ["assign", "group_cells", "scatter", "reduce", "classify", "label_points"]  # the report's timing rows
    steps = ["sort", "describe", "classify", "label_points"]  # the report's CPU steps
    variance = Config.parse({"ground": {"method": "variance"}})
    assert list(GroundFilter(variance, device).profile(alone(hilly_scan()))) == ["upload", *kernels, "download"]
    assert list(GroundFilter(variance).profile(alone(hilly_scan()))) == steps
    assert "iterate" in GroundFilter(Config(), device).profile(alone(hilly_scan()))


def arrays_read_in_place(device, points):
    """The points in the runtime's host memory, and on the GPU where arrays can live there; then one of those whose
    owner is still far from filling it."""
    pinned = device.host_array(points.shape, points.dtype)
    pinned[:] = points
    yield pinned
    if device.device.backend == "cuda":
        import cupy

        there = cupy.asarray(points)
        yield there
        late = cupy.zeros_like(there)
        cupy.RawKernel(DELAY, "delay")((1,), (1,), (np.int64(20_000_000),))
        late[:] = there
        yield late


@pytest.mark.parametrize("method", ["stcrf", "variance"])
def test_arrays_in_host_or_gpu_memory_give_the_same_labels(device, method):
    mounting = {"height": HEIGHT, "pitch": 0, "roll": 0}
    config = Config.parse({"ground": {"method": method, "mounting": mounting}})
    accelerated = GroundFilter(config, device)
    points = alone(hilly_scan()).points
    expected = accelerated(points)
    for array in arrays_read_in_place(device, points):
        assert np.count_nonzero(accelerated(array).label != expected.label) <= len(points) / 10_000


def test_real_scans_agree_with_the_cpu(device, real_data):
    files = sorted((real_data / "semantickitti" / "08-singles" / "velodyne").glob("*.bin"))[:1]
    assert files
    for preset in ("paper", "default"):
        config = Config.preset(preset)
        cpu, accelerated = GroundFilter(config), GroundFilter(config, device)
        for file in files:
            points = np.fromfile(file, np.float32).reshape(-1, 4)[:, :3]
            scan = Scan(points, T_vehicle_sensor=Pose.from_euler(z=HEIGHT))
            assert_alike(accelerated(scan), cpu(scan), config)


def test_results_can_stay_on_the_device(device):
    config = Config.preset("default")
    if device.device.backend != "cuda":
        with pytest.raises(DeviceError, match="needs the method stcrf and the backend cuda"):
            GroundFilter(config, device, outputs="device")
        return
    import cupy

    scans = [alone(hilly_scan(seed, points)) for seed, points in ((0, 20_000), (1, 5_001))]
    stays, comes = GroundFilter(config, device, outputs="device"), GroundFilter(config, device)
    frames = [stays(replace(scan, points=cupy.asarray(scan.points))) for scan in scans]
    for frame, scan in zip(frames, scans):
        expected = comes(scan)
        assert isinstance(frame.label, cupy.ndarray)
        assert isinstance(frame.scan.points, cupy.ndarray)
        found = cupy.asnumpy(frame.label)
        assert found.shape == expected.label.shape
        assert np.count_nonzero(found != expected.label) <= len(scan) / 1000
        np.testing.assert_allclose(cupy.asnumpy(frame.elevation), expected.elevation, atol=1e-3)
