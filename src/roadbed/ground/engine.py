# SPDX-License-Identifier: Apache-2.0
"""The interface between a ground method and the machine it runs on, implemented for the CPU and for devices."""

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from roadbed.core.device_arrays import DeviceGround
from roadbed.core.geometry import Float32, Float64, Pose
from roadbed.core.variance_cells import VarianceCells

# The pose of a scan before it is aligned with the prior surface: rotation of the sensor by rows, its position and the
# vehicle's, from corner and base.
Unaligned = tuple[float, ...]
AT_ORIGIN = np.zeros((1, 3))  # one sensor, at the points' origin
# Where results are given: on the host, as arrays on the device, or on the host and read on the device by another stage.
Outputs = Literal["host", "device", "both"]


@dataclass(frozen=True, eq=False)
class Placement:
    """Pose of a scan on the lattice: sensor to the lattice's corner, heights from `base` (m)."""

    rotation: Float64  # (3, 3)
    translation: Float64  # (3,) m from the outer corner of node [0][0] and from the base height
    base: float  # m, height in the grid frame from which the engine counts


@dataclass(frozen=True)
class Vehicle:
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
class SensorViews:
    """Origins of the sensors that saw a scan: input of the occlusion filter."""

    rotation: Float64  # (3, 3) takes points to level axes
    origins: Float64  # (sensors, 3) m, position of each sensor in the points' frame
    sensor: NDArray[np.uint16] | None = None  # (N,) index of the sensor that saw each point; None: all the first


@dataclass(frozen=True, eq=False)
class EgoQuery:
    """Ego vehicle points to be found by an engine."""

    T_vehicle_sensor: Pose
    box: tuple[float, ...] | None  # m: rear, front, right, left, bottom, top; points in it are left out
    counts_cells: bool  # also report which cells around the vehicle hold a point


@dataclass(eq=False)
class EgoPoints:
    """Answer to an `EgoQuery`."""

    points: NDArray[np.bool_] | None = None  # (N,) points on the ego vehicle; None: none
    cells: NDArray[np.bool_] | None = None  # [x][y] cells of `ego_mask.CELLS` that hold a point


@dataclass(frozen=True, eq=False)
class Exclusion:
    """Points to leave out of a frame: as a mask (N,), or as a query that a device answers itself; None: none."""

    ego: NDArray[np.bool_] | EgoQuery | None = None  # on the ego vehicle: handled as missing returns
    non_ground: NDArray[np.bool_] | SensorViews | None = None  # not ground, whatever the surface (occlusion filter)

    @property
    def ego_mask(self) -> NDArray[np.bool_] | None:
        return None if isinstance(self.ego, EgoQuery) else self.ego

    @property
    def non_ground_mask(self) -> NDArray[np.bool_] | None:
        return None if isinstance(self.non_ground, SensorViews) else self.non_ground


@dataclass(frozen=True, eq=False)
class FrameInput:
    """Input of one frame, together with the engine's prior."""

    points: Any  # (N, 3) float32 in the sensor frame, on the host or on the device
    placement: Placement
    vehicle: Vehicle
    road: float  # m over the base, height of the road under the vehicle
    moving: MovingMask | None = None
    warm: bool = False  # whether the prior is used
    exclude: Exclusion = Exclusion()
    origins: Float64 = field(
        default_factory=lambda: AT_ORIGIN
    )  # (sensors, 3) m in the points' frame; (0, 3): no sensor
    rise: float = 0.0  # m of the highest of several over the points' origin
    pose_variance: tuple[float, float, float] = (0.0, 0.0, 0.0)  # of its height, m^2, and of its slopes along x and y


@dataclass(frozen=True, eq=False)
class FrameOutput:
    """Result of one scan; per point in input order, layers of shape (rows, columns)."""

    label: NDArray[np.uint8]
    ground_probability: Float32
    height_above_ground: Float32
    elevation: Any = None  # None: made of `cells` when it is read
    slope: Any = None
    variance: Any = None
    surface_variance: Any = None  # the same without the scatter of the poses; None: there is none
    timings: dict[str, float] = field(default_factory=dict)
    cells: VarianceCells | None = None
    device: DeviceGround | None = None
    ego: EgoPoints = field(default_factory=EgoPoints)  # answer to an `EgoQuery`


@dataclass(frozen=True)
class Misalignment:
    """A scan over the prior surface: dz = lift + slope . (x, y from the sensor), and how many points then fit."""

    lift: float  # m
    slope_x: float
    slope_y: float
    share: float  # of the points within 0.1 m of the surface
    fits: bool  # the scan is corrected by it


@dataclass(frozen=True)
class Rolled:
    """The lattice moved by whole nodes, and its base rose by `climb` (m)."""

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

    @prior.setter
    def prior(self, information: Float32) -> None: ...

    def move(self, motion: Rolled | Turned) -> None:
        """Bring the prior to where the lattice is now; nodes that enter are undefined."""

    def start(self, given: FrameInput, unaligned: Unaligned | None = None) -> None:
        """Step 1: begin a frame. A device starts computing, and aligns an `unaligned` scan with the prior surface."""

    def misalignment(self) -> Misalignment | None:
        """Step 2, for an unaligned scan: what was found; None: too little of the prior surface is known."""

    def output(self, given: FrameInput) -> FrameOutput:
        """Step 3: the surface under a scan and the labels of its points; `given` as corrected by the misalignment.

        A device goes on working until `complete`; kernels of the next stage can be queued at once.
        """

    def complete(self, timings: dict[str, float]) -> None:
        """Step 4: wait until the arrays are filled; `timings` gets the seconds."""

    def frame(self, given: FrameInput) -> FrameOutput:
        """All steps, without an alignment."""

    def profile(self, given: FrameInput) -> dict[str, float]:
        """Seconds per phase of the CPU, or per kernel of a device; the prior does not change."""

    def keep(self) -> None:
        """The surface of the last frame becomes the prior."""

    def forget(self) -> None:
        """Empty the prior."""
