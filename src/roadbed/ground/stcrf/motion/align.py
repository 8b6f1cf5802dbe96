# SPDX-License-Identifier: Apache-2.0
"""A scan's pose corrected against the prior surface: what an engine is told, and what becomes of what it finds."""

from __future__ import annotations

from dataclasses import replace

from roadbed.ground.engine import FrameInput, Misalignment
from roadbed.ground.stcrf.model import ALIGNMENT_RADIUS, ALIGNMENT_TRUST
from roadbed.ground.stcrf.motion.grid_pose import Place


class ScanAlignment:
    """`roadbed.ground.engine.Alignment` of one scan; its `place` is corrected once it is known how it lies."""

    def __init__(self, place: Place, given: FrameInput, diagnostics: list[str]) -> None:
        self.radius, self.trust = ALIGNMENT_RADIUS, ALIGNMENT_TRUST
        self.place, self.warm = place, given.warm
        self._given, self._diagnostics = given, diagnostics

    @property
    def poses(self) -> tuple[float, ...]:
        place = self.place
        return (*place.from_corner(place.T_lattice_sensor), *place.from_corner(place.T_lattice_vehicle)[9:])

    def lay(self, found: Misalignment | None) -> bool:
        if found is not None and found.fits:
            self.place = self.place.corrected(found, self.trust)
        elif found is not None:
            near = f"{100 * found.share:.0f} % of its points near it"
            self._diagnostics.append(f"scan does not fit the prior surface ({near}): started cold")
            self.warm = False
        return self.warm

    @property
    def given(self) -> FrameInput:
        place = self.place
        return replace(self._given, placement=place.placement, vehicle=place.vehicle, road=place.road, warm=self.warm)
