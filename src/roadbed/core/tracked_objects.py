# SPDX-License-Identifier: Apache-2.0
"""Objects: annotated boxes, and moving objects that are tracked over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float64

_TURNING = 1.0  # m/s below which the yaw rate is unknown

# State of one object: box, velocity and acceleration, odds of existence.
TRACK = np.dtype(
    [
        ("id", np.int64),
        ("cells", np.int64),  # moving cells when it was last seen
        ("born", np.float64),  # s
        ("seen", np.float64),  # s
        ("odds", np.float64),
        ("x", np.float64),  # m, centre of the box
        ("y", np.float64),
        ("heading", np.float64),  # rad
        ("seen_length", np.float64),  # m along the heading, of the sides that were seen
        ("seen_width", np.float64),  # m across the heading
        ("length", np.float64),  # m, with the sides that were never seen
        ("width", np.float64),
        ("state", np.float64, 6),  # x, y of the visible part in m, vx, vy in m/s, ax, ay in m/s^2
        ("covariance", np.float64, (6, 6)),
    ]
)
Tracks = NDArray[np.void]  # of TRACK
NO_TRACKS: Tracks = np.empty(0, TRACK)


@dataclass(frozen=True, eq=False)
class Box:
    """An annotated upright box around an object, in the sensor frame of its scan."""

    id: str
    kind: str  # e.g. Van, Cyclist, Pedestrian
    footprint: Float64  # (4, 2) m, corners in order
    z: float  # m, the bottom
    height: float  # m

    @property
    def centre(self) -> Float64:
        """(2,) m"""
        return self.footprint.mean(axis=0)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrackedObject:
    """A moving object, tracked over time; its box is as large as the largest that was seen."""

    id: int  # the same in all frames
    position: Float64  # (2,) m, centre of the box in the axes of the occupancy grid
    extent: Float64  # (2,) m, length along the heading and width across it
    heading: float  # rad, of the box
    velocity: Float64  # (2,) m/s
    velocity_covariance: Float64  # (2, 2) m^2/s^2
    cells: int  # moving cells of the object in this frame
    age: float  # s since it was first seen
    existence: float = 1.0  # probability that the object exists
    acceleration: Float64 = field(default_factory=lambda: np.zeros(2))  # (2,) m/s^2
    yaw_rate: float = 0.0  # rad/s of the direction of motion

    def __repr__(self) -> str:
        (x, y), (length, width), speed = self.position, self.extent, math.hypot(*self.velocity)
        return f"TrackedObject({self.id}, {length:.1f} x {width:.1f} m at ({x:.1f}, {y:.1f}) m, {speed:.1f} m/s)"

    @classmethod
    def of(cls, track: np.void) -> TrackedObject:
        """The object of a TRACK record, at the time it was last seen."""
        fields: Any = track.item()
        number, cells, born, seen, odds, x, y, heading, _, _, length, width, state, covariance = fields
        _, _, vx, vy, ax, ay = state.tolist()
        speed2 = vx * vx + vy * vy
        return cls(
            id=number,
            position=np.array([x, y]),
            extent=np.array([length, width]),
            heading=heading,
            velocity=np.array([vx, vy]),
            velocity_covariance=covariance[2:4, 2:4].copy(),
            cells=cells,
            age=seen - born,
            existence=odds / (1 + odds),
            acceleration=np.array([ax, ay]),
            yaw_rate=(vx * ay - vy * ax) / speed2 if speed2 > _TURNING**2 else 0.0,
        )


class TrackedObjects(Sequence[TrackedObject]):
    """The objects of a frame, created from their records on first access."""

    def __init__(self, tracks: Tracks) -> None:
        self.tracks = tracks

    @cached_property
    def _objects(self) -> tuple[TrackedObject, ...]:
        return tuple(TrackedObject.of(track) for track in self.tracks)

    def __len__(self) -> int:
        return len(self.tracks)

    @overload
    def __getitem__(self, which: int) -> TrackedObject: ...
    @overload
    def __getitem__(self, which: slice) -> tuple[TrackedObject, ...]: ...
    def __getitem__(self, which: int | slice) -> TrackedObject | tuple[TrackedObject, ...]:
        return self._objects[which]

    def __repr__(self) -> str:
        return repr(self._objects)
