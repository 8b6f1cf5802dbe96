# SPDX-License-Identifier: Apache-2.0
"""What each rule of the occupancy is worth: each is switched off alone, and the change is printed with its spread.

A seed is that of the simulated scene and of the filter. Scans are cast and their ground is estimated once; every rule
sees the same ground. A change counts where it exceeds its spread over seeds and the least change worth a rule, and
twice where it exceeds its spread twice. CONTROL switches nothing off but changes the seed of the filter: it shows how
often chance alone is counted. A rule is kept if its removal makes clearly more worse than better.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from benchmarks.leave_one_out_ground import CachedTruth
from benchmarks.occupancy_scenes import over_movers
from roadbed.config import Config
from roadbed.config.occupancy import OccupancyRule
from roadbed.evaluate.masks import Masks
from roadbed.evaluate.occupancy import OccupancyScorer
from roadbed.occupancy import OccupancyFilter
from roadbed.pipeline import Pipeline
from roadbed.sources import open_source

ROOT = Path(__file__).parent.parent
CONTROL = "other_seed"
RULES: tuple[str, ...] = (CONTROL, *get_args(OccupancyRule))
DRIVE, DRIVE_FRAMES = "kitti-raw-0005", 50
SCENES = {
    "standstart": "sim:standstart?frames=45",
    "highway": "sim:highway?frames=32",
    "lux": "sim:city?sensor=lux4&frames=45",
    "city": "sim:city?frames=32",
    "parking": "sim:parking?frames=32",
    "city-vlp16": "sim:city?sensor=vlp16&frames=40",
    "highway-vlp16": "sim:highway?sensor=vlp16&frames=40",
    "mountain-vlp16": "sim:mountain?sensor=vlp16&frames=40",
    "parking-vlp16": "sim:parking?sensor=vlp16&frames=40",
    "drive": DRIVE,
}
# Figure: its name in the evaluation, whether more is better, and the least change worth a rule.
FIGURES = {
    "IoU": ("dynamic_iou", True, 0.005),
    "static IoU": ("static_iou", True, 0.005),
    "false cells": ("false_moving_cells", False, 0.1),
    "false objects": ("false_objects", False, 0.5),
    "MOTA": ("mota_percent", True, 0.5),
    "error": ("error_percent", False, 0.2),
    "missed": ("missed_percent", False, 0.5),
    "violations": ("free_space_violations_percent", False, 0.02),
    "split": ("split_percent", False, 0.5),
    "extent": ("extent_within_25_percent", True, 2.0),
    "standing": ("standing_dynamic_percent", False, 0.1),
}
SHOWN = ("IoU", "false cells", "MOTA", "error", "missed")
_CLEARLY = 3  # more points against its removal than for it keep a rule; chance alone gives one or two
_ANOTHER = 1000  # added to the filter's seed by CONTROL
Record = dict[str, Any]
Change = tuple[float, float, int]  # mean, standard deviation and number of seeds


class Recording:
    """Scans of a source with their ground, and its truth or boxes, all of them made once."""

    def __init__(self, location: str, config: Config, masks: Path | None = None) -> None:
        source: Any = open_source(location)
        scans = [source[k] for k in range(min(len(source), DRIVE_FRAMES))]
        self.results = list(Pipeline(config, occupancy=False).run(scans))
        if hasattr(source, "truth"):
            known = [CachedTruth(source.truth(k)) for k in range(len(scans))]
            self.truth = known.__getitem__
        else:
            self.objects = source.objects
        self.masks = None if masks is None else Masks.load(masks)
        if self.masks is not None:
            for result in self.results:
                x, y, _ = (result.ground.T_grid_sensor @ result.scan.points).T
                self.masks.update(x, y, result.ground.height_above_ground)


def figures(recording: Recording, config: Config) -> dict[str, float | None]:
    """What the evaluation says of one run over known ground."""
    filter_, scorer = OccupancyFilter(config), OccupancyScorer(recording, recording.masks)
    for index, result in enumerate(recording.results):
        scorer.add(index, filter_(result.scan, result.ground), result.ground)
    out = scorer.result()
    out |= over_movers(out["movers"])
    out.setdefault("standing_dynamic_percent", out["static_dynamic_share_percent"])
    return {name: out.get(field) for name, (field, _, _) in FIGURES.items()}


def recording_of(scene: str, seed: int) -> Recording | None:
    """The recording of a scene of SCENES; None where the drive is missing."""
    if scene != "drive":
        return Recording(f"{SCENES[scene]}&seed={seed}", Config(seed=seed))
    location = Path(os.environ.get("ROADBED_DATA") or ROOT.parent / "shared" / "data") / DRIVE
    masks = ROOT / "tests/occupancy/kitti-0005-masks.json"
    return Recording(str(location), Config(seed=seed), masks) if location.is_dir() else None


def records(
    scenes: Sequence[str], rules: Sequence[str], seeds: Iterable[int], known: Iterable[Record] = ()
) -> Iterator[Record]:
    """One record per scene, seed and rule that is not `known`; the rule "" is the default, "a+b" are two at once.

    The drive is looked for in the folder that ROADBED_DATA names, else in ../shared/data, and left out if missing.
    """
    done = {(record["scene"], record["rule"], record["seed"]) for record in known}
    for seed in seeds:
        for scene in scenes:
            missing = [rule for rule in ("", *rules) if (scene, rule, seed) not in done]
            recording = recording_of(scene, seed) if missing else None
            if recording is None:
                continue
            for rule in missing:
                without = [name for name in rule.split("+") if name in get_args(OccupancyRule)]
                config = Config.parse({"seed": seed + _ANOTHER * (rule == CONTROL), "occupancy": {"without": without}})
                yield {"scene": scene, "rule": rule, "seed": seed, **figures(recording, config)}


def changes(measured: Iterable[Record]) -> dict[str, dict[tuple[str, str], Change]]:
    """Per rule, and per scene and figure: the paired differences, off minus on.

    "On" is the mean of both seeds of the filter, as one run in which something moves by chance would speak for or
    against every rule. The control is the difference between them.
    """
    value = {(r["rule"], r["scene"], r["seed"], name): r[name] for r in measured for name in FIGURES}
    found: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for (rule, scene, seed, name), off in value.items():
        twins = [value.get((one, scene, seed, name)) for one in ("", CONTROL)[: 1 if rule == CONTROL else 2]]
        on = [v for v in twins if v is not None]
        if rule and off is not None and on:
            found[rule][scene, name].append(off - sum(on) / len(on))
    return {rule: {where: _change(values) for where, values in sets.items()} for rule, sets in found.items()}


def _change(differences: list[float]) -> Change:
    spread = float(np.std(differences, ddof=1)) if len(differences) > 1 else np.inf
    return float(np.mean(differences)), spread, len(differences)


def rows(found: dict[str, dict[tuple[str, str], Change]]) -> list[dict[str, Any]]:
    """One row per rule: the change of the main figures per scene, and what counts for and against the rule."""
    out = []
    for rule, sets in found.items():
        worse, better, where = _counted(sets)
        verdict = "keep" if worse >= better + _CLEARLY else "weak" if worse > better else "delete"
        row: dict[str, Any] = {"rule": rule}
        for scene in SCENES:
            pairs = [sets.get((scene, name)) for name in SHOWN]
            if any(pairs):
                row[scene] = "; ".join("-" if pair is None else f"{pair[0]:+.2g}±{pair[1]:.2g}" for pair in pairs)
        row |= {"verdict": "control" if rule == CONTROL else verdict, "worse": worse, "better": better}
        out.append(row | {"where": ", ".join(where)})
    return out


def _counted(sets: dict[tuple[str, str], Change]) -> tuple[int, int, list[str]]:
    """Points for worse and better without the rule, and where."""
    points, where = [0, 0], []
    for (scene, name), (mean, spread, _) in sets.items():
        _, more_is_better, least = FIGURES[name]
        if abs(mean) > max(spread, least):
            side = int((mean > 0) == more_is_better)
            points[side] += 2 if abs(mean) > 2 * spread else 1
            where.append(f"{('worse', 'better')[side]}: {scene} {name} {mean:+.3g}±{spread:.2g}")
    return points[0], points[1], where
