# SPDX-License-Identifier: Apache-2.0
"""Accuracy of the ground: labels against true classes, elevation against true elevation, and time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np

from roadbed.config import Config
from roadbed.core.device_arrays import to_host
from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.evaluate.elevation import ElevationScorer
from roadbed.evaluate.metrics import RANGES, SLOPES, Bands, ElevationScore, Score
from roadbed.evaluate.protocols import Mask, protocol
from roadbed.ground import GroundFilter
from roadbed.sources import Source


@dataclass(frozen=True)
class ScoredFrame:
    """One frame: its scores, None without true classes, its elevation, None without true elevation, and its time."""

    name: str
    score: Score | None
    surface: ElevationScore | None
    ms: float

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {"frame": self.name, "ms": round(self.ms, 3)}
        if self.score is not None:
            row |= {key: round(value, 3) for key, value in asdict(self.score).items()}
        if self.surface is not None and self.surface.nodes:
            row |= {"elevation_rmse_m": self.surface.rmse_m, "elevation_median_m": self.surface.median_m}
        return row


def ground_figures(frames: Sequence[ScoredFrame]) -> dict[str, Any]:
    """Averages over frames: of scores with equal weights, of surfaces by their nodes; the median time."""
    out: dict[str, Any] = {"frames": len(frames)}
    scores = [frame.score for frame in frames if frame.score is not None]
    if scores:
        out |= {name: round(value, 3) for name, value in asdict(Score.mean(scores)).items()}
    known = [frame.surface for frame in frames if frame.surface is not None and frame.surface.nodes]
    if known:
        nodes = np.array([score.nodes for score in known], float)

        def over_nodes(name: str) -> float:
            return float(np.average([getattr(score, name) for score in known], weights=nodes))

        out["elevation_rmse_m"] = float(np.sqrt(np.average([s.rmse_m**2 for s in known], weights=nodes)))
        for name in ("median_m", "within_1_sigma", "within_2_sigma"):
            out[f"elevation_{name}"] = over_nodes(name)
        out["elevation_nodes"] = int(nodes.sum())
    return out | {"median_ms": round(float(np.median([frame.ms for frame in frames])), 3)}


def evaluate_ground(
    source: Source,
    config: Config | None = None,
    protocol_name: str = "patchwork++",
    elevation: ElevationScorer | None = None,
    watch: Callable[[Iterable[Scan]], Iterable[Scan]] = iter,
) -> dict[str, Any]:
    """Run the ground filter over `source` and score every frame: what `roadbed evaluate ground --json` prints."""
    config = config or Config()
    scorer = protocol(protocol_name)
    if elevation is None and all(scan.classes is None for scan in source):
        raise InputError(f"{source.location}: found neither true classes nor true elevation, expected one of them")
    warm_up = GroundFilter(config)
    for index in range(min(2, len(source))):  # compile the kernels of a cold and a warm frame before timing
        warm_up(source[index])
    ground = GroundFilter(config)
    frames: list[ScoredFrame] = []
    recall_by: dict[str, Bands] = {}
    for index, scan in enumerate(watch(source)):
        if not source.sequential:
            ground.reset()
        start = perf_counter()
        frame = ground(scan)
        ms, score = 1e3 * (perf_counter() - start), None
        if scan.classes is not None:
            truth = scorer(scan)
            score = Score.of(frame.is_ground, *truth)
            for what, bands in _bands(source, index, scan, frame.is_ground, *truth).items():
                recall_by[what] = recall_by[what] + bands if what in recall_by else bands
        frames.append(ScoredFrame(scan.name or str(index), score, elevation(index, frame) if elevation else None, ms))
    out = {"protocol": protocol_name, **ground_figures(frames)}
    out |= {f"recall_by_{what}": bands.as_dict() for what, bands in recall_by.items()}
    return out | {"per_frame": [frame.row() for frame in frames]}


def _bands(source: Any, index: int, scan: Scan, found: Mask, is_ground: Mask, is_scored: Mask) -> dict[str, Bands]:
    """Recall of the ground by distance, and by slope where the true terrain is known."""
    ground, points = is_ground & is_scored, to_host(scan.points)
    bands = {"range": Bands.of(np.hypot(points[:, 0], points[:, 1]), RANGES, found, ground)}
    if hasattr(source, "truth"):
        truth = source.truth(index)
        slope = np.linalg.norm(truth.terrain.slope(*truth.points_world[:, :2].T), axis=-1)
        bands["slope"] = Bands.of(slope, SLOPES, found, ground)
    return bands
