# SPDX-License-Identifier: Apache-2.0
"""Results for the Foxglove app: served on a websocket, or written into an MCAP file."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import missing_extra
from roadbed.core.frames import GroundFrame, OccupancyFrame
from roadbed.core.geometry import Pose
from roadbed.io.atomic import atomic_write
from roadbed.live.foxglove_server import FoxgloveServer
from roadbed.outputs.ros_messages.clouds import packed
from roadbed.outputs.ros_messages.layers import elevation_layers, ground_heights
from roadbed.outputs.ros_messages.markers import OBJECT_HEIGHT_M, SECONDS_SHOWN, object_poses, velocity_lines
from roadbed.outputs.ros_messages.results import FrameNames
from roadbed.pipeline import Result

try:
    import foxglove
    from foxglove import channels
    from foxglove import messages as fox
except ImportError:
    raise missing_extra("foxglove-sdk", "live", "Foxglove") from None

PORT = 8765
_KINDS = {"u": "Uint", "i": "Int", "f": "Float"}


@dataclass(frozen=True)
class Channels:
    """One per topic, all of one context."""

    labelled: Any
    surface: Any
    occupancy: Any
    velocities: Any
    objects: Any
    transforms: Any
    log: Any

    @classmethod
    def of(cls, context: Any) -> Channels:
        return cls(
            labelled=channels.PointCloudChannel("/roadbed/labelled", context=context),
            surface=channels.PointCloudChannel("/roadbed/surface", context=context),
            occupancy=channels.GridChannel("/roadbed/occupancy", context=context),
            velocities=channels.SceneUpdateChannel("/roadbed/velocities", context=context),
            objects=channels.SceneUpdateChannel("/roadbed/objects", context=context),
            transforms=channels.FrameTransformsChannel("/tf", context=context),
            log=channels.LogChannel("/roadbed/log", context=context),
        )


class FoxgloveSink:
    """`show` each result. `host` serves them, `mcap` writes them into a file, atomically at `close`.

    `origins`: pages that may connect, next to the Foxglove app.
    """

    def __init__(
        self,
        host: str | None = None,
        port: int = PORT,
        mcap: str | Path | None = None,
        origins: Iterable[str] = (),
    ) -> None:
        self._context = foxglove.Context()
        self._channels = Channels.of(self._context)
        self._names = FrameNames()
        self._stamp: Any = fox.Timestamp(0, 0)
        self._when: dict[str, int] = {}
        self._server: FoxgloveServer | None = None
        self._open = ExitStack()
        try:
            if mcap is not None:
                file = self._open.enter_context(atomic_write(mcap))
                self._open.enter_context(foxglove.open_mcap(file, context=self._context))
            if host is not None:
                self._server = FoxgloveServer(host, port, self._context, origins)
        except BaseException as error:
            self._open.__exit__(type(error), error, None)
            raise
        self.address = "" if self._server is None else self._server.address
        self.is_open = self._server is not None and self._server.is_open  # to other machines

    def show(self, result: Result, diagnostics: tuple[str, ...] | None = None) -> None:
        """Publish one result on all topics."""
        nanoseconds = max(round((result.scan.time or 0.0) * 1e9), 0)
        self._when = {"log_time": nanoseconds} if nanoseconds else {}
        self._stamp = fox.Timestamp(nanoseconds // 10**9, nanoseconds % 10**9)
        self._transforms(result)
        self._clouds(result)
        if result.occupancy is not None:
            self._grid(result.ground, result.occupancy)
            self._motion(result.ground, result.occupancy)
        for note in result.diagnostics if diagnostics is None else diagnostics:
            self.warn(note)

    def warn(self, text: str) -> None:
        """A line for the log panel."""
        line = fox.Log(timestamp=self._stamp, level=fox.LogLevel.Warning, name="roadbed", message=text)
        self._channels.log.log(line, **self._when)

    def close(self, whole: bool = True) -> None:
        """Stop serving and finish the file; with `whole` False the file is discarded."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if whole:
            self._open.close()
        else:
            self._open.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)

    def __enter__(self) -> FoxgloveSink:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        # An interrupted recording is kept, a failed one is discarded.
        self.close(whole=kind is None or issubclass(kind, KeyboardInterrupt))

    def _transforms(self, result: Result) -> None:
        ground, names = result.ground, self._names
        chain = [(names.grid, result.scan.sensor, ground.T_grid_sensor)]
        if ground.T_world_grid is not None:
            chain.append((names.world, names.grid, ground.T_world_grid))
        made = [
            fox.FrameTransform(
                timestamp=self._stamp,
                parent_frame_id=parent,
                child_frame_id=child,
                translation=_vector(pose.translation),
                rotation=_quaternion(pose),
            )
            for parent, child, pose in chain
        ]
        self._channels.transforms.log(fox.FrameTransforms(transforms=made), **self._when)

    def _clouds(self, result: Result) -> None:
        ground, points = result.ground, result.scan.points
        columns: dict[str, NDArray] = {axis: points[:, k] for k, axis in enumerate("xyz")}
        columns |= {name: values for name, values in result.scan.all_channels().items() if values.ndim == 1}
        columns |= {
            "label": ground.label,
            "ground_probability": ground.ground_probability,
            "height_above_ground": ground.height_above_ground,
        }
        self._cloud(self._channels.labelled, result.scan.sensor, columns)
        known = np.isfinite(ground.elevation)
        x, y = ground.grid.mesh()
        layers = elevation_layers(ground)
        surface = {"x": x.astype(np.float32), "y": y.astype(np.float32), "z": layers.pop("elevation"), **layers}
        self._cloud(self._channels.surface, self._names.grid, {name: values[known] for name, values in surface.items()})

    def _cloud(self, channel: Any, frame: str, columns: dict[str, NDArray]) -> None:
        table = packed(columns)
        cloud = fox.PointCloud(
            timestamp=self._stamp,
            frame_id=frame,
            pose=_pose(Pose.identity()),
            point_stride=table.dtype.itemsize,
            fields=_fields(table.dtype),
            data=table.tobytes(),
        )
        channel.log(cloud, **self._when)

    def _grid(self, ground: GroundFrame, frame: OccupancyFrame) -> None:
        cells = frame.grid
        table = packed({name: getattr(frame, name).ravel() for name in ("occupied", "static", "dynamic", "unknown")})
        x_min, _, y_min, _ = cells.extent
        x, y = ground.T_grid_sensor.translation[:2]
        corner = Pose(np.eye(3), np.array([x_min, y_min, 0.0]))
        corner = corner if frame.T_ground_grid is None else frame.T_ground_grid @ corner
        road = ground_heights(ground, np.array([x]), np.array([y]))[0]
        grid = fox.Grid(
            timestamp=self._stamp,
            frame_id=self._names.grid,
            pose=_pose(Pose(corner.rotation, np.array([*corner.translation[:2], road]))),
            column_count=cells.columns,
            cell_size=fox.Vector2(x=cells.spacing, y=cells.spacing),
            row_stride=cells.columns * table.dtype.itemsize,
            cell_stride=table.dtype.itemsize,
            fields=_fields(table.dtype),
            data=table.tobytes(),
        )
        self._channels.occupancy.log(grid, **self._when)

    def _motion(self, ground: GroundFrame, frame: OccupancyFrame) -> None:
        points = [fox.Point3(x=x, y=y, z=z) for x, y, z in velocity_lines(ground, frame).reshape(-1, 3).tolist()]
        lines = fox.LinePrimitive(
            type=fox.LinePrimitiveLineType.LineList, thickness=0.06, points=points, color=_colour(0.9, 0.1, 0.1)
        )
        self._scene(self._channels.velocities, [self._entity("velocities", lines=[lines])])
        entities = []
        for item, pose in zip(frame.objects, object_poses(ground, frame)):
            length, width = (float(size) for size in item.extent)
            speed = float(np.hypot(*item.velocity))
            turned = 0.0 if frame.T_ground_grid is None else frame.T_ground_grid.yaw
            course = float(np.arctan2(item.velocity[1], item.velocity[0])) + turned
            motion = Pose(Pose.from_euler(yaw=course).rotation, pose.translation)
            above = Pose(np.eye(3), pose.translation + np.array([0.0, 0.0, OBJECT_HEIGHT_M]))
            box = fox.Vector3(x=length, y=width, z=OBJECT_HEIGHT_M)
            entities.append(
                self._entity(
                    f"object {item.id}",
                    cubes=[fox.CubePrimitive(pose=_pose(pose), size=box, color=_colour(1.0, 0.55, 0.0, 0.45))],
                    arrows=[_arrow(motion, speed * SECONDS_SHOWN)],
                    texts=[
                        fox.TextPrimitive(
                            pose=_pose(above),
                            billboard=True,
                            font_size=0.8,
                            color=_colour(1.0, 1.0, 1.0),
                            text=f"{item.id}: {speed:.1f} m/s",
                        )
                    ],
                )
            )
        self._scene(self._channels.objects, entities)

    def _entity(self, name: str, **primitives: Any) -> Any:
        return fox.SceneEntity(timestamp=self._stamp, frame_id=self._names.grid, id=name, **primitives)

    def _scene(self, channel: Any, entities: list[Any]) -> None:
        clear = fox.SceneEntityDeletion(timestamp=self._stamp, type=fox.SceneEntityDeletionType.All)
        channel.log(fox.SceneUpdate(deletions=[clear], entities=entities), **self._when)


