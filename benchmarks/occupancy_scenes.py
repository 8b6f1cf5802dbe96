# SPDX-License-Identifier: Apache-2.0
"""Accuracy of the occupancy on simulated scenes of many seeds, each seed that of the scene and of the filter.

Held-out seeds, on which nothing was tuned, say what to expect of a new scene.
"""

from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import get_context
from typing import Any

from roadbed.config import Config
from roadbed.evaluate.metrics import mean
from roadbed.evaluate.occupancy import evaluate_occupancy
from roadbed.sources import open_source
from roadbed.sources.odometry import Deskewed

SCENES = {
    "city": "sim:city?frames=40",
    "standstart": "sim:standstart?frames=60",
    "highway": "sim:highway?frames=32",
    "parking": "sim:parking?frames=40",
    "off the road": "sim:offroad?frames=40",
    "mountain": "sim:mountain?frames=40",
    "city, VLP-16": "sim:city?sensor=vlp16&frames=40",
    "highway, VLP-16": "sim:highway?sensor=vlp16&frames=40",
    "off the road, VLP-16": "sim:offroad?sensor=vlp16&frames=40",
    "parking, VLP-16": "sim:parking?sensor=vlp16&frames=40",
    "mountain, VLP-16": "sim:mountain?sensor=vlp16&frames=40",
    "city, four LUX": "sim:city?sensor=lux4&frames=75",
    "highway, four LUX": "sim:highway?sensor=lux4&frames=40",
}
# Figure: whether more is better, or less.
FIGURES = {
    "never_found": False,
    "mota_percent": True,
    "missed_percent": False,
    "error_percent": False,
    "worst_error_percent": False,
    "false_objects": False,
    "false_moving_cells": False,
    "dynamic_iou": True,
    "free_space_violations_percent": False,
}
Row = dict[str, Any]


def run_rows(
    scenes: Sequence[str], seeds: Iterable[int], backend: str = "cpu", processes: int = 1, options: Sequence[str] = ()
) -> Iterator[Row]:
    """One row per scene and seed, in order; `options` of the simulator as "density=3"."""
    tasks = [(scene, seed, backend, tuple(options)) for scene in scenes for seed in seeds]
    if processes == 1:
        yield from map(run, tasks)
        return
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(run, tasks, chunksize=1)


def run(task: tuple[str, int, str, tuple[str, ...]]) -> Row:
    """The figures of one sequence."""
    scene, seed, backend, options = task
    location = "&".join((SCENES[scene], f"seed={seed}", *options))
    source = Deskewed(open_source(location))  # of scans without point times nothing changes
    found = evaluate_occupancy(source, Config(seed=seed, backend=backend))
    found |= {"never_found": found["movers_never_found"], **over_movers(found["movers"])}
    return {"scene": scene, "seed": seed, "movers": int(found["movers_seen"])} | {name: found[name] for name in FIGURES}


def over_movers(movers: Sequence[Row]) -> Row:
    """Speed error, mean and worst mover, and the share of all frames of visible movers without a velocity, %."""
    errors = [mover["error_percent"] for mover in movers if mover["visible_frames"]]
    known = [error for error in errors if error is not None]
    visible = sum(mover["visible_frames"] for mover in movers)
    missed = sum(mover["visible_frames"] * mover["missed_percent"] for mover in movers if mover["visible_frames"])
    return {
        "error_percent": mean(known),
        "worst_error_percent": max(known, default=None),
        "missed_percent": missed / visible if visible else None,
    }


def markdown(rows: Sequence[Row]) -> str:
    """Rows as a table of a page; "-" where a figure does not exist."""
    shown = [[_text(row[name]) for name in rows[0]] for row in rows]
    lines = [list(rows[0]), ["---"] * len(rows[0]), *shown]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def mean_rows(runs: Sequence[Row]) -> list[Row]:
    """Per scene and figure the mean over its seeds, and the worst seed in brackets."""
    rows = []
    for scene in dict.fromkeys(run["scene"] for run in runs):
        seeds = [run for run in runs if run["scene"] == scene]
        row: Row = {"scene": scene, "movers": sum(run["movers"] for run in seeds)}
        for name, more_is_better in FIGURES.items():
            values = [run[name] for run in seeds if run[name] is not None]
            worst = (min if more_is_better else max)(values, default=None)
            row[name] = f"{mean(values):.3g} ({worst:.3g})" if values else "-"
        rows.append(row)
    return rows
