# SPDX-License-Identifier: Apache-2.0
"""`roadbed simulate` writes a folder that reads back as the same drive."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import roadbed
from roadbed.cli import app
from roadbed.geometry import Lattice


def test_folder_reads_back(tmp_path: Path) -> None:
    arguments = ["simulate", "parking?sensor=vlp16&odometry=drift", "-o", str(tmp_path), "--frames", "3", "--json"]
    result = CliRunner().invoke(app, [*arguments, "--reach", "12", "--spacing", "0.4"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["frames"] == 3
    assert (tmp_path / "first-scan.png").read_bytes().startswith(b"\x89PNG")

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
        lattice = Lattice(x0, y0, spacing, int(columns), int(rows))
        assert layers["elevation"].shape == lattice.shape == (60, 60)
        np.testing.assert_allclose(layers["elevation"], truth.elevation(lattice), atol=1e-5)
        np.testing.assert_array_equal(layers["occupied"], truth.occupancy(lattice).occupied)
        np.testing.assert_array_equal(layers["point.is_ground"], truth.is_ground)
    boxes = written.objects(2)
    for box, expected in zip(boxes, source.objects(2), strict=True):
        np.testing.assert_allclose(box.footprint, expected.footprint)
    moving = {box.id for box in boxes}
    assert {str(item.id) for item in truth.objects() if item.moving} <= moving
    assert roadbed.open("sim:parking", sensor=str(tmp_path / "rig.yaml"), frames=1)[0].sensor == "vlp16"


def test_bad_scene_writes_nothing(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["simulate", "moon", "-o", str(tmp_path / "out")])
    assert result.exit_code != 0
    assert "city" in str(result.exception)
    assert not (tmp_path / "out").exists()
