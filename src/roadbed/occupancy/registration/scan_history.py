# SPDX-License-Identifier: Apache-2.0
"""The scan history of the registration: earlier scans, and the grid's motion since; the same for CPU and devices."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from roadbed.occupancy.engine import GridMotion

Item = TypeVar("Item")
HISTORY_LENGTH = 12  # scans kept per span at most, however often they come: all at 25 Hz
_EPSILON = 1e-6  # s


@dataclass(eq=False, slots=True)
class PastScan(Generic[Item]):
    """The components of a scan, how long ago it was, and how the grid has moved since."""

    components: Item
    age: float  # s
    motion: GridMotion


class ScanHistory(Generic[Item]):
    """The scans of the last `span` seconds; the youngest that is old enough is registered against."""

    def __init__(self, span: float) -> None:
        self._span = span
        self._scans: list[PastScan[Item]] = []  # the oldest first

    def forget(self) -> None:
        self._scans.clear()

    def stored(self) -> list[Item]:
        return [one.components for one in self._scans]

    def old_enough(self, dt: float, motion: GridMotion) -> PastScan[Item] | None:
        """Age all scans by `dt` seconds and `motion`; those older than needed are dropped."""
        count = 0
        for one in self._scans:
            one.age += dt
            one.motion = one.motion.then(motion)
            count += one.age >= self._span - _EPSILON
        del self._scans[: max(count - 1, 0)]
        return self._scans[0] if count else None

    def youngest(self, span: float) -> PastScan[Item] | None:
        """The last scan that is at least `span` seconds old."""
        return next((one for one in reversed(self._scans) if one.age >= span - _EPSILON), None)

    def oldest(self, span: float) -> PastScan[Item] | None:
        """The first scan, if it is at least `span` seconds old."""
        return self._scans[0] if self._scans and self._scans[0].age >= span - _EPSILON else None

    def store(self, components: Item) -> None:
        """Add the present scan, unless the one before it is too young to need another."""
        if not self._scans or self._scans[-1].age >= self._span / HISTORY_LENGTH:
            self._scans.append(PastScan(components, 0.0, GridMotion()))
