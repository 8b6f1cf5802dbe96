# SPDX-License-Identifier: Apache-2.0
"""The ground on simulated terrain for sparse and dense sensors, with and without the rules made for it.

python scripts/ground_scenes.py [SEEDS [FRAMES [SENSOR ...]]]      # e.g. 10 6 lux4: seeds 0-9, six scans each
python scripts/ground_scenes.py --paper ...                        # only the `paper` preset, with the mounting given
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import roadbed
from roadbed import Config
from roadbed.evaluate.elevation import SimulatedElevation
from roadbed.evaluate.ground import evaluate_ground

SENSORS, SCENES = ("lux4", "vlp16", "hdl32e", "hdl64e"), ("city", "highway", "mountain", "offroad")
APART, RANGE = 5, 40.0  # sweeps between two scans; m within which elevation is scored
WITHOUT: dict[str, Any] = {
    "without": ["visibility", "slope_aware_start", "small_components", "neighbour_disagreement"],
    "stcrf": {"slope_limit": 0.5},
}
PAPER = "--paper" in sys.argv
CONFIGS = (
    {"paper": Config.preset("paper")}
    if PAPER
    else {"without": Config().with_changes(ground=WITHOUT), "default": Config()}
)


def evaluations(seeds: int, frames: int, sensors: Sequence[str]) -> Iterator[tuple[list[str], list[dict[str, Any]]]]:
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


def cells(out: dict[str, Any]) -> list[str]:
    """F1, precision, recall, elevation, its calibration, and recall by slope."""
    slopes = " ".join(f"{band['recall']:.0f}" for band in out["recall_by_slope"].values())
    sigma = f"{100 * out['elevation_within_1_sigma']:.0f}/{100 * out['elevation_within_2_sigma']:.0f}"
    measures = [f"{out[name]:.1f}" for name in ("f1", "precision", "recall")]
    return [*measures, f"{out['elevation_rmse_m']:.2f}", str(out["elevation_nodes"]), sigma, slopes]


def means(out: list[dict[str, Any]]) -> str:
    """Means over seeds, with the least F1 and the least share of nodes within two sigma."""

    def mean(name: str) -> float:
        return float(np.mean([one[name] for one in out]))

    sigma = [[100 * one[f"elevation_within_{k}_sigma"] for one in out] for k in (1, 2)]
    bands = dict.fromkeys(band for one in out for band in one["recall_by_slope"])
    slopes = (
        np.mean([one["recall_by_slope"][band]["recall"] for one in out if band in one["recall_by_slope"]])
        for band in bands
    )
    return " | ".join(
        [
            f"{mean('f1'):.1f} ({min(one['f1'] for one in out):.1f})",
            *(f"{mean(name):.1f}" for name in ("precision", "recall")),
            f"{mean('elevation_rmse_m'):.3f} | {1e3 * mean('elevation_median_m'):.0f} | {mean('elevation_nodes'):.0f}",
            f"{np.mean(sigma[0]):.0f}/{np.mean(sigma[1]):.0f} ({min(sigma[1]):.0f})",
            " ".join(f"{slope:.1f}" for slope in slopes),
        ]
    )


def main() -> None:
    given = [argument for argument in sys.argv[1:] if argument != "--paper"]
    seeds, frames = (int(given[k]) if len(given) > k else value for k, value in ((0, 2), (1, 4)))
    measures = ("F1", "precision", "recall", "rms m", "nodes", "in 1/2 sigma %", "recall by slope")
    names = [f"{measure}, {config}" for config in CONFIGS for measure in measures]
    print("| scene | sensor | seed | scans | " + " | ".join(names) + " |")
    print("|---" * (4 + len(names)) + "|")
    runs: dict[tuple[str, str, str], list[list[dict[str, Any]]]] = {}
    for (scene, sensor, seed, how), found in evaluations(seeds, frames, given[2:] or SENSORS):
        row = " | ".join(c for e in found for c in cells(e))
        print(f"| {scene} | {sensor} | {seed} | {how} | {row} |", flush=True)
        runs.setdefault((scene, sensor, how), []).append(found)
    measures = (
        "F1 (least)",
        "precision",
        "recall",
        "rms m",
        "median mm",
        "nodes",
        "in 1/2 sigma % (least)",
        "recall by slope",
    )
    print("\n| scene | sensor | scans | rules | " + " | ".join(measures) + " |")
    print("|---" * (4 + len(measures)) + "|")
    for (scene, sensor, how), found in runs.items():
        for k, name in enumerate(CONFIGS):
            print(f"| {scene} | {sensor} | {how} | {name} | {means([one[k] for one in found])} |")


if __name__ == "__main__":
    main()
