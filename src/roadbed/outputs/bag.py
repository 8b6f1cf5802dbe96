# SPDX-License-Identifier: Apache-2.0
"""Writes bags with the messages of the input and of Roadbed (`.mcap`: ROS 2, `.bag`: ROS 1), and records live scans."""

import shutil
import tempfile
import threading
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from roadbed.core.closing import Closing
from roadbed.core.errors import InputError, OutputError, needs_extra
from roadbed.core.frames import Scan
from roadbed.io.atomic import output_errors
from roadbed.outputs.ros_messages.clouds import cloud_of_scan
from roadbed.outputs.ros_messages.results import FrameNames, ResultMessages, sensor_frame
from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.pipeline import Result
from roadbed.sources.bags.rosbag import RosbagSource
from roadbed.sources.bags.type_names import RESULTS, RIG_TOPIC, ROAD_FRAME
from roadbed.sources.source import is_live

SUFFIXES = (".bag", ".mcap")


def is_bag_name(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


class BagWriter(Closing):
    """`add` results in order; `finish` copies the rest of the input and moves the bag to its path. A context manager.

    Until then the bag is in a temporary folder; an error or an interrupt leaves nothing, unless `keep` is called.
    """

    def __init__(self, path: Path, source: RosbagSource | None = None, *, force: bool = False) -> None:
        self.path, self._source = path, source
        self._check_place(force)
        self._version: Any = 1 if path.suffix.lower() == ".bag" else 2
        self._messages, self._others = RosMessages(self._version), RosMessages(3 - self._version)  # type: ignore[arg-type]
        self._links: dict[tuple[str, str], Any] = {}
        self._scans, self._mounted = 0, dict[str, Any]()
        self._last: Scan | None = None
        self.left_out: set[str] = set()  # topics with types unknown to the other ROS
        self._rest: Iterator[tuple[Any, int, bytes]] = iter(()) if source is None else source.recorded()
        self._held: tuple[Any, int, bytes] | None = next(self._rest, None)
        with output_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix=".roadbed-", suffix=".tmp", dir=path.parent))
        try:
            with output_errors(path):
                self._writer = self._open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if isinstance(self._rest, Generator):
            self._rest.close()  # an open pass over a database keeps it locked
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, result: Result) -> None:
        """Copy the input up to the time of the scan, then add the result."""
        with output_errors(self.path):
            cloud, stamp = None, self._stamp(result.scan)
            if self._source is None:
                self._place(result.scan, stamp)
            else:
                stamp = self._source.scans.recorded_at(int(result.scan.name))
                self._copy_until(stamp)
                cloud = self._source.scans.cloud(int(result.scan.name)) if self._same_version else None
            for topic, message in ResultMessages(self._messages, result, FrameNames(), cloud):
                name = "/tf" if topic == "tf" else f"{RESULTS}/{topic}"
                self._add(name, stamp, message)

    def add_scan(self, scan: Scan) -> None:
        """Add a raw scan: a cloud on /points and, if known, the sensor's pose and mounting."""
        stamp = self._stamp(scan)
        with output_errors(self.path):
            self._place(scan, stamp)
            header = self._messages.header(self._messages.stamp(1e-9 * stamp), sensor_frame(scan))
            self._add("/points", stamp, cloud_of_scan(self._messages, header, scan))

    def _stamp(self, scan: Scan) -> int:
        """ns; scans without times are ten per second, and the results of a scan have its time."""
        if scan is not self._last:
            self._scans, self._last = self._scans + 1, scan
        return round((0.1 * (self._scans - 1) if scan.time is None else scan.time) * 1e9)

    def _place(self, scan: Scan, stamp: int) -> None:
        """The pose of the sensor on /odom, and once its mounting over the road on /tf_static, with those of a rig."""
        frame, when = sensor_frame(scan), self._messages.stamp(1e-9 * stamp)
        mounting = scan.T_vehicle_sensor
        if mounting is not None and not np.array_equal(mounting.matrix, self._mounted.get(frame, np.nan)):
            self._mounted[frame] = mounting.matrix
            road = self._messages.header(when, ROAD_FRAME)
            self._add("/tf_static", stamp, self._messages.transform(road, frame, mounting))
        mounts = [(mount.name, mount.T_vehicle_sensor.numbers) for mount in scan.mounts]
        if mounts and mounts != self._mounted.get(RIG_TOPIC):
            self._mounted[RIG_TOPIC] = mounts
            vehicle = self._messages.header(when, frame)
            rig = [self._messages.transform(vehicle, mount.name, mount.T_vehicle_sensor) for mount in scan.mounts]
            rig[0].transforms = [message.transforms[0] for message in rig]
            self._add(RIG_TOPIC, stamp, rig[0])
        if scan.T_world_sensor is not None:
            world = self._messages.header(when, FrameNames().world)
            self._add("/odom", stamp, self._messages.odometry(world, frame, scan.T_world_sensor))

    def finish(self) -> None:
        with output_errors(self.path):
            self._copy_until(None)
            self._writer.close()
            written = self._folder / self.path.name
            if self._version == 2:  # a folder with its description; the file alone is a whole MCAP
                written = next(written.glob("*.mcap"))
            written.replace(self.path)

    def keep(self) -> None:
        """Finish what holds live scans, which cannot be had again: also after an error, cut off on a full disk."""
        if not self._scans:
            return
        try:
            self.finish()
        except OutputError as error:
            for part in self._folder.rglob(f"*{self.path.suffix}"):
                if part.is_file():
                    part.replace(self.path)
                    raise OutputError(f"{error}; what was written before is kept, without an end") from None
            raise

    @property
    def _same_version(self) -> bool:
        return self._source is not None and self._source.is_ros1 == (self._version == 1)

    def _check_place(self, force: bool) -> None:
        if self.path.is_dir():
            raise OutputError(f"{self.path}: found a folder, expected a new name")
        if self._source is not None and self.path.exists() and self.path.samefile(self._source.path):
            raise OutputError(f"{self.path}: is read, expected another name to write to")
        if self.path.exists() and not _has_results(self.path):
            raise OutputError(f"{self.path}: exists and holds no results of Roadbed; name another file with -o")
        if self.path.exists() and not force:
            raise OutputError(f"{self.path}: exists; name another file with -o, or replace it with --force")

    def _open(self) -> Any:
        with needs_extra("rosbags", "io", f"writing {self.path}"):
            from rosbags.rosbag1 import Writer as Writer1
            from rosbags.rosbag2 import StoragePlugin
            from rosbags.rosbag2 import Writer as Writer2
        place = self._folder / self.path.name
        writer: Any = (
            Writer1(place) if self._version == 1 else Writer2(place, version=9, storage_plugin=StoragePlugin.MCAP)
        )
        writer.open()
        return writer

    def _copy_until(self, stamp: int | None) -> None:
        """The input's messages recorded up to `stamp` (ns), or all that are left."""
        while self._held is not None and (stamp is None or self._held[1] <= stamp):
            link, recorded, raw = self._held
            self._copy(link, recorded, raw)
            self._held = next(self._rest, None)

    def _copy(self, link: Any, stamp: int, raw: bytes) -> None:
        if self._same_version:
            self._write(link.topic, link.msgtype, stamp, raw, link)
        elif all(link.msgtype in messages.store.types for messages in (self._messages, self._others)):
            self._add(link.topic, stamp, self._messages.like(self._others.from_bytes(raw, link.msgtype)))
        else:
            self.left_out.add(f"{link.topic} ({link.msgtype})")

    def _add(self, topic: str, stamp: int, message: Any) -> None:
        self._write(topic, message.__msgtype__, stamp, self._messages.to_bytes(message))

    def _write(self, topic: str, kind: str, stamp: int, data: bytes, copied: Any = None) -> None:
        link = self._links.get((topic, kind))
        if link is None:
            known = kind in self._messages.store.types
            about: dict[str, Any] = {"typestore": self._messages.store}
            if copied is not None and not known:  # its own description travels with what is copied
                about = {"msgdef": copied.msgdef.data, ("md5sum" if self._version == 1 else "rihs01"): copied.digest}
            link = self._links[topic, kind] = self._writer.add_connection(topic, kind, **about)
        self._writer.write(link, stamp, data)


