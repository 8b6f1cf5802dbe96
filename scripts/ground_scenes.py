# SPDX-License-Identifier: Apache-2.0
"""The ground on simulated terrain for sparse and dense sensors, with and without the rules made for it.

python scripts/ground_scenes.py [SEEDS [FRAMES [SENSOR ...]]]      # e.g. 10 6 lux4: seeds 0-9, six scans each
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import roadbed
from roadbed import Config
from roadbed.evaluate.elevation import SimulatedElevation
from roadbed.evaluate.ground import GroundEvaluation, evaluate_ground

SENSORS, SCENES = ("lux4", "vlp16", "hdl32e", "hdl64e"), ("city", "mountain", "offroad")
APART, RANGE = 5, 40.0  # sweeps between two scans; m within which elevation is scored
WITHOUT: dict[str, Any] = {
    "opacity": {"enabled": False},
    "stcrf": {"slope_limit": 0.5, "coarse": {"climb": False}, "islands": 0, "disagreement": 0.0},
}
CONFIGS = {"without": Config().with_changes(ground=WITHOUT), "default": Config()}


def evaluations(seeds: int, frames: int, sensors: Sequence[str]) -> Iterator[tuple[list[str], list[GroundEvaluation]]]:
    """Each scene, sensor and seed as single scans and with odometry, and its evaluation by each configuration."""
    for sensor in sensors:
        for scene in SCENES:
            for seed in range(seeds):
                whole: Any = roadbed.open(f"sim:{scene}?sensor={sensor}&seed={seed}&frames={frames * APART}")
                drive = whole[::APART]
                scans, truth = list(drive), [drive.truth(k) for k in range(len(drive))]
                for alone in (True, False):
                    source: Any = _Drive(drive.location, scans, truth, alone)
                    judge = SimulatedElevation(source, RANGE)
                    found = [evaluate_ground(source, config, elevation=judge) for config in CONFIGS.values()]
                    yield [scene, sensor, str(seed), "alone" if alone else "odometry"], found


class _Drive(list):
    """Scans that were cast once, with their truth; alone they have no poses."""

    def __init__(self, location: str, scans: list, truth: list, alone: bool) -> None:
        super().__init__(replace(scan, T_world_sensor=None) if alone else scan for scan in scans)
        self.location, self._truth, self.sequential = location, truth, not alone

    def truth(self, index: int) -> Any:
        return self._truth[index]


def cells(evaluation: GroundEvaluation) -> list[str]:
    """F1, precision, recall, elevation, its calibration, and recall by slope."""
    out = evaluation.as_dict()
    slopes = " ".join(f"{band['recall']:.0f}" for band in out["recall_by_slope"].values())
    sigma = f"{100 * out['elevation_within_1_sigma']:.0f}/{100 * out['elevation_within_2_sigma']:.0f}"
    measures = [f"{out[name]:.1f}" for name in ("f1", "precision", "recall")]
    return [*measures, f"{out['elevation_rmse_m']:.2f}", str(out["elevation_nodes"]), sigma, slopes]


def main() -> None:
    seeds, frames = (int(sys.argv[k]) if len(sys.argv) > k else value for k, value in ((1, 2), (2, 4)))
    measures = ("F1", "precision", "recall", "rms m", "nodes", "in 1/2 sigma %", "recall by slope")
    names = [f"{measure}, {config}" for config in CONFIGS for measure in measures]
    print("| scene | sensor | seed | scans | " + " | ".join(names) + " |")
    print("|---" * (4 + len(names)) + "|")
    means: dict[tuple[str, str, str], list[list[float]]] = {}
    for (scene, sensor, seed, how), found in evaluations(seeds, frames, sys.argv[3:] or SENSORS):
        print(
            f"| {scene} | {sensor} | {seed} | {how} | " + " | ".join(c for e in found for c in cells(e)) + " |",
            flush=True,
        )
        values = [[out["f1"], out["recall"], out["elevation_rmse_m"]] for out in (e.as_dict() for e in found)]
        means.setdefault((scene, sensor, how), []).append([v for pair in values for v in pair])
    print("\n| scene | sensor | scans | F1 mean (least) without | recall | rms m | F1 default | recall | rms m |")
    print("|---" * 9 + "|")
    for (scene, sensor, how), rows in means.items():
        mean, least = np.mean(rows, axis=0), np.min(rows, axis=0)
        columns = [f"{mean[k]:.1f} ({least[k]:.1f}) | {mean[k + 1]:.1f} | {mean[k + 2]:.2f}" for k in (0, 3)]
        print(f"| {scene} | {sensor} | {how} | " + " | ".join(columns) + " |")


if __name__ == "__main__":
    main()
