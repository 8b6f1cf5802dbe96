# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of a batch: the model adds up."""

import os
import subprocess

import pytest

from benchmarks.batch import MANY, _descendants, _model


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
