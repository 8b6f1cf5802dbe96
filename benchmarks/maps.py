# SPDX-License-Identifier: Apache-2.0
"""F1 on clouds without a sensor: simulated maps in world coordinates, and LAS files with ground as class 2.

A cloth simulation filter (cloth-simulation-filter of PyPI, library defaults) labels the same points where installed.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed import GroundFilter
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.sources import open_source

SCENES = ("city", "mountain", "offroad", "parking")
_SENSOR, _FRAMES, _EVERY = "hdl32e", 160, 20  # scans of one drive that make a map
_VOXEL = 0.1  # m: one point of each is kept, as maps are stored
_WORLD = (691_000.0, 5_334_000.0, 520.0)  # m, where the map lies: UTM
_GROUND, _NEVER_CLASSIFIED = 2, 0  # classes of LAS


@dataclass(frozen=True, eq=False)
class Cloud:
    """A cloud with the truth of its points."""

    name: str
    scan: Scan
    is_ground: NDArray[np.bool_]  # (N,)
    scored: NDArray[np.bool_]  # (N,)


def simulated_maps(seeds: Sequence[int], scenes: Sequence[str] = SCENES) -> Iterator[Cloud]:
    """Merged scans of simulated drives, each in the axes of the world."""
    for scene in scenes:
        for seed in seeds:
            points, ground = merged_scans(scene, seed)
            scan = Scan(points, T_world_sensor=Pose(np.eye(3), np.array(_WORLD)), has_origin=False)
            yield Cloud(f"sim:{scene} {seed}", scan, ground, np.ones(len(points), np.bool_))


def merged_scans(
    scene: str, seed: int, frames: int = _FRAMES, every: int = _EVERY
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Points (N, 3) of some scans of a drive in world axes, thinned, and which are ground; moving objects stay in."""
    source: Any = open_source(f"sim:{scene}?sensor={_SENSOR}&frames={frames}&seed={seed}")
    points, ground = [], []
    for frame in range(0, frames, every):
        scan, truth = source[frame], source.truth(frame)
        returns = np.isfinite(scan.points).all(axis=1)
        points.append(truth.T_world_sensor @ scan.points[returns].astype(np.float64))
        ground.append(np.asarray(truth.is_ground)[returns])
    together = np.concatenate(points)
    _, kept = np.unique(np.floor(together / _VOXEL).astype(np.int64), axis=0, return_index=True)
    return together[kept].astype(np.float32), np.concatenate(ground)[kept]


def las_files(paths: Sequence[Path]) -> Iterator[Cloud]:
    """Files with classes; points that were never classified are not scored."""
    for path in paths:
        scan = open_source(str(path))[0]
        classes = np.asarray(scan.channels["classification"])
        yield Cloud(path.name, scan, classes == _GROUND, classes != _NEVER_CLASSIFIED)


def map_rows(clouds: Iterator[Cloud], backend: str = "cpu") -> Iterator[dict[str, Any]]:
    """One row per cloud: F1, precision and recall in per cent, seconds, and F1 and seconds of the cloth simulation."""
    from roadbed.config import Config

    ground = GroundFilter(Config.of(None).with_changes(backend=backend))
    for cloud in clouds:
        ground(cloud.scan)  # loads the kernels
        begin = perf_counter()
        frame = ground(cloud.scan)
        seconds = perf_counter() - begin
        found = np.asarray(frame.is_ground)
        precision, recall = _precision_recall(cloud, found)
        begin = perf_counter()
        cloth = cloth_simulation(cloud.scan.points)
        yield {
            "cloud": cloud.name,
            "points": len(cloud.scan),
            "f1": f1(cloud, found),
            "precision": precision,
            "recall": recall,
            "seconds": seconds,
            "csf_f1": None if cloth is None else f1(cloud, cloth),
            "csf_seconds": None if cloth is None else perf_counter() - begin,
            "recognised": not frame.has_origin,
        }


def f1(cloud: Cloud, found: NDArray[np.bool_]) -> float:
    """In per cent, of the scored points."""
    truth, found = cloud.is_ground[cloud.scored], found[cloud.scored]
    return float(200 * (truth & found).sum() / max(1, truth.sum() + found.sum()))


def _precision_recall(cloud: Cloud, found: NDArray[np.bool_]) -> tuple[float, float]:
    truth, found = cloud.is_ground[cloud.scored], found[cloud.scored]
    right = 100 * (truth & found).sum()
    return float(right / max(1, found.sum())), float(right / max(1, truth.sum()))


def cloth_simulation(points: NDArray[np.float32]) -> NDArray[np.bool_] | None:
    """Ground points (N,) by the cloth simulation filter; None where it is not installed."""
    try:
        import CSF
    except ImportError:
        return None
    cloth = CSF.CSF()
    cloth.setPointCloud(points.astype(np.float64))
    ground, others = CSF.VecInt(), CSF.VecInt()
    with _quiet():
        cloth.do_filtering(ground, others, False)
    found = np.zeros(len(points), np.bool_)
    found[np.array(ground, np.int64)] = True
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """The library prints to the standard output of the process."""
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
