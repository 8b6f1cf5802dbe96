# SPDX-License-Identifier: Apache-2.0
"""Drives as sources: the same bytes on any thread count and in any order, options that do what they say."""

from collections.abc import Iterator

import numba
import numpy as np
import pytest

import roadbed
from roadbed.core.errors import ConfigError, RoadbedError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.simulate.caster import _detection_chance
from roadbed.simulate.motion import Fixed
from roadbed.simulate.objects import box
from roadbed.simulate.scenes import build_scene
from roadbed.simulate.sensors import load_rig
from roadbed.simulate.sequence import SimulatedSequence
from roadbed.simulate.terrain import Terrain
from roadbed.simulate.world import Scene
from roadbed.sources.odometry import Deskewed
from roadbed.sources.simulator import SimulatorSource


def same(first: Scan, second: Scan) -> bool:
    channels = second.all_channels()
    return first.points.tobytes() == second.points.tobytes() and all(
        values.tobytes() == channels[name].tobytes() for name, values in first.all_channels().items()
    )


@pytest.fixture
def threads() -> Iterator[None]:
    before = numba.get_num_threads()
    yield
    numba.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one core only")
def test_thread_count_changes_nothing() -> None:
    source = roadbed.open("sim:city?sensor=vlp16&frames=3&multipath=0.01&distortion=on")
    scans = []
    for count in (1, 2):
        numba.set_num_threads(count)
        scans.append(source.sequence.frame(2)[0])
    assert same(*scans)


@pytest.mark.parametrize("odometry", ["exact", "drift+noise"])
def test_a_frame_does_not_depend_on_the_others(odometry: str) -> None:
    address = f"sim:parking?sensor=lux4&odometry={odometry}"
    in_order = roadbed.open(f"{address}&frames=8")
    expected = [in_order[index] for index in range(8)]
    alone = roadbed.open(f"{address}&frames=12")
    for index in (6, 2):
        scan = alone[index]
        assert same(scan, expected[index])
        np.testing.assert_array_equal(scan.T_world_sensor.matrix, expected[index].T_world_sensor.matrix)
    assert same(in_order[-1], expected[7])


def test_seeds_differ() -> None:
    first, second = (roadbed.open(f"sim:city?sensor=vlp16&frames=1&seed={seed}")[0] for seed in (1, 2))
    assert not same(first, second)
    assert same(first, roadbed.open("sim:city?sensor=vlp16&frames=1&seed=1")[0])


def test_a_rig_arrives_merged_in_the_vehicle_frame() -> None:
    scan = roadbed.open("sim:city?sensor=lux4&frames=2")[1]
    assert [mount.name for mount in scan.mounts] == ["lux_left", "lux_middle", "lux_right", "lux_rear"]
    assert 1500 < len(scan) <= 2560
    assert scan.time == pytest.approx(0.04)
    np.testing.assert_array_equal(scan.T_vehicle_sensor.matrix, np.eye(4))
    rear = scan.points[scan.split()[3][1]]
    assert (rear[:, 0] < -2.0).all()


def test_mounting_can_be_kept_secret_and_odometry_left_out() -> None:
    scan = roadbed.open("sim:highway?sensor=vlp16&frames=1&mounting=unknown&odometry=none&height=2.4&pitch=3")[0]
    assert scan.T_vehicle_sensor is None
    assert scan.T_world_sensor is None
    near = scan.points[(np.linalg.norm(scan.points[:, :2], axis=1) < 12) & ((scan.classes & 0xFFFF) == 40)]
    design = np.column_stack([near[:, :2], np.ones(len(near))])
    slope_x, _, level = np.linalg.lstsq(design, near[:, 2], rcond=None)[0]
    assert level == pytest.approx(-2.4, abs=0.15)
    assert slope_x == pytest.approx(np.tan(np.radians(3)), abs=0.01)  # nose down: the ground rises ahead


def test_noise_is_what_was_asked_for() -> None:
    quiet, noisy = (roadbed.open(f"sim:parking?sensor=vlp16&frames=1&noise={noise}") for noise in (0, 0.05))
    difference = np.linalg.norm(noisy[0].points, axis=1) - np.linalg.norm(quiet[0].points, axis=1)
    assert len(difference) > 5000
    assert difference.std() == pytest.approx(0.05, rel=0.05)
    assert abs(difference.mean()) < 0.003


