# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of a batch say: segments come closer as they warm up, and the model adds up."""

from __future__ import annotations

import os
import subprocess

import pytest

from benchmarks.batch import MANY, _descendants, _model
from benchmarks.segments import segment_rows
from roadbed.core.errors import InputError
from tests.batch.conftest import SMALL


def test_a_segment_that_is_warmed_up_says_what_the_drive_says():
    # A second of warm-up: four LUX scan so fast that ten of their scans are too short to find a motion in.
    rows = list(segment_rows("sim:city?sensor=vlp16&frames=40", (0, 10), cuts=1, config=SMALL))
    cold, warm, seed = rows
    assert [row["warm_up"] for row in rows] == [0, 10, "another seed"]
    assert all(0 < row["ground_alone_labels_differ_percent"] < 5 for row in (cold, warm))
    assert cold["moving_cells_agree_percent"] < 80 < warm["moving_cells_agree_percent"] < 100
    assert seed["occupied_differs"] < warm["occupied_differs"] < cold["occupied_differs"]
    assert {row["frames"] for row in rows} == {10}
    with pytest.raises(InputError, match="found 3 scans, expected 40 or more"):
        list(segment_rows("sim:city?sensor=lux4&frames=3", (0, 10)))


def test_the_model_of_a_million_scans_adds_up():
    row = {"processor_ms_per_frame": 90.0, "ray_ms_per_frame": 10.0}
    model = _model(row, {"read": 1e6, "per_scan": 4e6, "per_drive": 2e6})
    assert model["core_hours"] == pytest.approx(MANY * 0.1 / 3600, abs=0.1)
    assert (model["read_gb"], model["written_gb"]) == (1000, 4000)
    assert model["mb_per_s_per_core"] == 50
    assert model["cores_that_fill_500_mb_per_s"] == 10
    assert model["hours_on_100_cores"] == pytest.approx(MANY * 0.1 / 3600 / 10, abs=0.01)


def test_processor_time_of_everything_that_a_process_started_is_found():
    with subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as shell:
        sleeper = int(shell.stdout.readline())
        found = {process for process, _ in _descendants(os.getpid())}
        os.kill(sleeper, 15)
    assert {shell.pid, sleeper} <= found
