# SPDX-License-Identifier: Apache-2.0
"""The observation grid of one sensor: what its beams say about every cell, given the estimated ground.

A beam that passes low over a cell shows that nothing stands there; one that passes high says little; a return between
the ground and the clearance is an obstacle. Behind an obstacle no beam passes, so its shadow stays unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roadbed.config.occupancy import ObservationConfig
from roadbed.config.shared import VehicleConfig
from roadbed.frames import GroundFrame, Scan
from roadbed.geometry import Float32, Float64, Lattice, Pose
from roadbed.occupancy import observe_cpu as cpu


@dataclass(frozen=True, eq=False)
class SensorGrid:
    """What one sensor says: probability p_z that a cell is occupied, observedness lambda (0: not seen)."""

    sensor: str
    time: float
    probability: Float32  # (rows, columns)
    observedness: Float32  # (rows, columns)
    surface: NDArray[np.uint16]  # (rows, columns) which of a cell's 4 x 4 subcells returned a beam, bit by bit


def observe(
    scan: Scan,
    ground: GroundFrame,
    lattice: Lattice,
    config: ObservationConfig | None = None,
    T_lattice_grid: Pose | None = None,
) -> list[SensorGrid]:
    """One grid per sensor of the scan. `T_lattice_grid` turns the grid's axes, for grids fixed to the vehicle."""
    config = config or ObservationConfig()
    T_lattice_grid = T_lattice_grid or Pose.identity()
    grid = _grid_shape(lattice, T_lattice_grid)
    surface = _surface(ground)
    grids = []
    for mount, chosen in scan.split():
        origin = ground.T_lattice_sensor.translation
        if scan.mounts:
            origin = ground.T_lattice_sensor @ mount.T_vehicle_sensor.translation
        model = _model(config, lattice, T_lattice_grid, origin)
        layers = _observe_sensor(scan, ground, chosen, origin, grid, surface, model)
        grids.append(SensorGrid(mount.name, scan.time or 0.0, *layers))
    return grids


def _observe_sensor(
    scan: Scan,
    ground: GroundFrame,
    chosen: np.ndarray,
    origin: Float64,
    grid: cpu.GridShape,
    surface: cpu.GroundSurface,
    model: cpu.SensorModel,
) -> tuple[Float32, Float32, NDArray[np.uint16]]:
    count, cells = len(chosen), grid.rows * grid.columns
    ray, cell = np.empty(count, np.int32), np.empty(count, np.int32)
    slope, weight = np.empty(count, np.float32), np.empty(count, np.float32)
    on_ground, subcell, low = np.empty(count, np.uint8), np.empty(count, np.uint8), np.empty(count, np.int32)
    pose = ground.T_lattice_sensor
    height = np.asarray(ground.height_above_ground, np.float32)
    cpu.locate_points(
        scan.points, chosen, height, pose.rotation, pose.translation, origin, grid, surface, model,
        ray, slope, cell, subcell, weight, on_ground, low,
    )  # fmt: skip

    table = np.empty((model.azimuth_bins, model.range_bins), np.float32)
    hits, ground_seen = np.empty(cells, np.float32), np.empty(cells, np.uint8)
    returned = np.empty((grid.rows, grid.columns), np.uint16)
    cover = np.empty_like(table)
    cpu.collect(
        ray, slope, cell, subcell, weight, on_ground, low,
        table.reshape(-1), cover.reshape(-1), hits, returned.reshape(-1), ground_seen,
    )  # fmt: skip
    cpu.running_minimum(table)
    cpu.spread_cover(cover, model.underside_bins)

    probability = np.empty((grid.rows, grid.columns), np.float32)
    observedness = np.empty_like(probability)
    cpu.judge_cells(table, cover, hits, ground_seen, origin, grid, surface, model, probability, observedness)
    return probability, observedness, returned


def _grid_shape(lattice: Lattice, T_lattice_grid: Pose) -> cpu.GridShape:
    half = lattice.spacing / 2
    corner = T_lattice_grid @ np.array([lattice.x0 - half, lattice.y0 - half, 0.0])
    yaw = T_lattice_grid.yaw
    return cpu.GridShape(
        float(corner[0]), float(corner[1]), lattice.spacing, lattice.columns, lattice.rows, math.cos(yaw), math.sin(yaw)
    )


def _surface(ground: GroundFrame) -> cpu.GroundSurface:
    lattice = ground.lattice
    T_lattice_vehicle = ground.T_lattice_sensor @ ground.mounting.T_vehicle_sensor.inverse()
    (x, y, z), up = T_lattice_vehicle.translation, T_lattice_vehicle.rotation[:, 2]
    slope_x, slope_y = -up[0] / up[2], -up[1] / up[2]
    return cpu.GroundSurface(
        lattice.x0, lattice.y0, lattice.spacing, lattice.columns, lattice.rows,
        np.ascontiguousarray(ground.elevation, np.float32).reshape(-1),
        np.ascontiguousarray(ground.slope, np.float32).reshape(-1, 2),
        np.ascontiguousarray(ground.variance, np.float32).reshape(-1),
        np.array([z - slope_x * x - slope_y * y, slope_x, slope_y]),
    )  # fmt: skip


def _model(config: ObservationConfig, lattice: Lattice, T_lattice_grid: Pose, origin: Float64) -> cpu.SensorModel:
    x_min, x_max, y_min, y_max = lattice.extent
    sensor = T_lattice_grid.inverse() @ np.asarray(origin)
    reach = math.hypot(
        max(abs(x_min - sensor[0]), abs(x_max - sensor[0])), max(abs(y_min - sensor[1]), abs(y_max - sensor[1]))
    )
    return cpu.SensorModel(
        azimuth_bins=round(360 / config.azimuth_step),
        range_bins=math.ceil(reach / lattice.spacing) + 1,
        min_range=config.min_range,
        range_margin=config.range_margin,
        obstacle_height=config.obstacle_height,
        obstacle_height_sigma=config.obstacle_height_sigma,
        clearance=VehicleConfig().clearance,
        low_outlier=config.low_outlier,
        sure_height=config.sure_height,
        height_spread=config.height_spread,
        detection=config.detection,
        ground_detection=config.ground_detection,
        log_hit_ratio=math.log(config.hit / config.false_alarm),
        hits=config.hits,
        mixed_free=config.mixed_free,
        clip=config.clip,
        ground_sigma=config.ground_sigma,
        unknown_ground=config.unknown_ground,
        underside=config.underside,
        underside_bins=round(config.underside_reach / lattice.spacing),
        beneath=config.beneath,
    )
