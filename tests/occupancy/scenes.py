# SPDX-License-Identifier: Apache-2.0
"""Small worlds for the tests: flat ground with a made-up LiDAR, and observation grids of boxes that move."""

import numpy as np

from roadbed.core.frames import GroundFrame, Mounting, Scan
from roadbed.core.geometry import Grid, Pose
from roadbed.occupancy.arrays import Observation


def flat_ground(
    scan: Scan,
    grid: Grid | None = None,
    sigma: float = 0.02,
    elevation: float = 0.0,
    T_world_grid: Pose | None = None,
) -> GroundFrame:
    """Exact heights over a plane, as the ground filter would give them, in the world's axes unless told otherwise."""
    grid = grid or Grid.centred(60.0, 60.0, 1.0)
    mounting = Mounting(T_vehicle_sensor=scan.T_vehicle_sensor or Pose.identity(), estimated=False)
    T_grid_sensor = mounting.T_vehicle_sensor
    if scan.T_world_sensor is not None:
        T_world_grid = T_world_grid or Pose.identity()
        T_grid_sensor = T_world_grid.inverse() @ scan.T_world_sensor
    points = T_grid_sensor @ scan.points.astype(np.float64)
    height = (points[:, 2] - elevation).astype(np.float32)
    return GroundFrame(
        label=np.where(height < 0.2, 1, 2).astype(np.uint8),
        ground_probability=(height < 0.2).astype(np.float32),
        height_above_ground=height,
        grid=grid,
        elevation=np.full(grid.shape, elevation, np.float32),
        slope=np.zeros((*grid.shape, 2), np.float32),
        variance=np.full(grid.shape, sigma**2, np.float32),
        T_grid_sensor=T_grid_sensor,
        mounting=mounting,
        scan=scan,
        T_world_grid=T_world_grid,
    )


def box_points(x: float, y: float, length: float = 0.4, width: float = 0.4, height: float = 1.5) -> np.ndarray:
    """Returns spread over a box's footprint at several heights."""
    along, across = (np.linspace(-0.5, 0.5, max(5, round(size / 0.1))) for size in (length, width))
    u, v, w = np.meshgrid(along, across, np.linspace(0.3, height, 6))
    return np.column_stack([x + u.ravel() * length, y + v.ravel() * width, w.ravel()])


def sweep(obstacles: list[np.ndarray] = (), height: float = 1.7, reach: float = 25.0) -> np.ndarray:  # type: ignore[assignment]
    """Ground rings plus obstacle returns, as points in the world around a sensor at (0, 0, height)."""
    azimuth = np.radians(np.arange(0, 360, 0.4) + 0.2)
    rings = np.linspace(2.0, reach, 60)
    a, r = np.meshgrid(azimuth, rings)
    ground = np.column_stack([(r * np.cos(a)).ravel(), (r * np.sin(a)).ravel(), np.zeros(a.size)])
    return np.vstack([ground, *obstacles]) if len(obstacles) else ground


def scan_at(
    points_world: np.ndarray,
    time: float | None,
    x: float = 0.0,
    y: float = 0.0,
    height: float = 1.7,
    sensor: str = "lidar",
    yaw: float = 0.0,
) -> Scan:
    """A scan of world points by a sensor at (x, y, height) that looks along `yaw`."""
    T = Pose.from_euler(x, y, height, yaw=yaw)
    return Scan(
        (T.inverse() @ points_world).astype(np.float32),
        time=time,
        T_world_sensor=T,
        T_vehicle_sensor=Pose.from_euler(z=height),
        sensor=sensor,
    )


def grid_of_boxes(
    shape: tuple[int, int], spacing: float, boxes: list[tuple[float, float, float, float]], seen: float = 0.95
) -> Observation:
    """Everything seen: boxes (x, y, length, width), metres from the corner, are hit, the rest is free."""
    rows, columns = np.mgrid[0 : shape[0], 0 : shape[1]]
    x, y = (columns + 0.5) * spacing, (rows + 0.5) * spacing
    hit = np.zeros(shape, bool)
    for bx, by, length, width in boxes:
        hit |= (np.abs(x - bx) < length / 2) & (np.abs(y - by) < width / 2)
    probability = np.where(hit, 0.95, 0.05).astype(np.float32)
    surface = np.where(hit, 0xFFFF, 0).astype(np.uint16)
    return Observation(probability, np.full(shape, seen, np.float32), surface)


def seen_as(p, seen, surface=0):
    shape = np.shape(p)
    return Observation(
        np.asarray(p, np.float32), np.broadcast_to(np.float32(seen), shape).copy(), np.full(shape, surface, np.uint16)
    )


def nothing_seen(shape):
    return seen_as(np.full(shape, 0.5), 0.0)


def place(filter_, cell, particles):
    """Put particles (vx, vy, mass) in the middle of a cell."""
    row, column = cell
    p, spacing = filter_.particles.arrays, filter_.cells.spacing
    for vx, vy, mass in particles:
        i = filter_.particles.count
        p.x[i], p.y[i] = (column + 0.5) * spacing, (row + 0.5) * spacing
        p.vx[i], p.vy[i], p.mass[i] = vx, vy, mass
        filter_.particles.count += 1


def crowd(filter_):
    """The particles in use."""
    return type(filter_.particles.arrays)(*(values[: filter_.particles.count] for values in filter_.particles.arrays))


def copies_of(particles, placed):
    """Which particles have exactly the velocity of one that was placed: newborn ones take theirs by chance."""
    exact = [(particles.vx == np.float32(vx)) & (particles.vy == np.float32(vy)) for vx, vy, *_ in placed]
    return np.any([np.zeros(len(particles.x), bool), *exact], axis=0)