def test_echoes_are_lost_with_range_and_incidence() -> None:
    complete, lossy = (roadbed.open(f"sim:lowobstacles?sensor=hdl64e&frames=1&losses={on}")[0] for on in ("off", "on"))
    distances = [np.linalg.norm(scan.points, axis=1) for scan in (complete, lossy)]
    kept = [(distances[1] > low).sum() / (distances[0] > low).sum() for low in (0.0, 30.0, 60.0)]
    assert kept[0] > kept[1] > kept[2]
    near = (distances[1] < 10).sum() / (distances[0] < 10).sum()
    assert near > 0.97
    # At one range a wall that is looked at squarely answers more often than the road at a grazing angle.
    square, grazing = (_detection_chance.py_func(0.1, cosine, 60.0, 60.0) for cosine in (1.0, 0.04))
    assert square == pytest.approx(0.9)
    assert grazing == pytest.approx(1 - 10**-0.2)


def test_a_surface_answers_weaker_the_flatter_it_is_met() -> None:
    scene = Scene("bare", Terrain(), (), Fixed(0.0, 0.0), 1.0)
    rig = load_rig("vlp16").changed(range_noise=0.0, angle_noise=0.0)
    scan = SimulatorSource.of(SimulatedSequence(scene, rig, 1, losses=False))[0]
    cosine = -scan.points[:, 2] / np.linalg.norm(scan.points, axis=1)
    assert np.ptp(cosine) > 0.2
    np.testing.assert_allclose(scan.intensity, 0.25 * (0.3 + 0.7 * cosine), atol=1e-4)


class Circle:
    """Twelve metres a second on a circle of twenty metres."""

    moves = True

    def at(self, terrain: Terrain, time: float) -> tuple[float, float, float]:
        angle = 0.6 * time
        return 20 * np.sin(angle), 20 * (1 - np.cos(angle)), angle


def test_a_sensor_far_from_the_vehicles_middle_swings_in_a_turn() -> None:
    """Each point was measured from where the sensor was at its own time, four metres ahead of the rear axle."""
    scene = Scene("turn", Terrain(), (), Circle(), 1.0)
    rig = load_rig("vlp16").changed(range_noise=0.0, angle_noise=0.0, mount={"x": 4.0})
    source = SimulatorSource.of(SimulatedSequence(scene, rig, 2, distortion=True, losses=False))
    scan, truth = source[1], source.truth(1)
    mount = rig.sensors[0].mount.T_vehicle_sensor
    for lag in np.unique(scan.point_time)[::200]:
        bodies = scene.vehicle([truth.time + lag])
        chosen = scan.point_time == lag
        pose = Pose(bodies.rotation[0], bodies.translation[0]) @ mount
        np.testing.assert_allclose(pose @ scan.points[chosen].astype(float), truth.points_world[chosen], atol=0.02)


def test_multipath_returns_lie_below_the_ground_at_the_chosen_rate() -> None:
    source = roadbed.open("sim:city?sensor=hdl32e&frames=1&multipath=0.02&noise=0")
    scan, truth = source[0], source.truth(0)
    points_world = truth.T_world_sensor @ scan.points.astype(np.float64)
    below = truth.terrain.height(points_world[:, 0], points_world[:, 1]) - points_world[:, 2]
    assert (below[truth.spurious] > 0.15).all()
    assert (below[~truth.spurious] < 0.01).all()
    assert ((scan.classes[truth.spurious] & 0xFFFF) == 1).all()
    share = truth.spurious.sum() / (truth.spurious | truth.is_ground).sum()
    assert 0.01 < share <= 0.025  # near-level beams would appear out of range, so a few less than asked
    assert roadbed.open("sim:city?sensor=vlp16&frames=1").truth(0).spurious.sum() == 0


def test_distortion_is_undone_by_the_point_times() -> None:
    source = roadbed.open("sim:highway?sensor=vlp16&frames=3&distortion=on&noise=0")
    scan, truth = source[2], source.truth(2)
    assert np.ptp(scan.point_time) > 0.09
    drive = source.sequence
    T_vehicle_sensor = drive.rig.sensors[0].mount.T_vehicle_sensor
    still = truth.is_ground
    raw = truth.T_world_sensor @ scan.points.astype(np.float64)
    wrong = np.linalg.norm(raw - truth.points_world, axis=1)[still]
    assert wrong.max() > 1.0  # 25 m/s for up to 50 ms
    poses = {}
    corrected = np.empty_like(raw)
    for index, lag in enumerate(scan.point_time):
        if lag not in poses:
            bodies = drive.scene.vehicle([truth.time + lag])
            poses[lag] = Pose(bodies.rotation[0], bodies.translation[0]) @ T_vehicle_sensor
        corrected[index] = poses[lag].rotation @ scan.points[index] + poses[lag].translation
    assert np.linalg.norm(corrected - truth.points_world, axis=1)[still].max() < 0.02
    assert roadbed.open("sim:highway?sensor=vlp16&frames=3")[2].point_time is None


