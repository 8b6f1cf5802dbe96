# SPDX-License-Identifier: Apache-2.0
"""Registration: components of hits matched with an earlier scan show at once that they move, and how fast.

Particles need a second for that; an object that starts from rest first has to leave its own cells.
"""

import math

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32
from roadbed.kernels.parallel import parallel_for
from roadbed.occupancy.arrays import Cells, Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.model import SUBCELLS
from roadbed.occupancy.registration.arrays import GridTransform, PriorMaturity, Registered, ScanComponents
from roadbed.occupancy.registration.background_cpu import find_background
from roadbed.occupancy.registration.components_cpu import draw_bitmap, gather_cells, label_hits
from roadbed.occupancy.registration.model import Pass, RegistrationModel, RegistrationRule
from roadbed.occupancy.registration.refine_cpu import refine_velocities
from roadbed.occupancy.registration.register_cpu import register_components
from roadbed.occupancy.registration.scan_history import HISTORY_LENGTH, Item, PastScan, ScanHistory


class Registration:
    """Keeps a short scan history; each new scan is registered against the youngest that is old enough.

    Fast objects have left the neighbourhood by then: they are looked for in a younger scan. Objects that speed up are
    registered once more against a scan between both, in which objects that came into view since are looked for, too.
    Walls and what else is too large to be a mover are left out where they have stood for long.
    """

    def __init__(self, cells: Cells, model: RegistrationModel) -> None:
        self.cells, self.model = cells, model
        self._history: ScanHistory[ScanComponents] = ScanHistory(model.span)
        self._no_maturity = np.zeros((cells.rows, cells.columns), np.float32)
        self._nothing = Registered(
            np.full((cells.rows, cells.columns), -1, np.int32),
            np.full((1, 2), np.nan, np.float32),
            np.zeros(1, np.int32),
        )

    @staticmethod
    def bytes_needed(cells: int) -> int:
        """Memory of the scan history, if half of the cells are hit."""
        return (HISTORY_LENGTH + 2) * cells * (8 + 4 + 2)

    def forget(self) -> None:
        self._history.forget()

    def __call__(
        self, observation: Observation, dt: float, motion: GridMotion, maturity: Float32 | None = None
    ) -> Registered:
        """The motion of this scan's components; the grid moved by `motion` in the last `dt` seconds.

        `maturity` says how long the cells of the grid before that had been static; without it none had.
        """
        if not self.model.enabled:
            return self._nothing
        prior = PriorMaturity(self._no_maturity if maturity is None else maturity, self._transform(motion))
        now = scan_components(observation)
        if math.isfinite(self.model.background_time):
            rule = RegistrationRule.of(self.model, 1.0, self.cells.spacing, Pass.OLD)
            now = without_background(now, prior, rule)
        velocity = np.full((len(now.start), 2), np.nan, np.float32)  # the last is the background's
        for old, kind in registration_passes(self._history, dt, motion, self.model):
            rule = RegistrationRule.of(self.model, old.age, self.cells.spacing, kind)
            given: tuple = (now, old.components, self._transform(old.motion), rule, velocity)
            if kind is Pass.REFINED:
                parallel_for(refine_velocities, len(now.start) - 1, *given)
            else:
                parallel_for(register_components, len(now.start) - 1, prior, *given)
        self._history.store(now)
        return Registered(now.label, velocity, np.diff(now.start, append=now.start[-1:]))

    def _transform(self, motion: GridMotion) -> GridTransform:
        return transform_of(motion, self.cells.spacing)


def registration_passes(
    history: ScanHistory[Item], dt: float, motion: GridMotion, model: RegistrationModel
) -> list[tuple[PastScan[Item], Pass]]:
    """The earlier scans that a new one is registered against, in order, and how."""
    old = history.old_enough(dt, motion) or history.oldest(model.first_span)
    middle = history.youngest(model.middle_span) if old is not None else None
    middle = None if middle is old else middle
    young = history.youngest(model.fast_span) if model.fast_span > 0 else None
    refined, second = middle if model.refined else None, middle if model.second else None
    passes = ((old, Pass.OLD), (refined, Pass.REFINED), (young, Pass.FAST), (second, Pass.SECOND))
    return [(scan, kind) for scan, kind in passes if scan is not None]


def transform_of(motion: GridMotion, spacing: float) -> GridTransform:
    """From present subcells to those before a motion."""
    (xx, xy), (yx, yy) = motion.rotation.tolist()
    if motion.cells is not None:  # free of rounding
        columns, rows = motion.cells
        return GridTransform(xx, xy, yx, yy, float(SUBCELLS * columns), float(SUBCELLS * rows))
    x, y = motion.shift
    subcell = spacing / SUBCELLS
    return GridTransform(xx, xy, yx, yy, float(x / subcell), float(y / subcell))


def scan_components(observation: Observation) -> ScanComponents:
    """The 8-connected components of a scan's hits."""
    shape = observation.probability.shape
    bitmap = np.empty(shape, np.int64)
    parallel_for(draw_bitmap, len(bitmap), observation, bitmap)
    return _labelled(bitmap, np.zeros(shape, np.bool_))


def without_background(components: ScanComponents, prior: PriorMaturity, rule: RegistrationRule) -> ScanComponents:
    """The components of the same hits once the background is left out."""
    background = np.zeros(components.label.shape, np.bool_)
    parallel_for(find_background, len(components.start) - 1, components, prior, rule, background)
    return _labelled(components.bitmap, background) if background.any() else components


def _labelled(bitmap: NDArray[np.int64], background: NDArray[np.bool_]) -> ScanComponents:
    label = np.empty(bitmap.shape, np.int32)
    count = label_hits(bitmap, background, label)
    start, cells = np.empty(count + 1, np.int32), np.empty(np.count_nonzero(label >= 0), np.int32)
    gather_cells(label, start, cells)
    return ScanComponents(bitmap, label, start, cells)
