# SPDX-License-Identifier: Apache-2.0
"""Files that other programs wrote hold the same scan, and every format has a file behind its tests."""

import re
from pathlib import Path

import numpy as np
import pytest

import roadbed

FILES = Path(__file__).parent / "files"
PAGE = Path(__file__).parents[2] / "docs/data.md"
CLOUDS = sorted(path.name for path in FILES.iterdir() if path.suffix not in (".py", ".md", ".osf", ""))


def listed() -> list[tuple[str, str, str]]:
    """Format, file and maker of every row of the list of files."""
    rows = re.findall(r"^\| `([\w-]+)` \| (.*) \| (.*) \|$", (FILES / "README.md").read_text(), re.MULTILINE)
    return [(name, file.strip("`"), maker) for name, file, maker in rows]


def documented() -> set[str]:
    """Formats of the page for users."""
    table = PAGE.read_text().partition("## Formats")[2].partition("## Options")[0]
    return {
        name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`([\w-]+)`", row)
    }


def test_every_format_and_every_file_is_listed(real_data):
    assert {name for name, _, _ in listed()} == documented()
    here = {file for _, file, _ in listed() if "." in file and not file.startswith("$")}
    assert here == {path.name for path in FILES.iterdir() if path.suffix not in (".py", ".md", "")}
    for _, file, maker in listed():
        assert maker
        if file.startswith("$DATA/"):
            assert (real_data / file.removeprefix("$DATA/")).exists(), file


@pytest.mark.parametrize("name", CLOUDS)
def test_files_of_other_programs_hold_the_same_scan(name):
    expected = np.loadtxt(FILES / "pcl_ascii.pcd", skiprows=11)
    source = roadbed.open(FILES / name)
    assert source.name == next(kind for kind, file, _ in listed() if file == name)
    for scan in source:
        np.testing.assert_allclose(scan.points, expected[:, :3], atol=2e-6)
        np.testing.assert_array_equal(scan.intensity, expected[:, 3])
        assert scan.diagnostics == ()
        if scan.ring is not None:
            np.testing.assert_array_equal(scan.ring, expected[:, 4])
    assert (source[0].ring is None) == name.startswith("cloudcompare")  # which keeps one scalar


@pytest.mark.parametrize(("name", "mounted"), [("ros1_rosbag.bag", True), ("mcap_ros2_support.mcap", False)])
def test_bags_of_other_programs_have_poses_and_mounting(name, mounted):
    source = roadbed.open(FILES / name)
    assert (len(source), source.sequential) == (3, True)
    assert [scan.time for scan in source] == pytest.approx([100, 100.1, 100.2])
    offset = [0.4, 0, 1.8] if mounted else [0, 0, 0]
    np.testing.assert_allclose(source[2].T_world_sensor.translation, np.add([1, 0, 0], offset))
    mounting = source[0].T_vehicle_sensor
    assert (mounting is not None) == mounted
    if mounted:
        np.testing.assert_allclose(mounting.translation, offset)
