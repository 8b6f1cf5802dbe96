# SPDX-License-Identifier: Apache-2.0
"""Accuracy of the ground: labels against true classes, elevation against true elevation, and time."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
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
class GroundEvaluation:
    """The result of one pass over a source."""

    protocol: str
    names: tuple[str, ...]
    scores: tuple[Score | None, ...]  # per frame; None where it has no true classes
    elevation: tuple[ElevationScore | None, ...]  # per frame; None where it has no true elevation
    milliseconds: tuple[float, ...]
    recall_by: dict[str, Bands] = field(default_factory=dict)  # "range" and, with simulated truth, "slope"

    def as_dict(self) -> dict[str, Any]:
        """What `roadbed evaluate ground --json` prints; averages are over frames."""
        out: dict[str, Any] = {"protocol": self.protocol, "frames": len(self.names)}
        scores = [score for score in self.scores if score is not None]
        if scores:
            out |= {name: round(value, 3) for name, value in asdict(Score.mean(scores)).items()}
        known = [score for score in self.elevation if score is not None and score.nodes]
        if known:
            nodes = np.array([score.nodes for score in known], float)

            def over_nodes(name: str) -> float:
                return float(np.average([getattr(score, name) for score in known], weights=nodes))

            out["elevation_rmse_m"] = float(np.sqrt(np.average([s.rmse_m**2 for s in known], weights=nodes)))
            out["elevation_median_m"] = over_nodes("median_m")
            out["elevation_within_1_sigma"] = over_nodes("within_1_sigma")
            out["elevation_within_2_sigma"] = over_nodes("within_2_sigma")
            out["elevation_nodes"] = int(nodes.sum())
        out |= {f"recall_by_{what}": bands.as_dict() for what, bands in self.recall_by.items()}
        out["median_ms"] = round(float(np.median(self.milliseconds)), 3)
        out["per_frame"] = list(self._rows())
        return out

    def _rows(self) -> Iterator[dict[str, Any]]:
        for index, name in enumerate(self.names):
            row: dict[str, Any] = {"frame": name, "ms": round(self.milliseconds[index], 3)}
            score, surface = self.scores[index], self.elevation[index]
            if score is not None:
                row |= {key: round(value, 3) for key, value in asdict(score).items()}
            if surface is not None and surface.nodes:
                row["elevation_rmse_m"] = surface.rmse_m
                row["elevation_median_m"] = surface.median_m
            yield row


def evaluate_ground(
    source: Source,
    config: Config | None = None,
    protocol_name: str = "patchwork++",
    elevation: ElevationScorer | None = None,
    watch: Callable[[Iterable[Scan]], Iterable[Scan]] = iter,
) -> GroundEvaluation:
    """Run the ground filter over `source` and score every frame."""
    config = config or Config()
    scorer = protocol(protocol_name)
    if elevation is None and all(scan.classes is None for scan in source):
        raise InputError(f"{source.location}: found neither true classes nor true elevation, expected one of them")
    ground = GroundFilter(config)
    _warm_up(source, config)
    names, scores, surfaces, milliseconds = [], [], [], []
    recall_by: dict[str, Bands] = {}
    for index, scan in enumerate(watch(source)):
        if not source.sequential:
            ground.reset()
        start = perf_counter()
        frame = ground(scan)
        milliseconds.append(1e3 * (perf_counter() - start))
        names.append(scan.name or str(index))
        scores.append(None if scan.classes is None else Score.of(frame.is_ground, *scorer(scan)))
        if scan.classes is not None:
            for what, bands in _bands(source, index, scan, frame.is_ground, *scorer(scan)).items():
                recall_by[what] = recall_by[what] + bands if what in recall_by else bands
        surfaces.append(elevation(index, frame) if elevation else None)
    return GroundEvaluation(protocol_name, tuple(names), tuple(scores), tuple(surfaces), tuple(milliseconds), recall_by)


def _bands(source: Any, index: int, scan: Scan, found: Mask, is_ground: Mask, is_scored: Mask) -> dict[str, Bands]:
    """Recall of the ground by distance, and by slope where the true terrain is known."""
    ground, points = is_ground & is_scored, to_host(scan.points)
    bands = {"range": Bands.of(np.hypot(points[:, 0], points[:, 1]), RANGES, found, ground)}
    if hasattr(source, "truth"):
        truth = source.truth(index)
        slope = np.linalg.norm(truth.terrain.slope(*truth.points_world[:, :2].T), axis=-1)
        bands["slope"] = Bands.of(slope, SLOPES, found, ground)
    return bands


def _warm_up(source: Source, config: Config) -> None:
    """Compile the kernels of a cold and a warm frame before timing."""
    ground = GroundFilter(config)
    for index in range(min(2, len(source))):
        ground(source[index])
