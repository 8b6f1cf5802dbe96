# SPDX-License-Identifier: Apache-2.0
"""The first hour of a newcomer: the tutorial line by line, an own scan, an own bag, a configuration."""

import json
import os
import re
import shlex
import signal
import subprocess
import sysconfig
import urllib.request
import venv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import roadbed
from roadbed import Pose, Scan
from roadbed.cli import demo
from roadbed.outputs.pcd import write_pcd
from tests.children import child
from tests.cli.process import roadbed as command
from tests.conftest import ROOT
from tests.sources.bags.bag_files import POINT_STEP, Messages, write_bag

pytestmark = pytest.mark.long(75)


def street(x=0.0):
    """A road 1.7 m under the sensor and a wall to its left, from `x` metres along it."""
    rng = np.random.default_rng(3)
    road = np.column_stack([rng.uniform(-20, 20, (9000, 2)), rng.normal(-1.7, 0.01, 9000)])
    wall = np.column_stack([rng.uniform(-20, 20, 3000) - x, np.full(3000, 6.0), rng.uniform(-1.6, 1, 3000)])
    return np.vstack([road, wall]).astype(np.float32)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A checkout as the tutorial begins with, in which everything happens. Packages are lent by this environment, and
    Roadbed comes from the checkout of the tests, whose kernels are compiled."""
    folder = tmp_path_factory.mktemp("newcomer")
    for name in ("LICENSE", "Makefile", "README.md", "pyproject.toml", "src"):
        (folder / name).symlink_to(ROOT / name)
    venv.create(folder / ".venv", symlinks=True)
    (packages,) = folder.glob(".venv/lib/python*/site-packages")
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    write_pcd(folder / "scan.pcd", Scan(street()))
    return folder


def done(*arguments, cwd):
    out = command(*arguments, cwd=cwd)
    assert out.returncode == 0, out.stderr
    return out.stdout


def shell(line, place, activated=True):
    """The process of one line of a shell; pip finds all packages installed."""
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PYTHONPATH": str(ROOT / "src")}
    line = f"source .venv/bin/activate && {line}" if activated else line
    return child("bash", "-c", line, cwd=place, env={**os.environ, **offline}, stderr=subprocess.STDOUT)


def ran(line, place, activated=True):
    """What a line prints; it must succeed."""
    with shell(line, place, activated) as process:
        text = process.stdout.read()
        assert process.wait() == 0, f"{line}\n{text}"
    return text


def blocks(page):
    """Lines of shell, Python and YAML of a page of documentation, in order, as (language, text)."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$|^    (\S[^\n]*)$", page, re.M | re.S)
    return [(language or "shell", text or line) for language, text, line in found]


def test_1_the_tutorial_line_by_line(place):
    page = (ROOT / "docs" / "tutorial.md").read_text()
    activated, printed = False, {}
    for language, text in blocks(page):
        if language == "yaml":
            (place / re.search(r"Save this as `(\S+)`", page)[1]).write_text(text)
            continue
        if text == "source .venv/bin/activate":
            activated = True
        if text.startswith("roadbed view"):
            printed[text] = viewed(text, place)
            continue
        line = f"python -c {shlex.quote(text)}" if language == "python" else text
        printed[text] = ran(line, place, activated)
    for path in set(re.findall(r"`((?:out|labelled|results|compared)/[\w.-]*)`", page)) | {"results.gif"}:
        assert (place / path).exists(), path
    assert re.search(r"^\d+ labels .* differ$", printed["roadbed compare default mine.yaml drive -o compared"], re.M)
    assert "rule:" in printed["roadbed explain drive/velodyne/000000.bin --at 8 -2"]
    check_the_end_of_the_demo(printed["make demo"], place, printed)


def viewed(line, place):
    """Start a line that serves a page, load the page, press Ctrl+C."""
    with shell(f"exec {line.partition('#')[0]} --port 0", place) as process:  # 8080 may be taken
        address = next(found.group(1) for out in process.stdout if (found := re.search(r"viewer at (\S+)", out)))
        page = urllib.request.urlopen(address, timeout=60).read()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert b"<html" in page.lower()
    assert process.returncode in (0, 130)


def check_the_end_of_the_demo(text, place, lines):
    """It ends with an image, a report and commands; those are lines of the tutorial, so they work as printed."""
    picture = place / re.search(r"look at +(\S+)", text).group(1)
    assert Image.open(picture).width > 2000
    assert (place / re.search(r"read +(\S+)", text).group(1)).stat().st_size > 100_000
    printed = re.findall(r"^  (\S*roadbed) (\w+ .+)$", text, re.M)
    assert [command.split()[0] for _, command in printed] == ["simulate", "segment", "run", "view"]
    assert {program for program, _ in printed} == {str(place / ".venv" / "bin" / "roadbed")}
    assert {f"roadbed {command}" for _, command in printed} <= {line.partition("  #")[0].rstrip() for line in lines}


def test_without_its_extras_the_demo_names_them(monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    text = demo._next_steps(Path("out"))
    assert re.search(r"-m pip install -e '.*\[io,view\]'", text)
    assert "roadbed view" not in text


def test_2_a_scan_of_ones_own(place):
    text = done("segment", "scan.pcd", "-o", "own", cwd=place)
    assert "wrote own/ground.pcd" in text
    ground, rest = (roadbed.open(place / "own" / f"{name}.pcd")[0] for name in ("ground", "nonground"))
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
    facts = json.loads(done("run", "drive.bag", "-o", "bagged", "--json", cwd=place))
    assert facts["frames"] == 3
    assert len(list((place / "bagged" / "labels").iterdir())) == 3
    assert (place / "bagged" / "report.html").exists()


def test_4_a_configuration(place):
    (place / "small.yaml").write_text("ground: {mounting: {height: 1.7}, stcrf: {length: 40, width: 40}}\n")
    text = done("segment", "scan.pcd", "--config", "small.yaml", "-o", "small", "--json", cwd=place)
    assert json.loads(text)["mounting_height_m"] == pytest.approx(1.7)
    (place / "wrong.yaml").write_text("ground: {stcrf: {lenght: 40}}\n")
    refused = command("config", "check", "wrong.yaml", cwd=place)
    assert refused.returncode == 2
    assert "did you mean length?" in refused.stderr


def test_the_same_in_python():
    points = street()
    frame = roadbed.GroundFilter()(points)
    assert frame.is_ground[:9000].mean() > 0.95
    assert isinstance(frame.mounting.T_vehicle_sensor, Pose)
