# SPDX-License-Identifier: Apache-2.0
"""Motion distortion: points come to lie where a sensor at rest would have seen them."""

import numpy as np
import pytest

from roadbed import GroundFilter, Pose, Scan
from roadbed import open as open_source
from roadbed.geometry import interpolate
from roadbed.odometry.deskew import Motion, deskew
from roadbed.sources.odometry import Deskewed


def test_points_seen_from_a_moving_sensor_are_brought_to_one_instant():
    """A sensor that drives a bend: each point is seen from the pose of its own time."""
    random = np.random.default_rng(0)
    world = random.uniform(-30, 30, (500, 3))
    before, now = Pose.from_euler(), Pose.from_euler(1.2, 0.1, 0.02, yaw=0.1, pitch=0.01)
    later = now @ before.inverse() @ now
    times = random.uniform(-0.05, 0.05, 500)
    seen = np.array(
        [
            (interpolate(now, later, t / 0.1) if t > 0 else interpolate(before, now, 1 + t / 0.1)).inverse() @ p
            for t, p in zip(times, world)
        ]
    )
    motion = Motion.over(before.inverse() @ now, 0.1)
    scan = Scan(seen.astype(np.float32), time=5.0, point_time=times)
    still = deskew(scan, motion)
    expected = now.inverse() @ world
    assert np.abs(seen - expected).max() > 0.5
    assert np.abs(still.points - expected).max() < 0.02
    assert still.point_time is None
    np.testing.assert_array_equal(still.channels["time"], times)
    assert deskew(still, motion) is still  # not twice


def test_what_is_not_known_is_not_corrected():
    scan = Scan(np.ones((3, 3), np.float32), time=1.0, point_time=np.array([0.0, np.nan, 0.1]))
    assert deskew(scan, None) is scan
    moved = deskew(scan, Motion(np.array([10.0, 0, 0]), np.zeros(3)))
    np.testing.assert_allclose(moved.points[:, 0], [1, 1, 2])  # a point without a time stays
    posed = scan.at(Pose.identity())
    assert Motion.between(posed, scan) is None
    assert Motion.between(posed, posed.at(Pose.from_euler(1.0), 9.0)) is None  # too long ago to tell
    assert Motion.between(None, posed) is None


@pytest.fixture(scope="module")
def drives():
    """The same short highway drive, distorted and not."""
    return {
        kind: open_source(f"sim:highway?sensor=vlp16&frames=4&noise=0&density=1&distortion={kind}")
        for kind in ("on", "off")
    }


def test_the_simulator_proves_the_gain(drives):
    """At 25 m/s a sweep is 2.5 m long: points land 16 times nearer to where their rays truly ended."""
    source = Deskewed(drives["on"])
    errors = {"raw": [], "deskewed": []}
    for index, scan in enumerate(source):
        truth = drives["on"].truth(index)
        standing = (np.linalg.norm(truth.velocity, axis=1) < 0.1) & ~truth.spurious
        for name, points in (("raw", drives["on"][index].points), ("deskewed", scan.points)):
            found = truth.T_world_sensor @ points.astype(np.float64)
            errors[name].append(np.linalg.norm(found - truth.points_world, axis=1)[standing])
        np.testing.assert_array_equal(source[index].points, scan.points)  # by number and one by one alike
    raw, deskewed = (np.sqrt(np.mean(np.concatenate(errors[name]) ** 2)) for name in ("raw", "deskewed"))
    assert raw > 0.4
    assert deskewed < raw / 10


def test_a_scan_without_distortion_is_left_alone(drives):
    for scan, given in zip(Deskewed(drives["off"]), drives["off"]):
        np.testing.assert_array_equal(scan.points, given.points)


def test_the_surface_gains_too(drives):
    def rms(source):
        ground = GroundFilter()
        found = []
        for index, scan in enumerate(source):
            frame = ground(scan)
            truth = drives["on"].truth(index).elevation(frame.lattice, frame.T_lattice_sensor)
            x, y = frame.lattice.mesh()
            near = np.hypot(*(axis - c for axis, c in zip((x, y), frame.T_lattice_sensor.translation))) < 40
            found.append((frame.elevation - truth)[near & np.isfinite(frame.elevation)])
        return float(np.sqrt(np.mean(np.concatenate(found) ** 2)))

    assert rms(Deskewed(drives["on"])) <= rms(drives["on"])
