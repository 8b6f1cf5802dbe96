# SPDX-License-Identifier: Apache-2.0
"""`roadbed bench`: every case is measured, phases are those of the whole."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from roadbed import Config
from roadbed.bench import occupancy as bench_module
from roadbed.bench.energy import Meter
from roadbed.bench.occupancy import OWN_SPEED, TASKS, TIME_STEP, _drive, _motion, _place, _street, time_steps
from roadbed.bench.occupancy_plots import draw_all
from roadbed.bench.occupancy_steps import steps_on
from roadbed.bench.timing import measure
from roadbed.cli import app
from roadbed.occupancy.arrays import Cells
from roadbed.occupancy.hsbof.model import FilterModel
from roadbed.runtime.cpu_backend import CpuBackend
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
    ]  # fmt: skip
    assert [row["iterations"] for row in out["rows"]] == [10, 10, 6, 3, None]
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


def test_a_step_of_the_occupancy_is_the_papers():
    """Eight sensors that see different things are pooled inside it, and its priors are interpolated."""
    timing = time_steps(Config.preset("paper").occupancy, 1000, 0.5, steps=3, warm_up=2)
    assert timing.cells == 60 * 100
    assert set(timing.tasks_ms) == set(TASKS)
    assert all(value > 0 for value in timing.tasks_ms.values())
    assert timing.best_ms <= timing.step_ms
    assert _motion(30.0).cells is None
    (reports,) = _drive((60, 100), 0.5, 1)
    assert len(reports) == 8
    seen = [report.observedness > 0 for report in reports.values()]
    assert len({mask.tobytes() for mask in seen}) == 8
    assert len({report.probability.tobytes() for report in reports.values()}) == 8
    paper = Config.preset("paper").occupancy
    stage = steps_on(
        CpuBackend(), Cells(60, 100, 0.5), paper.fusion, FilterModel.of(paper.with_changes(filter={"particles": 1000}))
    )
    stage.load(0.0, stage.pack(reports), (TIME_STEP, _motion(30.0), (OWN_SPEED, 0.0)))
    parts = sorted(part for parts in TASKS.values() for part in parts)
    assert sorted(stage.phases()) == parts, "every part of a step belongs to one of the tasks"


@pytest.mark.parametrize("name", DRIVERS)
def test_every_backend_times_the_papers_tasks_and_lays_its_work_out_in_every_way(name, tmp_path, monkeypatch):
    place = backend(name)
    sizes = {
        "FIGURE_7_PARTICLES": (500, 1000), "FIGURE_8_RESOLUTIONS": (0.5, 1.0), "PAPER_TABLE_1": {(500, 1.0): 9.0},
        "GROUP_SIZES": (256,), "LAYOUT_CASE": (500, 1.0),
    }  # fmt: skip
    for limit, value in sizes.items():
        monkeypatch.setattr(bench_module, limit, value)
    out = bench_module.bench_occupancy(place, steps=2, warm_up=1) | {"date": "today"}
    for rows in (out["rows"], out["default_filter"], out["figure_7"], out["figure_8"]):
        assert all(0 < row["best_ms"] <= row["step_ms"] for row in rows)
        assert all(row[f"{task}_ms"] > 0 for row in rows for task in TASKS)
    drawn = {path.name for path in draw_all(out, tmp_path)}
    assert {"table-1.png", "figure-7.png", "figure-8.png"} <= drawn
    assert all((tmp_path / picture).stat().st_size > 5000 for picture in drawn)
    assert out["energy"]
    if name == "cpu":
        assert "scheduling" not in out
        return
    assert [row["scheduling"] for row in out["scheduling"]] == ["sequential", "parallel"]
    if name == "opencl" and place.device.kind == "cpu":
        assert [row["units"] for row in out["figure_9"]] == bench_module.powers_of_two(place.device.units)
        assert out["figure_9"][0]["step_speed_up"] == 1


def test_energy_is_read_where_the_platform_tells_and_said_to_be_missing_where_not(tmp_path):
    device = CpuBackend().device
    none = Meter(device, tmp_path)
    assert none.per_call(lambda: None) == {"joules": None, "watts": None}
    assert str(tmp_path) in none.why_not
    for package in ("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"):  # the last is a part of the first
        (tmp_path / package).mkdir()
        (tmp_path / package / "energy_uj").write_text("1000000")
    counter = tmp_path / "intel-rapl:1" / "energy_uj"

    def call():
        counter.write_text(str(int(counter.read_text()) + 500_000))

    found = Meter(device, tmp_path).per_call(call, seconds=0.0)
    assert found["joules"] == pytest.approx(0.5)
    assert found["watts"] > 0


def test_the_street_of_the_occupancy_bench_stands_still_under_its_motion():
    """What is at a place of the grid now was where the motion says it was."""
    rows, columns = np.array([10.2, 20.0, 31.7]), np.array([12.4, 40.0, 77.0])
    T = _motion(30.0)
    x, y, yaw = _place(3)
    before_x, before_y, before_yaw = _place(2)

    def world(forward, left, place):
        px, py, turn = place
        return np.array(
            [px + np.cos(turn) * forward - np.sin(turn) * left, py + np.sin(turn) * forward + np.cos(turn) * left]
        )

    now = np.array([columns * 0.5, rows * 0.5])
    then = T.rotation @ now + T.shift[:, None]
    np.testing.assert_allclose(
        world(now[0], now[1] - 15, (x, y, yaw)),
        world(then[0], then[1] - 15, (before_x, before_y, before_yaw)),
        atol=1e-9,
    )
    assert (_street(np.float32([3.0]), np.float32([12.0]), 0.0)[0] > 0.5).all()


def test_timing_takes_medians_after_a_warm_up():
    calls = iter([9.0, 9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    timing = measure(lambda: next(calls), lambda value: {"part": value}, repeats=5, seconds=100)
    assert timing.repeats == 5
    assert timing.phases_ms == {"part": 3000.0}
    assert 0 < timing.median_ms <= timing.p95_ms
