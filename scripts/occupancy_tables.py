# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/benchmarks.md and docs/notebook/occupancy-runs.md, from runs of `occupancy_rules.py --keep FILE`.

`python scripts/occupancy_tables.py FILE [FILE ...]` prints every table; `--into PAGE ...` writes those into pages that
have the place marked with `<!-- table NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

from roadbed.config.occupancy import OccupancyRule

Run = dict[str, Any]

SCENES = {
    "standstart": "sim:standstart?frames=60",
    "city": "sim:city?frames=40",
    "highway": "sim:highway?frames=32",
    "lux": "sim:city?sensor=lux4&frames=75",
    "drive": "",
}
# Sets of rules; the last is the default.
VARIANTS = ("none", *(f"without {rule}" for rule in get_args(OccupancyRule)), "all")
FIGURES = {
    "speed error %": "error_percent",
    "missed %": "missed_percent",
    "never settled": "movers_never_settled",
    "never found": "movers_never_found",
    "seen": "movers_seen",
    "false cells": "false_moving_cells",
    "false cells before 1.5 s": "false_moving_cells_first",
    "standing dynamic %": "standing",
    "dynamic IoU": "dynamic_iou",
    "of all hits": "dynamic_iou_of_hits",
    "static IoU": "static_iou",
    "violations %": "free_space_violations_percent",
    "MOTA %": "mota_percent",
    "switches": "id_switches",
    "fragments": "fragments",
    "false objects": "false_objects",
    "split %": "split_percent",
    "extent within 25 %, %": "extent_within_25_percent",
}
SUMMARY = (
    "speed error %", "missed %", "never settled", "seen", "false cells", "standing dynamic %", "dynamic IoU",
    "of all hits", "violations %", "MOTA %", "split %", "extent within 25 %, %",
)  # fmt: skip
OBJECTS = ("MOTA %", "switches", "fragments", "false objects", "split %", "extent within 25 %, %")
OF_CELLS = ("standing dynamic %", "dynamic IoU", "of all hits", "static IoU", "violations %")
# What a reader asks first.
SHORT = {
    "mean speed error, %": "error_percent",
    "frames without a velocity, %": "missed_percent",
    "movers seen": "movers_seen",
    "of these, speed never settled": "movers_never_settled",
    "falsely moving cells per frame": "false_moving_cells",
    "dynamic IoU of cells": "dynamic_iou",
    "upper bound: every hit on a mover known to move": "dynamic_iou_of_hits",
    "free-space violations, %": "free_space_violations_percent",
    "MOTA of objects, %": "mota_percent",
    "split objects, %": "split_percent",
    "extent within 25 % after 1 s, % of objects": "extent_within_25_percent",
}
CELLS = {
    "occupancy AUC": "occupancy_auc",
    "calibration error": "calibration_error",
    "static IoU, visible cells": "static_iou",
    "dynamic IoU, visible cells": "dynamic_iou",
    "upper bound: every hit on a mover known to move": "dynamic_iou_of_hits",
    "velocity rmse of cars, m/s": "velocity_rmse",
    "dynamic share of static objects, %": "standing_dynamic_percent",
    "free-space violations, %": "free_space_violations_percent",
    "falsely moving cells per frame, from 1.5 s": "false_moving_cells",
}
LOOKED_AT = 2.5  # s after a mover that stood exceeds 0.5 m/s: its speed then
_PLACE = re.compile(r"(<!-- table ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def load(files: Iterable[Path]) -> list[Run]:
    """Kept runs by scene, rules and seed; of two of one kind the later counts."""
    kept = [json.loads(line) for file in files if file.exists() for line in file.read_text().splitlines()]
    runs = {(run["scene"], run["rules"], run["seed"]): run for run in kept}
    order = list(SCENES), list(VARIANTS)
    return sorted(runs.values(), key=lambda r: (order[0].index(r["scene"]), order[1].index(r["rules"]), r["seed"]))


def every_seed(runs: Sequence[Run], figures: Sequence[str] = tuple(FIGURES)) -> str:
    """One row per scene, rules and seed."""
    rows = [[r["scene"], r["rules"], r["seed"], *(r.get(FIGURES[name]) for name in figures)] for r in runs]
    return _table(["scene", "rules", "seed", *figures], rows)


def means(runs: Sequence[Run], figures: Sequence[str] = SUMMARY) -> str:
    """The most telling of them, mean over the seeds that know a figure."""
    rows = [
        [scene, rules, len(mine), *(mean([r.get(FIGURES[name]) for r in mine]) for name in figures)]
        for (scene, rules), mine in _groups(runs, "scene", "rules")
    ]
    return _table(["scene", "rules", "seeds", *figures], rows)


def summary(runs: Sequence[Run]) -> str:
    """What all rules reach, a column per scene: mean over the seeds that know a figure."""
    everything = VARIANTS[-1]
    chosen = {scene: mine for (scene, rules), mine in _groups(runs, "scene", "rules") if rules == everything}
    rows = [[name, *(mean([r.get(field) for r in mine]) for mine in chosen.values())] for name, field in SHORT.items()]
    return _table(["", *chosen], rows)


def movers(runs: Sequence[Run]) -> str:
    """Every mover that was visible in some frame: error, missed frames and settling under each set of rules."""
    shown = [v for v in VARIANTS if any(r["rules"] == v for r in runs)]
    rows = []
    for (scene,), mine in _groups(runs, "scene"):
        for key, kind in dict.fromkeys((row["id"], row["kind"]) for r in mine for row in r["movers"]):
            of = {v: [w for r in mine if r["rules"] == v for w in r["movers"] if w["id"] == key] for v in shown}
            everything = [w for twins in of.values() for w in twins]
            if not any(w["visible_frames"] for w in everything):
                continue
            fields = ("error_percent", "missed_percent", "settled_after_s")
            cells = [", ".join(text_of(mean([w[f] for w in twins])) for f in fields) for twins in of.values()]
            rows.append([scene, f"{kind} {key}", mean([w["true_speed"] for w in everything]), *cells])
    return _table(["scene", "mover", "true speed, m/s", *shown], rows)


def simulated(runs: Sequence[Run]) -> str:
    """Every mover in sight for longer than the warm-up, with all rules and the first seed."""
    rows = []
    for run in _first_seed(runs):
        short, source = 0, f"`{SCENES[run['scene']]}`"
        for row in run["movers"]:
            if not row["visible_frames"]:
                continue
            if not row["frames"] and not row["unseen_frames"]:
                short += 1
                continue
            counts = [row["frames"], row["missed_frames"], row["unseen_frames"]]
            figures = ("true_speed", "error_percent", "within_10_percent", "settled_after_s")
            rows.append([source, f"{row['kind']} {row['id']}", *counts, *(row[f] for f in figures)])
        if short:
            rows.append([source, f"{short} more, in sight for less than 1.5 s", 0, *[""] * 6])
    head = ["source", "mover", "judged", "missed", "unseen", "true speed, m/s", "error, %", "within 10 %, %"]
    return _table([*head, "settled, s"], rows)


def cells(runs: Sequence[Run]) -> str:
    """Cells against the simulation, with all rules and the first seed."""
    chosen = [run for run in _first_seed(runs) if run.get("occupancy_auc") is not None]
    rows = [[name, *(run.get(field) for run in chosen)] for name, field in CELLS.items()]
    return _table(["cells", *(f"`{SCENES[run['scene']]}`" for run in chosen)], rows)


def starting(runs: Sequence[Run]) -> str:
    """What stands first and then starts: when it is found, and its speed a while later."""
    rows = []
    for run in runs:
        if run["scene"] != "standstart":
            continue
        for row in run["movers"]:
            if not row["frames_at_rest"] or not row["speeds"]:
                continue
            begun = row["speeds"][0][0]  # frames at rest have no speed
            found = next((time - begun for time, _, said in row["speeds"] if said is not None), None)
            then = next((pair for time, *pair in row["speeds"] if time >= begun + LOOKED_AT - 1e-6), [None, None])
            rows.append([run["rules"], run["seed"], found, then[1], then[0]])
    head = ["rules", "seed", "found after, s", f"speed after {LOOKED_AT:g} s, m/s", "true speed, m/s"]
    return _table(head, rows)


def drive(runs: Sequence[Run]) -> str:
    """The real drive, every seed; its movers by their number."""
    mine = [run for run in runs if run["scene"] == "drive"]
    keys = dict.fromkeys((row["id"], row["kind"]) for run in mine for row in run["movers"] if row["frames"])
    rows = []
    for run in mine:
        of = {row["id"]: row for row in run["movers"]}
        fields = ("error_percent", "settled_after_s", "within_10_percent")
        speeds = [", ".join(text_of(of[key][f]) if key in of else "-" for f in fields) for key, _ in keys]
        false = f"{text_of(run['false_moving_cells'])} / {text_of(run['false_moving_cells_first'])}"
        figures = ("world_dynamic_share_percent", "mota_percent", "id_switches", "split_percent")
        rows.append([run["rules"], run["seed"], *speeds, false, *(run[f] for f in figures)])
    head = ["rules", "seed", *(f"{kind} {key}: error %, settled s, within 10 %" for key, kind in keys)]
    return _table([*head, "false cells, from 1.5 s / before", "world dynamic %", "MOTA %", "switches", "split %"], rows)


TABLES: dict[str, Callable[[Sequence[Run]], str]] = {
    "summary": summary,
    "means": partial(means, figures=[name for name in SUMMARY if name not in OBJECTS]),
    "means-objects": partial(means, figures=[name for name in SUMMARY if name in OBJECTS]),
    "movers": movers,
    "starting": starting,
    "drive": drive,
    "simulated": simulated,
    "cells": cells,
    "every-seed": partial(every_seed, figures=[name for name in FIGURES if name not in OBJECTS + OF_CELLS]),
    "every-seed-cells": partial(every_seed, figures=OF_CELLS),
    "every-seed-objects": partial(every_seed, figures=OBJECTS),
}


def write_into(page: Path, runs: Sequence[Run]) -> list[str]:
    """Replace the tables that a page has places for; returns their names."""
    written = []

    def table(place: re.Match[str]) -> str:
        written.append(place[2])
        return f"{place[1]}{TABLES[place[2]](runs)}\n{place[3]}"

    page.write_text(_PLACE.sub(table, page.read_text()))
    return written


def print_tables(runs: Sequence[Run]) -> None:
    for name, table in TABLES.items():
        print(f"{name}\n\n{table(runs)}\n")


def _groups(runs: Sequence[Run], *fields: str) -> list[tuple[tuple[str, ...], list[Run]]]:
    found: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        found.setdefault(tuple(run[field] for field in fields), []).append(run)
    return list(found.items())


def _first_seed(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run["rules"] == VARIANTS[-1] and run["seed"] == 0 and run["scene"] != "drive"]


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join(lines + [f"| {' | '.join(text_of(value) for value in row)} |" for row in rows])


def text_of(value: Any) -> str:
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def mean(values: Sequence[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if known else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--into", type=Path, nargs="+", default=[])
    given = parser.parse_args()
    runs = load(given.files)
    for page in given.into:
        print(f"{page}: {', '.join(write_into(page, runs)) or 'no place marked'}")
    if not given.into:
        print_tables(runs)


if __name__ == "__main__":
    main()