def _has_results(path: Path) -> bool:
    """Whether this is a bag that may be replaced: a recording without results never is."""
    with needs_extra("rosbags", "io", f"writing {path}"):
        from roadbed.sources.bags.reader import BagReader
    try:
        reader = BagReader(path)
    except InputError:
        return False
    try:
        return any(link.topic.startswith(f"{RESULTS}/") for link in reader.connections)
    finally:
        reader.close()


def bag_source(source: Any) -> RosbagSource | None:
    """The bag under a selection, other odometry or deskewing; None where the scans come from elsewhere."""
    while not isinstance(source, RosbagSource):
        source = getattr(source, "source", None)
        if source is None:
            return None
    return source


def write_bag(path: Path, source: Any, results: Iterable[Result], force: bool = False) -> tuple[int, set[str]]:
    """A bag of the results and of the bag they come from; returns how many results, and which topics were left out."""
    count = 0
    with BagWriter(path, bag_source(source), force=force) as bag:
        for result in results:
            bag.add(result)
            count += 1
        if not count:
            raise InputError(f"{path}: found no scans, expected at least one")
        bag.finish()
        return count, bag.left_out


class Recorder(Closing):
    """Records the scans of a live source into a bag while they are iterated. A context manager."""

    def __init__(self, source: Any, path: Path, *, force: bool = False) -> None:
        if not is_bag_name(path):
            raise InputError(f"{path}: expected a name that ends with .mcap or .bag to record to")
        if not is_live(source):
            raise InputError(f"{source.location}: recording: found a recording, expected a live source")
        self._source, self._bag = source, BagWriter(path, force=force)
        self._lock, self._ended = threading.Lock(), False
        self.sequential, self.location = source.sequential, source.location
        self.count = 0

    def __iter__(self) -> Iterator[Scan]:
        for scan in self._source:
            with self._lock:
                if self._ended:
                    return
                self._bag.add_scan(scan)
                self.count += 1
            yield scan

    def close(self) -> None:
        self._source.close()

    def __exit__(self, *_: object) -> None:
        """Keep what was recorded, whatever ended it; an empty bag is not written."""
        with self._lock:
            self._ended = True
            try:
                self._bag.keep()
            finally:
                self._bag.close()
