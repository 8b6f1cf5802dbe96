# SPDX-License-Identifier: Apache-2.0
"""The observation grid of every sensor of a scan: P(occupied) and observedness of each cell, given the ground.

A beam that passes low over a cell shows that it is free, one that passes high says little, and a return between the
ground and the clearance is an obstacle. No beam passes behind an obstacle, so its shadow stays unknown.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from roadbed.config import Config
from roadbed.core.geometry import Grid, Pose
from roadbed.kernels.parallel import parallel_for, parallel_invoke
from roadbed.occupancy.arrays import CHUNK, Observation, Reports
from roadbed.occupancy.engine import GroundSurface, OccupancyInput, SensorView
from roadbed.occupancy.observation.arrays import Cloud, Collected, GridShape, Located, Surface
from roadbed.occupancy.observation.locate_cpu import locate_points
from roadbed.occupancy.observation.model import SensorModel
from roadbed.occupancy.observation.movers_cpu import move_points
from roadbed.occupancy.observation.observe_cpu import HALVES, clear, collect, finish_rays
from roadbed.occupancy.observation.sensor_model_cpu import apply_sensor_model
from roadbed.occupancy.observation.vertical_faces_cpu import raise_vertical_faces


class Observer:
    """`observer(given)` returns the observation grids of a scan's sensors; the points are on the host."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._collected: list[Collected | None] = []  # of every sensor
        self.layered = True  # whether a sensor of the last scan has surfaces of several layers only

    def __call__(self, given: OccupancyInput) -> Reports:
        shape = (len(given.sensors), *given.grid.shape)
        probability, observedness = (np.empty(shape, np.float32) for _ in range(2))
        surface = np.zeros(shape, np.uint16)
        grid, ground = grid_shape(given.grid, given.T_ground_grid), _surface(given.surface)
        self._collected += [None] * (len(given.sensors) - len(self._collected))
        given = self._deskewed(given)
        models = [
            SensorModel.of(self.config, grid.spacing, reach_of(view, given.grid, given.T_ground_grid), view.count)
            for view in given.sensors
        ]
        self.layered = any(model.layers_apart > 0 for model in models)
        calls = [
            partial(
                self._observe, k, model, given, grid, ground, Observation(probability[k], observedness[k], surface[k])
            )
            for k, model in enumerate(models)
        ]
        parallel_invoke(calls)
        return Reports(tuple(view.name for view in given.sensors), probability, observedness, surface)

    @staticmethod
    def _deskewed(given: OccupancyInput) -> OccupancyInput:
        """With the points of movers where these are at the frame's time."""
        if not len(given.movers):
            return given
        moved = np.empty_like(given.points)
        parallel_for(move_points, len(moved), given.points, given.point_time, given.movers, moved, grain=CHUNK)
        return replace(given, points=moved)

    def _observe(
        self, k: int, model: SensorModel, given: OccupancyInput, grid: GridShape, ground: Surface, out: Observation
    ) -> None:
        """The observation grid of sensor k."""
        view, cells, pose = given.sensors[k], given.grid, given.T_ground_sensor
        chosen = np.arange(len(given.points)) if view.points is None else view.points
        origin = np.array(view.origin)
        cloud = Cloud(given.points, given.heights, chosen, pose.rotation, pose.translation, origin)
        if model.face > 0:
            heights, variance = given.heights.copy(), ground.variance.copy()
            if raise_vertical_faces(cloud, ground, model, grid.spacing, heights, variance):
                cloud, ground = cloud._replace(heights=heights), ground._replace(variance=variance)
        located = Located.empty(len(chosen))
        parallel_for(locate_points, len(chosen), cloud, grid, ground, model, located, grain=CHUNK)
        collected = self._emptied(k, model.azimuth_bins, model.range_bins, cells.size)
        parallel_for(collect, HALVES, located, model, collected, out.surface)
        parallel_for(finish_rays, model.azimuth_bins, collected, model.underside_bins)
        parallel_for(apply_sensor_model, grid.rows, collected, origin, grid, ground, model, *out)

    def _emptied(self, k: int, rays: int, bins: int, cells: int) -> Collected:
        """Empty tables and counts for sensor k; those of its last scan are cleared and used again."""
        kept = self._collected[k]
        if kept is None or len(kept.farthest) != rays or len(kept.hits) != cells or len(kept.table) < rays * bins:
            kept = Collected.new(rays, bins, cells)
        else:
            clear(kept)
        kept = kept._replace(bins=bins)
        self._collected[k] = kept
        return kept


def grid_shape(grid: Grid, T_ground_grid: Pose) -> GridShape:
    x_min, _, y_min, _ = grid.extent
    x, y, _ = T_ground_grid.of(x_min, y_min, 0.0)
    yaw = T_ground_grid.yaw
    return GridShape(x, y, grid.spacing, grid.columns, grid.rows, math.cos(yaw), math.sin(yaw))


def _surface(ground: GroundSurface) -> Surface:
    grid = ground.grid
    return Surface(
        grid.x0, grid.y0, grid.spacing, grid.columns, grid.rows,
        np.ascontiguousarray(ground.elevation, np.float32).reshape(-1),
        np.ascontiguousarray(ground.slope, np.float32).reshape(-1, 2),
        np.ascontiguousarray(ground.variance, np.float32).reshape(-1),
        ground.plane,
    )  # fmt: skip


def reach_of(view: SensorView, grid: Grid, T_ground_grid: Pose) -> float:
    """Metres from the sensor to the farthest corner of the grid."""
    x_min, x_max, y_min, y_max = grid.extent
    x, y, _ = T_ground_grid.inverse().of(*view.origin)
    return math.hypot(max(abs(x_min - x), abs(x_max - x)), max(abs(y_min - y), abs(y_max - y)))
