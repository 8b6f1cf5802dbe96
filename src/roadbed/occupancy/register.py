# SPDX-License-Identifier: Apache-2.0
"""Registration: connected hits laid over the scan of a moment ago tell at once that they move, and how fast.

Particles need a second to learn that from cells; something that starts from rest first has to leave its own cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from roadbed.config.occupancy import RegistrationConfig
from roadbed.occupancy.arrays import Between, Cells, Hits, Observation, Registered
from roadbed.occupancy.components_cpu import gather_cells, label_hits
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.model import SUBCELLS
from roadbed.occupancy.register_cpu import draw_picture, register_components
from roadbed.occupancy.rules import RegistrationRule

KERNELS = (draw_picture, label_hits, gather_cells, register_components)
_STORED = 8  # scans kept per span at most, however often they come


@dataclass(frozen=True, eq=False)
class _Stored:
    """The hits of a scan, how long ago that was, and how the grid has moved since."""

    hits: Hits
    age: float  # s
    motion: GridMotion


class Registration:
    """Remembers the scans of the last moments; each new one is laid over the youngest that is old enough."""

    def __init__(self, cells: Cells, config: RegistrationConfig) -> None:
        self.cells, self.config = cells, config
        self._scans: list[_Stored] = []  # the oldest first
        self._nothing = Registered(
            np.full((cells.rows, cells.columns), -1, np.int32), np.full((1, 2), np.nan, np.float32)
        )

    @staticmethod
    def bytes_needed(cells: int) -> int:
        """Memory of the scans remembered, if half of the cells are hit."""
        return (_STORED + 2) * cells * (8 + 4 + 2)

    def forget(self) -> None:
        self._scans.clear()

    def __call__(self, observation: Observation, dt: float, motion: GridMotion) -> Registered:
        """The motion of this scan's connected hits; `dt` seconds ago the grid lay `motion` before."""
        if not self.config.enabled:
            return self._nothing
        hits = connected_hits(observation)
        self._scans = [replace(one, age=one.age + dt, motion=one.motion.then(motion)) for one in self._scans]
        old_enough = [one for one in self._scans if one.age >= self.config.span - 1e-6]
        found = self._over(hits, old_enough[-1]) if old_enough else self._nothing
        self._scans = self._scans[max(len(old_enough) - 1, 0) :]
        if not self._scans or self._scans[-1].age >= self.config.span / _STORED:
            self._scans.append(_Stored(hits, 0.0, GridMotion()))
        return found

    def _over(self, hits: Hits, old: _Stored) -> Registered:
        subcell = self.cells.spacing / SUBCELLS
        (xx, xy), (yx, yy) = old.motion.rotation.tolist()
        x, y = (old.motion.shift / subcell).tolist()
        if old.motion.cells is not None:
            x, y = (float(SUBCELLS * steps) for steps in old.motion.cells)  # free of rounding
        velocity = np.empty((max(len(hits.start) - 1, 1), 2), np.float32)
        rule = RegistrationRule.of(self.config, old.age, self.cells.spacing)
        register_components(hits, old.hits, Between(xx, xy, yx, yy, x, y), rule, velocity[: len(hits.start) - 1])
        return Registered(hits.label, velocity * np.float32(subcell))


def connected_hits(observation: Observation) -> Hits:
    """The 8-connected components of what a scan hit."""
    shape = observation.probability.shape
    picture, label = np.empty(shape, np.int64), np.empty(shape, np.int32)
    draw_picture(observation, picture)
    count = label_hits(picture, label)
    start, cells = np.empty(count + 1, np.int32), np.empty(np.count_nonzero(label >= 0), np.int32)
    gather_cells(label, start, cells)
    return Hits(picture, label, start, cells)
