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

from roadbed.core.errors import InputError, missing_extra
from roadbed.core.frames import Scan
from roadbed.io.foreign import foreign_errors
from roadbed.sources.bags.bag_poses import BagPoses
from roadbed.sources.bags.pointcloud2 import cloud_fields
from roadbed.sources.bags.transforms import CLOUD_TYPE, POSE_TYPES, RESULTS, stamp_seconds
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.poses import Trajectory, read_poses
from roadbed.sources.source import Source

if TYPE_CHECKING:
    from roadbed.sources.bags.reader import BagReader

_FILE_SUFFIXES = (".bag", ".mcap", ".db3")


class RosbagSource(Source):
    """`bag?topic=/points&odometry=/odom`; the only topic of a kind need not be named.

    `topic=/front,/rear` reads several sensors in the order of recording, each with its own poses.
    `odometry=none` reads no poses. /tf_static transforms the odometry to the frame of the cloud; without odometry the
    poses come from /tf.
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
        self.topics = self._choose_clouds()
        self._connections = [
            link for link in self._reader.connections if link.topic in self.topics and link.msgtype == CLOUD_TYPE
        ]
        self._poses, self._file = self._find_poses(), self._find_file()
        self._transforms = self._poses or BagPoses(self._reader, None)
        known = [self._trajectory(frame) for frame in self._frames()]  # of every sensor, for complete diagnostics
        self.sequential = known.count(None) < len(known)

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """Lost messages and missing transforms, one line each."""
        return self._reader.diagnostics + tuple(self._poses.diagnostics if self._poses is not None else ())

    @property
    def topic(self) -> str:
        """The topics, separated by commas."""
        return ",".join(self.topics)

    def close(self) -> None:
        """Close the bag; it cannot be read afterwards."""
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
        """Every message of the bag: connection, recording time (ns) and bytes, in order."""
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
        with foreign_errors(where, "PointCloud2"):
            # Drivers without a clock write zero; then the recording time is used.
            time = stamp_seconds(message.header.stamp) or recorded_ns * 1e-9
            sensor = str(message.header.frame_id) or "lidar"
            fields = cloud_fields(message, where)
        trajectory = self._trajectory(str(message.header.frame_id))
        pose = None if trajectory is None else trajectory.of_scan(index, len(self), time)
        mounting = self._transforms.mounting(str(message.header.frame_id))
        return scan_from_fields(
            fields,
            where,
            time=time,
            T_world_sensor=pose,
            T_vehicle_sensor=mounting,
            name=f"{index:06d}",
            sensor=sensor,
        )

    def _choose_clouds(self) -> tuple[str, ...]:
        """The topics of the option `topic`, else the only one."""
        found = {link.topic for link in self._reader.connections if link.msgtype == CLOUD_TYPE}
        named = str(self.options.get("topic", "")).split(",") if self.options.get("topic") else []
        if len(set(named)) > 1:
            for name in named:
                self._check_named("topic", name, found, "PointCloud2")
            return tuple(dict.fromkeys(named))
        if not named:  # clouds of Roadbed itself come after those it was made from
            inputs = {topic for topic in found if not topic.startswith(f"{RESULTS}/")}
            labelled = found & {f"{RESULTS}/labelled"}
            if len(inputs or labelled) == 1:
                return tuple(inputs or labelled)
        chosen = self._choose("topic", (CLOUD_TYPE,))
        if chosen is None:
            topics = _listed({link.topic for link in self._reader.connections})
            raise InputError(f"{self.path}: found no topic of PointCloud2, expected one; its topics: {topics}")
        return (chosen,)

    def _choose(self, option: str, types: tuple[str, ...]) -> str | None:
        """The topic of the option, else the only one of these types, None without any."""
        found = {link.topic for link in self._reader.connections if link.msgtype in types}
        kinds = " or ".join(name.split("/")[-1] for name in types)
        named = self.options.get(option)
        if named is not None:
            return self._check_named(option, str(named), found, kinds)
        if len(found) > 1:
            several = "NAME, or of several sensors by ?topic=NAME,NAME" if option == "topic" else "NAME"
            raise InputError(
                f"{self.path}: found several topics of {kinds} ({_listed(found)}); choose by ?{option}={several}"
            )
        return next(iter(found), None)

    def _check_named(self, option: str, name: str, found: set[str], kinds: str) -> str:
        if name not in found:
            raise InputError(f"{self.path}: {option} {name!r}: expected a topic of {kinds}: {_listed(found)}")
        return name

    def _find_poses(self) -> BagPoses | None:
        if "poses" in self.options or self.options.get("odometry") == "none":
            return None
        return BagPoses(self._reader, self._choose("odometry", POSE_TYPES))

    def _find_file(self) -> Trajectory | None:
        if "poses" not in self.options:
            return None
        trajectory = read_poses(self.options["poses"])
        trajectory.check_count(len(self))
        return trajectory

    def _trajectory(self, frame: str) -> Trajectory | None:
        """Of the sensor in this frame."""
        return self._poses.of(frame) if self._poses is not None else self._file

    def _frames(self) -> list[str]:
        """The frame of the first cloud of each topic."""
        links = [[link for link in self._connections if link.topic == topic] for topic in self.topics]
        firsts = [next(self._reader.messages(of_topic), (0, None))[1] for of_topic in links]
        return ["" if cloud is None else str(cloud.header.frame_id) for cloud in firsts]


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _open_reader(path: Path) -> BagReader:
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    try:
        from roadbed.sources.bags.reader import BagReader
    except ImportError:
        raise missing_extra("rosbags", "io", f"reading {path}") from None
    return BagReader(path)
