# SPDX-License-Identifier: Apache-2.0
"""Is a frame right where it says that it is sure? Every sensor in every simulated scene under every condition.

Right is what benchmarks/confidence.py calls right; the F1 and the elevation say how far off the others are.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

import roadbed
from benchmarks import rigs
from benchmarks.confidence import SURFACE_ERROR, SURFACE_RADIUS, SURFACE_SHARE, is_right
from benchmarks.indoor import VLP32C
from benchmarks.rigs import RIG_NAMES, evenly, scanner
from roadbed.core.frames import GroundFrame
from roadbed.evaluate.metrics import Score, mean_of_known
from roadbed.simulate.motion import ODOMETRIES
from roadbed.simulate.scenes import build_scene
from roadbed.simulate.sensors import Rig, load_rig
from roadbed.simulate.sequence import SimulatedSequence
from roadbed.simulate.truth import FrameTruth

SCENES = ("city", "highway", "mountain", "offroad", "parking")
SILENT_SIGMAS = 3.0  # a cell is silently wrong if it is off by more than SURFACE_ERROR and by so many of its sigmas
ALONE = (1.0, 7.0, 13.0, 19.0)  # s at which single scans are taken
DRIVE, APART, JUDGED = 4.0, 0.3, (2, 5, 8)  # s at which a sequence begins, s between its scans, those that count


EXTRA = {
    "vlp32c": Rig.of(VLP32C),
    "bumper": Rig.of(load_rig("lux4").sensors[1]),
    "low": Rig.of(scanner("low", evenly(15.0, 16), columns=1800, z=0.35)).changed(range_min=0.3),
}
SENSORS = (*RIG_NAMES, *EXTRA)


class Condition(NamedTuple):
    """How the scans are taken."""

    sequence: bool = False  # with poses, one filter for all
    known: bool = False  # the mounting
    odometry: str = "exact"  # of a sequence
    height: float | None = None  # m; None: the sensor's
    pitch: float = 0.0  # degrees, added to the sensor's
    roll: float = 0.0
    density: float = 1.0
    noise: float = 1.0  # times that of the sensor
    multipath: float = 0.0  # share of the ground's returns
    losses: bool = True
    distortion: bool = False


CONDITIONS = {
    "scans": Condition(),
    "scans, known": Condition(known=True),
    "empty": Condition(density=0.0),
    "crowded": Condition(density=3.0),
    "2 % strays": Condition(multipath=0.02),
    "5 % strays": Condition(multipath=0.05),
    "noise x 3": Condition(noise=3.0),
    "no losses": Condition(losses=False),
    "distorted": Condition(distortion=True),
    "0.4 m": Condition(height=0.4),
    "0.4 m, known": Condition(height=0.4, known=True),
    "0.8 m": Condition(height=0.8),
    "3 m": Condition(height=3.0),
    "pitch 5": Condition(pitch=5.0),
    "pitch -5": Condition(pitch=-5.0),
    "pitch 15": Condition(pitch=15.0),
    "roll 5": Condition(roll=5.0),
    "sequence": Condition(True),
    "sequence, known": Condition(True, known=True),
    "sequence, noise": Condition(True, odometry="noise"),
    "sequence, drift+noise, known": Condition(True, known=True, odometry="drift+noise"),
    "sequence, crowded": Condition(True, density=3.0),
    "sequence, 0.4 m": Condition(True, height=0.4),
    "sequence, pitch 8": Condition(True, pitch=8.0),
}
Task, Names = tuple[str, str, str, int], Sequence[str]  # sensor, scene, condition, seed
Row = dict[str, Any]


def tasks_of(sensors: Names, scenes: Names, conditions: Names, seeds: Iterable[int]) -> list[Task]:
    """All combinations; the mountings of a rig are known, because its scans are merged by them."""
    found, chosen = [], {name: CONDITIONS[name] for name in conditions}
    for sensor in sensors:
        is_rig = len(rig_of(sensor).sensors) > 1
        same = [name for name, one in chosen.items() if not one.known and one._replace(known=True) in chosen.values()]
        names = [name for name in chosen if not (is_rig and name in same)]
        found += [(sensor, scene, name, seed) for scene in scenes for name in names for seed in seeds]
    return found


def rig_of(sensor: str) -> Rig:
    return EXTRA[sensor] if sensor in EXTRA else rigs.rig_of(sensor)


def run_rows(tasks: Sequence[Task], processes: int = 1) -> Iterator[list[Row]]:
    """The rows of each task, in order."""
    if processes == 1:
        yield from map(run, tasks)
        return
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(run, tasks, chunksize=1)


def sequence_of(task: Task) -> SimulatedSequence:
    """The simulated sequence of a task."""
    sensor, scene, name, seed = task
    condition, rig = CONDITIONS[name], rig_of(sensor)
    moved = []
    for one in rig.sensors:
        turned = {"pitch": one.mount.pitch + condition.pitch, "roll": one.mount.roll + condition.roll}
        mount = one.mount.with_changes(z=condition.height or one.mount.z, **turned)
        moved.append(one.with_changes(mount=mount, range_noise=one.range_noise * condition.noise))
    frames = int((DRIVE + APART * JUDGED[-1] if condition.sequence else ALONE[-1]) * rig.rate + 0.5) + 1
    odometry, known = ODOMETRIES[condition.odometry], condition.known or len(moved) > 1
    options = condition.distortion, condition.multipath, condition.losses, known
    world = build_scene(scene, seed, condition.density)
    return SimulatedSequence(world, Rig.of(*moved), frames, seed, odometry, *options)


def run(task: Task) -> list[Row]:
    """One row per judged frame of a task."""
    sequence, condition = sequence_of(task), CONDITIONS[task[2]]
    times = [DRIVE + APART * k for k in range(JUDGED[-1] + 1)] if condition.sequence else ALONE
    rows, head = [], dict(zip(("sensor", "scene", "condition", "seed"), task))
    with roadbed.GroundFilter() as ground:
        for number, time in enumerate(times):
            index = int(time * sequence.rig.rate + 0.5)
            scan, truth = sequence.frame(index)
            frame = ground(scan if condition.sequence else replace(scan, T_world_sensor=None))
            if number in JUDGED or not condition.sequence:
                rows.append({**head, "index": index, **judged(frame, truth)})
    return rows


def judged(frame: GroundFrame, truth: FrameTruth) -> Row:
    """What is true of a frame."""
    (x, y), middle = frame.grid.mesh(), frame.T_grid_vehicle.xyz
    near = np.isfinite(frame.elevation) & (np.hypot(x - middle[0], y - middle[1]) < SURFACE_RADIUS)
    error = np.abs(frame.elevation - truth.elevation(frame.grid, frame.T_grid_sensor))[near]
    silent = (error > SURFACE_ERROR) & (error > SILENT_SIGMAS * np.sqrt(frame.variance[near]))
    surface = bool(len(error)) and bool(np.mean(error < SURFACE_ERROR) >= SURFACE_SHARE)
    mounting = is_right(frame.mounting, truth.T_world_vehicle.inverse() @ truth.T_world_sensor)
    return {
        "mounting_right": mounting,
        "surface_right": surface,
        "right": mounting and surface,
        "sure": frame.confidence.is_sure,
        "cells": len(error),
        "wrong_cells": int(np.count_nonzero(~(error < SURFACE_ERROR))),
        "silent_cells": int(np.count_nonzero(silent)),
        "squares": float(np.sum(error**2)),
        "f1": Score.of(frame.is_ground, truth.is_ground, ~truth.spurious).f1,
        "found_m": round(frame.mounting.height, 2),
        "doubts": list(frame.confidence.doubts),
    }


def summary(rows: Sequence[Row], key: str) -> list[Row]:
    """Counts of the frames with each value of `key`, and of all."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        for name in (str(row[key]), "all"):
            groups.setdefault(name, []).append(row)
    groups["all"] = groups.pop("all")
    return [{key: name, **counts(group)} for name, group in groups.items()]


def counts(rows: Sequence[Row]) -> Row:
    """How many frames are right and sure, mean F1, and the elevation within 20 m of those that are sure."""
    sure, wrong = [row for row in rows if row["sure"]], [row for row in rows if not row["right"]]
    cells = sum(row["cells"] for row in sure)
    return {
        "frames": len(rows),
        "right": len(rows) - len(wrong),
        "sure": len(sure),
        "sure_and_wrong": sum(not row["right"] for row in sure),
        "of_sure_percent": 100 * sum(row["right"] for row in sure) / max(len(sure), 1),
        "wrong": len(wrong),
        "announced_percent": 100 * sum(not row["sure"] for row in wrong) / max(len(wrong), 1),
        "f1": mean_of_known(row["f1"] for row in rows),
        "rmse_m": float(np.sqrt(sum(row["squares"] for row in sure) / max(cells, 1))),
        "wrong_cells_percent": 100 * sum(row["wrong_cells"] for row in sure) / max(cells, 1),
        "silent_cells_percent": 100 * sum(row["silent_cells"] for row in sure) / max(cells, 1),
    }
