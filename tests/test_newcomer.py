# SPDX-License-Identifier: Apache-2.0
"""The first hour of a newcomer, command by command: demo, own scan, own bag, configuration, viewer."""

import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.request

import numpy as np
import pytest
from PIL import Image

import roadbed
from roadbed import Pose, Scan
from roadbed.outputs.pcd import write_pcd
from tests.children import child
from tests.cli.process import roadbed as command
from tests.sources.bags.bag_files import POINT_STEP, Messages, write_bag


def street(x=0.0):
    """A road 1.7 m under the sensor and a wall to its left, from `x` metres along it."""
    rng = np.random.default_rng(3)
    road = np.column_stack([rng.uniform(-20, 20, (9000, 2)), rng.normal(-1.7, 0.01, 9000)])
    wall = np.column_stack([rng.uniform(-20, 20, 3000) - x, np.full(3000, 6.0), rng.uniform(-1.6, 1, 3000)])
    return np.vstack([road, wall]).astype(np.float32)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """An empty folder in which everything happens, as a newcomer would do it."""
    return tmp_path_factory.mktemp("newcomer")


def done(*arguments, cwd):
    out = command(*arguments, cwd=cwd)
    assert out.returncode == 0, out.stderr
    return out.stdout


def test_1_the_demo_ends_with_an_image_and_the_next_commands(place):
    text = done("demo", "--frames", "2", "-o", "out", cwd=place)
    picture = place / re.search(r"look at +(\S+)", text).group(1)
    assert Image.open(picture).width > 2000
    assert (place / re.search(r"read +(\S+)", text).group(1)).stat().st_size > 100_000
    printed = re.findall(r"^  (\S*roadbed \w+ .+)$", text, re.M)
    assert [line.split()[1] for line in printed] == ["segment", "run"]
    if shutil.which(printed[0].split()[0]):  # the program is installed: its commands work as they are printed
        for line in printed:
            ran = subprocess.run(line, shell=True, cwd=place, capture_output=True, text=True, timeout=900)
            assert ran.returncode == 0, ran.stderr
        assert (place / "labelled" / "ground.pcd").exists()
        assert (place / "results" / "report.html").exists()
        shutil.rmtree(place / "labelled")
        shutil.rmtree(place / "results")
    assert re.search(r"-m pip install -e '.*\[io,view\]'", text)


def test_2_a_scan_of_ones_own(place):
    write_pcd(place / "scan.pcd", Scan(street()))
    text = done("segment", "scan.pcd", "-o", "labelled", cwd=place)
    assert "wrote labelled/ground.pcd" in text
    ground, rest = (roadbed.open(place / "labelled" / f"{name}.pcd")[0] for name in ("ground", "nonground"))
    assert len(ground) + len(rest) == 12000
    assert len(ground) == pytest.approx(9000, rel=0.05)


def test_3_a_bag_of_ones_own(place):
    """Written by a ROS library, read without ROS, with odometry."""
    messages = Messages(ros1=True)
    records = []
    for frame in range(3):
        points = street(0.5 * frame)
        rows = np.zeros((len(points), POINT_STEP), np.uint8)
        rows[:, :12] = points.view(np.uint8).reshape(len(points), 12)
        time = 10 + 0.1 * frame
        records.append(("/points", time, messages.cloud(time, rows.tobytes(), len(points))))
        records.append(("/odom", time, messages.odometry(time, 0.5 * frame)))
    write_bag(place, "ros1", messages, records)
    facts = json.loads(done("run", "drive.bag", "-o", "results", "--json", cwd=place))
    assert facts["frames"] == 3
    assert len(list((place / "results" / "labels").iterdir())) == 3
    assert (place / "results" / "report.html").exists()


def test_4_a_configuration(place):
    (place / "mine.yaml").write_text(done("config", "show", cwd=place))
    assert "valid" in done("config", "check", "mine.yaml", cwd=place)
    (place / "small.yaml").write_text("ground: {mounting: {height: 1.7}, stcrf: {length: 40, width: 40}}\n")
    text = done("segment", "scan.pcd", "--config", "small.yaml", "-o", "labelled", "--force", "--json", cwd=place)
    assert json.loads(text)["mounting_height_m"] == pytest.approx(1.7)
    (place / "wrong.yaml").write_text("ground: {stcrf: {lenght: 40}}\n")
    refused = command("config", "check", "wrong.yaml", cwd=place)
    assert refused.returncode == 2
    assert "did you mean length?" in refused.stderr


def test_5_the_viewer(place):
    arguments = ["view", "scan.pcd", "--port", "0", "--no-occupancy"]
    with child(sys.executable, "-m", "roadbed", *arguments, cwd=place, stderr=subprocess.STDOUT) as process:
        address = next(found.group(1) for line in process.stdout if (found := re.search(r"viewer at (\S+)", line)))
        page = urllib.request.urlopen(address, timeout=60).read()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert b"<html" in page.lower()
    assert process.returncode in (0, 130)


def test_the_same_in_python():
    points = street()
    frame = roadbed.GroundFilter()(points)
    assert frame.is_ground[:9000].mean() > 0.95
    assert isinstance(frame.mounting.T_vehicle_sensor, Pose)
