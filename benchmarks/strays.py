# SPDX-License-Identifier: Apache-2.0
"""What stray returns below the ground cost: labelled scans with seeded strays, with and without a known mounting."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.config import Config
from roadbed.core.frames import Label, Scan
from roadbed.core.geometry import Float32
from roadbed.ground.filter import GroundFilter
from roadbed.sources import open_source

SHARES = (0.0, 0.01, 0.05, 0.1)
_DEPTH = 0.5, 3.0  # m below the ground
_GROUND, _NOT_SCORED = (40, 44, 48, 49, 60, 72), (0, 1, 70)  # classes of SemanticKITTI
REAL = {
    "SemanticKITTI 00": ("semantickitti/00", (0, 1, 2)),
    "SemanticKITTI 00 projected": ("semantickitti/00-projected", (0, 5, 10, 15, 20)),
    "SemanticKITTI 08": ("semantickitti/08-singles", (720, 1500)),
    "nuScenes": ("nuscenes-projected", (0, 1, 2, 3)),
    "solid state A": ("solid-state", (0, 1)),
    "solid state B": ("solid-state", (2, 3)),
    "solid state C": ("solid-state", (4, 5)),
}
SIMULATED = (
    "city?sensor=hdl64e", "parking?sensor=hdl64e", "offroad?sensor=hdl64e", "mountain?sensor=hdl64e",
    "highway?sensor=vlp16", "mountain?sensor=vlp16", "city?sensor=lux4", "mountain?sensor=lux4",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Scene:
    """A labelled scan."""

    scan: Scan
    is_ground: NDArray[np.bool_]  # (N,)
    scored: NDArray[np.bool_]  # (N,) points whose class is known


def real_scenes(folder: Path) -> Iterator[tuple[str, list[Scene]]]:
    """Labelled scans in the layout of SemanticKITTI below a folder; their mounting is unknown."""
    for name, (where, frames) in REAL.items():
        scenes = []
        for frame in frames:
            points = np.fromfile(folder / where / "velodyne" / f"{frame:06d}.bin", np.float32).reshape(-1, 4)
            classes = np.fromfile(folder / where / "labels" / f"{frame:06d}.label", np.uint32) & 0xFFFF
            scan = Scan(np.ascontiguousarray(points[:, :3]))
            scenes.append(Scene(scan, np.isin(classes, _GROUND), ~np.isin(classes, _NOT_SCORED)))
        yield name, scenes


def simulated_scenes(
    seeds: Sequence[int] = (601, 602), frames: Sequence[int] = (10,)
) -> Iterator[tuple[str, list[Scene]]]:
    """Scans of the simulator, without odometry."""
    for location in SIMULATED:
        scenes = []
        for seed in seeds:
            source: Any = open_source(f"sim:{location}&frames={max(frames) + 1}&seed={seed}")
            for frame in frames:
                scan, ground = replace(source[frame], T_world_sensor=None), source.truth(frame).is_ground
                scenes.append(Scene(scan, np.asarray(ground), np.ones(len(scan), np.bool_)))
        yield "sim:" + location, scenes


def with_strays(scene: Scene, share: float, seed: int) -> tuple[Scene, NDArray[np.bool_]]:
    """A share of the ground's returns moved `_DEPTH` below it, and which they are (N,)."""
    rng = np.random.default_rng(seed)
    points: Float32 = scene.scan.points.copy()
    stray = scene.is_ground & (rng.random(len(points)) < share)
    points[stray, 2] -= rng.uniform(*_DEPTH, np.count_nonzero(stray)).astype(np.float32)
    return replace(scene, scan=scene.scan.with_points(points), is_ground=scene.is_ground & ~stray), stray


def city_rows(
    seeds: Sequence[int] = (11, 77, 78, 79), frames: Sequence[int] = (5, 25), backend: str = "cpu"
) -> Iterator[dict[str, Any]]:
    """Scans of the simulated city with 5 % of the ground's returns 0.3 to 2 m below it, along the beam."""
    ground = GroundFilter(Config.of(None).with_changes(backend=backend))
    for seed in seeds:
        source: Any = open_source(f"sim:city?multipath=0.05&frames={max(frames) + 1}&seed={seed}")
        for number in frames:
            scan, truth = replace(source[number], T_world_sensor=None), source.truth(number)
            scene = Scene(scan, np.asarray(truth.is_ground), np.ones(len(scan), np.bool_))
            for mounting, pose in (("known", scan.T_vehicle_sensor), ("estimated", None)):
                frame = ground(replace(scan, T_vehicle_sensor=pose))
                low = np.asarray(frame.label)[truth.spurious] == Label.LOW_OUTLIER
                yield {
                    "set": f"multipath {seed}/{number}", "mounting": mounting, "strays": 0.05,
                    "f1": f1(scene, np.asarray(frame.is_ground)), "low_outliers": float(100 * np.mean(low)),
                }  # fmt: skip


def f1(scene: Scene, is_ground: NDArray[np.bool_]) -> float:
    """Of the scored points, in per cent."""
    truth, found = scene.is_ground[scene.scored], is_ground[scene.scored]
    return float(200 * (truth & found).sum() / max(1, truth.sum() + found.sum()))


def stray_rows(
    scenes: Iterator[tuple[str, list[Scene]]], shares: Sequence[float] = SHARES, seed: int = 7, backend: str = "cpu"
) -> Iterator[dict[str, Any]]:
    """One row per set, share of strays, and mounting: F1, and which share of the strays is labelled low outlier.

    A mounting that a set does not give is known from the same scan without strays. `bound` is the F1 of the same scan
    with its strays removed.
    """
    ground = GroundFilter(Config.of(None).with_changes(backend=backend))
    for name, scans in scenes:
        for mounting in ("known", "estimated"):
            clean = None
            for share in shares:
                scores, low, bound = [], [], []
                for number, scene in enumerate(scans):
                    pose = None
                    if mounting == "known":
                        pose = scene.scan.T_vehicle_sensor or ground(scene.scan).mounting.T_vehicle_sensor
                    elif scene.scan.mounts:
                        continue  # several sensors in one scan need their mountings
                    changed, stray = with_strays(scene, share, seed + number)
                    frame = ground(replace(changed.scan, T_vehicle_sensor=pose))
                    scores.append(f1(changed, np.asarray(frame.is_ground)))
                    points = np.where(stray[:, None], np.float32(np.nan), changed.scan.points)
                    without = ground(replace(changed.scan.with_points(points), T_vehicle_sensor=pose))
                    bound.append(f1(changed, np.asarray(without.is_ground)))
                    low.append(
                        100 * np.mean(np.asarray(frame.label)[stray] == Label.LOW_OUTLIER) if stray.any() else np.nan
                    )
                if scores:
                    score = float(np.mean(scores))
                    clean = score if clean is None else clean
                    yield {
                        "set": name, "mounting": mounting, "strays": share, "f1": score, "loss": clean - score,
                        "worst": min(scores), "low_outliers": float(np.mean(low)), "bound": float(np.mean(bound)),
                    }  # fmt: skip
