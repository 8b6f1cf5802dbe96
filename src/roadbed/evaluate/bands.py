# SPDX-License-Identifier: Apache-2.0
"""Where ground is missed: how much of it is found by distance and, where the truth knows it, by slope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
