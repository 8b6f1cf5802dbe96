# SPDX-License-Identifier: Apache-2.0
"""Registration: connected hits laid over the scan of a moment ago tell at once that they move, and how fast.

Particles need a second to learn that from cells; something that starts from rest first has to leave its own cells.
"""

from __future__ import annotations

import numpy as np

from roadbed.config.occupancy import RegistrationConfig
from roadbed.core.geometry import Float32
from roadbed.kernels.parallel import parallel_for
from roadbed.occupancy.arrays import Between, Cells, Hits, Observation, Registered, Stood
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.model import SUBCELLS
from roadbed.occupancy.registration.bitmap_cpu import draw_picture
from roadbed.occupancy.registration.components_cpu import gather_cells, label_hits
from roadbed.occupancy.registration.refine_cpu import refine_velocities
from roadbed.occupancy.registration.register_cpu import register_components
from roadbed.occupancy.registration.scan_history import STORED, Kept, Stored, StoredScans
from roadbed.occupancy.rules import Laid, RegistrationRule


class Registration:
    """Remembers the scans of the last moments; each new one is laid over the youngest that is old enough.

    What is fast has left its place by then: it is sought in a younger one. What speeds up is laid over one between.
    """

    def __init__(self, cells: Cells, config: RegistrationConfig) -> None:
        self.cells, self.config = cells, config
        self._scans: StoredScans[Hits] = StoredScans(config.span)
        self._unknown = np.zeros((cells.rows, cells.columns), np.float32)  # static life where nobody says it
        self._nothing = Registered(
            np.full((cells.rows, cells.columns), -1, np.int32), np.full((1, 2), np.nan, np.float32)
        )

    @staticmethod
    def bytes_needed(cells: int) -> int:
        """Memory of the scans remembered, if half of the cells are hit."""
        return (STORED + 2) * cells * (8 + 4 + 2)

    def forget(self) -> None:
        self._scans.forget()

    def __call__(
        self, observation: Observation, dt: float, motion: GridMotion, maturity: Float32 | None = None
    ) -> Registered:
        """The motion of this scan's connected hits; `dt` seconds ago the grid lay `motion` before.

        `maturity` says for how long the cells of that grid had been static; without it nothing stands.
        """
        if not self.config.enabled:
            return self._nothing
        hits = connected_hits(observation)
        velocity = np.full((max(len(hits.start) - 1, 1), 2), np.nan, np.float32)
        stood = Stood(self._unknown if maturity is None else maturity, between_scans(motion, self.cells.spacing))
        for old, laid in pasts(self._scans, dt, motion, self.config):
            rule = RegistrationRule.of(self.config, old.age, self.cells.spacing, laid)
            between = between_scans(old.motion, self.cells.spacing)
            if laid is Laid.REFINED:
                parallel_for(refine_velocities, len(hits.start) - 1, hits, old.hits, between, rule, velocity)
            else:
                given = (hits, old.hits, stood, between, rule, velocity)
                parallel_for(register_components, len(hits.start) - 1, *given)
        self._scans.store(hits)
        return Registered(hits.label, velocity)


def pasts(
    scans: StoredScans[Kept], dt: float, motion: GridMotion, config: RegistrationConfig
) -> list[tuple[Stored[Kept], Laid]]:
    """What a new scan is laid over, one after the other, and how."""
    old = scans.old_enough(dt, motion)
    middle = scans.youngest(config.refined_span) if config.refined_span > 0 and old is not None else None
    young = scans.youngest(config.fast_span) if config.fast_span > 0 else None
    over = ((old, Laid.OLD), (None if middle is old else middle, Laid.REFINED), (young, Laid.FAST))
    return [(one, laid) for one, laid in over if one is not None]


def between_scans(motion: GridMotion, spacing: float) -> Between:
    """From subcells of now to those before a motion."""
    (xx, xy), (yx, yy) = motion.rotation.tolist()
    if motion.cells is not None:  # free of rounding
        columns, rows = motion.cells
        return Between(xx, xy, yx, yy, float(SUBCELLS * columns), float(SUBCELLS * rows))
    x, y = motion.shift
    subcell = spacing / SUBCELLS
    return Between(xx, xy, yx, yy, float(x / subcell), float(y / subcell))


def connected_hits(observation: Observation) -> Hits:
    """The 8-connected components of what a scan hit."""
    shape = observation.probability.shape
    picture, label = np.empty(shape, np.int64), np.empty(shape, np.int32)
    parallel_for(draw_picture, len(picture), observation, picture)
    count = label_hits(picture, label)
    start, cells = np.empty(count + 1, np.int32), np.empty(np.count_nonzero(label >= 0), np.int32)
    gather_cells(label, start, cells)
    return Hits(picture, label, start, cells)
