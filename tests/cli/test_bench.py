# SPDX-License-Identifier: Apache-2.0
"""`roadbed bench`: every case is measured, phases are those of the whole."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from roadbed.bench.timing import measure
from roadbed.cli import app
from tests.devices import DRIVERS, backend


def bench(*arguments):
    done = CliRunner().invoke(app, ["bench", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_ground_measures_both_presets():
    out = bench("ground", "--sensor", "lux4", "--seconds", "0")
    assert out["bench"] == "ground"
    assert [row["case"] for row in out["rows"]] == [
        "lux4 paper cold", "lux4 paper warm", "lux4 default cold", "lux4 default warm", "lux4 variance",
        "lux4 variance 334 x 334",
    ]  # fmt: skip
    assert [row["iterations"] for row in out["rows"]] == [10, 10, 6, 3, None, None]
    assert out["rows"][-1]["cells"] == 334 * 334  # the report's
    for row in out["rows"]:
        assert 0 < row["median_ms"] <= row["p95_ms"]
        parts = {name: value for name, value in row["phases_ms"].items() if name != "total"}
        assert sum(parts.values()) <= 1.5 * row["p95_ms"]
        assert row["points"] > 2000
        assert row["processor_ms"] > 0
        assert row["device_us"] == {}


def test_a_call_is_timed_as_often_as_asked_or_as_long_and_at_least_five_times():
    assert measure(lambda: None, repeats=8, seconds=60.0, warm_up=0).repeats == 8
    assert measure(lambda: None, repeats=50, seconds=0.0, warm_up=0).repeats == 5
    assert measure(lambda: None, repeats=3, seconds=0.0, warm_up=0).repeats == 3


def test_pipeline_measures_its_stages():
    (row,) = bench("pipeline", "--sensor", "lux4", "--seconds", "0")["rows"]
    assert (row["case"], row["sensors"]) == ("4 x LUX", 4)
    assert row["hz"] == pytest.approx(1000 / row["median_ms"], rel=0.05)
    assert 0 < row["ground_ms"] < row["p95_ms"]
    assert 0 < row["occupancy_ms"] < row["p95_ms"]
    assert row["host_calls"] > 100
    assert row["host_ms"] > 0
    assert row["device_us"] == {}


@pytest.mark.parametrize("name", [name for name in DRIVERS if name != "cpu"])
def test_on_an_accelerator_the_chain_is_taken_apart_by_phases(name):
    backend(name)  # which says what is missing where there is none
    (row,) = bench("pipeline", "--sensor", "lux4", "--seconds", "0", "--backend", name)["rows"]
    phases = row["device_us"]
    assert {"register_hits", "update_measurement", "sweep_rays", "label", "fit_tilt"} <= set(phases)
    assert list(phases.values()) == sorted(phases.values(), reverse=True)
    assert row["launches"] > row["graphs"] > 0


def test_timing_takes_medians_after_a_warm_up():
    calls = iter([9.0, 9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    timing = measure(lambda: next(calls), lambda value: {"part": value}, repeats=5, seconds=100)
    assert timing.repeats == 5
    assert timing.phases_ms == {"part": 3000.0}
    assert 0 < timing.median_ms <= timing.p95_ms
