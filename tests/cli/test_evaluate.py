# SPDX-License-Identifier: Apache-2.0
"""Scores on the command line: unknown ones are said to be unknown, and a source without truth is refused."""

import json

import numpy as np
import pytest

from roadbed.outputs.label import write_label
from tests.cli.process import one_line_and_status_2, roadbed


@pytest.fixture
def sequence(tmp_path):
    """Three scans of a road; only the second has true classes, and nothing in it is ground."""
    rng = np.random.default_rng(0)
    (tmp_path / "velodyne").mkdir()
    for name in ("0", "1", "2"):
        road = np.column_stack([rng.uniform(-20, 20, (5000, 2)), rng.normal(-1.7, 0.01, 5000), np.zeros(5000)])
        (tmp_path / "velodyne" / f"{name}.bin").write_bytes(road.astype("<f4").tobytes())
    write_label(tmp_path / "labels" / "1.label", np.full(5000, 50, np.uint32))
    return tmp_path


def test_unknown_measures_are_null_for_machines_and_a_dash_for_people(sequence):
    out = json.loads(roadbed("evaluate", "ground", sequence, "--json").stdout)
    assert out["recall"] is None
    assert out["precision"] == 0
    assert ["f1" in row for row in out["per_frame"]] == [False, True, False]
    table = roadbed("evaluate", "ground", sequence).stdout
    assert any("recall" in line and "-" in line.split() for line in table.splitlines())


def test_a_source_without_truth_is_refused(sequence):
    (sequence / "labels" / "1.label").unlink()
    one_line_and_status_2(roadbed("evaluate", "ground", sequence), "found neither true classes nor true elevation")


def test_true_elevation_belongs_to_scans_by_their_number_in_the_whole_sequence(sequence, tmp_path):
    (tmp_path / "elevation").mkdir()
    for number, height in enumerate((0.0, 0.01, 0.0)):  # zero: the reference knows nothing
        np.save(tmp_path / "elevation" / f"{number}.npy", np.full((20, 20), height))
    options = ("--elevation", tmp_path / "elevation", "--elevation-origin", "-9.5", "-9.5", "--json")
    out = json.loads(roadbed("evaluate", "ground", sequence, "--start", "1", "--frames", "1", *options).stdout)
    assert out["elevation_nodes"] > 50
    assert out["elevation_rmse_m"] < 0.1
    nothing = json.loads(roadbed("evaluate", "ground", sequence, "--start", "2", *options).stdout)
    assert "elevation_nodes" not in nothing
