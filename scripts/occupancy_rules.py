# SPDX-License-Identifier: Apache-2.0
"""Figures of the occupancy with sets of rules: every scene, seed and mover, as the tables of docs/benchmarks.md.

`python scripts/occupancy_rules.py [--seeds N] [--scene NAME ...] [--rules SET ...] [--drive DRIVE] [--keep FILE]`
A set is `all`, `none` or `without NAME`. `--keep` appends every run to a file of JSON lines and skips those in it;
`occupancy_tables.py FILE --into docs/benchmarks.md docs/notebook/occupancy-runs.md` writes the tables into the pages.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from occupancy_tables import SCENES, VARIANTS, load, print_tables

import roadbed
from roadbed.config import Config
from roadbed.config.occupancy import OccupancyRule
from roadbed.evaluate.occupancy import evaluate_occupancy

ROOT = Path(__file__).parent.parent
DRIVE_FRAMES = 50


class Cached:
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


def config_of(rules: str, seed: int) -> Config:
    """The default with the rules of one of VARIANTS."""
    every = get_args(OccupancyRule)
    without = {"all": (), "none": every}.get(rules, (rules.removeprefix("without "),))
    return Config().with_changes(seed=seed, occupancy={"without": without})


def run(scene: str, source: Any, rules: str, seed: int) -> dict[str, Any]:
    return {"scene": scene, "rules": rules, "seed": seed, **judged(scene, source, config_of(rules, seed))}


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scene", nargs="+", choices=SCENES, default=list(SCENES))
    parser.add_argument("--rules", nargs="+", choices=VARIANTS, default=["all"], metavar="SET")
    parser.add_argument("--drive", default=str(ROOT.parent / "shared/data/kitti-raw-0005"))
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        kept = given.keep or Path(folder) / "runs.jsonl"
        done = {(r["scene"], r["rules"], r["seed"]) for r in load([kept])}
        for scene in given.scene:
            missing = [(v, s) for s in range(given.seeds) for v in given.rules if (scene, v, s) not in done]
            if not missing:
                continue
            drive = scene == "drive"
            source = Cached(roadbed.open(given.drive if drive else SCENES[scene]), DRIVE_FRAMES if drive else None)
            for rules, seed in missing:
                line = json.dumps(run(scene, source, rules, seed), default=float) + "\n"
                with kept.open("a") as file:
                    file.write(line)
        print_tables(load([kept]))


if __name__ == "__main__":
    main()
