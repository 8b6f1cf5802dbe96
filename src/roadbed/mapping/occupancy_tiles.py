# SPDX-License-Identifier: Apache-2.0
"""Static occupancy of a map: per cell, the number of scans in which it was occupied, and free."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from roadbed.io.arrays import check_numbers

CELLS = 256  # to a side of a tile


@dataclass
class OccupancyTile:
    """256 x 256 cells. Counts, so maps merge by adding."""

    occupied: NDArray[np.uint32]  # (CELLS, CELLS) scans
    free: NDArray[np.uint32]
    changed: bool = False

    @classmethod
    def empty(cls) -> Self:
        return cls(np.zeros((CELLS, CELLS), np.uint32), np.zeros((CELLS, CELLS), np.uint32))

    @classmethod
    def of(cls, arrays: dict[str, NDArray]) -> Self:
        counts = [check_numbers(arrays[name], name) for name in ("occupied", "free")]
        if any(values.shape != (CELLS, CELLS) or values.dtype.kind != "u" for values in counts):
            raise ValueError(f"expected {CELLS} x {CELLS} counts, twice")
        occupied, free = (values.astype(np.uint32) for values in counts)
        return cls(occupied, free)

    def arrays(self) -> dict[str, NDArray]:
        return {"occupied": self.occupied, "free": self.free}

    def add(self, other: Self) -> None:
        self.occupied += other.occupied
        self.free += other.free
        self.changed = True

    @property
    def probability(self) -> NDArray[np.float32]:
        """Occupancy probability of each cell from the two counts (Krichevsky-Trofimov), NaN where unknown."""
        total = self.occupied.astype(np.float32) + self.free
        return np.where(total > 0, (self.occupied + np.float32(0.5)) / (total + 1), np.float32(np.nan))
