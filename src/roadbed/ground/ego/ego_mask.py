# SPDX-License-Identifier: Apache-2.0
"""The own vehicle's body in its scans: returns that travel with the vehicle are neither ground nor obstacle.

The box is configured (`vehicle.body`), or estimated while the vehicle drives: what keeps its place in the vehicle frame
while the world moves by is the vehicle itself, unless it goes on and on beside it, as a wall does. Where the
ground method asks its accelerator, points are found there and do not come to the host for it; other scans in GPU memory
are not searched, which would mean to fetch them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.config.shared import BodyConfig, VehicleConfig
from roadbed.core.device_arrays import lies_on_device, to_host
from roadbed.core.frames import Scan
from roadbed.core.geometry import Float32, Pose
from roadbed.ground.ego.ego_mask_cpu import copy_without, count_look, mark_cells, mark_inside
from roadbed.ground.engine import BodyQuestion
from roadbed.kernels.parallel import parallel_for

PER_METRE = 5  # cells
ALONG, ACROSS = 6.0, 1.8  # m from the vehicle's origin that are searched: along, across
LOW = 0.25  # m over the road from which a return may be the body
CELLS = round(2 * ALONG * PER_METRE), round(2 * ACROSS * PER_METRE)
_CELL = 1 / PER_METRE  # m
_LONGEST = 5.0  # m ahead or behind; a line of returns that goes on further is a wall or a rail
_STEP = 0.4  # m driven between two looks
_LOOKS = 6  # before anything is said
_FADE = 1 - 1 / 60  # what a look counts after another one
_ENOUGH_LOOKS = sum(_FADE**k for k in range(_LOOKS - 1))
_KEPT = 0.6  # share of the looks in which a cell of the body returns
_FEWEST = 3  # cells that make a body
_MARGIN = 0.05  # m around what was found
_GRAIN = 20_000  # points that are worth a thread


class EgoMask:
    """Says which points of a scan are the vehicle's own; `box` is what is known of it, None while nothing is."""

    def __init__(self, config: VehicleConfig) -> None:
        self.config = config
        self.reset()

    def reset(self) -> None:
        self.box: BodyConfig | None = self.config.body
        self._seen = np.zeros(CELLS, np.float64)  # looks, [x][y]
        self._looks, self._stays = 0.0, np.zeros(CELLS, np.bool_)
        self._changed = False  # what stays, since the box was laid around it
        self._last: Pose | None = None

    def points_of(self, scan: Scan, T_vehicle_sensor: Pose | None) -> NDArray[np.bool_] | None:
        """Which points lie in the box, (N,); None where there are none, or nothing is known yet."""
        if self.box is None or T_vehicle_sensor is None:
            return None
        limits = np.array(_limits(self.box), np.float32)
        own = np.empty(len(scan), np.bool_)
        parallel_for(mark_inside, len(own), *_placed(scan, T_vehicle_sensor), limits, own, grain=_GRAIN)
        return own if own.any() else None

    def question(self, scan: Scan, T_vehicle_sensor: Pose) -> BodyQuestion | None:
        """What an accelerator is to find in a scan, for who sits there; None: nothing."""
        box, looks = self.box, self._learns_from(scan)
        if box is None and not looks:
            return None
        return BodyQuestion(T_vehicle_sensor, None if box is None else _limits(box), looks)

    def look(self, scan: Scan, T_vehicle_sensor: Pose, occupied: NDArray[np.bool_] | None = None) -> None:
        """Learn from a scan, or from the cells that an accelerator found to hold a point of it."""
        if not self._learns_from(scan):
            return
        if occupied is None:
            if lies_on_device(scan.points):
                return
            limits = np.array([-ALONG, ALONG, -ACROSS, ACROSS, LOW, self.config.clearance], np.float32)
            occupied = np.zeros(CELLS, np.bool_)
            mark_cells(*_placed(scan, T_vehicle_sensor), limits, np.float32(PER_METRE), occupied)
        self._last = scan.T_world_sensor
        self._looks = self._looks * _FADE + 1
        self._changed |= count_look(self._seen, occupied, _FADE, _KEPT * self._looks, self._stays)
        if self._looks > _ENOUGH_LOOKS and self._changed:
            self.box, self._changed = self._found(), False

    def _learns_from(self, scan: Scan) -> bool:
        """Where the box is not configured and the vehicle has moved on since the last scan it learnt from."""
        if self.config.body is not None or not self.config.find_body or scan.T_world_sensor is None:
            return False
        return self._last is None or self._last.distance_to(scan.T_world_sensor) >= _STEP

    def _found(self) -> BodyConfig | None:
        """The box around everything that stayed, and around the sensor's foot."""
        stays = self._stays.copy()
        x = (np.arange(stays.shape[0]) + 0.5) * _CELL - ALONG
        far = np.abs(x) > _LONGEST
        walls = stays[far].any(axis=0)  # lines along the vehicle that go on
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


def without(scan: Scan, own: NDArray[np.bool_] | None, room: Room | None = None) -> Scan:
    """The scan with its own vehicle's points made missing returns: every method labels those unknown.

    With `room` its points lie there until the next scan comes.
    """
    if own is None:
        return scan
    given = to_host(scan.points) if lies_on_device(scan.points) else scan.points
    points = np.empty_like(given) if room is None else room.like(given)
    parallel_for(copy_without, len(own), given, own, points, grain=_GRAIN)
    return scan.with_points(points)


class Room:
    """Memory for the points of one scan at a time, from which they reach the device fastest."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._held: Float32 = np.empty((0, 3), np.float32)

    def like(self, points: Float32) -> Float32:
        if len(points) > len(self._held):
            self._held = self._backend.host_array((len(points) + len(points) // 4, 3), np.float32)
        return self._held[: len(points)]


def _limits(box: BodyConfig) -> tuple[float, ...]:
    """As kernels take them; what is under the vehicle is its own too."""
    return box.rear, box.front, box.right, box.left, -math.inf, box.top


def _placed(scan: Scan, T_vehicle_sensor: Pose) -> tuple[Float32, Float32, Float32]:
    """What the kernels take: points, rotation and translation to the vehicle frame."""
    points = to_host(scan.points) if lies_on_device(scan.points) else scan.points
    return points, T_vehicle_sensor.rotation.astype(np.float32), T_vehicle_sensor.translation.astype(np.float32)
