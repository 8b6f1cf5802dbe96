# SPDX-License-Identifier: Apache-2.0
"""Options that every command shares: which scans are used, where the sensor sits, what computes."""

import json
import re
import shutil
import signal
import sys

import numpy as np
import pytest

from roadbed.cli.options import Request
from roadbed.config import Config
from roadbed.core.errors import RoadbedError
from roadbed.warm_up import processes
from tests.children import child
from tests.cli.process import one_line_and_status_2, roadbed

pytestmark = pytest.mark.long(15)


@pytest.fixture
def sequence(tmp_path):
    """Seven scans of a road, 1.7 m under the sensor."""
    rng = np.random.default_rng(0)
    (tmp_path / "velodyne").mkdir()
    for index in range(7):
        road = np.column_stack([rng.uniform(-20, 20, (5000, 2)), rng.normal(-1.7, 0.01, 5000), np.zeros(5000)])
        (tmp_path / "velodyne" / f"{index:06d}.bin").write_bytes(road.astype("<f4").tobytes())
    return tmp_path


def test_the_kind_of_source_can_be_named(cloud, tmp_path):
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    shutil.copy(cloud, mixed / "a.pcd")
    np.save(mixed / "b.npy", np.zeros((10, 3), np.float32))
    one_line_and_status_2(roadbed("segment", mixed, "-o", tmp_path / "out"), "name one with source= or --source")
    out = roadbed("segment", mixed, "--source", "pcd", "-o", tmp_path / "out", "--json")
    assert out.returncode == 0, out.stderr
    assert json.loads(out.stdout)["points"] == 22_000
    one_line_and_status_2(roadbed("segment", mixed, "--source", "pdc"), "source 'pdc': expected one of simulator")


def test_run_takes_a_method_and_a_part_of_the_sequence(sequence):
    options = ("--method", "variance", "--start", "1", "--stride", "2", "--frames", "2", "--no-occupancy")
    out = roadbed("run", sequence, "-o", sequence / "out", *options, "--json")
    assert out.returncode == 0, out.stderr
    assert json.loads(out.stdout)["frames"] == 2
    assert sorted(path.stem for path in (sequence / "out" / "labels").iterdir()) == ["000001", "000003"]
    assert Config.load(sequence / "out" / "config.yaml").ground.method == "variance"


def test_a_known_height_is_used_as_it_is(sequence):
    def height(*options):
        out = roadbed("segment", sequence, "-o", sequence / "out", "--force", "--json", *options)
        return json.loads(out.stdout)["mounting_height_m"]

    assert height("--height", "1.62") == 1.62
    assert height("--mounting", "0.5", "0", "1.64", "0", "-1.5", "0") == 1.64


def test_a_mounting_is_given_in_metres_and_degrees():
    pose = Request("sim:city?sensor=vlp16&frames=1", mounting=(1, 2, 3, 10, 20, 30)).scans()[0].T_vehicle_sensor
    np.testing.assert_allclose(pose.translation, [1, 2, 3])
    np.testing.assert_allclose(np.degrees([pose.roll, pose.pitch, pose.yaw]), [10, 20, 30])


def test_the_configuration_follows_the_options(tmp_path):
    Config.parse({"ground": {"mounting": {"pitch": 2.0}}}).save(tmp_path / "c.yaml")
    asked = Request("sim:city", config=tmp_path / "c.yaml", height=1.5, backend="auto", device="1", method="variance")
    settings = asked.settings()
    assert (settings.ground.mounting.height, settings.ground.mounting.pitch) == (1.5, 2.0)
    assert (settings.backend, settings.device, settings.ground.method) == ("auto", "1", "variance")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 5}, "start 5: found 2 scans, expected more than 5"),
        ({"height": 2.0}, "--height: these scans have a mounting; --mounting replaces it"),
        ({"height": 2.0, "mounting": (0, 0, 2, 0, 0, 0)}, "--mounting and --height: expected one of them"),
        ({"device": "0"}, "device '0': expected a backend with devices: opencl, cuda or auto"),
        ({"method": "magic"}, "ground.method = 'magic'"),
        ({"height": 99.0}, "height = 99.0"),
    ],
)
def test_options_that_cannot_be_are_one_line(options, message):
    asked = Request("sim:city?sensor=vlp16&frames=2", **options)
    with pytest.raises(RoadbedError, match=message):
        asked.settings(), asked.scans()


@pytest.mark.parametrize(
    "command", [("run",), ("segment",), ("view",), ("evaluate", "ground"), ("evaluate", "occupancy")]
)
def test_every_command_that_reads_a_source_has_the_same_options(command):
    text = roadbed(*command, "--help").stdout
    names = ("--source", "--start", "--stride", "--mounting", "--height", "--method", "--backend", "--device", "--json")
    assert [name for name in names if name not in text] == []
    for choices in ("default|paper", "stcrf|variance", "cpu|opencl|cuda|auto"):
        assert choices in text


@pytest.mark.parametrize("command", ["ros1", "ros2", "live"])
def test_nodes_take_the_mounting_and_the_configuration(command):
    text = roadbed(command, "--help").stdout
    for option in (
        "--mounting X Y Z",
        "--height",
        "--preset <default|paper|small>",
        "--method <stcrf|",
        "--backend <cpu|",
    ):
        assert option in text


def test_a_device_that_is_not_there_ends_in_one_line_and_status_2(sequence):
    for command in (("run", sequence), ("segment", sequence), ("evaluate", "ground", "sim:city?frames=1")):
        out = roadbed(*command, "--backend", "opencl", "--device", "no such device")
        assert out.returncode == 2
        assert out.stderr.count("\n") == 1
        assert "no such device" in out.stderr or "OpenCL" in out.stderr


def test_evaluation_scores_the_part_that_was_asked_for():
    source = "sim:parking?sensor=vlp16&frames=4"
    out = json.loads(roadbed("evaluate", "ground", source, "--start", "1", "--stride", "2", "--json").stdout)
    assert [row["frame"] for row in out["per_frame"]] == ["000001", "000003"]
    assert out["elevation_rmse_m"] < 0.5


def test_the_viewer_prints_its_address_as_json(tmp_path):
    command = [sys.executable, "-m", "roadbed", "view", "sim:city?sensor=vlp16&frames=2", "--port", "0", "--json"]
    with child(*command, cwd=tmp_path) as viewer:
        text = ""
        while not text.endswith("}\n"):
            text += (line := viewer.stdout.readline())
            assert line, "the viewer ended"
        facts = json.loads(text)
        assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*", facts["address"])
        assert facts["save_as"] == "roadbed.yaml"
        viewer.send_signal(signal.SIGINT)
        assert viewer.wait(timeout=600) == 0


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ("echo loading >&2; echo 'MemoryError: no room' >&2; exit 1", "MemoryError: no room"),
        ("kill -9 $$", "its process ended with status -9"),
    ],
)
def test_a_failed_warm_up_is_told_and_the_command_goes_on(cloud, tmp_path, monkeypatch, ending, reason):
    """One line names each job and the last line of its error."""
    broken = tmp_path / "python"
    broken.write_text(f"#!/bin/sh\n{ending}\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    monkeypatch.setattr(processes, "cold", lambda parts: ["ground", "labels"])
    out = roadbed("segment", cloud, "-o", tmp_path / "out")
    assert out.returncode == 0
    told = rf"roadbed: (warm-up of (ground|labels) failed: {reason}; ){{1,2}}kernels are compiled when they are used"
    assert re.fullmatch(told, out.stderr.splitlines()[0])  # then what is compiled
