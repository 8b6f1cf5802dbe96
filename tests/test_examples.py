# SPDX-License-Identifier: Apache-2.0
"""The examples run as they stand and say something true."""

import re
import subprocess
import sys

from tests.conftest import ROOT


def run(name):
    out = subprocess.run([sys.executable, ROOT / "examples" / name], capture_output=True, text=True, timeout=900)
    assert out.returncode == 0, out.stderr
    return out.stdout


def test_ground_finds_ground_in_every_scan():
    shares = [int(share) for share in re.findall(r"(\d+)% ground", run("ground.py"))]
    assert len(shares) == 5
    assert all(20 < share < 100 for share in shares)


def test_moving_objects_on_the_highway_are_fast():
    speeds = [float(speed) for speed in re.findall(r"([\d.]+) m/s", run("moving_objects.py"))]
    assert len(speeds) > 3
    assert max(speeds) > 12


def test_the_ground_of_an_own_scene_is_found():
    shares = [float(share) for share in re.findall(r"([\d.]+)% labelled", run("own_scene.py"))]
    assert len(shares) == 3
    assert all(share > 90 for share in shares)


def test_a_source_of_ones_own_reads_its_file_with_its_option():
    assert run("own_source.py").strip() == "100 points, intensity 2"
