# SPDX-License-Identifier: Apache-2.0
"""Poses from elsewhere: estimated from the scans, from files, or none; wrong files are refused in one line."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from roadbed import open as open_source
from roadbed.cli.options import Request
from roadbed.core.errors import InputError, RoadbedError
from roadbed.sources.odometry import describe_odometry, with_odometry

PLACE = "sim:city?sensor=vlp16&frames=8"


@pytest.fixture(scope="module")
def source():
    return open_source(PLACE)


def length(poses):
    return sum(a.distance_to(b) for a, b in pairwise(poses))


def test_kiss_icp_follows_the_sequence(source):
    estimated = with_odometry(source, "kiss-icp")
    poses = [scan.T_world_sensor for scan in estimated]
    true = [source.truth(k).T_world_sensor for k in range(len(source))]
    assert length(poses[3:]) == pytest.approx(length(true[3:]), rel=0.1)  # it starts without knowing the speed
    moved = true[3] @ poses[3].inverse() @ poses[-1]
    assert moved.distance_to(true[-1]) < 0.3
    assert poses[0].is_identity
    assert estimated[2].T_world_sensor is poses[2]  # known already
    assert estimated.truth(1).time == source.truth(1).time


def test_kiss_icp_wants_scans_in_order(source):
    class Backwards(type(source)):
        def __init__(self):
            self.location, self.path, self.options = "x", "x", {}

        def __len__(self):
            return 2

        def __getitem__(self, index):
            return replace(source[0], time=[1.0, 0.5][index])

    with pytest.raises(InputError, match=r"-0\.500 s after the one before"):
        list(with_odometry(Backwards(), "kiss-icp"))


def write_tum(path, times, x=1.0):
    path.write_text("".join(f"{t} {x * k} 0 0 0 0 0 1\n" for k, t in enumerate(times)))
    return str(path)


def test_files_of_poses(source, tmp_path):
    tum = write_tum(tmp_path / "a.tum", [scan.time for scan in source])
    for k, scan in enumerate(with_odometry(source, tum)):
        assert scan.T_world_sensor.translation[0] == pytest.approx(k)
    row = "1 0 0 {} 0 1 0 0 0 0 1 0\n"
    (tmp_path / "kitti.txt").write_text("".join(row.format(2 * k) for k in range(8)))
    kitti = with_odometry(source, str(tmp_path / "kitti.txt"))
    assert kitti[3].T_world_sensor.translation[0] == 6
    part = Request(PLACE, odometry=str(tmp_path / "kitti.txt"), start=2).scans(2)
    assert [scan.T_world_sensor.translation[0] for scan in part] == [4, 6]


def test_none_and_what_the_screen_says(source):
    alone = with_odometry(source, "none")
    assert all(scan.T_world_sensor is None for scan in alone)
    assert alone[1].T_world_sensor is None
    assert describe_odometry(source, None) == "poses of the source"
    assert "kiss-icp estimates it" in describe_odometry(alone, None)
    assert "from the scans" in describe_odometry(source, "kiss-icp")


def test_files_that_do_not_belong_to_the_scans(source, tmp_path):
    (tmp_path / "kitti.txt").write_text("1 0 0 0 0 1 0 0 0 0 1 0\n" * 5)
    with pytest.raises(InputError, match="found 5, expected 8"):
        with_odometry(source, str(tmp_path / "kitti.txt"))
    late = write_tum(tmp_path / "late.tum", np.arange(6) + 1e9)
    with pytest.raises(InputError, match=r"expected the clock of the scans, 0\.000 to 0\.700 s"):
        with_odometry(source, late)
    with pytest.raises(InputError, match="expected kiss-icp, none, a file"):
        with_odometry(source, "kissicp")
    with pytest.raises(RoadbedError, match="odometry"):
        Request(PLACE, odometry="/odom").scans()
