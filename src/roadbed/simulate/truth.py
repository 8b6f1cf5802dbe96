# SPDX-License-Identifier: Apache-2.0
"""Ground truth: per point, per object, and per cell of any grid in any frame."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32, Float64, Grid, Pose
from roadbed.simulate import cells
from roadbed.simulate.solids import build_grid
from roadbed.simulate.terrain import Terrain
from roadbed.simulate.world import MOVING_SPEED, Instant, Scene

_ANNOTATED = ("car", "truck", "cyclist", "pedestrian")  # kinds that get a box
OUTLIER = 1  # SemanticKITTI class of spurious returns


@dataclass(frozen=True, eq=False)
class ObjectTruth:
    """An object near the vehicle, in the world frame."""

    id: int
    kind: str
    moving: bool
    T_world_object: Pose  # origin on the ground under its middle
    size: Float64  # (3,) length, width, height in m
    velocity: Float64  # (3,) m/s
    yaw_rate: float  # rad/s

    def corners(self, T_frame_world: Pose) -> Float64:
        """(4, 3) corners of its base in a frame, m."""
        corners = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * self.size[:2] / 2
        return (T_frame_world @ self.T_world_object) @ np.column_stack([corners, np.zeros(4)])

    @property
    def footprint(self) -> Float64:
        """(4, 2) corners in the world, m."""
        return self.corners(Pose.identity())[:, :2]


@dataclass(frozen=True, eq=False)
class OccupancyTruth:
    """Per cell of a grid, shapes (rows, columns, ...)."""

    grid: Grid
    occupied: NDArray[np.bool_]  # an object reaches into the height band above the ground
    moving: NDArray[np.bool_]
    velocity: Float32  # (..., 2) m/s in the grid frame, NaN where nothing moves
    object_id: NDArray[np.int32]  # 0: none
    visible: NDArray[np.bool_]  # a beam of this scan passed through the band or ended in the cell


@dataclass(frozen=True, eq=False)
class FrameTruth:
    """The truth of one scan. `T_grid_sensor` names the frame of a grid, as in GroundFrame; None: the world."""

    time: float
    T_world_sensor: Pose  # exact, without the errors of the odometry; of a rig: of the vehicle
    T_world_vehicle: Pose
    is_ground: NDArray[np.bool_]  # (N,)
    object_id: NDArray[np.int32]  # (N,) 0: ground or spurious
    velocity: Float32  # (N, 3) m/s in the world
    spurious: NDArray[np.bool_]  # (N,) multipath
    points_world: Float64  # (N, 3) exact end of each ray; on a mover where it is at `time`
    origins: Float64  # (S, 3) position of each sensor in the world
    sensor_index: NDArray[np.uint8]  # (N,) row of `origins`
    scene: Scene = field(repr=False)
    instant: Instant = field(repr=False)

    @property
    def terrain(self) -> Terrain:
        return self.scene.terrain

    def objects(self) -> list[ObjectTruth]:
        """Every object near the vehicle, seen or not."""
        found = []
        for row, pose in sorted(self.instant.poses.items()):
            obj = self.scene.objects[row]
            velocity = self.instant.movements.velocity[row]
            found.append(
                ObjectTruth(
                    id=row + 1,
                    kind=obj.kind,
                    moving=bool(np.linalg.norm(velocity) > MOVING_SPEED),
                    T_world_object=pose,
                    size=np.array([obj.length, obj.width, obj.height]),
                    velocity=velocity.copy(),
                    yaw_rate=float(self.instant.movements.yaw_rate[row]),
                )
            )
        return found

    def annotations(self) -> Iterator[dict[str, Any]]:
        """Boxes of road users in the sensor frame with their velocity, as objects.jsonl has them."""
        T_sensor_world = self.T_world_sensor.inverse()
        for item in self.objects():
            if item.kind not in _ANNOTATED:
                continue
            bottom = item.corners(T_sensor_world)
            yield {
                "id": str(item.id),
                "kind": item.kind,
                "footprint": np.round(bottom[:, :2], 4).tolist(),
                "z": round(float(bottom[:, 2].mean()), 4),
                "height": round(float(item.size[2]), 4),
                "moving": item.moving,
                "velocity": np.round(T_sensor_world.rotation @ item.velocity, 4).tolist(),
            }

    def elevation(self, grid: Grid, T_grid_sensor: Pose | None = None) -> Float64:
        """(rows, columns) height of the ground at the nodes, m."""
        return self._ground(grid, T_grid_sensor)[0]

    def slope(self, grid: Grid, T_grid_sensor: Pose | None = None) -> Float64:
        """(rows, columns, 2) dz/dx and dz/dy of the ground at the nodes."""
        return self._ground(grid, T_grid_sensor)[1]

    def occupancy(
        self,
        grid: Grid,
        T_grid_sensor: Pose | None = None,
        *,
        above: float = 0.15,
        below: float = 2.0,
        seen_below: float | None = None,
    ) -> OccupancyTruth:
        """Objects that reach into the band between `above` and `below` metres over the ground, cell by cell.

        A cell is visible where a beam passes under `seen_below` (else `below`) or ends.
        """
        T_world_grid = self._T_world_grid(T_grid_sensor)
        elevation, _ = self._ground(grid, T_grid_sensor)
        nodes = (T_world_grid @ np.stack([*grid.mesh(), elevation], -1).reshape(-1, 3)).reshape(*grid.shape, 3)
        solids, movements = self.instant.solids, self.instant.movements
        x, y = self.T_world_vehicle.translation[:2]
        reach = np.abs(nodes[..., :2] - (x, y)).max() + grid.spacing
        nearby = build_grid(solids, movements, x, y, reach, 0.0)
        band = cells.HeightBand(nodes, T_world_grid.rotation, grid.spacing, above, below)
        owner = cells.occupants(band, self.terrain.compiled, solids, movements, nearby)
        occupied = owner >= 0
        velocity_world = np.zeros((*grid.shape, 3))
        velocity_world[occupied] = object_velocity(self.instant, owner[occupied], nodes[occupied])
        moving = np.linalg.norm(velocity_world, axis=-1) > MOVING_SPEED
        velocity = (velocity_world @ T_world_grid.rotation)[..., :2].astype(np.float32)
        velocity[~moving] = np.nan
        T_grid_world, real = T_world_grid.inverse(), ~self.spurious
        ends = T_grid_world @ self.points_world[real]
        corner = (grid.x0, grid.y0, grid.spacing)
        seen_below = below if seen_below is None else seen_below
        visible = cells.seen(T_grid_world @ self.origins, self.sensor_index[real], ends, *corner, elevation, seen_below)
        return OccupancyTruth(grid, occupied, moving, velocity, (owner + 1).astype(np.int32), visible)

    def _T_world_grid(self, T_grid_sensor: Pose | None) -> Pose:
        if T_grid_sensor is None:
            return Pose.identity()
        return self.T_world_sensor @ T_grid_sensor.inverse()

    def _ground(self, grid: Grid, T_grid_sensor: Pose | None) -> tuple[Float64, Float64]:
        """Elevation and slope where the grid's vertical through each node meets the ground."""
        T_world_grid = self._T_world_grid(T_grid_sensor)
        return cells.ground_under(self.terrain, *grid.mesh(), T_world_grid)


def object_velocity(instant: Instant, obj: NDArray[np.int32], points: Float64) -> Float64:
    """(n, 3) m/s of the object in each row at each point, with its rotation."""
    movements = instant.movements
    arm = points - movements.origin[obj]
    rate = movements.yaw_rate[obj]
    rotation = np.column_stack([-rate * arm[:, 1], rate * arm[:, 0], np.zeros(len(arm))])
    return movements.velocity[obj] + rotation