def test_a_scan_is_cast_once_for_its_points_and_its_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where deskewing reads the next scan before the truth of this one is asked for."""
    source, cast = roadbed.open("sim:city?sensor=vlp16&frames=4"), []
    frame = SimulatedSequence.frame
    monkeypatch.setattr(SimulatedSequence, "frame", lambda self, index: cast.append(index) or frame(self, index))
    for index, _ in enumerate(Deskewed(source)):
        source.truth(index)
    assert cast == [0, 1, 2, 3]


def test_exact_odometry_and_drift() -> None:
    source = roadbed.open("sim:city?sensor=vlp16&frames=200")
    drive = source.sequence
    drifting = roadbed.open("sim:city?sensor=vlp16&frames=200&odometry=drift").sequence
    errors = [
        measured.distance_to(true)
        for measured, true in zip(drifting._measured_poses, drifting._true_poses, strict=True)
    ]
    assert errors[0] == 0.0
    assert 0.05 < errors[-1] < 5.0  # after 160 m
    assert all(a is b for a, b in zip(drive._measured_poses, drive._true_poses, strict=True))
    steps = np.linalg.norm(np.diff([pose.translation for pose in drive._true_poses], axis=0), axis=1)
    np.testing.assert_allclose(steps, 0.8, rtol=0.01)  # 8 m/s at 10 Hz


def test_the_vehicle_follows_the_road_with_pitch_and_roll() -> None:
    drive = roadbed.open("sim:mountain?sensor=vlp16&frames=300").sequence
    pitch = np.array([pose.pitch for pose in drive._true_poses])
    roll = np.array([pose.roll for pose in drive._true_poses])
    assert np.ptp(np.degrees(pitch)) > 5.0
    assert np.ptp(np.degrees(roll)) > 2.0
    x, y, z = np.array([pose.translation for pose in drive._true_poses]).T
    np.testing.assert_allclose(z, drive.scene.terrain.height(x, y), atol=0.05)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("sim:town", "city, mountain, highway, parking, offroad"),
        ("sim:city?sensor=radar", "hdl64e"),
        ("sim:city?frames=0", "greater than 0"),
        ("sim:city?frames=100000", "expected 1 to 600"),
        ("sim:city?frames=ten", "integer"),
        ("sim:city?density=-1", "greater than or equal to 0"),
        ("sim:city?multipath=2", "less than or equal to 1"),
        ("sim:city?height=-1", "greater than 0"),
        ("sim:city?noise=-0.1", "greater than or equal to 0"),
        ("sim:city?odometry=perfect", "exact"),
        ("sim:city?colour=red", "expected one of sensor"),
        ("sim:city?sensor=lux4&mounting=unknown", "single sensor"),
        ("sim:city?sensor=lux4&height=2", "single sensor"),
    ],
)
def test_bad_descriptions_show_what_is_allowed(address: str, expected: str) -> None:
    with pytest.raises(RoadbedError, match=expected):
        roadbed.open(address)


def test_a_sensor_below_the_ground_is_refused() -> None:
    scene = build_scene("parking")
    # The car park on the right lies lower, the kerb on the left higher than the road.
    rig = load_rig("vlp16").changed(mount={"y": 4.0, "z": 0.05})
    with pytest.raises(ConfigError, match="above the ground"):
        SimulatedSequence(scene, rig, 1)


@pytest.mark.parametrize("density", [-0.5, 0.0])
def test_a_part_needs_a_positive_density(density: float) -> None:
    with pytest.raises(ConfigError, match="above 0"):
        box(0.0, 0.0, 0.0, 1.0, 1.0, 1.0, density=density)


def test_an_empty_scene_of_ones_own() -> None:
    scene = Scene("bare", Terrain(), (), Fixed(0.0, 0.0), 1.0)
    source = SimulatorSource.of(SimulatedSequence(scene, load_rig("vlp16"), 1))
    assert len(source) == 1
    scan, truth = source[0], source.truth(0)
    assert truth.is_ground.all()
    np.testing.assert_allclose(scan.points[:, 2], -1.8, atol=0.1)
