# SPDX-License-Identifier: Apache-2.0
"""Real bags, written by rosbags: ROS 1, ROS 2 with sqlite3 and with MCAP."""

from pathlib import Path

import numpy as np
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

LAYOUT = [("x", 7, 1, 0), ("y", 7, 1, 4), ("z", 7, 1, 8), ("intensity", 7, 1, 16), ("ring", 4, 1, 20), ("t", 6, 1, 24)]
POINT_STEP = 32


class Messages:
    """Message makers of ROS 1 or ROS 2, whose headers differ."""

    def __init__(self, ros1: bool) -> None:
        self.ros1 = ros1
        self.store = get_typestore(Stores.ROS1_NOETIC if ros1 else Stores.ROS2_HUMBLE)
        if ros1:
            self.store.register(
                get_types_from_msg("geometry_msgs/TransformStamped[] transforms", "tf2_msgs/msg/TFMessage")
            )
        self.types = self.store.types

    def header(self, time: float, frame: str):
        seconds = int(time)
        stamp = self.types["builtin_interfaces/msg/Time"](sec=seconds, nanosec=round((time - seconds) * 1e9))
        extra = {"seq": 0} if self.ros1 else {}
        return self.types["std_msgs/msg/Header"](stamp=stamp, frame_id=frame, **extra)

    def cloud(self, time: float, data: bytes, width: int, height=1, layout=LAYOUT, step=POINT_STEP, row=0, big=False):
        field = self.types["sensor_msgs/msg/PointField"]
        return self.types["sensor_msgs/msg/PointCloud2"](
            header=self.header(time, "lidar_top"),
            height=height,
            width=width,
            fields=[field(name=n, datatype=d, count=c, offset=o) for n, d, c, o in layout],
            is_bigendian=big,
            point_step=step,
            row_step=row or width * step,
            data=np.frombuffer(data, np.uint8),
            is_dense=False,
        )

    def pose(self, x: float, yaw: float):
        position = self.types["geometry_msgs/msg/Point"](x=x, y=0.0, z=0.0)
        turn = self.types["geometry_msgs/msg/Quaternion"](x=0.0, y=0.0, z=np.sin(yaw / 2), w=np.cos(yaw / 2))
        return self.types["geometry_msgs/msg/Pose"](position=position, orientation=turn)

    def odometry(self, time: float, x: float, yaw: float = 0.0):
        vector = self.types["geometry_msgs/msg/Vector3"](x=0.0, y=0.0, z=0.0)
        twist = self.types["geometry_msgs/msg/Twist"](linear=vector, angular=vector)
        return self.types["nav_msgs/msg/Odometry"](
            header=self.header(time, "odom"),
            child_frame_id="base_link",
            pose=self.types["geometry_msgs/msg/PoseWithCovariance"](pose=self.pose(x, yaw), covariance=np.zeros(36)),
            twist=self.types["geometry_msgs/msg/TwistWithCovariance"](twist=twist, covariance=np.zeros(36)),
        )

    def pose_stamped(self, time: float, x: float):
        return self.types["geometry_msgs/msg/PoseStamped"](header=self.header(time, "map"), pose=self.pose(x, 0.0))

    def static(self, parent: str, child: str, z: float):
        move = self.types["geometry_msgs/msg/Vector3"](x=0.0, y=0.0, z=z)
        turn = self.types["geometry_msgs/msg/Quaternion"](x=0.0, y=0.0, z=0.0, w=1.0)
        transform = self.types["geometry_msgs/msg/Transform"](translation=move, rotation=turn)
        stamped = self.types["geometry_msgs/msg/TransformStamped"](
            header=self.header(0.0, parent), child_frame_id=child, transform=transform
        )
        return self.types["tf2_msgs/msg/TFMessage"](transforms=[stamped])


def write_bag(folder: Path, kind: str, messages, records) -> Path:
    """`records`: (topic, recording time in s, message); returns the path to open."""
    path = folder / ("drive.bag" if kind == "ros1" else "drive")
    storage = {} if kind == "ros1" else {"version": 9, "storage_plugin": StoragePlugin[kind.upper()]}
    with (Writer1 if kind == "ros1" else Writer2)(path, **storage) as writer:
        links = {}
        for topic, time, message in records:
            if topic not in links:
                links[topic] = writer.add_connection(topic, message.__msgtype__, typestore=messages.store)
            serialize = messages.store.serialize_ros1 if kind == "ros1" else messages.store.serialize_cdr
            writer.write(links[topic], int(time * 1e9), serialize(message, message.__msgtype__))
    return path


def cloud_bytes(number: int, points: int = 4) -> bytes:
    table = np.zeros(
        points,
        {
            "names": ["x", "intensity", "ring", "t"],
            "formats": ["<f4", "<f4", "<u2", "<u4"],
            "offsets": [0, 16, 20, 24],
            "itemsize": POINT_STEP,
        },
    )
    table["x"], table["intensity"], table["ring"] = number, 7.5, np.arange(points)
    table["t"] = np.arange(points) * 25_000_000
    return table.tobytes()


def drive_records(messages: Messages, scans: int = 3):
    """Scans at 100.0, 100.1, ... s; odometry at 50 Hz, 5 m/s along x and turning at 0.2 rad/s."""
    for k in range(scans):
        yield "/points", 100 + 0.1 * k, messages.cloud(100 + 0.1 * k, cloud_bytes(k), 4)
    for k in range(5 * scans + 2):
        time = 99.99 + 0.02 * k
        yield "/odom", time, messages.odometry(time, 5 * (time - 100), 0.2 * (time - 100))
