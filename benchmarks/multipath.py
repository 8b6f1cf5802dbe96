# SPDX-License-Identifier: Apache-2.0
"""What stray returns along the beam cost, for many sensors: simulated scans alone and sequences with odometry."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.rigs import RIG_NAMES, rig_of
from roadbed.config import Config
from roadbed.core.frames import Label, Scan
from roadbed.ground.filter import GroundFilter
from roadbed.simulate.motion import ODOMETRIES
from roadbed.simulate.scenes import build_scene
from roadbed.simulate.sequence import SimulatedSequence

SCENES = "city", "mountain", "highway", "parking", "offroad"
SHARES = 0.0, 0.05, 0.1
FRAMES = 8  # of a sequence; the scans of ALONE are also labelled without the others
ALONE = 3, 7
WAYS = "known", "estimated", "sequence"
Row = dict[str, Any]


def recorded(scene: str, rig: str, seed: int, share: float) -> list[tuple[Scan, NDArray[np.bool_], NDArray[np.bool_]]]:
    """The scans of a sequence, which points are ground, and which are strays."""
    exact = ODOMETRIES["exact"]
    sequence = SimulatedSequence(build_scene(scene, seed, 1.0), rig_of(rig), FRAMES, seed, exact, multipath=share)
    found = (sequence.frame(number) for number in range(FRAMES))
    return [(scan, truth.is_ground, truth.spurious) for scan, truth in found]


def runs(
    rigs: Sequence[str], scenes: Sequence[str], seeds: Sequence[int], shares: Sequence[float], backend: str
) -> Iterator[Row]:
    """One row per labelled scan: its F1 in %, and how many of its strays got each label."""
    config = Config.of(None).with_changes(backend=backend)
    alone = GroundFilter(config)
    for rig in rigs:
        for share in shares:
            for scene in scenes:
                for seed in seeds:
                    over_time, scans = GroundFilter(config), recorded(scene, rig, seed, share)
                    for number, (scan, is_ground, stray) in enumerate(scans):
                        here = {"rig": rig, "strays": share, "scene": scene, "seed": seed, "scan": number}
                        given = [("sequence", over_time, scan)]
                        if number in ALONE:
                            single = replace(scan, T_world_sensor=None)
                            given.append(("known", alone, single))
                            if not scan.mounts:  # several sensors in one scan need their mountings
                                given.append(("estimated", alone, replace(single, T_vehicle_sensor=None)))
                        for way, ground, one in given:
                            frame = ground(one)
                            found = np.asarray(frame.is_ground)
                            f1 = 200 * float((is_ground & found).sum()) / max(1, int(is_ground.sum() + found.sum()))
                            counts = np.bincount(np.asarray(frame.label)[stray], minlength=len(Label))
                            yield here | {"way": way, "f1": f1} | {label.name: int(counts[label]) for label in Label}


def multipath_rows(
    seeds: Sequence[int],
    rigs: Sequence[str] = RIG_NAMES,
    scenes: Sequence[str] = SCENES,
    shares: Sequence[float] = SHARES,
    backend: str = "cpu",
) -> Iterator[Row]:
    """One row per rig and share of strays: mean and least F1 of its scans, and labels of strays in %."""
    for rig in rigs:
        for share in shares:
            found = list(runs([rig], scenes, seeds, [share], backend))
            row: Row = {"rig": rig, "strays": share}
            for way in WAYS:
                scores = [run["f1"] for run in found if run["way"] == way]
                row[way] = float(np.mean(scores)) if scores else None
                row[f"{way}_least"] = min(scores, default=None)
            strays = sum(run[label.name] for run in found for label in Label)
            for label in Label:
                row[label.name.lower()] = 100 * sum(run[label.name] for run in found) / strays if strays else None
            yield row
