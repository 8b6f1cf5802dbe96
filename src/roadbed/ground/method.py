# SPDX-License-Identifier: Apache-2.0
"""The interface between the ground filter and a ground method, and the result of a method."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from roadbed.core.frames import GroundFrame, Label, Mounting, Moving, Scan, VarianceFrame
from roadbed.core.geometry import Grid, Pose
from roadbed.core.traversability import TraversabilityLimits
from roadbed.ground.ego.ego_mask import EgoMask
from roadbed.ground.engine import FrameOutput

_LOW_SHARE = 0.005  # of the returns, labelled as low outliers, from which a frame says so
_SOME = 64  # labels that are checked first: usually one of them is not unknown


@dataclass(frozen=True, eq=False)
class Segmented:
    """Result of a method for one scan, and the pose of its grid.

    A device may still be computing: `complete` waits for it, then the arrays are filled.
    """

    output: FrameOutput
    grid: Grid
    T_grid_sensor: Pose
    mounting: Mounting
    T_world_grid: Pose | None = None
    used_prior: bool = False
    has_origin: bool = True
    diagnostics: tuple[str, ...] = ()
    timings: dict[str, float] = field(default_factory=dict)
    ego_mask: NDArray[np.bool_] | None = None  # (N,) points on the ego vehicle
    complete: Callable[[], object] = lambda: None  # by default there is nothing to wait for

    def frame(self, scan: Scan, limits: TraversabilityLimits) -> GroundFrame:
        """The frame of the original scan; `checked` adds diagnostics once it is complete."""
        known: dict[str, Any] = {**vars(self.output), **vars(self), "scan": scan, "time": scan.time}
        known["traversability_limits"] = limits
        for name in ("output", "ego", "complete"):
            del known[name]
        if self.output.cells is None:
            return GroundFrame(**known)
        for name in ("elevation", "slope", "variance"):  # made of the cells when they are first read
            del known[name]
        return VarianceFrame.of(**known)


def checked(frame: GroundFrame) -> GroundFrame:
    """The frame, with a diagnostic where no point of its scan could be used, or many lie below the ground.

    Labels that stay on a device are not checked.
    """
    found = _diagnostic(frame.label) if isinstance(frame.label, np.ndarray) else ""
    return replace(frame, diagnostics=(*frame.diagnostics, found)) if found else frame


def _diagnostic(label: NDArray[np.uint8]) -> str:
    if not len(label):
        return "scan without points: nothing new is known"
    if not (np.count_nonzero(label[:_SOME]) or label.view(np.bool_).any()):  # a few are counted before `any` has begun
        return f"none of the {len(label)} points lies over the lattice and is a number: nothing new is known"
    count = np.count_nonzero(label == np.uint8(Label.LOW_OUTLIER))  # an enum member would be compared as int64
    if count < _LOW_SHARE * len(label):
        return ""
    share = f"{count} returns ({100 * count / len(label):.1f} %) lie below the ground"
    return f"{share}, probably reflections: labelled low outliers, the surface does not follow them"


@dataclass(frozen=True, eq=False)
class Started:
    """A scan that a device may be computing: its mounting is known, `result` waits for the rest."""

    mounting: Mounting
    result: Callable[[], Segmented]
    has_origin: bool = True  # False: no ray of the scan is known


class GroundMethod(Protocol):
    """One way to segment the ground in a sequence of scans."""

    def start(self, scan: Scan, moving: Moving | None, ego: EgoMask) -> Started:
        """Start one scan, without its points on the ego vehicle; the next one after its result is complete."""

    def batch(self, scans: Iterable[Scan]) -> Iterator[tuple[Scan, Segmented]]:
        """One result per scan, in order; points on the ego vehicle are missing returns already."""

    def profile(self, scan: Scan) -> dict[str, float]:
        """Seconds per phase or kernel for one scan alone."""

    def save_map(self) -> None:
        """Write what is known to the long-term map, if there is one."""

    def reset(self) -> None:
        """Forget earlier scans."""
