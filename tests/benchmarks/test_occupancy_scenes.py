# SPDX-License-Identifier: Apache-2.0
"""Scenes of many seeds: what is measured, and what means and tables say."""

import json

import pytest

from benchmarks import leave_one_out_occupancy, occupancy_scenes
from benchmarks.occupancy_commands import occupancy_values
from benchmarks.occupancy_scenes import FIGURES, SCENES, markdown, mean_rows, run_rows
from roadbed.config import Config
from roadbed.core.errors import ConfigError
from roadbed.evaluate.occupancy import evaluate_occupancy


def run_of(scene, seed, mota, error, false_objects):
    found = dict.fromkeys(FIGURES, 0.0)
    found |= {"mota_percent": mota, "error_percent": error, "false_objects": false_objects}
    return {"scene": scene, "seed": seed, "movers": 2, **found}


def test_the_worst_seed_is_the_least_or_the_most():
    runs = [
        run_of("city", 1, 80.0, 3.0, 2.0),
        run_of("city", 2, 70.0, None, 4.0),
        run_of("parking", 1, 90.0, None, 0.0),
    ]
    city, parking = mean_rows(runs)
    assert (city["scene"], city["movers"], parking["movers"]) == ("city", 4, 2)
    assert (city["mota_percent"], city["false_objects"]) == ("75 (70)", "3 (4)")
    assert (city["error_percent"], parking["error_percent"]) == ("3 (3)", "-")


def test_a_table_has_a_row_per_run_and_a_dash_where_there_is_no_figure():
    runs = [run_of("city", 1, 80.04, 3.0, 2.0), run_of("city", 2, 70.0, None, 4.0)]
    head, rule, first, second = markdown(runs).splitlines()
    assert head.startswith("| scene | seed | movers | never_found | mota_percent |")
    assert head.count("|") == rule.count("|") == first.count("|")
    assert first.startswith("| city | 1 | 2 | 0 | 80 |")
    assert "| - |" in second


def test_a_run_has_the_figures_of_the_evaluation(monkeypatch):
    """Missed frames count over all movers; the speed error is the mean of the movers that have one."""
    found = {}

    def evaluate(source, config):
        assert config == Config(seed=3)
        assert source.location == f"{SCENES['short']}&seed=3&losses=off&distortion=on"
        assert source[1].point_time is None  # the sensor's own motion is undone, as in a run from the command line
        found.update(evaluate_occupancy(source, config))
        return dict(found)

    monkeypatch.setattr(occupancy_scenes, "evaluate_occupancy", evaluate)
    monkeypatch.setitem(SCENES, "short", "sim:city?sensor=vlp16&frames=20")
    (run,) = run_rows(["short"], [3], options=["losses=off", "distortion=on"])
    movers = [mover for mover in found["movers"] if mover["visible_frames"]]
    errors = [mover["error_percent"] for mover in movers if mover["error_percent"] is not None]
    assert run["movers"] == len(movers) > 3
    assert (run["mota_percent"], run["dynamic_iou"]) == (found["mota_percent"], found["dynamic_iou"])
    missed = sum(round(mover["missed_percent"] * mover["visible_frames"] / 100) for mover in movers)
    assert missed > 0
    assert run["missed_percent"] == pytest.approx(100 * missed / sum(mover["visible_frames"] for mover in movers))
    assert run["worst_error_percent"] == max(errors)
    assert run["error_percent"] == pytest.approx(sum(errors) / len(errors))


def test_values_of_a_parameter_are_compared_on_the_same_scans(monkeypatch, capsys):
    """Objects that are forgotten at once are none; a parameter that does not exist ends in one line."""
    monkeypatch.setitem(leave_one_out_occupancy.SCENES, "short", "sim:city?sensor=vlp16&frames=12")
    occupancy_values("objects.min_cells", [2, 400], ["short"], [3], as_json=True)
    few, many = json.loads(capsys.readouterr().out)["rows"]
    assert (few["scene"], few["objects.min_cells"]) == ("short", 2)
    assert few["MOTA"] > many["MOTA"] == 0
    assert few["standing"] == many["standing"] > 0  # mass that no object changes
    assert few["IoU"] > many["IoU"] > 0  # what objects hide is not free
    with pytest.raises(ConfigError, match=r"objects\.no"):
        occupancy_values("objects.no", [1], ["short"], [3])
