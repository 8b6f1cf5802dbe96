# SPDX-License-Identifier: Apache-2.0
"""Sensors, scenes and conditions: every combination is a sequence, and its frames are judged and counted."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.conditions import CONDITIONS, SCENES, SENSORS, counts, judged, run_rows, sequence_of, summary, tasks_of
from roadbed import GroundFilter

pytestmark = pytest.mark.long(20)


def test_every_combination_has_a_sequence():
    tasks = tasks_of(SENSORS, SCENES[-1:], list(CONDITIONS), [931])
    assert len(set(tasks)) == len(tasks) > 250
    for task in tasks[::11]:  # each takes a while
        sequence, condition = sequence_of(task), CONDITIONS[task[2]]
        is_rig = len(sequence.rig.sensors) > 1
        assert sequence.mounting_known == (condition.known or is_rig)
        if condition.height is not None:
            assert {sensor.mount.z for sensor in sequence.rig.sensors} == {condition.height}


def test_a_rig_is_not_measured_twice_because_its_mountings_are_known():
    both = tasks_of(["vlp16", "lux4"], ["city"], ["scans", "scans, known"], [1])
    assert [task[:3] for task in both] == [
        ("vlp16", "city", "scans"),
        ("vlp16", "city", "scans, known"),
        ("lux4", "city", "scans, known"),
    ]


@pytest.fixture(scope="module")
def seen():
    """A frame of a low sensor, its truth and the sequence's rows."""
    scan, truth = sequence_of(("low", "city", "scans, known", 931)).frame(10)
    return GroundFilter()(replace(scan, T_world_sensor=None)), truth


def test_a_frame_is_right_where_its_surface_is(seen):
    frame, truth = seen
    row = judged(frame, truth)
    assert row["right"]
    assert row["f1"] > 90
    assert row["silent_cells"] <= row["wrong_cells"] < 0.1 * row["cells"]
    off = judged(replace(frame, elevation=frame.elevation + np.float32(0.5)), truth)
    assert not off["surface_right"]
    assert off["mounting_right"]
    assert off["wrong_cells"] >= off["silent_cells"] > 0.9 * off["cells"]
    unsure = replace(frame, elevation=frame.elevation + np.float32(0.5), variance=np.ones_like(frame.variance))
    assert judged(unsure, truth)["silent_cells"] == 0


def test_runs_have_a_row_per_judged_frame():
    scans, sequence = run_rows(tasks_of(["bumper"], ["parking"], ["scans, known", "sequence, known"], [931]))
    assert [row["index"] for row in scans] == [25, 175, 325, 475]
    assert [row["index"] for row in sequence] == [115, 138, 160]


def test_sure_and_wrong_frames_are_counted():
    row = {"f1": 90.0, "cells": 10, "wrong_cells": 1, "silent_cells": 0, "squares": 0.4, "scene": "city"}
    rows = [{**row, "sure": sure, "right": right} for sure, right in ((1, 1), (1, 1), (1, 0), (0, 0), (0, 1))]
    rows[-1] |= {"scene": "parking", "squares": 100.0}
    found = counts(rows)
    assert [found[name] for name in ("frames", "right", "sure", "sure_and_wrong", "wrong")] == [5, 3, 3, 1, 2]
    assert found["announced_percent"] == 50
    assert found["rmse_m"] == pytest.approx(0.2)  # of the sure ones
    assert [(part["scene"], part["frames"]) for part in summary(rows, "scene")] == [
        ("city", 4),
        ("parking", 1),
        ("all", 5),
    ]
