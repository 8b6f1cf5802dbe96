# SPDX-License-Identifier: Apache-2.0
"""What a value of the occupancy filter is worth: the figures of each scene, mean of the seeds, as a Markdown table.

`python scripts/occupancy_values.py filter.acceleration 2 4 6 8 [--seeds N] [--scene NAME ...] [--drive DRIVE]`
"""

from __future__ import annotations

import argparse
from typing import Any

from occupancy_rules import DRIVE_FRAMES, ROOT, Cached, judged
from occupancy_tables import FIGURES, SCENES, mean, text_of

import roadbed
from roadbed.config import Config


def config_of(setting: str, value: float, seed: int) -> Config:
    changes: Any = value
    for name in reversed(setting.split(".")):
        changes = {name: changes}
    return Config().with_changes(seed=seed, occupancy=changes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("setting")
    parser.add_argument("values", type=float, nargs="+")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--scene", nargs="+", choices=SCENES, default=["city", "drive"])
    parser.add_argument("--drive", default=str(ROOT.parent / "shared/data/kitti-raw-0005"))
    given = parser.parse_args()
    print(f"| scene | {given.setting.split('.')[-1]} |", " | ".join(FIGURES), "|\n|" + "---|" * (len(FIGURES) + 2))
    for scene in given.scene:
        drive = scene == "drive"
        source = Cached(roadbed.open(given.drive if drive else SCENES[scene]), DRIVE_FRAMES if drive else None)
        for value in given.values:
            runs = [judged(scene, source, config_of(given.setting, value, seed)) for seed in range(given.seeds)]
            figures = [text_of(mean([run.get(field) for run in runs])) for field in FIGURES.values()]
            print("|", " | ".join([scene, f"{value:g}", *figures]), "|", flush=True)


if __name__ == "__main__":
    main()
