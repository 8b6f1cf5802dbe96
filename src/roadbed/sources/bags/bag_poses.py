# SPDX-License-Identifier: Apache-2.0
"""Sensor poses of a bag: from odometry or /tf, transformed to each sensor's frame by /tf_static."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from roadbed.core.errors import InputError
from roadbed.core.geometry import Pose
from roadbed.io.foreign import foreign_errors
from roadbed.sources.bags.transforms import (
    POSE_TYPES,
    ROAD_FRAME,
    STATIC_TRANSFORMS_TYPE,
    TransformGraph,
    frame_name,
    message_pose,
    stamp_seconds,
    transforms_of,
)
from roadbed.sources.poses import Trajectory, make_trajectory

if TYPE_CHECKING:
    from roadbed.sources.bags.reader import BagReader


class BagPoses:
    """Trajectories by frame; `diagnostics` has one line for each missing transform."""

    def __init__(self, reader: BagReader, topic: str | None) -> None:
        """`topic` of odometry or poses; None: use /tf."""
        self._reader, self.topic = reader, topic
        self._known: dict[str, Trajectory | None] = {}
        self.diagnostics: list[str] = []

    def of(self, frame: str) -> Trajectory | None:
        """The poses of sensor frame `frame`; None where the bag has none."""
        if frame not in self._known:
            self._known[frame] = self._of_transforms(frame) if self.topic is None else self._of_odometry(frame)
        return self._known[frame]

    def mounting(self, frame: str) -> Pose | None:
        """T_vehicle_sensor of a sensor frame, where /tf_static places it over the road."""
        return self._fixed.between(ROAD_FRAME, frame) if frame else None

    def listed(self) -> list[str]:
        """Transforms as "parent -> child": those of /tf_static, then the moving ones of /tf."""
        moving = [f"{parent} -> {child}, {len(found)} poses" for (parent, child), found in self._moving.items()]
        return [f"{parent} -> {child}, fixed" for parent, child in self._fixed.pairs] + moving

    def _of_odometry(self, frame: str) -> Trajectory | None:
        if self._odometry is None:
            return None
        body, trajectory = self._odometry
        T_body_sensor = None if not body else self._fixed.between(body, frame)
        if body and T_body_sensor is None:
            self.diagnostics.append(
                f"no transform from {frame_name(body)} to {frame_name(frame)}, expected one in /tf_static "
                f"(frames that exist: {_listed(self._fixed.frames)}): "
                f"the poses of {self.topic} are used as the sensor's"
            )
        return trajectory if T_body_sensor is None else trajectory.of_sensor(T_body_sensor)

    @cached_property
    def _odometry(self) -> tuple[str, Trajectory] | None:
        """The child frame of the odometry, and its poses."""
        links = [link for link in self._reader.connections if link.topic == self.topic and link.msgtype in POSE_TYPES]
        poses: list[Pose] = []
        times: list[float] = []
        body = ""
        for stamp, message in self._reader.messages(links):
            where = f"{self._reader.path}: {self.topic} message {len(poses)}"
            with foreign_errors(where, "pose"):
                try:
                    poses.append(message_pose(message))
                except InputError as error:
                    raise InputError(f"{where}: {error}") from None
                times.append(stamp_seconds(message.header.stamp) or stamp * 1e-9)
                body = str(getattr(message, "child_frame_id", ""))
        if not poses:
            return None
        return body, make_trajectory(poses, times, f"{self._reader.path}: {self.topic}")

    def _of_transforms(self, frame: str) -> Trajectory | None:
        for (parent, child), found in self._moving.items():
            T_child_sensor = self._fixed.between(child, frame)
            if T_child_sensor is not None:
                where = f"{self._reader.path}: {parent}"
                trajectory = make_trajectory([pose for _, pose in found], [time for time, _ in found], where)
                return trajectory.of_sensor(T_child_sensor)
        if self._moving:
            frames = _listed(sorted({name for edge in self._moving for name in edge}))
            self.diagnostics.append(
                f"no transform from a moving frame of /tf ({frames}) to {frame_name(frame)} "
                f"(fixed frames: {_listed(self._fixed.frames)}): every scan is processed on its own"
            )
        return None

    @cached_property
    def _moving(self) -> dict[tuple[str, str], list[tuple[float, Pose]]]:
        """Times and poses of each pair of frames in /tf."""
        poses: dict[tuple[str, str], list[tuple[float, Pose]]] = {}
        links = [link for link in self._transform_links if not link.topic.endswith("tf_static")]
        with foreign_errors(f"{self._reader.path}: /tf", "transform"):
            for _, message in self._reader.messages(links):
                for parent, child, time, pose in transforms_of(message):
                    poses.setdefault((parent, child), []).append((time, pose))
        return poses

    @cached_property
    def _fixed(self) -> TransformGraph:
        transforms = TransformGraph()
        links = [link for link in self._transform_links if link.topic.endswith("tf_static")]
        with foreign_errors(f"{self._reader.path}: /tf_static", "transform"):
            for _, message in self._reader.messages(links):
                transforms.add(message)
        return transforms

    @property
    def _transform_links(self) -> list[Any]:
        return [link for link in self._reader.connections if link.msgtype == STATIC_TRANSFORMS_TYPE]


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"
