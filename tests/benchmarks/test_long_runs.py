# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks`: long runs, overload and the invariants of the filter."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import roadbed
from benchmarks.__main__ import app
from benchmarks.masses import mass_rows
from benchmarks.soak import growth
from benchmarks.validity import is_valid
from roadbed import GroundFilter
from tests.conftest import ROOT
from tests.devices import DRIVERS, backend


def bench(*arguments):
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_soak_watches_memory_latency_and_soundness(tmp_path):
    out = bench("soak", "--frames", "12", "--plot", str(tmp_path / "soak.png"))
    assert (len(out["rows"]), out["rows"][-1]["frames"], out["unsound"]) == (12, 12, 0)
    assert out["mass_error"] == max(row["mass_error"] for row in out["rows"])
    for row in out["rows"]:
        assert row["memory_mb"] > 50
        assert row["handles"] > 2
        assert row["information"] > 0
        assert row["mass_error"] < 1e-4
    assert (tmp_path / "soak.png").stat().st_size > 10_000


def test_live_operation_in_fast_motion_counts_results_and_restarts():
    out = bench("live-soak", "--seconds", "3", "--config", str(ROOT / "scripts/soak.yaml"))
    last = out["rows"][-1]
    assert (last["invalid"], last["wrong"], last["publishers"]) == (0, "", 1)
    assert last["labelled"] == last["grids"] > 0
    assert out["hours_for_a_day"] > 0


def test_growth_compares_the_end_with_the_beginning_after_it_has_settled():
    rows = [{"memory_mb": value} for value in [10.0, 100.0, *[101.0] * 17, 140.0]]
    assert growth(rows, "memory_mb") == pytest.approx(19.5)
    assert growth([{"handles": None}], "handles") is None


def test_more_scans_than_can_be_processed_drop_the_oldest_and_are_counted():
    """Scans pushed a hundred times as fast as any machine labels them."""
    rows = bench("load", "--sensors", "2", "--rate", "1000", "--points", "30000", "--scans", "40")["rows"]
    assert [row["sensor"] for row in rows] == ["sensor_0", "sensor_1"]
    for row in rows:
        assert (row["received"], row["refused"], row["oldest_first"]) == (40, 0, True)
        assert row["processed"] + row["dropped"] == 40
        assert 2 <= row["processed"] < 40


@pytest.mark.parametrize("name", DRIVERS)
def test_masses_stay_a_distribution_over_hundreds_of_steps(name):
    rows = list(mass_rows(backend(name), 200, samples=4))
    assert [row["steps"] for row in rows] == [50, 100, 150, 200]
    for row in rows:
        assert row["particles"] == 2000
        assert row["excess"] < 1e-5
        assert row["least"] >= 0
        assert row["uncarried"] < 1e-4


@pytest.fixture(scope="module")
def frame():
    return GroundFilter()(roadbed.open("sim:city?sensor=lux4&frames=1")[0])


def test_a_sound_frame_holds_numbers_alone(frame):
    def spoilt(name):
        values = getattr(frame, name).copy()
        values[np.unravel_index(np.flatnonzero(np.isfinite(values))[0], values.shape)] = np.nan
        return replace(frame, **{name: values})

    assert is_valid(frame)
    for name in ("elevation", "variance", "ground_probability", "height_above_ground", "slope"):
        assert not is_valid(spoilt(name)), name
    assert not is_valid(replace(frame, ground_probability=frame.ground_probability + np.float32(1e-6)))
    assert not is_valid(replace(frame, elevation=np.full_like(frame.elevation, np.nan)))
