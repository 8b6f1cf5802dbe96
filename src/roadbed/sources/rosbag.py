# SPDX-License-Identifier: Apache-2.0
"""ROS 1 bags and ROS 2 bags (sqlite3, MCAP) by rosbags, without a ROS installation: PointCloud2 with odometry."""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from roadbed.errors import InputError, missing_extra
from roadbed.frames import Scan
from roadbed.geometry import Pose
from roadbed.reading.foreign import foreign_errors
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.pointcloud2 import cloud_fields
from roadbed.sources.poses import Trajectory, make_trajectory, read_poses
from roadbed.sources.registry import Source
from roadbed.sources.ros_poses import (
    CLOUD_TYPE,
    POSE_TYPES,
    STATIC_TRANSFORMS_TYPE,
    TransformGraph,
    frame_name,
    message_pose,
    stamp_seconds,
    transforms_of,
)

if TYPE_CHECKING:
    from roadbed.sources.bags.reader import BagReader

_FILE_SUFFIXES = (".bag", ".mcap", ".db3")


class RosbagSource(Source):
    """`bag?topic=/points&odometry=/odom`; where a bag has one topic of a kind it need not be named.

    `odometry=none` reads no poses. Odometry of another frame than the cloud's is moved to the sensor by /tf_static;
    without odometry the poses come from /tf.
    """

    name = "rosbag"
    accepts: ClassVar[tuple[str, ...]] = ("topic", "odometry", "poses")

    @classmethod
    def matches(cls, location: str) -> bool:
        path = Path(location)
        if path.is_file():
            return path.suffix.lower() in _FILE_SUFFIXES
        return path.is_dir() and ((path / "metadata.yaml").is_file() or any(path.glob("*.bag")))

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        self._reader = _open_reader(Path(self.path))
        self._close = weakref.finalize(self, self._reader.close)
        self.topic = self._choose("topic", (CLOUD_TYPE,), required=True)
        self._connections = [
            link for link in self._reader.connections if (link.topic, link.msgtype) == (self.topic, CLOUD_TYPE)
        ]
        self.notes: tuple[str, ...] = self._reader.notes  # what was missing or lost, one line each
        self.trajectory = self._find_trajectory()
        self.sequential = self.trajectory is not None

    def close(self) -> None:
        """Close the bag; nothing can be read after."""
        self._close()

    def __len__(self) -> int:
        return sum(link.msgcount for link in self._connections)

    def __getitem__(self, index: int) -> Scan:
        index = range(len(self))[index]
        if index >= len(self._stamps):
            raise InputError(f"{self.path}: {self.topic}: found {len(self._stamps)} messages, expected {len(self)}")
        return self._scan(self.message(index), index, self._stamps[index])

    def __iter__(self) -> Iterator[Scan]:
        for index, (stamp, message) in enumerate(self._reader.messages(self._connections)):
            yield self._scan(message, index, stamp)

    @property
    def is_ros1(self) -> bool:
        return self._reader.is_ros1

    def recorded(self) -> Iterator[tuple[Any, int, bytes]]:
        """Every message of the bag as it lies there: connection, recording time (ns) and bytes, in order."""
        return self._reader.raw_messages()

    def recorded_at(self, index: int) -> int:
        """Recording time (ns) of scan `index`."""
        return self._stamps[index]

    def message(self, index: int) -> Any:
        """The PointCloud2 that scan `index` comes from."""
        stamp = self._stamps[index]
        earlier_with_same_stamp = index - bisect_left(self._stamps, stamp)
        found = islice(self._reader.messages(self._connections, stamp, stamp + 1), earlier_with_same_stamp, None)
        for _, message in found:
            return message
        raise InputError(f"{self.path}: {self.topic}: message {index} is gone, expected {len(self)} messages")

    @cached_property
    def _stamps(self) -> list[int]:
        """Recording times (ns) of the cloud's messages, for access by index."""
        with foreign_errors(self.path, "ROS bag"):
            return sorted(self._reader.stamps(self._connections))

    def _scan(self, message: Any, index: int, recorded_ns: int) -> Scan:
        where = f"{self.path}: {self.topic} message {index}"
        with foreign_errors(where, "PointCloud2"):  # a bag brings its own, possibly damaged, message definitions
            # A driver without a clock leaves the stamp at zero; the recorder's time is then the best there is.
            time = stamp_seconds(message.header.stamp) or recorded_ns * 1e-9
            sensor = str(message.header.frame_id) or "lidar"
            fields = cloud_fields(message, where)
        pose = None if self.trajectory is None else self.trajectory.of_scan(index, len(self), time)
        return scan_from_fields(fields, where, time=time, T_world_sensor=pose, name=f"{index:06d}", sensor=sensor)

    def _choose(self, option: str, types: tuple[str, ...], required: bool) -> str | None:
        """The topic the user named, else the only one of these types."""
        found = {link.topic: link.msgtype for link in self._reader.connections if link.msgtype in types}
        kinds = " or ".join(name.split("/")[-1] for name in types)
        listed = ", ".join(sorted(found)) or "none"
        named = self.options.get(option)
        if named is not None:
            if named not in found:
                raise InputError(f"{self.path}: {option} {named!r}: expected a topic of {kinds}: {listed}")
            return str(named)
        if len(found) == 1:
            return next(iter(found))
        if found:
            raise InputError(f"{self.path}: found several topics of {kinds} ({listed}); choose by ?{option}=NAME")
        if required:
            topics = ", ".join(sorted({link.topic for link in self._reader.connections})) or "none"
            raise InputError(f"{self.path}: found no topic of {kinds}, expected one; its topics: {topics}")
        return None

    def _find_trajectory(self) -> Trajectory | None:
        if "poses" in self.options:
            trajectory = read_poses(self.options["poses"])
            trajectory.check_count(len(self))
            return trajectory
        if self.options.get("odometry") == "none":
            return None
        topic = self._choose("odometry", POSE_TYPES, required=False)
        if topic is None:
            return self._trajectory_of_transforms()
        links = [link for link in self._reader.connections if link.topic == topic and link.msgtype in POSE_TYPES]
        poses: list[Pose] = []
        times: list[float] = []
        body = ""
        for stamp, message in self._reader.messages(links):
            where = f"{self.path}: {topic} message {len(poses)}"
            with foreign_errors(where, "pose"):
                try:
                    poses.append(message_pose(message))
                except InputError as error:
                    raise InputError(f"{where}: {error}") from None
                times.append(stamp_seconds(message.header.stamp) or stamp * 1e-9)
                body = str(getattr(message, "child_frame_id", ""))
        if not poses:
            return None
        trajectory = make_trajectory(poses, times, f"{self.path}: {topic}")
        T_body_sensor = None if not body else self._transforms.between(body, self._frame)
        if body and T_body_sensor is None:
            self.notes += (
                f"no transform from {frame_name(body)} to {frame_name(self._frame)}, expected one in /tf_static "
                f"(frames that exist: {_listed(self._transforms.frames)}): "
                f"the poses of {topic} are taken as the sensor's",
            )
        return trajectory if T_body_sensor is None else trajectory.seen_from(T_body_sensor)

    def _trajectory_of_transforms(self) -> Trajectory | None:
        """Without odometry: /tf, where a moving frame carries the sensor."""
        links = [link for link in self._reader.connections if link.msgtype == STATIC_TRANSFORMS_TYPE]
        moving = [link for link in links if not link.topic.endswith("tf_static")]
        poses: dict[tuple[str, str], list[tuple[float, Pose]]] = {}
        with foreign_errors(f"{self.path}: /tf", "transform"):
            for _, message in self._reader.messages(moving):
                for parent, child, time, pose in transforms_of(message):
                    poses.setdefault((parent, child), []).append((time, pose))
        for (parent, child), found in poses.items():
            T_child_sensor = self._transforms.between(child, self._frame)
            if T_child_sensor is not None:
                trajectory = make_trajectory([p for _, p in found], [t for t, _ in found], f"{self.path}: {parent}")
                return trajectory.seen_from(T_child_sensor)
        if poses:
            frames = _listed(sorted({name for edge in poses for name in edge}))
            self.notes += (
                f"no transform from a moving frame of /tf ({frames}) to {frame_name(self._frame)} "
                f"(fixed frames: {_listed(self._transforms.frames)}): every scan stands alone",
            )
        return None

    @cached_property
    def _frame(self) -> str:
        """The frame of the first cloud."""
        _, cloud = next(self._reader.messages(self._connections), (0, None))
        return "" if cloud is None else str(cloud.header.frame_id)

    @cached_property
    def _transforms(self) -> TransformGraph:
        transforms = TransformGraph()
        links = [
            link
            for link in self._reader.connections
            if link.msgtype == STATIC_TRANSFORMS_TYPE and link.topic.endswith("tf_static")
        ]
        with foreign_errors(f"{self.path}: /tf_static", "transform"):
            for _, message in self._reader.messages(links):
                transforms.add(message)
        return transforms


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _open_reader(path: Path) -> BagReader:
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    try:
        from roadbed.sources.bags.reader import BagReader
    except ImportError:
        raise missing_extra("rosbags", "io", f"reading {path}") from None
    return BagReader(path)
