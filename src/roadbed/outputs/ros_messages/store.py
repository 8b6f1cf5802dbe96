# SPDX-License-Identifier: Apache-2.0
"""Messages of ROS 1 or ROS 2 as plain dataclasses, made with defaults, and their bytes on the wire."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from roadbed.core.errors import needs_extra
from roadbed.core.geometry import Pose
from roadbed.sources.bags.type_names import ODOMETRY, TRANSFORMS

if TYPE_CHECKING:
    from rosbags.typesys.store import Typestore


class RosMessages:
    """`make` a message of either ROS by its name, e.g. sensor_msgs/msg/PointCloud2; other fields are zero or empty.

    The same fields serve both: a field of one ROS alone, such as `header.seq`, has its default.
    """

    def __init__(self, version: Literal[1, 2]) -> None:
        with needs_extra("rosbags", "io", "ROS messages"):
            from roadbed.sources.bags.message_types import message_types
        self.version = version
        self.store: Typestore = message_types(version == 1)

    def make(self, kind: str, **given: Any) -> Any:
        _, fields = self.store.fielddefs[kind]
        return self.store.types[kind](
            **{name: given[name] if name in given else self._default(node) for name, node in fields}
        )

    def like(self, message: Any) -> Any:
        """The same message of this ROS, from one of the other: fields by their names."""
        kind = message.__msgtype__
        return self.make(
            kind,
            **{
                name: self._value_like(node, getattr(message, name))
                for name, node in self.store.fielddefs[kind][1]
                if hasattr(message, name)
            },
        )

    def _value_like(self, node: Any, value: Any) -> Any:
        kind, about = node
        if kind.name == "NAME":
            return self.like(value)
        if kind.name in ("ARRAY", "SEQUENCE") and about[0][0].name == "NAME":
            return [self.like(item) for item in value]
        return value

    def to_bytes(self, message: Any) -> bytes:
        """As it travels: ROS 1's own serialisation, or CDR."""
        serialize = self.store.serialize_ros1 if self.version == 1 else self.store.serialize_cdr
        return bytes(serialize(message, message.__msgtype__))

    def from_bytes(self, data: bytes | memoryview, kind: str) -> Any:
        deserialize = self.store.deserialize_ros1 if self.version == 1 else self.store.deserialize_cdr
        return deserialize(data, kind)

    def definition(self, kind: str) -> tuple[str, str]:
        """The full text of a message's definition and its MD5 sum, which ROS 1 publishers and subscribers exchange."""
        text, md5 = self.store.generate_msgdef(kind, ros_version=1)
        return text, md5

    def stamp(self, time: float | None) -> Any:
        """A time in seconds; zero where there is none."""
        nanoseconds = max(round((time or 0.0) * 1e9), 0)
        return self.make("builtin_interfaces/msg/Time", sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)

    def header(self, stamp: Any, frame: str) -> Any:
        return self.make("std_msgs/msg/Header", stamp=stamp, frame_id=frame)

    def point(self, xyz: Iterable[float]) -> Any:
        x, y, z = (float(value) for value in xyz)
        return self.store.types["geometry_msgs/msg/Point"](x=x, y=y, z=z)

    def vector(self, xyz: Iterable[float]) -> Any:
        x, y, z = (float(value) for value in xyz)
        return self.store.types["geometry_msgs/msg/Vector3"](x=x, y=y, z=z)

    def quaternion(self, pose: Pose) -> Any:
        x, y, z, w = (float(value) for value in pose.quaternion)
        return self.store.types["geometry_msgs/msg/Quaternion"](x=x, y=y, z=z, w=w)

    def pose(self, pose: Pose) -> Any:
        return self.make(
            "geometry_msgs/msg/Pose", position=self.point(pose.translation), orientation=self.quaternion(pose)
        )

    def transform(self, header: Any, child: str, T_frame_child: Pose) -> Any:
        """One transform as a TFMessage; the header names the parent."""
        motion = self.make(
            "geometry_msgs/msg/Transform",
            translation=self.vector(T_frame_child.translation),
            rotation=self.quaternion(T_frame_child),
        )
        stamped = self.make("geometry_msgs/msg/TransformStamped", header=header, child_frame_id=child, transform=motion)
        return self.make(TRANSFORMS, transforms=[stamped])

    def odometry(self, header: Any, child: str, T_frame_child: Pose) -> Any:
        """The pose of `child` in the header's frame, without covariance or twist."""
        pose = self.make("geometry_msgs/msg/PoseWithCovariance", pose=self.pose(T_frame_child))
        return self.make(ODOMETRY, header=header, child_frame_id=child, pose=pose)

    def _default(self, node: Any) -> Any:
        kind, value = node
        if kind.name == "NAME":
            return self.make(value)
        if kind.name == "BASE":
            name = value[0]
            return "" if name in ("string", "wstring") else False if name == "bool" else 0.0 if "float" in name else 0
        item, length = value
        count = length if kind.name == "ARRAY" else 0
        if item[0].name == "BASE" and item[1][0] not in ("string", "wstring"):
            return np.zeros(count, {"byte": "uint8", "octet": "uint8", "char": "uint8"}.get(item[1][0], item[1][0]))
        return [self._default(item) for _ in range(count)]
