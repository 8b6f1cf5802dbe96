# SPDX-License-Identifier: Apache-2.0
"""Kept runs become the tables of the documents: means over seeds, misses included; the rest of a page stays."""

from __future__ import annotations

import importlib.util
import json
import sys

from tests.conftest import ROOT

spec = importlib.util.spec_from_file_location("occupancy_tables", ROOT / "scripts" / "occupancy_tables.py")
tables = importlib.util.module_from_spec(spec)
sys.modules["occupancy_tables"] = tables
spec.loader.exec_module(tables)


def kept(rules, seed, error, iou):
    mover = {
        "id": "1", "kind": "car", "true_speed": 2.0, "error_percent": error, "missed_percent": 40.0, "frames": 9,
        "settled_after_s": None, "visible_frames": 30, "missed_frames": 3, "unseen_frames": 0, "within_10_percent": 50,
        "frames_at_rest": 4, "speeds": [(1.0, 0.6, None), (1.9, 2.0, 1.5), (3.5, 5.2, 4.8)],
    }  # fmt: skip
    figures = {"dynamic_iou": iou, "occupancy_auc": 0.9, "error_percent": error, "missed_percent": 40.0}
    return {"scene": "standstart", "rules": rules, "seed": seed, "movers": [mover], **figures}


def runs_of(folder):
    """Two files; the later run of one kind counts."""
    first, second = folder / "a.jsonl", folder / "b.jsonl"
    first.write_text("".join(json.dumps(run) + "\n" for run in (kept("all", 1, 9.0, 0.9), kept("none", 0, None, 0.2))))
    second.write_text("".join(json.dumps(run) + "\n" for run in (kept("all", 0, 4.0, 0.5), kept("all", 1, 8.0, 0.7))))
    return tables.load([first, second, folder / "missing.jsonl"])


def test_means_and_misses(tmp_path):
    runs = runs_of(tmp_path)
    none, both = tables.means(runs).splitlines()[2:]
    assert none.startswith("| standstart | none | 1 | - | 40 |")
    assert both.startswith("| standstart | all | 2 | 6 | 40 |")
    assert "| 0.6 |" in both
    assert "| standstart | car 1 | 2 | -, 40, - | 6, 40, - |" in tables.movers(runs)
    assert "| all | 0 | 0.9 | 4.8 | 5.2 |" in tables.starting(runs)
    assert len(tables.every_seed(runs).splitlines()) == 2 + 3


def test_the_summary_has_a_column_per_scene_with_all_rules(tmp_path):
    lines = tables.summary([*runs_of(tmp_path), {**kept("all", 0, 2.0, 0.25), "scene": "city"}]).splitlines()
    assert lines[0] == "|  | standstart | city |"
    assert "| mean speed error, % | 6 | 2 |" in lines
    assert "| dynamic IoU of cells | 0.6 | 0.25 |" in lines


def test_the_tables_of_every_seed_have_each_figure_once(tmp_path):
    parts = [
        tables.TABLES[name](runs_of(tmp_path)) for name in ("every-seed", "every-seed-cells", "every-seed-objects")
    ]
    heads = [head.strip() for part in parts for head in part.splitlines()[0].split("|")[4:-1]]
    assert sorted(heads) == sorted(tables.FIGURES)
    assert [line.split("|")[3].strip() for line in parts[1].splitlines()[2:]] == ["0", "0", "1"]


def test_only_marked_places_of_a_page_change(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table cells -->\n| old |\n<!-- end -->\nafter\n")
    assert tables.write_into(page, runs_of(tmp_path)) == ["cells"]
    text = page.read_text()
    assert text.startswith("before\n<!-- table cells -->\n| cells |")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text


def test_every_place_of_the_documents_has_its_table():
    for name in ("benchmarks.md", "notebook/occupancy-runs.md"):
        places = tables._PLACE.findall((ROOT / "docs" / name).read_text())
        assert places
        assert {place[1] for place in places} <= set(tables.TABLES)
