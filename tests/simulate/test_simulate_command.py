# SPDX-License-Identifier: Apache-2.0
"""`roadbed simulate` writes a folder that reads back as the same sequence."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import roadbed
from roadbed.cli import app
from roadbed.core.geometry import Grid
from tests.conftest import take_interrupts


def test_folder_reads_back(tmp_path: Path) -> None:
    arguments = ["simulate", "parking?sensor=vlp16&odometry=drift", "-o", str(tmp_path), "--frames", "3", "--json"]
    result = CliRunner().invoke(app, [*arguments, "--reach", "12", "--spacing", "0.4"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["frames"] == 3

    written, source = roadbed.open(tmp_path), roadbed.open("sim:parking?sensor=vlp16&frames=3&odometry=drift")
    assert len(written) == 3
    for index in range(3):
        scan, expected = written[index], source[index]
        np.testing.assert_array_equal(scan.points, expected.points)
        np.testing.assert_array_equal(scan.classes, expected.classes)
        np.testing.assert_allclose(scan.T_world_sensor.matrix, expected.T_world_sensor.matrix, atol=1e-6)
        assert scan.time == expected.time

    truth = source.truth(2)
    with np.load(tmp_path / "truth" / "000002.npz") as layers:
        x0, y0, spacing, columns, rows = layers["lattice"]
        grid = Grid(x0, y0, spacing, int(columns), int(rows))
        assert layers["elevation"].shape == grid.shape == (60, 60)
        np.testing.assert_allclose(layers["elevation"], truth.elevation(grid), atol=1e-5)
        np.testing.assert_array_equal(layers["occupied"], truth.occupancy(grid).occupied)
        np.testing.assert_array_equal(layers["point.is_ground"], truth.is_ground)
    boxes = written.objects(2)
    for box, expected in zip(boxes, source.objects(2), strict=True):
        np.testing.assert_allclose(box.footprint, expected.footprint)
    moving = {box.id for box in boxes}
    assert {str(item.id) for item in truth.objects() if item.moving} <= moving
    assert roadbed.open("sim:parking", sensor=str(tmp_path / "rig.yaml"), frames=1)[0].sensor == "vlp16"


def _interrupted(folder: Path, number: int) -> tuple[int, str]:
    """Exit status and output of a simulation that gets the signal with its second scan."""
    command = [sys.executable, "-m", "roadbed", "simulate", "parking?sensor=vlp16&frames=90", "-o", str(folder)]
    child = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, preexec_fn=take_interrupts)
    while not (folder / "labels" / "000001.label").exists():
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(number)
    return child.wait(timeout=120), child.communicate()[0].decode()


def test_an_interrupted_simulation_is_a_shorter_one_and_a_killed_one_is_refused(tmp_path: Path) -> None:
    status, output = _interrupted(tmp_path / "a", signal.SIGINT)
    written = roadbed.open(tmp_path / "a")
    assert status == 130
    facts = json.loads(output)
    assert facts["frames"] == len(written)
    assert facts["diagnostics"] == [f"interrupted after {len(written)} of 90 frames, which are complete"]
    assert 2 <= len(written) < 90
    assert written[-1].T_world_sensor is not None
    assert len(written.objects(len(written) - 1)) > 0
    _interrupted(tmp_path / "b", signal.SIGKILL)
    with pytest.raises(roadbed.InputError, match=r"b/times\.txt: times: found 90, expected \d+ \(one per scan\)"):
        roadbed.open(tmp_path / "b")


def test_a_rig_reads_back_with_its_mounts(tmp_path: Path) -> None:
    tmp_path = tmp_path / "a rig"
    result = CliRunner().invoke(app, ["simulate", "city?sensor=lux4", "-o", str(tmp_path), "--frames", "2"])
    assert result.exit_code == 0, result.output
    assert result.output.endswith(f"or roadbed run '{tmp_path}'\n")
    source = roadbed.open("sim:city?sensor=lux4&frames=2")
    for written in (roadbed.open(tmp_path), roadbed.open(tmp_path / "velodyne", source="bin")):
        scan, expected = written[1], source[1]
        np.testing.assert_array_equal(scan.points, expected.points)
        np.testing.assert_array_equal(scan.channels["sensor_index"], expected.channels["sensor_index"])
        assert scan.channels["sensor_index"].dtype == np.uint8
        assert scan.sensor == expected.sensor
        assert [mount.name for mount in scan.mounts] == [mount.name for mount in expected.mounts]
        for mine, theirs in zip(scan.mounts, expected.mounts):
            np.testing.assert_allclose(mine.T_vehicle_sensor.matrix, theirs.T_vehicle_sensor.matrix, atol=1e-12)
        np.testing.assert_array_equal(scan.T_vehicle_sensor.matrix, np.eye(4))
    pose = roadbed.open(tmp_path)[1].T_world_sensor
    np.testing.assert_allclose(pose.matrix, source[1].T_world_sensor.matrix, atol=1e-6)


@pytest.mark.parametrize("mounting", ["known", "unknown"])
def test_a_mounting_reads_back_where_it_was_known(tmp_path: Path, mounting: str) -> None:
    scene = f"city?sensor=vlp16&mounting={mounting}"
    result = CliRunner().invoke(app, ["simulate", scene, "-o", str(tmp_path), "--frames", "1"])
    assert result.exit_code == 0, result.output
    found = roadbed.open(tmp_path)[0].T_vehicle_sensor
    if mounting == "unknown":
        assert found is None
    else:
        np.testing.assert_allclose(found.translation, [0, 0, 1.8])


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("sensor_index/000000.bin", None, r"sensor_index/000000\.bin: no such file"),
        ("sensor_index/000000.bin", b"\0", r"found 1 numbers up to 0, expected \d+ bytes below 4"),
        ("rig.yaml", b"sensors: [{name: front}]", r"rig\.yaml: expected a list sensors, each with name and mount"),
        ("rig.yaml", b"sensors: [{name: front, mount: {z: -1}}]", r"rig\.yaml: mount of front: z = -1"),
        ("rig.yaml", b"- [", r"rig\.yaml: not valid YAML"),
        ("rig.yaml", b"- 1", r"rig\.yaml: expected a list sensors"),
    ],
)
def test_a_damaged_rig_is_one_line(tmp_path: Path, name: str, damage: bytes | None, message: str) -> None:
    CliRunner().invoke(app, ["simulate", "city?sensor=lux4", "-o", str(tmp_path), "--frames", "1"])
    (tmp_path / name).unlink()
    if damage is not None:
        (tmp_path / name).write_bytes(damage)
    with pytest.raises(roadbed.RoadbedError, match=message):
        roadbed.open(tmp_path)[0]


def test_bad_scene_writes_nothing(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["simulate", "moon", "-o", str(tmp_path / "out")])
    assert result.exit_code != 0
    assert "city" in str(result.exception)
    assert not (tmp_path / "out").exists()
