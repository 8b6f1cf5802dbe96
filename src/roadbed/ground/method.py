# SPDX-License-Identifier: Apache-2.0
"""What the ground filter asks of a method, and what a method gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from roadbed.core.frames import GroundFrame, Mounting, Moving, Scan
from roadbed.core.geometry import Grid, Pose
from roadbed.ground.engine import BodyQuestion, FrameOutput, nothing

_SOME = 64  # labels, one of which usually says something


@dataclass(frozen=True, eq=False)
class Segmented:
    """What a method found in one scan, and where its lattice lies.

    A device may still be at work: `complete` waits for it, and then the arrays are filled.
    """

    output: FrameOutput
    grid: Grid
    T_grid_sensor: Pose
    mounting: Mounting
    T_world_grid: Pose | None = None
    used_prior: bool = False
    diagnostics: tuple[str, ...] = ()
    timings: dict[str, float] = field(default_factory=dict)
    complete: Callable[[], object] = nothing

    def frame(self, scan: Scan, ego_mask: NDArray[np.bool_] | None = None) -> GroundFrame:
        """As the caller gets it, but for what `looked_at` notices once it is complete."""
        output = self.output
        return GroundFrame(
            label=output.label,
            ground_probability=output.ground_probability,
            height_above_ground=output.height_above_ground,
            grid=self.grid,
            elevation=output.elevation,
            slope=output.slope,
            variance=output.variance,
            T_grid_sensor=self.T_grid_sensor,
            mounting=self.mounting,
            scan=scan,
            time=scan.time,
            ego_mask=ego_mask,
            T_world_grid=self.T_world_grid,
            used_prior=self.used_prior,
            cells=output.cells,
            device=output.device,
            diagnostics=self.diagnostics,
            timings=self.timings,
        )


def looked_at(frame: GroundFrame) -> GroundFrame:
    """The frame, with a note where nothing of its scan could be used."""
    noticed = _unusable(frame.label)
    return replace(frame, diagnostics=frame.diagnostics + noticed) if noticed else frame


def _unusable(label: Any) -> tuple[str, ...]:
    """A note about a scan of which nothing could be used; labels that stay on a device are not looked at."""
    if not isinstance(label, np.ndarray):
        return ()
    if np.count_nonzero(label[:_SOME]) or label.view(np.bool_).any():  # counting a few is done before `any` has begun
        return ()
    if not len(label):
        return ("scan without points: nothing new is known",)
    return (f"none of the {len(label)} points lies over the lattice and is a number: nothing new is known",)


class GroundMethod(Protocol):
    """One way to find the ground in scans that come one after the other."""

    def leaves_out(self, scan: Scan) -> bool:
        """Whether `segment` leaves out points of this scan by a mask; else they must be missing returns already."""
        ...

    def finds_own(self, scan: Scan) -> bool:
        """Whether `segment` finds the own vehicle's points of this scan itself, and leaves them out."""
        ...

    def segment(
        self,
        scan: Scan,
        moving: Moving | None = None,
        own: NDArray[np.bool_] | None = None,
        body: BodyQuestion | None = None,
        meanwhile: Callable[[Mounting], object] = nothing,
    ) -> Segmented:
        """One scan, without its `own` points if it can leave some out, or without those that it finds by what is asked
        of the own `body`; the next one after it is complete.

        `meanwhile` is called with its mounting, once that is known, while a device works.
        """
        ...

    def batch(self, scans: Iterable[Scan]) -> Iterator[tuple[Scan, Segmented]]:
        """One result per scan, in order."""
        ...

    def profile(self, scan: Scan) -> dict[str, float]:
        """Seconds per phase or kernel for one scan alone."""
        ...

    def save_map(self) -> None:
        """Write what is known to the long-term map, if there is one."""
        ...

    def reset(self) -> None:
        """Forget earlier scans."""
        ...
