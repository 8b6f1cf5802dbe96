# SPDX-License-Identifier: Apache-2.0
"""The worth of each ground rule: every rule is removed alone, and the change is printed with its spread over seeds.

Real scans come from the given folder; without it only simulated scenes are measured. Each simulated scan is cast once
and scored twice: alone, and in its sequence with odometry.

A column is a set of scans. Its cell is the change of F1 (patchwork++ protocol, percentage points) without the rule, for
single scans and then in their sequence, each with the standard deviation of that change over seeds (over scans for real
sets). "low" is the recall of low obstacles on a road; "rms", "2 sigma" and "nodes" compare the surface with the true
terrain (percent). A change counts where it exceeds its spread and a minimum. A rule is kept if its removal makes
something worse that counts; removing a "harmful" rule only improves results.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np

import roadbed
from roadbed import Config
from roadbed.config.ground import GroundRule
from roadbed.evaluate.elevation import SimulatedElevation
from roadbed.evaluate.metrics import Score
from roadbed.evaluate.protocols import patchwork_plusplus

SIMULATED = {
    "city lux4": "city?sensor=lux4",
    "city 64": "city?sensor=hdl64e",
    "mountain lux4": "mountain?sensor=lux4",
    "mountain 16": "mountain?sensor=vlp16",
    "mountain 64": "mountain?sensor=hdl64e",
    "highway 16": "highway?sensor=vlp16",
    "offroad 32": "offroad?sensor=hdl32e",
    "offroad lux4": "offroad?sensor=lux4",
    "city 16": "city?sensor=vlp16",
    "city 32": "city?sensor=hdl32e",
    "parking 64": "parking?sensor=hdl64e",
    "city 64, bad poses": "city?sensor=hdl64e&odometry=drift+noise",
    "low": "lowobstacles?mounting=unknown",
}
REAL = {
    "KITTI": ("semantickitti/00", "semantickitti/08-singles"),
    "KITTI 50k": ("semantickitti/00-projected",),
    "nuScenes": ("nuscenes-projected",),
    "solid state": ("solid-state",),
}
SEQUENCE = "KITTI sequence", "semantickitti/00-projected"  # every scan in its sequence, with poses
SETS = (*REAL, SEQUENCE[0], *SIMULATED)
MOST_REAL = 6  # scans of one folder
APART = 5  # sweeps between two scans of a sequence
RANGE = 40.0  # m within which elevation is compared
LOW, NEAR = 0.15, 25.0  # m over the ground and from the sensor: points of low obstacles that must be found
# Figures, and the least change worth a rule.
FIGURES = {"f1": 0.02, "f1 sequence": 0.02, "low": 0.5, "rms": 2.0, "2 sigma": 1.0, "nodes": 2.0}

RULES: dict[str, dict[str, Any]] = {
    **{rule: {"without": [rule]} for rule in get_args(GroundRule)},
    "coarse_start": {
        "without": ["coarse_start"],
        "stcrf": {"iterations": 10},
    },  # the paper's start needs more iterations
    "points_per_node": {"stcrf": {"points_per_node": 0}},
    "prior": {"stcrf": {"gamma": 0.0}},
}


class CachedTruth:
    """A frame's truth whose elevation and occupancy are computed once per grid."""

    def __init__(self, truth: Any) -> None:
        self._truth = truth
        self._known: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._truth, name)

    def elevation(self, grid: Any, pose: Any) -> np.ndarray:
        return self._once("elevation", grid, pose)

    def occupancy(self, grid: Any, pose: Any, **options: Any) -> Any:
        return self._once("occupancy", grid, pose, **options)

    def _once(self, name: str, grid: Any, pose: Any, **options: Any) -> Any:
        key = name, grid, pose.numbers, *sorted(options.items())
        if key not in self._known:
            self._known[key] = getattr(self._truth, name)(grid, pose, **options)
        return self._known[key]


class CastSequence(list):
    """Scans that were cast once, with their truth."""

    def __init__(self, location: str, scans: int) -> None:
        whole: Any = roadbed.open(f"{location}&frames={scans * APART}")
        kept = whole[::APART]
        super().__init__(kept)
        self._truth = [CachedTruth(kept.truth(index)) for index in range(len(kept))]

    def truth(self, index: int) -> CachedTruth:
        return self._truth[index]


def of_real(scans: list[Any], config: Config) -> Iterator[float]:
    """F1 of each scan; scans without poses stand alone."""
    ground = roadbed.GroundFilter(config)
    for scan in scans:
        if scan.T_world_sensor is None:
            ground.reset()
        yield Score.of(ground(scan).is_ground, *patchwork_plusplus(scan)).f1