def _fields(record: np.dtype) -> list[Any]:
    made = []
    for name in record.names or ():
        dtype, offset = record.fields[name][:2]  # type: ignore[index]
        kind = getattr(fox.PackedElementFieldNumericType, f"{_KINDS[dtype.base.kind]}{8 * dtype.base.itemsize}")
        made.append(fox.PackedElementField(name=name, offset=offset, type=kind))
    return made


def _arrow(pose: Pose, length: float) -> Any:
    return fox.ArrowPrimitive(
        pose=_pose(pose),
        shaft_length=length,
        shaft_diameter=0.15,
        head_length=0.4,
        head_diameter=0.3,
        color=_colour(0.9, 0.1, 0.1),
    )


def _colour(red: float, green: float, blue: float, alpha: float = 1.0) -> Any:
    return fox.Color(r=red, g=green, b=blue, a=alpha)


def _vector(xyz: NDArray) -> Any:
    x, y, z = (float(value) for value in xyz)
    return fox.Vector3(x=x, y=y, z=z)


def _quaternion(pose: Pose) -> Any:
    x, y, z, w = (float(value) for value in pose.quaternion)
    return fox.Quaternion(x=x, y=y, z=z, w=w)


def _pose(pose: Pose) -> Any:
    return fox.Pose(position=_vector(pose.translation), orientation=_quaternion(pose))
