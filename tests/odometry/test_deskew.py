# SPDX-License-Identifier: Apache-2.0
"""Motion distortion: points come to lie where a sensor at rest would have seen them."""

import numpy as np
import pytest
from scipy.linalg import expm

from roadbed import Pose, Scan
from roadbed import open as open_source
from roadbed.odometry.deskew import Motion, deskew
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.odometry import Deskewed


def test_points_seen_from_a_moving_sensor_are_brought_to_one_instant():
    """A sensor that drives a bend: each point is seen from the pose of its own time."""
    random = np.random.default_rng(0)
    world = random.uniform(-30, 30, (500, 3))
    turn, sequence = np.array([0.05, 0.1, 1.0]), np.array([12.0, 0.5, 0.2])  # rad/s and m/s along the sensor's axes

    def pose(t):
        twist = np.zeros((4, 4))
        twist[:3, :3], twist[:3, 3] = np.cross(np.eye(3), -turn), sequence
        return Pose.from_matrix(expm(twist * t))

    times = random.uniform(-0.05, 0.05, 500)
    seen = np.array([pose(t).inverse() @ p for t, p in zip(times, world)])
    motion = Motion.over(pose(-0.1).inverse(), 0.1)
    scan = Scan(seen.astype(np.float32), time=5.0, point_time=times)
    still = deskew(scan, motion)
    assert np.abs(seen - world).max() > 1.0
    assert np.abs(still.points - world).max() < 0.002
    assert still.point_time is None
    np.testing.assert_array_equal(still.channels["deskewed_time"], times)
    again = scan_from_fields(dict(zip("xyz", still.points.T)) | still.all_channels(), "a file or bag of it")
    for same in (still, again):
        assert deskew(same, motion) is same  # not twice


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
def sequences():
    """The same short highway sequence, distorted and not."""
    return {
        kind: open_source(f"sim:highway?sensor=vlp16&frames=4&noise=0&density=1&distortion={kind}")
        for kind in ("on", "off")
    }


def test_the_simulator_proves_the_gain(sequences):
    """At 25 m/s a sweep is 2.5 m long: points land 16 times nearer to where their rays truly ended."""
    source = Deskewed(sequences["on"])
    errors = {"raw": [], "deskewed": []}
    for index, scan in enumerate(source):
        truth = sequences["on"].truth(index)
        standing = (np.linalg.norm(truth.velocity, axis=1) < 0.1) & ~truth.spurious
        for name, points in (("raw", sequences["on"][index].points), ("deskewed", scan.points)):
            found = truth.T_world_sensor @ points.astype(np.float64)
            errors[name].append(np.linalg.norm(found - truth.points_world, axis=1)[standing])
        np.testing.assert_array_equal(source[index].points, scan.points)  # by number and one by one alike
    raw, deskewed = (np.sqrt(np.mean(np.concatenate(errors[name]) ** 2)) for name in ("raw", "deskewed"))
    assert raw > 0.4
    assert deskewed < raw / 10


def test_a_scan_without_distortion_is_left_alone(sequences):
    for scan, given in zip(Deskewed(sequences["off"]), sequences["off"]):
        np.testing.assert_array_equal(scan.points, given.points)


def test_a_live_source_is_not_waited_for(sequences):
    """Each scan comes out before the next is asked for, and what the source offers stays within reach."""
    asked = []

    class Live(type(sequences["on"])):
        def __init__(self):
            self.location, self.path, self.options = "live", "live", {}
            self.address = "udp:2368"

        def __iter__(self):
            for index in range(3):
                asked.append(index)
                yield sequences["on"][index]

    source = Deskewed(Live(), ahead=False)
    assert source.address == "udp:2368"
    for number, scan in enumerate(source):
        assert asked == list(range(number + 1))
        assert (scan.point_time is None) == (number > 0)  # the first has no motion yet
