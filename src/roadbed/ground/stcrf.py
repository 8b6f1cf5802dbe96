# SPDX-License-Identifier: Apache-2.0
"""Ground as a spatio-temporal conditional random field (Rummelhard et al., IV 2017): one frame, step by step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roadbed.config.ground import GroundConfig
from roadbed.frames import Float32, Float64, Lattice, Pose
from roadbed.ground.stcrf_cpu import Placement, StcrfCpu

_FOOTPRINT = (2.5, 1.5)  # m, half length and half width of the area under the vehicle


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
        self.lattice = Lattice.centred(stcrf.length, stcrf.width, stcrf.spacing)
        self.base = 0.0  # m, height in the lattice frame from which the engine counts
        self.engine = StcrfCpu(config, self.lattice.rows, self.lattice.columns)

    def frame(
        self,
        points: Float32,
        T_lattice_sensor: Pose,
        T_lattice_vehicle: Pose,
        warm: bool,
        moving: tuple[Lattice, NDArray[np.bool_]] | None,
    ) -> StcrfResult:
        """Estimate the surface under one scan; `warm` uses the engine's prior."""
        engine = self.engine
        timings: dict[str, float] = {}
        label = np.empty(len(points), np.uint8)
        probability = np.empty(len(points), np.float32)
        height = np.empty(len(points), np.float32)
        with _timed(timings, "sort"):
            engine.sort(points, self._placement(T_lattice_sensor))
        with _timed(timings, "select"):
            engine.select(self._anchors(T_lattice_vehicle), self._moving(moving))
        with _timed(timings, "start"):
            engine.start(warm)
        with _timed(timings, "em"):
            engine.estimate(warm)
        with _timed(timings, "label"):
            engine.label(label, probability, height)
        with _timed(timings, "surface"):
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


@contextmanager
def _timed(timings: dict[str, float], phase: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    timings[phase] = time.perf_counter() - begin
