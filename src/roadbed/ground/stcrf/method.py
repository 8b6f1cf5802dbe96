# SPDX-License-Identifier: Apache-2.0
"""Ground as a spatio-temporal conditional random field (Rummelhard et al., IV 2017): one frame, step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.config.ground import GroundConfig
from roadbed.geometry import Float32, Float64, Lattice, Pose, rotation_to_level
from roadbed.ground.stcrf.cpu import Placement, StcrfCpu
from roadbed.mapping.tiles import TileMap
from roadbed.timeline import Link, Step
from roadbed.timing import timed

# m, half length and half width of the area under the vehicle; nodes around a vehicle do not lie on its edge
_FOOTPRINT = (2.49, 1.49)
_HIGHEST_CLIMB = 4.0  # m from the base before heights are counted from a new one: float32 stays fine
_SMALLEST_FIT = 0.3  # share of the points near the prior surface
_LARGEST_LIFT, _LARGEST_TILT = 0.7, 0.1  # m and slope that alignment may correct


@dataclass(frozen=True, eq=False)
class StcrfResult:
    """What the filter needs to fill a GroundFrame."""

    label: NDArray[np.uint8]
    ground_probability: Float32
    height_above_ground: Float32
    elevation: Float32
    slope: Float32
    variance: Float32
    timings: dict[str, float]


class Stcrf:
    """The model on one lattice. `lattice` and `base` say where the engine's arrays lie in the lattice frame."""

    def __init__(self, config: GroundConfig) -> None:
        stcrf = config.stcrf
        self.config = config
        self.map: TileMap | None = None  # where nodes that leave the lattice are kept
        self._around_vehicle = Lattice.centred(stcrf.length, stcrf.width, stcrf.spacing)
        self.lattice = self._prior_lattice = self._around_vehicle
        self.base = self._prior_base = 0.0  # m, height in the lattice frame from which the engine counts
        self.engine = self._make_engine()

    def _make_engine(self) -> Any:
        return StcrfCpu(self.config, self.lattice.rows, self.lattice.columns)

    def place(self, step: Step) -> bool:
        """Bring lattice and prior to where the vehicle is now; False where no prior can be used."""
        self.lattice, self.base = self._around_vehicle, 0.0
        if step.link is Link.ALONE:
            return False
        if self.config.time.motion == "vehicle":
            if step.link is Link.FIRST:
                self.engine.forget()
            if step.link is Link.NEXT:
                self.engine.transport(step.T_old_new, self.lattice)
            return step.link is Link.NEXT
        if step.link is Link.FIRST and self._prior_lattice is not self._around_vehicle:
            self._store(np.ones(self._prior_lattice.shape, np.bool_))
        if step.link is Link.FIRST:
            self.engine.forget()
        self._roll(step)
        return step.link is not Link.FIRST or (self.map is not None and self.engine.knows_something())

    def _roll(self, step: Step) -> None:
        """Shift the prior by whole nodes, and count heights from the road again after a climb."""
        x, y, z = (float(v) for v in step.T_lattice_vehicle.translation)
        self.lattice = self._around_vehicle.around(x, y)
        self.base = z
        if step.link is not Link.FIRST:
            columns, rows = self._prior_lattice.steps_to(self.lattice)
            if columns or rows:
                self._store(self._prior_lattice.outside(columns, rows))
                self.engine.shift(columns, rows)
            climb = z - self._prior_base
            if abs(climb) > _HIGHEST_CLIMB:
                self.engine.lower(climb)
            else:
                self.base = self._prior_base
            entering = self.lattice.outside(-columns, -rows)
        else:
            entering = np.ones(self.lattice.shape, np.bool_)
        self._prior_lattice, self._prior_base = self.lattice, self.base
        self._load(entering)

    def _store(self, leaving: NDArray[np.bool_]) -> None:
        """Nodes that leave go to the long-term map, if there is one."""
        if self.map is not None and leaving.any():
            self.map.store(self._prior_lattice, self.engine.prior_information(), self._prior_base, leaving)

    def _load(self, entering: NDArray[np.bool_]) -> None:
        """Nodes that enter are undefined, or what the map knows of them."""
        if self.map is None or not entering.any():
            return
        information = self.engine.prior_information()
        if self.map.load(self.lattice, information, self.base, entering):
            self.engine.set_prior_information(information)

    def save_map(self) -> None:
        """Write everything known to the long-term map."""
        if self.map is not None:
            self._store(np.ones(self._prior_lattice.shape, np.bool_))
            self.map.flush()

    def aligned(self, points: Float32, step: Step) -> tuple[Step, str | None]:
        """The scan's pose corrected against the prior surface; a note where it does not fit at all."""
        config = self.config.time
        pose = step.T_lattice_sensor
        found = self.engine.misalignment(points, self._placement(pose), config.alignment_radius)
        if found is None:
            return step, None
        steep = float(np.hypot(found.slope_x, found.slope_y))
        if found.share < _SMALLEST_FIT or abs(found.lift) > _LARGEST_LIFT or steep > _LARGEST_TILT:
            note = (
                f"scan does not fit the prior surface ({100 * found.share:.0f} % of its points near it): started cold"
            )
            return step, note
        trust = config.alignment_trust
        turn = rotation_to_level(trust * found.slope_x, trust * found.slope_y)
        # Turned about the sensor's foot point on the lattice, then lowered by what is left.
        pivot = np.array([pose.translation[0], pose.translation[1], self.base])
        correction = Pose(turn, pivot - turn @ pivot - np.array([0.0, 0.0, trust * found.lift]))
        corrected = replace(
            step, T_lattice_sensor=correction @ pose, T_lattice_vehicle=correction @ step.T_lattice_vehicle
        )
        return corrected, None

    def frame(
        self, points: Float32, step: Step, warm: bool, moving: tuple[Lattice, NDArray[np.bool_]] | None
    ) -> StcrfResult:
        """Estimate the surface under one scan; `warm` uses the engine's prior."""
        engine = self.engine
        timings: dict[str, float] = {}
        label = np.empty(len(points), np.uint8)
        probability = np.empty(len(points), np.float32)
        height = np.empty(len(points), np.float32)
        with timed(timings, "sort"):
            engine.sort(points, self._placement(step.T_lattice_sensor))
        with timed(timings, "select"):
            engine.select(self._anchors(step.T_lattice_vehicle), self._moving(moving))
        with timed(timings, "start"):
            engine.start(warm, float(step.T_lattice_vehicle.translation[2]) - self.base)
        with timed(timings, "em"):
            engine.estimate(warm)
        with timed(timings, "label"):
            engine.label(label, probability, height)
        with timed(timings, "surface"):
            elevation, slope, variance = engine.surface(self.lattice, self.base)
        return StcrfResult(label, probability, height, elevation, slope, variance, timings)

    @property
    def _corner(self) -> Float64:
        x_min, _, y_min, _ = self.lattice.extent
        return np.array([x_min, y_min, self.base])

    def _placement(self, T_lattice_sensor: Pose) -> Placement:
        return Placement(T_lattice_sensor.rotation, T_lattice_sensor.translation - self._corner, self.base)

    def _anchors(self, T_lattice_vehicle: Pose) -> tuple[NDArray[np.int64], Float64] | None:
        """Nodes under the vehicle and the plane of its wheels there."""
        if not self.config.stcrf.footprint:
            return None
        lattice, (half_length, half_width) = self.lattice, _FOOTPRINT
        x0, y0, z0 = T_lattice_vehicle.translation
        reach = np.hypot(half_length, half_width)
        columns = np.flatnonzero(np.abs(lattice.x - x0) < reach)
        rows = np.flatnonzero(np.abs(lattice.y - y0) < reach)
        x, y = np.meshgrid(lattice.x[columns] - x0, lattice.y[rows] - y0)
        cosine, sine = np.cos(T_lattice_vehicle.yaw), np.sin(T_lattice_vehicle.yaw)
        under = (np.abs(cosine * x + sine * y) < half_length) & (np.abs(cosine * y - sine * x) < half_width)
        up = T_lattice_vehicle.rotation[:, 2]
        slope_x, slope_y = -up[0] / up[2], -up[1] / up[2]
        nodes = (rows[:, None] * lattice.columns + columns[None, :])[under]
        heights = (z0 - self.base + slope_x * x + slope_y * y)[under]
        planes = np.stack([heights, np.full_like(heights, slope_x), np.full_like(heights, slope_y)], axis=1)
        return nodes, planes

    def _moving(
        self, moving: tuple[Lattice, NDArray[np.bool_]] | None
    ) -> tuple[NDArray[np.bool_], Float64, float] | None:
        if moving is None:
            return None
        cells, mask = moving
        x_min, _, y_min, _ = cells.extent
        return np.ascontiguousarray(mask, np.bool_), np.array([x_min, y_min]) - self._corner[:2], cells.spacing
