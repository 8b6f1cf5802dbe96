# SPDX-License-Identifier: Apache-2.0
"""What each addition to the ground's labels is worth: F1 on real scans, and low obstacles found in the simulator.

python scripts/ground_ablation.py [--in-order] [FOLDER]      # a folder of real scans laid out as docs/data.md says

Each rule is removed from the default; with --in-order each addition is made to the published method, on top of those
before it.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np

import roadbed
from roadbed.config import Config
from roadbed.config.ground import GroundRule

# Folder, frames and weight of each scene; 00 and its projection show the same street.
SCENES = {
    "00": ("semantickitti/00", (0, 1, 2), 0.5),
    "00p": ("semantickitti/00-projected", (0, 5, 10, 15, 20), 0.5),
    "720": ("semantickitti/08-singles", (720,), 1.0),
    "1500": ("semantickitti/08-singles", (1500,), 1.0),
    "nuS": ("nuscenes-projected", (0, 1, 2, 3), 1.0),
    "ssA": ("solid-state", (0, 1), 1.0),
    "ssB": ("solid-state", (2, 3), 1.0),
    "ssC": ("solid-state", (4, 5), 1.0),
}
GROUND_CLASSES, NOT_SCORED = (40, 44, 48, 49, 60, 72), (0, 1, 70)  # protocol patchwork++
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    **{f"without {rule}": {"without": [rule]} for rule in get_args(GroundRule)},
    "without coarse_start": {"without": ["coarse_start"], "stcrf": {"iterations": 10}},
    "all points of a node": {"stcrf": {"points_per_node": 0}},
}


def additions() -> Iterator[tuple[str, Config]]:
    """From the `paper` preset to the default, one addition at a time."""
    default, rules = Config(), get_args(GroundRule)
    values = {
        "mounting estimated": {"mounting": {"estimate": True}},
        "lattice of 160 x 160 m": {"stcrf": {"length": 160.0, "width": 160.0}},
        "slopes up to 0.8, labels up to 0.25 m": {"stcrf": {"slope_limit": 0.8}, "labels": {"threshold": 0.25}},
    }
    config = Config.preset("paper")
    for name, changes in values.items():
        config = config.with_changes(ground=changes)
        yield name, config
    for number, rule in enumerate(rules, 1):
        config = config.with_changes(ground={"without": rules[number:]})
        yield f"+ {rule}", config
    yield "+ 128 points per node, 6 iterations: default", default


def real_scans(folder: Path) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    scans: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for scene, (name, frames, _) in SCENES.items():
        for frame in frames:
            points = np.fromfile(folder / name / "velodyne" / f"{frame:06d}.bin", np.float32).reshape(-1, 4)[:, :3]
            classes = np.fromfile(folder / name / "labels" / f"{frame:06d}.label", np.uint32) & 0xFFFF
            scans.setdefault(scene, []).append((points, classes))
    return scans


def f1(is_ground: np.ndarray, classes: np.ndarray) -> float:
    scored = ~np.isin(classes, NOT_SCORED)
    truth, found = np.isin(classes, GROUND_CLASSES)[scored], is_ground[scored]
    return 200 * (truth & found).sum() / (truth.sum() + found.sum())


def low_obstacles(frames: int = 8) -> list[tuple[np.ndarray, np.ndarray]]:
    """Scans of isolated obstacles of 0.20-0.40 m, and which of their points lie 0.15 m up and within 25 m."""
    source: Any = roadbed.open(f"sim:lowobstacles?frames={frames * 10}&mounting=unknown")
    scans = []
    for index in range(0, frames * 10, 10):
        scan, truth = source[index], source.truth(index)
        place = truth.points_world
        height = place[:, 2] - truth.terrain.height(place[:, 0], place[:, 1])
        near = np.hypot(scan.points[:, 0], scan.points[:, 1]) < 25
        scans.append((scan.points, (truth.object_id > 0) & (height > 0.15) & near))
    return scans


def measure(name: str, config: Config, scans: Any, obstacles: Any) -> None:
    ground = roadbed.GroundFilter(config)
    scores = [np.mean([f1(ground(points).is_ground, classes) for points, classes in scans[s]]) for s in SCENES]
    mean = np.average(scores, weights=[weight for _, _, weight in SCENES.values()])
    found = [(~ground(points).is_ground[up], up.sum()) for points, up in obstacles]
    recall = 100 * sum(hit.sum() for hit, _ in found) / max(1, sum(n for _, n in found))
    cells = " | ".join(f"{score:.2f}" for score in scores)
    print(f"| {name} | {cells} | {mean:.3f} | {recall:.1f} |", flush=True)


def main() -> None:
    default = os.environ.get("ROADBED_DATA", str(Path(__file__).parent.parent.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(default))
    parser.add_argument("--in-order", action="store_true")
    options = parser.parse_args()
    folder = options.folder
    if not folder.is_dir():
        sys.exit(f"{folder}: no such folder; give one with real scans")
    removed = ((name, Config().with_changes(ground=changes)) for name, changes in VARIANTS.items())
    scans, obstacles = real_scans(folder), low_obstacles()
    print("| F1 (patchwork++), % | " + " | ".join(SCENES) + " | mean | low obstacles found, % |")
    print("|---" * (len(SCENES) + 3) + "|")
    for name, config in additions() if options.in_order else removed:
        measure(name, config, scans, obstacles)


if __name__ == "__main__":
    main()
