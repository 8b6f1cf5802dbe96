# SPDX-License-Identifier: Apache-2.0
"""The examples run as they stand and say something true."""

import re
import runpy
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.fixture
def run(monkeypatch, capsys):
    """What an example prints, as a program of this process, whose kernels are loaded already."""

    def run(name):
        path = str(ROOT / "examples" / name)
        monkeypatch.setattr(sys, "argv", [path])
        runpy.run_path(path, run_name="__main__")
        return capsys.readouterr().out

    return run


def test_ground_finds_ground_in_every_scan(run):
    shares = [int(share) for share in re.findall(r"(\d+)% ground", run("ground.py"))]
    assert len(shares) == 5
    assert all(20 < share < 100 for share in shares)


def test_moving_objects_on_the_highway_are_fast(run):
    speeds = [float(speed) for speed in re.findall(r"([\d.]+) m/s", run("moving_objects.py"))]
    assert len(speeds) > 3
    assert max(speeds) > 12


def test_the_ground_of_an_own_scene_is_found(run):
    shares = [float(share) for share in re.findall(r"([\d.]+)% labelled", run("own_scene.py"))]
    assert len(shares) == 3
    assert all(share > 90 for share in shares)


def test_a_source_of_ones_own_reads_its_file_with_its_option():
    """In a process of its own: it registers a source."""
    command = [sys.executable, ROOT / "examples" / "own_source.py"]
    out = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert out.returncode == 0, out.stderr
    assert out.stdout.strip() == "100 points, intensity 2"
