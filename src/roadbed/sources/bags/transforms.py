# SPDX-License-Identifier: Apache-2.0
"""Poses in ROS messages: odometry, stamped poses, and the graph of transforms between frames; sensor poses of a bag."""

from collections import deque
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from roadbed.core.errors import errors_at, foreign_errors
from roadbed.core.frames import SensorMount
from roadbed.core.geometry import Pose
from roadbed.sources.bags.type_names import POSE_TYPES, RIG_TOPIC, ROAD_FRAME, TRANSFORMS
from roadbed.sources.poses import Trajectory, make_trajectory

if TYPE_CHECKING:
    from roadbed.sources.bags.reader import BagReader


def stamp_seconds(stamp: Any) -> float:
    return float(stamp.sec) + float(stamp.nanosec) * 1e-9


def message_pose(message: Any) -> Pose:
    """The pose of Odometry, PoseStamped or PoseWithCovarianceStamped."""
    pose = message.pose
    if hasattr(pose, "pose"):
        pose = pose.pose
    return _pose(pose.position, pose.orientation)


def transforms_of(message: Any) -> Iterator[tuple[str, str, float, Pose]]:
    """Parent, child, time in s and T_parent_child of each transform of a TFMessage."""
    for entry in message.transforms:
        pose = _pose(entry.transform.translation, entry.transform.rotation)
        stamp = stamp_seconds(entry.header.stamp)
        yield frame_name(entry.header.frame_id), frame_name(entry.child_frame_id), stamp, pose


class TransformGraph:
    """Transforms between frames from TF messages; the newest one replaces older ones."""

    def __init__(self) -> None:
        self._edges: dict[str, dict[str, Pose]] = {}
        self.pairs: dict[tuple[str, str], None] = {}  # parent and child, in the order of arrival

    def add(self, message: Any) -> None:
        for parent, child, _, T_parent_child in transforms_of(message):
            self.pairs[parent, child] = None
            self._edges.setdefault(parent, {})[child] = T_parent_child
            self._edges.setdefault(child, {})[parent] = T_parent_child.inverse()

    @property
    def frames(self) -> list[str]:
        return sorted(self._edges)

    def between(self, target: str, source: str) -> Pose | None:
        """T_target_source along the shortest chain; None where the frames are not connected."""
        chain = self.chain(target, source)
        if chain is None:
            return None
        T_target_source = Pose.identity()
        for parent, child in pairwise(chain):
            T_target_source = T_target_source @ self._edges[parent][child]
        return T_target_source

    def chain(self, target: str, source: str) -> list[str] | None:
        """The frames from `target` to `source`, both included."""
        target, source = frame_name(target), frame_name(source)
        before = {target: ""}
        waiting = deque([target])
        while waiting and source not in before:
            frame = waiting.popleft()
            for neighbour in self._edges.get(frame, {}):
                if neighbour not in before:
                    before[neighbour] = frame
                    waiting.append(neighbour)
        if source not in before:
            return None
        chain = [source]
        while chain[-1] != target:
            chain.append(before[chain[-1]])
        return chain[::-1]


def frame_name(name: str) -> str:
    """Without the leading slash that ROS 1 allowed."""
    return name.lstrip("/")


def _pose(position: Any, orientation: Any) -> Pose:
    return Pose.from_quaternion(
        (position.x, position.y, position.z), (orientation.x, orientation.y, orientation.z, orientation.w)
    )


class BagPoses:
    """Trajectories of a bag by sensor frame, from odometry or /tf, transformed to each sensor by /tf_static.

    `diagnostics` has one line for each missing transform.
    """

    def __init__(self, reader: "BagReader", topic: str | None) -> None:
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

    @cached_property
    def rig(self) -> tuple[SensorMount, ...]:
        """The sensors of merged scans that Roadbed wrote; those of the last message."""
        mounts: tuple[SensorMount, ...] = ()
        links = [link for link in self._transform_links if link.topic == RIG_TOPIC]
        with foreign_errors(f"{self._reader.path}: {RIG_TOPIC}", "transform"):
            for _, message in self._reader.messages(links):
                mounts = tuple(SensorMount(child, pose) for _, child, _, pose in transforms_of(message))
        return mounts

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
                f"(frames that exist: {comma_list(self._fixed.frames)}): "
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
            with foreign_errors(where, "pose"), errors_at(where):
                poses.append(message_pose(message))
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
            frames = comma_list({name for edge in self._moving for name in edge})
            self.diagnostics.append(
                f"no transform from a moving frame of /tf ({frames}) to {frame_name(frame)} "
                f"(fixed frames: {comma_list(self._fixed.frames)}): every scan is processed on its own"
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
        return [link for link in self._reader.connections if link.msgtype == TRANSFORMS]


def comma_list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
