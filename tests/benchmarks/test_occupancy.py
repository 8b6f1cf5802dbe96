# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks occupancy`: the paper's tasks on every backend, in every layout, and the energy meter."""

import numpy as np
import pytest

from benchmarks import occupancy as bench_module
from benchmarks.energy import Meter
from benchmarks.occupancy import OWN_SPEED, TASKS, TIME_STEP, _drive, _motion, _place, _street, time_steps
from benchmarks.occupancy_plots import draw_all
from benchmarks.occupancy_steps import steps_on
from roadbed import Config
from roadbed.occupancy.arrays import Cells
from roadbed.occupancy.hsbof.model import FilterModel
from roadbed.runtime.cpu_backend import CpuBackend
from tests.devices import ACCELERATORS, DRIVERS, accelerator, backend


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
    model = FilterModel.of(paper.with_changes(filter={"particles": 1000}))
    stage = steps_on(CpuBackend(), Cells(60, 100, 0.5), paper.fusion, model, 256, concurrent=False)
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
    (from_points,) = out["from_points"]
    assert 0 < from_points["best_ms"] <= from_points["step_ms"]
    assert from_points["points"] > 4000
    if name == "cpu":
        assert "scheduling" not in out
        assert out["figure_9"][0]["units"] == out["figure_9"][0]["step_speed_up"] == 1
        return
    assert [row["scheduling"] for row in out["scheduling"]] == ["sequential", "parallel"]
    if name == "opencl" and place.device.kind == "cpu":
        assert [row["units"] for row in out["figure_9"]] == bench_module.cores(place.device.units)
        assert out["figure_9"][0]["step_speed_up"] == 1


@pytest.mark.parametrize("name", ACCELERATORS)
def test_the_parallel_schedule_gives_the_same_grid(name):
    place, paper, cells = accelerator(name), Config.preset("paper").occupancy, Cells(60, 100, 0.5)
    model = FilterModel.of(paper.with_changes(filter={"particles": 1000}))
    stages = [steps_on(place, cells, paper.fusion, model, 256, concurrent=kind) for kind in (False, True)]
    for number, reports in enumerate(_drive((60, 100), 0.5, 4)):
        for stage in stages:
            stage.load(number * TIME_STEP, stage.pack(reports), (TIME_STEP, _motion(30.0), (OWN_SPEED, 0.0)))
            stage.step()
    sequential, parallel = (stage._filter.layers for stage in stages)
    assert sequential[1].max() > 0.1  # dynamic mass
    np.testing.assert_array_equal(parallel, sequential)


def test_speed_up_is_measured_on_every_number_of_cores_that_the_papers_figure_9_has():
    assert bench_module.cores(2) == [1, 2]
    assert bench_module.cores(24) == [*range(1, 17), 24]


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
