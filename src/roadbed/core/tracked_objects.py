# SPDX-License-Identifier: Apache-2.0
"""Things that move, as they are followed: records in one array, and an object of each for whoever asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float64

_TURNING = 1.0  # m/s under which a yaw rate is not known

# What is known of one thing: its box, its velocity and acceleration, and its odds to exist.
TRACK = np.dtype(
    [
        ("id", np.int64),
        ("cells", np.int64),  # that moved when it was last seen
        ("born", np.float64),  # s
        ("seen", np.float64),  # s
        ("odds", np.float64),
        ("x", np.float64),  # m, middle of its box
        ("y", np.float64),
        ("heading", np.float64),
        ("seen_length", np.float64),  # m along and across its heading, as it was seen,
        ("seen_width", np.float64),
        ("length", np.float64),  # and with the sides that were never seen
        ("width", np.float64),
        ("state", np.float64, 4),  # vx, vy, ax, ay
        ("covariance", np.float64, (4, 4)),
    ]
)
Tracks = NDArray[np.void]  # of TRACK
NO_TRACKS: Tracks = np.empty(0, TRACK)


@dataclass(frozen=True, eq=False)
class TrackedObject:
    """Something that moves, followed over time; its box is as large as it was ever seen."""

    id: int
    position: Float64  # (2,) m, middle of its box, grid frame
    extent: Float64  # (2,) m, length along the heading and width across it
    heading: float  # rad, of its box
    velocity: Float64  # (2,) m/s
    velocity_covariance: Float64  # (2, 2)
    cells: int  # of it that move in this frame
    age: float  # s since first seen
    existence: float = 1.0  # probability that there is something
    acceleration: Float64 = field(default_factory=lambda: np.zeros(2))  # (2,) m/s^2
    yaw_rate: float = 0.0  # rad/s of the direction in which it moves

    @classmethod
    def of(cls, track: np.void) -> TrackedObject:
        """As a record of TRACK describes it at the moment it was last seen."""
        fields: Any = track.item()
        number, cells, born, seen, odds, x, y, heading, _, _, length, width, state, covariance = fields
        vx, vy, ax, ay = state.tolist()
        speed2 = vx * vx + vy * vy
        return cls(
            id=number,
            position=np.array([x, y]),
            extent=np.array([length, width]),
            heading=heading,
            velocity=np.array([vx, vy]),
            velocity_covariance=covariance[:2, :2].copy(),
            cells=cells,
            age=seen - born,
            existence=odds / (1 + odds),
            acceleration=np.array([ax, ay]),
            yaw_rate=(vx * ay - vy * ax) / speed2 if speed2 > _TURNING**2 else 0.0,
        )


class TrackedObjects(Sequence[TrackedObject]):
    """The objects of a frame, made of their records when the first of them is asked for."""

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

    def __iter__(self) -> Iterator[TrackedObject]:
        return iter(self._objects)

    def __repr__(self) -> str:
        return repr(self._objects)
