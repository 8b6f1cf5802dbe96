# SPDX-License-Identifier: Apache-2.0
"""The ego mask: returns from the ego vehicle are neither ground nor obstacle.

The vehicle's box is configured (`vehicle.body`), or estimated while it drives: cells that stay occupied in the vehicle
frame while the world moves belong to the vehicle, unless the occupied line continues far along it, as a wall does. A
ground method on an accelerator searches the points there (`query`). Other scans in GPU memory are not searched, because
they would have to be downloaded first.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.config.shared import BodyConfig, VehicleConfig
from roadbed.core.device_arrays import lies_on_device, to_host
from roadbed.core.frames import Scan
from roadbed.core.geometry import Float32, Pose
from roadbed.ground.ego.ego_mask_cpu import copy_without, mark_cells, mark_inside
from roadbed.ground.engine import EgoQuery
from roadbed.kernels.parallel import parallel_for

PER_METRE = 5  # cells
ALONG, ACROSS = 6.0, 1.8  # m along and across around the vehicle's origin: the searched area
LOW = 0.25  # m over the road: lowest return of the body
CELLS = round(2 * ALONG * PER_METRE), round(2 * ACROSS * PER_METRE)
_CELL = 1 / PER_METRE  # m
_LONGEST = 5.0  # m ahead or behind; a longer line of returns is a wall, a rail or a row of parked cars,
_CONTINUES = 0.3  # which is seen there in this share of the scans
_STEP = 1.0  # m driven between two scans that are counted: a parked car is passed in less than _SCANS
_SCANS = 8  # counted before a box is reported
_FADE = 1 - 1 / 60  # decay of a scan's weight per counted scan
_ENOUGH = sum(_FADE**k for k in range(_SCANS - 1))
_KEPT = 0.7  # share of the scans in which a cell of the vehicle is occupied
_FEWEST = 3  # occupied cells of a vehicle
_MARGIN = 0.05  # m around the occupied cells
_GRAIN = 20_000  # points per thread


class EgoMask:
    """Finds the points of a scan on the ego vehicle; `box` is its known extent, None while it is unknown."""

    def __init__(self, config: VehicleConfig, backend: Any) -> None:
        self.config, self._backend = config, backend
        self._pinned: Float32 = np.empty((0, 3), np.float32)  # host memory that uploads fastest, for one scan at a time
        self.reset()

    def reset(self) -> None:
        self.box: BodyConfig | None = self.config.body
        self._seen = np.zeros(CELLS, np.float64)  # weighted number of scans, [x][y]
        self._scans = 0.0  # their weights
        self._last: Pose | None = None
        self._mounted: dict[str, Pose] = {}  # T_vehicle_sensor of each sensor in its last scan

    def mask(self, scan: Scan) -> NDArray[np.bool_] | None:
        """(N,) mask of the points in the box; None if it is empty or if the box or the sensor's pose is unknown."""
        T_vehicle_sensor = self._pose_of(scan)
        if self.box is None or T_vehicle_sensor is None:
            return None
        limits = np.array(_limits(self.box), np.float32)
        inside = np.empty(len(scan), np.bool_)
        parallel_for(mark_inside, len(inside), *_kernel_input(scan, T_vehicle_sensor), limits, inside, grain=_GRAIN)
        return inside if inside.any() else None

    def query(self, scan: Scan) -> EgoQuery | None:
        """The search that an accelerator is to do; None: no search."""
        T_vehicle_sensor, box, counts = self._pose_of(scan), self.box, self._counts(scan)
        if T_vehicle_sensor is None or (box is None and not counts):
            return None
        return EgoQuery(T_vehicle_sensor, None if box is None else _limits(box), counts)

    def removed(self, scan: Scan, mask: NDArray[np.bool_] | None) -> Scan:
        """The scan with masked points as missing returns, in memory that the next scan reuses."""
        if mask is not None and len(mask) > len(self._pinned):
            self._pinned = self._backend.host_array((len(mask) + len(mask) // 4, 3), np.float32)
        return without(scan, mask, self._pinned)

    def update(self, scan: Scan, T_vehicle_sensor: Pose, occupied: NDArray[np.bool_] | None = None) -> None:
        """Store the sensor's pose, and update the box from a scan or from occupied cells that an accelerator found."""
        self._mounted[scan.sensor] = T_vehicle_sensor
        if not self._counts(scan):
            return
        if occupied is None:
            if lies_on_device(scan.points):
                return
            limits = np.array([-ALONG, ALONG, -ACROSS, ACROSS, LOW, self.config.clearance], np.float32)
            occupied = np.zeros(CELLS, np.bool_)
            mark_cells(*_kernel_input(scan, T_vehicle_sensor), limits, np.float32(PER_METRE), occupied)
        self._last = scan.T_world_sensor
        self._scans = self._scans * _FADE + 1
        self._seen = self._seen * _FADE + occupied
        if self._scans > _ENOUGH:
            self.box = self._found()

    def _pose_of(self, scan: Scan) -> Pose | None:
        """T_vehicle_sensor given by the scan, or estimated from an earlier one; None: unknown yet."""
        return scan.T_vehicle_sensor or self._mounted.get(scan.sensor)

    def _counts(self, scan: Scan) -> bool:
        """Whether the box is estimated and the vehicle has moved since the last counted scan."""
        if self.config.body is not None or not self.config.find_body or scan.T_world_sensor is None:
            return False
        return self._last is None or self._last.distance_to(scan.T_world_sensor) >= _STEP

    def _found(self) -> BodyConfig | None:
        """The box around the vehicle's origin and all cells that stay occupied."""
        stays = self._seen >= _KEPT * self._scans
        if not stays.any():
            return None
        x = (np.arange(len(stays)) + 0.5) * _CELL - ALONG
        far = np.abs(x) > _LONGEST
        walls = (self._seen[far] >= _CONTINUES * self._scans).any(axis=0)  # lines along the vehicle go on beyond it
        stays[:, walls] = False
        if np.count_nonzero(stays) < _FEWEST:
            return None
        columns, rows = np.nonzero(stays)
        y = (rows + 0.5) * _CELL - ACROSS
        reach = _CELL / 2 + _MARGIN
        return BodyConfig(
            front=float(max(x[columns].max(), 0) + reach),
            rear=float(min(x[columns].min(), 0) - reach),
            left=float(max(y.max(), 0) + reach),
            right=float(min(y.min(), 0) - reach),
            top=self.config.clearance,
        )


def without(scan: Scan, mask: NDArray[np.bool_] | None, memory: Float32 | None = None) -> Scan:
    """The scan with masked points as missing returns, which every method labels unknown; points are in `memory`."""
    if mask is None:
        return scan
    given = to_host(scan.points) if lies_on_device(scan.points) else scan.points
    points = np.empty_like(given) if memory is None else memory[: len(given)]
    parallel_for(copy_without, len(mask), given, mask, points, grain=_GRAIN)
    return scan.with_points(points)


def _limits(box: BodyConfig) -> tuple[float, ...]:
    """For kernels: rear, front, right, left, bottom, top; returns below the vehicle belong to it too."""
    return box.rear, box.front, box.right, box.left, -math.inf, box.top


def _kernel_input(scan: Scan, T_vehicle_sensor: Pose) -> tuple[Float32, Float32, Float32]:
    """Points, and rotation and translation to the vehicle frame."""
    points = to_host(scan.points) if lies_on_device(scan.points) else scan.points
    return points, T_vehicle_sensor.rotation.astype(np.float32), T_vehicle_sensor.translation.astype(np.float32)
