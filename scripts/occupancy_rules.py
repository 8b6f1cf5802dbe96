# SPDX-License-Identifier: Apache-2.0
"""What each rule of the occupancy filter changes: every scene, every seed, as the Markdown tables of docs/occupancy.md.

`python scripts/occupancy_rules.py [--seeds N] [--scene NAME ...] [--rules NAME ...] [--drive DRIVE] [--keep FILE]`
`--keep` appends every run to a file of JSON lines and takes those that are there already.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import roadbed
from roadbed.config import Config
from roadbed.evaluate.occupancy import evaluate_occupancy

ROOT = Path(__file__).parent.parent
SCENES = {
    "standstart": "sim:standstart?frames=50",
    "city": "sim:city?frames=40",
    "highway": "sim:highway?frames=32",
    "lux": "sim:city?sensor=lux4&frames=50",
    "drive": "",
}
DRIVE_FRAMES = 50
# The switch of each rule, off.
OFF: dict[str, dict[str, Any]] = {
    "R": {"filter": {"registration": {"enabled": False}}},
    "M": {"filter": {"maturity": {"free_time": 0.0}}},
    "Q": {"filter": {"acceleration_at_rest": 6.0}},
    "O": {"observation": {"sparse": 0.0}},
}
VARIANTS = {"before": "", "R": "R", "RM": "RM", "RMQ": "RMQ", "after": "RMQO"}
FIGURES = {
    "speed error %": "error_percent",
    "missed %": "missed_percent",
    "never settled": "movers_never_settled",
    "seen": "movers_seen",
    "false cells": "false_moving_cells",
    "standing dynamic %": "standing",
    "dynamic IoU": "dynamic_iou",
    "violations %": "free_space_violations_percent",
    "MOTA %": "mota_percent",
    "switches": "id_switches",
    "split %": "split_percent",
    "extent within 25 %": "extent_within_25_percent",
}


class Remembered:
    """A source whose scans and truth are made once."""

    def __init__(self, source: Any, frames: int | None = None) -> None:
        self._source, self._frames = source, frames
        self._scans: dict[int, Any] = {}
        self._truth: dict[int, Any] = {}
        if hasattr(source, "truth"):
            self.truth = lambda index: self._once(self._truth, index, source.truth)

    def __len__(self) -> int:
        return min(len(self._source), self._frames or len(self._source))

    def __getitem__(self, index: int) -> Any:
        return self._once(self._scans, index, self._source.__getitem__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    @staticmethod
    def _once(known: dict[int, Any], index: int, make: Any) -> Any:
        if index not in known:
            known[index] = make(index)
        return known[index]


def config_of(variant: str, seed: int) -> Config:
    """The default with the rules that the variant does not name switched off."""
    config = Config().with_changes(seed=seed)
    for rule, off in OFF.items():
        if rule not in VARIANTS[variant]:
            config = config.with_changes(occupancy=off)
    return config


def run(scene: str, source: Any, variant: str, seed: int) -> dict[str, Any]:
    return {"scene": scene, "rules": variant, "seed": seed, **judged(scene, source, config_of(variant, seed))}


def judged(scene: str, source: Any, config: Config) -> dict[str, Any]:
    """What the evaluation says, and the figures of all movers together."""
    masks = ROOT / "tests/occupancy/kitti-0005-masks.json" if scene == "drive" else None
    out = evaluate_occupancy(source, config, masks)
    movers = [row for row in out["movers"] if row["visible_frames"]]
    frames = sum(row["visible_frames"] for row in movers)
    errors = [row["error_percent"] for row in movers if row["error_percent"] is not None]
    missed = sum(row["visible_frames"] * row["missed_percent"] for row in movers)
    standing = out["static_dynamic_share_percent"]
    return {
        **out,
        "error_percent": sum(errors) / len(errors) if errors else None,
        "missed_percent": missed / frames if frames else None,
        "standing": standing if standing is not None else out.get("standing_dynamic_percent"),
    }


def number(value: Any) -> str:
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def mean(values: list[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if known else None


def print_tables(runs: list[dict[str, Any]]) -> None:
    head = ["scene", "rules", "seed", *FIGURES]
    print("|", " | ".join(head), "|\n|" + "---|" * len(head))
    for scene, variant in dict.fromkeys((r["scene"], r["rules"]) for r in runs):
        mine = [r for r in runs if (r["scene"], r["rules"]) == (scene, variant)]
        for r in mine:
            print("|", " | ".join([scene, variant, str(r["seed"]), *(number(r.get(f)) for f in FIGURES.values())]), "|")
        means = [number(mean([r.get(field) for r in mine])) for field in FIGURES.values()]
        print("|", " | ".join(f"**{text}**" for text in (scene, variant, "mean", *means)), "|")
    print(
        "\n| scene | mover | true speed m/s |", " | ".join(f"{v}: error %, missed %, settled s" for v in VARIANTS), "|"
    )
    print("|" + "---|" * (3 + len(VARIANTS)))
    for scene in dict.fromkeys(r["scene"] for r in runs):
        mine = [r for r in runs if r["scene"] == scene]
        for mover in dict.fromkeys((row["id"], row["kind"]) for r in mine for row in r["movers"]):
            rows = {
                v: [w for r in mine if r["rules"] == v for w in r["movers"] if w["id"] == mover[0]] for v in VARIANTS
            }
            if not any(w["visible_frames"] for ws in rows.values() for w in ws):
                continue
            speed = mean([w["true_speed"] for ws in rows.values() for w in ws])
            cells = [
                ", ".join(
                    number(mean([w[f] for w in ws])) for f in ("error_percent", "missed_percent", "settled_after_s")
                )
                for ws in rows.values()
            ]
            print("|", " | ".join([scene, f"{mover[1]} {mover[0]}", number(speed), *cells]), "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scene", nargs="+", choices=SCENES, default=list(SCENES))
    parser.add_argument("--rules", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--drive", default=str(ROOT.parent / "shared/data/kitti-raw-0005"))
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    runs = (
        [json.loads(line) for line in given.keep.read_text().splitlines()] if given.keep and given.keep.exists() else []
    )
    done = {(r["scene"], r["rules"], r["seed"]) for r in runs}
    for scene in given.scene:
        wanted = [(v, s) for s in range(given.seeds) for v in given.rules if (scene, v, s) not in done]
        if not wanted:
            continue
        drive = scene == "drive"
        source = Remembered(roadbed.open(given.drive if drive else SCENES[scene]), DRIVE_FRAMES if drive else None)
        for variant, seed in wanted:
            runs.append(run(scene, source, variant, seed))
            if given.keep:
                with given.keep.open("a") as file:
                    file.write(json.dumps(runs[-1], default=float) + "\n")
    print_tables(
        sorted(runs, key=lambda r: (list(SCENES).index(r["scene"]), list(VARIANTS).index(r["rules"]), r["seed"]))
    )


if __name__ == "__main__":
    main()
