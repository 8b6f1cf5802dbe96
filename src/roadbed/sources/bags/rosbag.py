# SPDX-License-Identifier: Apache-2.0
"""ROS 1 bags and ROS 2 bags (sqlite3, MCAP) by rosbags, without a ROS installation: scans with odometry."""

import weakref
from collections.abc import Iterator
from dataclasses import replace
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from roadbed.core.errors import InputError, needs_extra
from roadbed.core.frames import Scan
from roadbed.sources.bags.scan_messages import OusterMessages, ScanMessages
from roadbed.sources.bags.transforms import BagPoses, comma_list
from roadbed.sources.bags.type_names import (
    CLOUD_TYPES,
    OUSTER_TYPES,
    PACKET_TYPES,
    POSE_TYPES,
    RESULTS,
    SCAN_TYPES,
)
from roadbed.sources.fields import on_mounts
from roadbed.sources.poses import Trajectory, given_poses
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
    accepts: ClassVar[tuple[str, ...]] = ("topic", "odometry", "poses", "metadata", "calibration")

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
        self.is_ros1 = self._reader.is_ros1
        self.topics = self._choose_topics()
        self.scans = self._find_scans()  # with what they come from
        self._poses, self._file = self._find_poses(), given_poses(self.options, self)
        self._transforms = self._poses or BagPoses(self._reader, None)
        known = [self._trajectory(frame) for frame in self.scans.frames()]  # of every sensor, for complete diagnostics
        self.sequential = known.count(None) < len(known)

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """Lost messages and missing transforms, one line each."""
        return self._reader.diagnostics + tuple(self._poses.diagnostics if self._poses is not None else ())

    def details(self) -> dict[str, Any]:
        topics: dict[tuple[str, str], int] = {}
        for link in self._reader.connections:
            topics[link.topic, link.msgtype] = topics.get((link.topic, link.msgtype), 0) + link.msgcount
        return {
            "topics": [{"name": name, "type": kind, "messages": n} for (name, kind), n in sorted(topics.items())],
            "topic": self.topic,
            "odometry": (self._poses.topic or "/tf") if self._poses is not None and self.sequential else None,
            "frames": sorted(set(self.scans.frames())),
            "transforms": self._transforms.listed(),
        }

    @property
    def topic(self) -> str:
        """The topics, separated by commas."""
        return ",".join(self.topics)

    def close(self) -> None:
        """Close the bag; it cannot be read afterwards."""
        self._close()

    def __len__(self) -> int:
        return len(self.scans)

    def __getitem__(self, index: int) -> Scan:
        return self._placed(index, self.scans[index])

    def __iter__(self) -> Iterator[Scan]:
        return starmap(self._placed, enumerate(self.scans))

    def recorded(self) -> Iterator[tuple[Any, int, bytes]]:
        """Every message of the bag: connection, recording time (ns) and bytes, in order."""
        return self._reader.raw_messages(self._reader.connections)

    def _placed(self, index: int, found: tuple[int, Scan]) -> Scan:
        scan = found[1]
        trajectory = self._trajectory(scan.sensor)
        shift = scan.T_world_sensor  # of map coordinates
        if trajectory is not None:
            scan = trajectory.place(scan, index, len(self))
        pose = None if trajectory is None else scan.T_world_sensor
        if shift is not None:
            pose = shift if pose is None else pose @ shift
        mounting = self._transforms.mounting(scan.sensor)
        scan = replace(scan, T_world_sensor=pose, T_vehicle_sensor=mounting, name=f"{index:06d}")
        return scan if "sensor_index" not in scan.channels else on_mounts(scan, self._transforms.rig)

    def _find_scans(self) -> ScanMessages | OusterMessages:
        types = {link.msgtype for link in self._reader.connections if link.topic in self.topics}
        if not types & set(OUSTER_TYPES):
            return ScanMessages(self._reader, self.topics, self.options.get("calibration"))
        if len(self.topics) > 1:
            raise InputError(f"{self.path}: topic {self.topic!r}: found packets of an Ouster, expected one topic")
        return OusterMessages(self._reader, self.topic, self.options.get("metadata"))

    def _choose_topics(self) -> tuple[str, ...]:
        """The topics of the option `topic`, else the only one: of clouds if there are any, else of packets."""
        named = str(self.options.get("topic", "")).split(",") if self.options.get("topic") else []
        if named:
            found = self._topics_of(SCAN_TYPES)
            return tuple(dict.fromkeys(self._check_named("topic", name, found, self._kinds(found)) for name in named))
        clouds = self._topics_of(CLOUD_TYPES)
        # Clouds of Roadbed itself come after those it was made from.
        for found in (
            {topic for topic in clouds if not topic.startswith(f"{RESULTS}/")},
            {topic for topic in self._topics_of(PACKET_TYPES) if not topic.endswith("/imu_packets")},
            clouds & {f"{RESULTS}/labelled"},
            clouds,
        ):
            if found:
                several = "NAME, or of several sensors by ?topic=NAME,NAME"
                return (self._only("topic", found, self._kinds(found), several),)
        topics = comma_list({f"{link.topic} ({link.msgtype})" for link in self._reader.connections})
        raise InputError(f"{self.path}: found no topic of PointCloud2, expected one; its topics: {topics}")

    def _kinds(self, topics: set[str]) -> str:
        """The types of these topics, without their packages."""
        types = {link.msgtype.split("/")[-1] for link in self._reader.connections if link.topic in topics}
        return " or ".join(sorted(types)) or "PointCloud2"

    def _topics_of(self, types: tuple[str, ...]) -> set[str]:
        return {link.topic for link in self._reader.connections if link.msgtype in types}

    def _only(self, option: str, found: set[str], kinds: str, choice: str) -> str:
        if len(found) > 1:
            raise InputError(
                f"{self.path}: found several topics of {kinds} ({comma_list(found)}); choose by ?{option}={choice}"
            )
        return next(iter(found))

    def _check_named(self, option: str, name: str, found: set[str], kinds: str) -> str:
        if name not in found:
            raise InputError(f"{self.path}: {option} {name!r}: expected a topic of {kinds}: {comma_list(found)}")
        return name

    def _find_poses(self) -> BagPoses | None:
        named, found = self.options.get("odometry"), self._topics_of(POSE_TYPES)
        if "poses" in self.options or named == "none":
            return None
        kinds = " or ".join(name.split("/")[-1] for name in POSE_TYPES)
        if named is not None:
            return BagPoses(self._reader, self._check_named("odometry", str(named), found, kinds))
        return BagPoses(self._reader, self._only("odometry", found, kinds, "NAME") if found else None)

    def _trajectory(self, frame: str) -> Trajectory | None:
        """Of the sensor in this frame."""
        return self._poses.of(frame) if self._poses is not None else self._file


def _open_reader(path: Path) -> "BagReader":
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    with needs_extra("rosbags", "io", f"reading {path}"):
        from roadbed.sources.bags.reader import BagReader
    return BagReader(path)