def of_simulated(name: str, sequence: CastSequence, config: Config) -> dict[str, float]:
    """Figures of one seed: labels of single scans, labels of the sequence, and the surface in both."""
    ground, elevation = roadbed.GroundFilter(config), SimulatedElevation(sequence, RANGE)
    found: dict[str, list[float]] = defaultdict(list)
    for alone in (True, False):
        ground.reset()
        for index, scan in enumerate(sequence):
            if alone:
                ground.reset()
            frame = ground(replace(scan, T_world_sensor=None) if alone else scan)
            if name == "low":
                up = _low(sequence.truth(index), scan.points)
                found["low"].append(100 * float(np.mean(~frame.is_ground[up])) if up.any() else np.nan)
                continue
            found["f1" if alone else "f1 sequence"].append(Score.of(frame.is_ground, *patchwork_plusplus(scan)).f1)
            surface = elevation(index, frame)
            assert surface is not None
            found["rms"].append(surface.rmse_m**2)
            found["nodes"].append(surface.nodes)
            found["2 sigma"].append(100 * surface.within_2_sigma)
    out = {figure: float(np.nanmean(values)) for figure, values in found.items()}
    return out | ({"rms": out["rms"] ** 0.5} if "rms" in out else {})


def _low(truth: Any, points: np.ndarray) -> np.ndarray:
    """Points on low obstacles that a vehicle must not run over."""
    x, y, z = truth.points_world.T
    near = np.hypot(points[:, 0], points[:, 1]) < NEAR
    return (truth.object_id > 0) & (z - truth.terrain.height(x, y) > LOW) & near


def real_sets(folder: Path) -> dict[str, list[Any]]:
    sets: dict[str, list[Any]] = {}
    for name, places in REAL.items():
        for place in places:
            if not (folder / place).is_dir():
                continue
            source: Any = roadbed.open(str(folder / place))
            step = max(1, len(source) // MOST_REAL)
            alone = [replace(scan, T_world_sensor=None) for scan in source[::step]]
            sets.setdefault(name, []).extend(alone)
    if (folder / SEQUENCE[1]).is_dir():
        sets[SEQUENCE[0]] = list(roadbed.open(str(folder / SEQUENCE[1])))
    return sets


@dataclass(frozen=True)
class Study:
    """What is measured: every rule of `rules` on every set of `sets`."""

    rules: Sequence[str]
    sets: Sequence[str]
    seeds: Sequence[int]
    scans: int  # of each seed
    folder: Path | None  # of real scans

    def records(self, known: Collection[tuple[str, str, int]] = ()) -> Iterator[dict[str, Any]]:
        """One record per rule ("" is the default), set, and seed or scan, except for those already `known`."""
        configs = {"": Config()} | {rule: Config().with_changes(ground=RULES[rule]) for rule in self.rules}
        for name, scans in (real_sets(self.folder) if self.folder else {}).items():
            for rule, config in configs.items():
                if name in self.sets and (rule, name, 0) not in known:
                    for unit, f1 in enumerate(of_real(scans, config)):
                        yield {"rule": rule, "set": name, "unit": unit, "f1": f1}
        for name, seed in product((name for name in SIMULATED if name in self.sets), self.seeds):
            rules = [rule for rule in configs if (rule, name, seed) not in known]
            if not rules:
                continue
            sequence = CastSequence(f"sim:{SIMULATED[name]}&seed={seed}", self.scans)
            for rule in rules:
                yield {"rule": rule, "set": name, "unit": seed, **of_simulated(name, sequence, configs[rule])}


def changes(records: list[dict[str, Any]]) -> dict[str, dict[tuple[str, str], tuple[float, float]]]:
    """Per rule, and per set and figure: mean and spread of the paired differences, off minus on."""
    value = {(r["rule"], r["set"], name, r["unit"]): r[name] for r in records for name in r if name in FIGURES}
    found: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for (rule, place, figure, unit), off in value.items():
        if rule and ("", place, figure, unit) in value:
            on = value["", place, figure, unit]
            relative = figure in ("rms", "nodes")
            found[rule][place, figure].append(100 * (off / on - 1) if relative else off - on)
    return {rule: {where: _change(d) for where, d in sets.items()} for rule, sets in found.items()}


def _change(differences: list[float]) -> tuple[float, float]:
    """Mean and spread; of one alone the spread is not known."""
    return float(np.mean(differences)), float(np.std(differences, ddof=1)) if len(differences) > 1 else np.inf


def verdict(sets: dict[tuple[str, str], tuple[float, float]]) -> tuple[str, list[str], list[str]]:
    """keep, harmful or delete, and where its removal makes results worse and better."""
    worse: list[str] = []
    better: list[str] = []
    for (place, figure), (mean, spread) in sets.items():
        if abs(mean) > max(spread, FIGURES[figure]):
            better_up = figure != "rms"  # a smaller error is better, more of everything else
            (better if (mean > 0) == better_up else worse).append(f"{place} {figure} {mean:+.2f}±{spread:.2f}")
    return ("keep" if worse else "harmful" if better else "delete"), worse, better


def markdown(found: dict[str, dict[tuple[str, str], tuple[float, float]]]) -> str:
    """A table with one row per rule."""
    places = list(dict.fromkeys(place for sets in found.values() for place, _ in sets))
    head = ["rule", *places, "verdict", "worse without", "better without"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for rule, sets in found.items():
        judged, worse, better = verdict(sets)
        cells = []
        for place in places:
            pairs = (sets.get((place, figure)) for figure in ("f1", "f1 sequence", "low"))
            cells.append("; ".join(f"{mean:+.2f}±{spread:.2f}" for mean, spread in filter(None, pairs)))
        lines.append(f"| {rule} | {' | '.join(cells)} | {judged} | {', '.join(worse)} | {', '.join(better)} |")
    return "\n".join(lines)
