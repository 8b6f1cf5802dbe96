# SPDX-License-Identifier: Apache-2.0
"""A map against the terrain it was driven over: in one pass or in two, and what cannot be compared."""

import pytest

import roadbed
from benchmarks.fault_source import FaultSource
from benchmarks.map_accuracy import evaluate_map
from roadbed.core.errors import InputError


def test_a_map_is_driven_and_held_against_the_terrain(tmp_path):
    drive = roadbed.open("sim:mountain?sensor=vlp16&frames=6")[::3]
    made = evaluate_map(tmp_path / "map", drive, make=True)
    seen = {row["returns"]: row for row in made["seen"]}
    assert seen[1]["nodes"] > seen[10]["nodes"] > 500
    assert 0.001 < seen[10]["rms"] < 0.1
    assert evaluate_map(tmp_path / "map", drive) == made
    with pytest.raises(InputError, match="exists, expected a new folder to keep a map in"):
        evaluate_map(tmp_path / "map", drive, make=True)


def test_a_sequence_without_truth_is_refused(tmp_path):
    with pytest.raises(InputError, match="found a source without truth, expected a simulated sequence"):
        evaluate_map(tmp_path / "map", FaultSource("fault:drop", of=roadbed.open("sim:city")), make=True)
