# SPDX-License-Identifier: Apache-2.0
"""A small made-up place whose every point, cell and object is known: a slope with a wall and a moving car."""

import numpy as np

from roadbed.core.frames import GroundFrame, Label, Mounting, OccupancyFrame, Scan
from roadbed.core.geometry import Grid, Pose
from roadbed.core.tracked_objects import TrackedObject

SLOPE = 0.05  # rise per metre along x


def ground_frame(points: int = 20_000, truth: bool = False) -> GroundFrame:
    rng = np.random.default_rng(1)
    xy = rng.uniform(-20, 20, (points, 2))
    xy[::10] = rng.uniform((11.8, -6), (12.2, 6), (len(xy[::10]), 2))
    wall = (np.abs(xy[:, 0] - 12) < 0.5) & (np.abs(xy[:, 1]) < 6)
    height = np.where(wall, rng.uniform(0.4, 3.0, points), 0.0)
    in_lattice = np.column_stack([xy, SLOPE * xy[:, 0] + height])
    T_grid_sensor = Pose.from_euler(0, 0, 1.7)
    sensor_points = (T_grid_sensor.inverse() @ in_lattice).astype(np.float32)
    label = np.where(wall, Label.OBSTACLE, Label.GROUND).astype(np.uint8)
    label[height > 2.5] = Label.OVERHANG
    classes = np.where(wall, 50, 40).astype(np.uint32)
    scan = Scan(sensor_points, time=0.0, classes=classes if truth else None, name="made-up")
    grid = Grid.centred(40, 40, 1.0)
    x, y = grid.mesh()
    elevation = (SLOPE * x).astype(np.float32)
    elevation[y > 15] = np.nan
    variance = np.where(y > 15, 4.0, 0.02**2 + (np.hypot(x, y) / 60) ** 4).astype(np.float32)
    return GroundFrame(
        label=label,
        ground_probability=np.where(wall, 0.0, 1.0).astype(np.float32),
        height_above_ground=height.astype(np.float32),
        grid=grid,
        elevation=elevation,
        slope=np.full((*grid.shape, 2), (SLOPE, 0), np.float32),
        variance=variance,
        T_grid_sensor=T_grid_sensor,
        mounting=Mounting(T_vehicle_sensor=T_grid_sensor, estimated=True),
        scan=scan,
        timings={"em": 0.003},
    )


def occupancy_frame(moving: bool = True) -> OccupancyFrame:
    grid = Grid.centred(40, 40, 0.4)
    x, y = grid.mesh()
    wall = (np.abs(x - 12) < 0.5) & (np.abs(y) < 6)
    car = (np.abs(x - 5) < 2) & (np.abs(y + 4) < 1) if moving else np.zeros_like(wall)
    seen = np.hypot(x, y) < 18
    static = np.where(wall, 0.9, 0.0)
    dynamic = np.where(car, 0.9, 0.0)
    free = np.where(seen & ~wall & ~car, 0.9, 0.0)
    velocity = np.where(car[..., None], (6.0, 0.0), np.nan)
    car_object = TrackedObject(
        id=7,
        position=np.array([5.0, -4.0]),
        extent=np.array([4.0, 2.0]),
        heading=0.0,
        velocity=np.array([6.0, 0.0]),
        velocity_covariance=np.eye(2),
        cells=int(car.sum()),
        age=1.0,
    )
    return OccupancyFrame(
        grid=grid,
        time=0.0,
        static=static.astype(np.float32),
        dynamic=dynamic.astype(np.float32),
        free=free.astype(np.float32),
        velocity=velocity.astype(np.float32),
        velocity_covariance=np.full((*grid.shape, 3), np.nan, np.float32),
        moving=car,
        observation=(static + dynamic + (1 - static - dynamic - free) / 2).astype(np.float32),
        observedness=seen.astype(np.float32),
        objects=(car_object,) if moving else (),
    )
