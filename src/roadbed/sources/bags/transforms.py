# SPDX-License-Identifier: Apache-2.0
"""Poses in ROS messages: odometry, stamped poses, and the graph of transforms between frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from roadbed.core.geometry import Pose

CLOUD_TYPE = "sensor_msgs/msg/PointCloud2"
LIVOX_TYPES = ("livox_ros_driver/msg/CustomMsg", "livox_ros_driver2/msg/CustomMsg")
VELODYNE_TYPE = "velodyne_msgs/msg/VelodyneScan"  # the packets of a revolution
HESAI_TYPE = "hesai_lidar/msg/PandarScan"
OUSTER_TYPES = ("ouster_ros/msg/PacketMsg", "ouster_sensor_msgs/msg/PacketMsg")  # one packet
STATIC_TRANSFORMS_TYPE = "tf2_msgs/msg/TFMessage"
RESULTS = "/roadbed"  # prefix of the topics that Roadbed writes
# The projection of the vehicle on the road (REP 120): a transform from it gives the height of a sensor. The heights of
# base_link and other frames over the road are unknown.
ROAD_FRAME = "base_footprint"
POSE_TYPES = (
    "nav_msgs/msg/Odometry",
    "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/PoseWithCovarianceStamped",
)


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
