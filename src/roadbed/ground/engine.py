# SPDX-License-Identifier: Apache-2.0
"""What a ground method asks of the machine it runs on: one protocol, implemented by the CPU and by devices alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from roadbed.core.frames import DeviceGround, VarianceCells
from roadbed.core.geometry import Float32, Float64, Pose

# Where results are given: on the host, as arrays on the device, or on the host and read on the device by another stage.
Outputs = Literal["host", "device", "both"]


def nothing(*_: object) -> None:
    """What is to be done where nothing is."""


@dataclass(frozen=True, eq=False)
class Placement:
    """Where a scan lies over the lattice: sensor to the lattice's corner, heights from `base` (m)."""

    rotation: Float64  # (3, 3)
    translation: Float64  # (3,) m from the outer corner of node [0][0] and from the base height
    base: float  # m, height in the grid frame from which the engine counts


@dataclass(frozen=True)
class Vehicle:
    """Position of the vehicle on the lattice."""

    x: float  # m from the lattice's corner
    y: float


@dataclass(frozen=True, eq=False)
class MovingMask:
    """Cells whose points do not shape the surface."""

    mask: Any  # [y][x] bool, or `DeviceArray`
    shape: tuple[int, int]
    corner: tuple[float, float]  # m from the lattice's corner
    spacing: float  # m


@dataclass(frozen=True, eq=False)
class Views:
    """From where the points of a scan were seen: what tells which of them stand."""

    rotation: Float64  # (3, 3) takes points to level axes
    origins: Float64  # (sensors, 3) m, where each sensor stands in the points' frame
    sensor: NDArray[np.uint16] | None = None  # (N,) which of them saw each point; None: all the first


@dataclass(frozen=True, eq=False)
class BodyQuestion:
    """What an engine that can is asked of the own vehicle in a scan."""

    T_vehicle_sensor: Pose
    box: tuple[float, ...] | None  # m: rear, front, right, left, bottom, top; points in it are left out
    looks: bool  # which cells around the vehicle hold a point is asked too


@dataclass(eq=False)
class OwnVehicle:
    """The answer, as far as there is one."""

    points: NDArray[np.bool_] | None = None  # (N,) which of them are its own; None: none
    cells: NDArray[np.bool_] | None = None  # [x][y] which of `own_body.CELLS` hold a point


@dataclass(frozen=True, eq=False)
class FrameInput:
    """All that one frame is computed from, beside the engine's prior."""

    points: Any  # (N, 3) float32 in the sensor frame, on the host or on the device
    placement: Placement
    vehicle: Vehicle
    road: float  # m over the base, height of the road under the vehicle
    moving: MovingMask | None = None
    warm: bool = False  # whether the prior is used
    standing: NDArray[np.bool_] | None = None  # (N,) points that are not ground whatever the surface; None: any may be
    views: Views | None = None  # from which an engine that can finds those points itself
    own: NDArray[np.bool_] | None = None  # (N,) points on the own vehicle, where `points` holds them as returns
    body: BodyQuestion | None = None  # by which an engine that can finds those points itself


@dataclass(frozen=True, eq=False)
class FrameOutput:
    """What a method knows after one scan; per point in input order, layers of shape (rows, columns)."""

    label: NDArray[np.uint8]
    ground_probability: Float32
    height_above_ground: Float32
    elevation: Float32
    slope: Float32
    variance: Float32
    timings: dict[str, float] = field(default_factory=dict)
    cells: VarianceCells | None = None
    device: DeviceGround | None = None
    own: OwnVehicle = field(default_factory=OwnVehicle)  # the answer to `FrameInput.body`


@dataclass(frozen=True)
class Misalignment:
    """A scan over the prior surface: dz = lift + slope . (x, y from the sensor), and how many points then fit."""

    lift: float  # m
    slope_x: float
    slope_y: float
    share: float  # of the points within 0.1 m of the surface
    fits: bool  # so well that the scan is laid onto it


class Alignment(Protocol):
    """A scan that an engine lays onto the prior surface before it is used."""

    radius: float  # m around the sensor in which it is compared with that surface
    trust: float  # share of what is found there that is taken back

    @property
    def poses(self) -> tuple[float, ...]:
        """Rotation of the sensor by rows, its position and the vehicle's, from the lattice's corner and base height."""
        ...

    def lay(self, found: Misalignment | None) -> bool:
        """Take how it lies there (None: too little is known); whether the prior is used, which the scan has to fit."""
        ...

    @property
    def given(self) -> FrameInput:
        """The frame's input, as corrected."""
        ...


@dataclass(frozen=True)
class Rolled:
    """The lattice moved by whole nodes, and its base rose by `climb` metres."""

    columns: int
    rows: int
    climb: float


@dataclass(frozen=True)
class Turned:
    """The lattice is fixed to the vehicle, which moved: T_old_new takes the new vehicle frame to the old one."""

    T_old_new: Pose
    x0: float  # m, node [0][0] in the vehicle frame
    y0: float


class GroundEngine(Protocol):
    """One lattice and its prior on one machine."""

    @property
    def prior(self) -> Float32:
        """Information of the previous frames, (9, rows, columns); assigning to it replaces it."""
        ...

    @prior.setter
    def prior(self, information: Float32) -> None: ...

    def move(self, motion: Rolled | Turned) -> None:
        """Bring the prior to where the lattice is now; nodes that enter are undefined."""
        ...

    def begin(
        self, given: FrameInput, alignment: Alignment | None = None, meanwhile: Callable[[], object] = nothing
    ) -> FrameOutput:
        """Estimate the surface under a scan and label its points; a device goes on working until `complete`, which
        fills the arrays. What it leaves for kernels of the next stage can be queued for at once.

        With an `alignment` the scan is laid onto the prior surface first; `alignment.lay` has been told how it lay
        there. `meanwhile` is called before that is waited for.
        """
        ...

    def complete(self, timings: dict[str, float]) -> None:
        """Wait for the frame begun last; `timings` gets the seconds of what is done for it."""
        ...

    def frame(self, given: FrameInput, alignment: Alignment | None = None) -> FrameOutput:
        """Both of them."""
        ...

    def profile(self, given: FrameInput) -> dict[str, float]:
        """Seconds per phase of the CPU, or per kernel of a device; the prior stays as it is."""
        ...

    def keep(self) -> None:
        """The surface of the last frame becomes the prior."""
        ...

    def forget(self) -> None:
        """The prior knows nothing."""
        ...
