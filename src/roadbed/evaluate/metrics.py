# SPDX-License-Identifier: Apache-2.0
"""Scores of segmentation and elevation, and recall by distance and slope."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Score:
    """Binary segmentation of one scan, in percent; NaN where there is nothing to count."""

    precision: float
    recall: float
    f1: float
    iou: float

    @classmethod
    def of(cls, predicted: NDArray[np.bool_], actual: NDArray[np.bool_], scored: NDArray[np.bool_]) -> Score:
        """Precision is NaN without predicted ground, recall is NaN without true ground."""
        true_positive = int(np.count_nonzero(predicted & actual & scored))
        false_positive = int(np.count_nonzero(predicted & ~actual & scored))
        false_negative = int(np.count_nonzero(~predicted & actual & scored))

        def share(part: int, whole: int) -> float:
            return 100.0 * part / whole if whole else float("nan")

        return cls(
            precision=share(true_positive, true_positive + false_positive),
            recall=share(true_positive, true_positive + false_negative),
            f1=share(2 * true_positive, 2 * true_positive + false_positive + false_negative),
            iou=share(true_positive, true_positive + false_positive + false_negative),
        )

    @classmethod
    def mean(cls, scores: Sequence[Score]) -> Score:
        """The average over frames, of each measure over those where it is known."""
        return cls(*(mean_of_known(values) for values in zip(*(astuple(score) for score in scores))))


def mean_of_known(values: Iterable[float]) -> float:
    """Mean of the values that are not NaN; NaN if there are none."""
    known = mean(None if np.isnan(value) else value for value in values)
    return float("nan") if known is None else known


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def percent(part: float, whole: float) -> float | None:
    """100 part / whole; None if the whole is 0."""
    return 100 * float(part) / float(whole) if whole > 0 else None


@dataclass(frozen=True)
class ElevationScore:
    """The estimated surface against a true one, over the nodes where both are known."""

    nodes: int
    rmse_m: float
    median_m: float  # of the absolute error
    within_1_sigma: float  # share of nodes, 0.68 if the reported variance is right
    within_2_sigma: float  # 0.95

    @classmethod
    def of(cls, estimate: NDArray, variance: NDArray, truth: NDArray, mask: NDArray[np.bool_]) -> ElevationScore:
        known = mask & np.isfinite(estimate) & np.isfinite(truth)
        if not known.any():
            return cls(0, float("nan"), float("nan"), float("nan"), float("nan"))
        error = np.abs(estimate[known].astype(np.float64) - truth[known])
        sigma = np.sqrt(variance[known].astype(np.float64))
        return cls(
            nodes=int(known.sum()),
            rmse_m=float(np.sqrt(np.mean(error**2))),
            median_m=float(np.median(error)),
            within_1_sigma=float(np.mean(error <= sigma)),
            within_2_sigma=float(np.mean(error <= 2 * sigma)),
        )


RANGES = (0.0, 10.0, 20.0, 40.0, 60.0, np.inf)  # m from the sensor (of a merged scan: from the vehicle), level
SLOPES = (0.0, 0.15, 0.3, 0.5, 0.8, np.inf)  # rise over run of the true ground


@dataclass(frozen=True, eq=False)
class Bands:
    """True ground points and how many of them were found, between each two `edges`; counts add up over frames."""

    edges: tuple[float, ...]
    points: NDArray[np.int64]
    found: NDArray[np.int64]

    @classmethod
    def of(cls, values: ArrayLike, edges: tuple[float, ...], predicted: ArrayLike, ground: ArrayLike) -> Bands:
        """Counts over the points that are `ground`, by the band their value lies in."""
        values, ground = np.asarray(values), np.asarray(ground, np.bool_)
        points, _ = np.histogram(values[ground], edges)
        found, _ = np.histogram(values[ground & np.asarray(predicted, np.bool_)], edges)
        return cls(edges, points, found)

    def __add__(self, other: Bands) -> Bands:
        return Bands(self.edges, self.points + other.points, self.found + other.found)

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """{"0-10": {"recall": percent, "points": true ground}, ..., "60+": ...}; bands without ground are left out."""
        out = {}
        for low, high, points, found in zip(self.edges, self.edges[1:], self.points, self.found):
            name = f"{low:g}-{high:g}" if np.isfinite(high) else f"{low:g}+"
            if points:
                out[name] = {"recall": round(100 * int(found) / int(points), 2), "points": int(points)}
        return out
