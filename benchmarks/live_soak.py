# SPDX-License-Identifier: Apache-2.0
"""Live operation in fast motion: scans through the stream, ROS 1 or DDS while publishers and master are restarted.

`python -m benchmarks.live_soak FILE TRANSPORT RATE START` is a publisher: the messages of FILE over and over, stamps
0.1 s apart, until it is killed.
"""

import os
import pickle
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from itertools import count, islice
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, sleep
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np

from benchmarks.live import graph_of, processor_seconds
from benchmarks.soak import LARGEST_MASS_ERROR, resources
from benchmarks.validity import is_valid, mass_error
from roadbed.bench.timing import there_and_back
from roadbed.config import Config
from roadbed.core.errors import DeviceError, InputError
from roadbed.core.frames import Label, Scan
from roadbed.live.ros_node import Transport
from roadbed.live.stream import LiveResult, Stream
from roadbed.outputs.ros_messages.clouds import cloud_of_scan
from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.sources import open_source
from roadbed.sources.bags.pointcloud2 import cloud_fields
from roadbed.sources.bags.type_names import CLOUD, OCCUPANCY_GRID, ODOMETRY, TRANSFORMS

DAY_SCANS = 864_000  # 24 h at 10 Hz
_STEP_S = 0.1  # between two stamps
_ALIVE_S, _ABSENT_S = (15.0, 45.0), (0.5, 4.0)  # at random, of a publisher and of the master
_STAMP_AT = 4  # byte at which the stamp of a message with a header begins, in both ROS: 4 bytes s, 4 bytes ns
_PATIENCE_S = 120.0


class Seen:
    """What came out of the node or the stream: counts, and how many results were invalid."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.labelled = self.grids = self.invalid = 0
        self.wrong = ""  # with the first invalid result

    def add(self, kind: str, wrong: str) -> None:
        with self._lock:
            self.labelled += kind == CLOUD
            self.grids += kind == OCCUPANCY_GRID
            self.invalid += bool(wrong)
            self.wrong = self.wrong or wrong


def live_soak_rows(
    transport: str,
    seconds: float,
    rate: float,
    seed: int,
    config: Path,
    restarts: bool = True,
    samples: int = 30,
) -> Iterator[dict[str, Any]]:
    """A row per sample: scans labelled so far, invalid results, restarts, and the resources of the process."""
    if transport not in ("stream", "ros1", "dds"):
        raise InputError(f"transport {transport!r}: expected stream, ros1 or dds")
    run = _Running(transport, rate, random.Random(seed), config, restarts)
    with ExitStack() as ends:
        ends.callback(run.close)
        begin = monotonic()
        for number in range(1, samples + 1):
            while (left := begin + seconds * number / samples - monotonic()) > 0:
                run.step(min(left, 0.2))
            yield {
                "seconds": round(monotonic() - begin, 1),
                "labelled": run.seen.labelled,
                "grids": run.seen.grids,
                "invalid": run.seen.invalid,
                "publishers": run.publishers,
                "masters": run.masters,
                "processor_ms": round(1e3 * run.processor() / max(run.seen.labelled, 1), 2),
                **resources(run.process),
                "wrong": run.seen.wrong,
            }


class _Running:
    """The stream or a node, with a publisher and for ROS 1 a master that are killed and started again."""

    def __init__(self, transport: str, rate: float, chance: random.Random, config: Path, restarts: bool) -> None:
        self._transport, self._rate, self._chance = transport, rate, chance
        self._alive_s = _ALIVE_S if restarts else (1e9, 1e9)
        self.seen, self.publishers, self.masters = Seen(), 0, 0
        self._ends, self._begin = ExitStack(), monotonic()
        self._publisher: subprocess.Popen | _Thread | None = None
        self._master: subprocess.Popen | None = None
        self._next = {"publisher": 0.0, "master": 0.0}  # when each is killed or started
        if transport == "stream":
            self._stream = Stream(
                Config.load(config).with_changes(live={"when_full": "wait"}), on_result=self._take_result
            )
            self._stream.warm_up()
            _drive()  # simulated before the time counts
            self._ends.enter_context(self._stream)
            self.process = os.getpid()
        else:
            self._start_node(config)
        self._spent = processor_seconds(self.process)

    def _start_node(self, config: Path) -> None:
        folder = self._ends.enter_context(tempfile.TemporaryDirectory())
        if self._transport == "ros1":
            os.environ |= {"ROS_HOME": folder, "ROS_LOG_DIR": folder}
            self._toggle_master()
        self._messages = Path(folder) / "messages.pickle"
        _write_messages(self._messages, 1 if self._transport == "ros1" else 2)
        options = ["/points", "--odometry", "/odom", "--on-road", "--config", str(config)]
        command = ["ros1", *options] if self._transport == "ros1" else ["ros2", *options, "--reliable"]
        self.log = Path(folder) / "node.log"
        with self.log.open("wb") as out:
            words = [sys.executable, "-m", "roadbed", *command]
            self._node = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)
        self.process = self._node.pid
        self._ends.callback(_end, self._node, signal.SIGINT)
        _wait_until(lambda: "Ctrl+C" in self.log.read_text() or self._node.poll() is not None)
        graph = graph_of(self._transport)
        self._ends.callback(graph.close)
        messages = RosMessages(graph.version)
        for topic, kind, check in (
            ("/roadbed/labelled", CLOUD, _wrong_in_cloud),
            ("/roadbed/occupancy", OCCUPANCY_GRID, _wrong_in_grid),
        ):

            def take(data: bytes, kind: str = kind, check: Any = check) -> None:
                self.seen.add(kind, check(messages.from_bytes(data, kind)))

            graph.subscribe(topic, kind, take)

    def _take_result(self, live: LiveResult) -> None:
        result = live.result
        self.seen.add(CLOUD, "" if is_valid(result.ground) else f"ground of {result.scan}")
        if result.occupancy is not None:
            error = mass_error(result.occupancy)
            self.seen.add(OCCUPANCY_GRID, "" if error < LARGEST_MASS_ERROR else f"masses are off by {error}")

    def processor(self) -> float:
        return processor_seconds(self.process) - self._spent

    def step(self, seconds: float) -> None:
        """Wait; kill or start what is due."""
        sleep(seconds)
        if self._transport != "stream" and self._node.poll() is not None:
            raise DeviceError(f"the node has ended: {self.log.read_text()[-500:]}")
        now = monotonic()
        for name, toggle in (("publisher", self._toggle_publisher), ("master", self._toggle_master)):
            if now >= self._next[name] and (name == "publisher" or self._transport == "ros1"):
                toggle()

    def _toggle_publisher(self) -> None:
        if self._publisher is not None and self._publisher.poll() is None:
            _end(self._publisher, signal.SIGKILL)
            self._publisher = None
            self._next["publisher"] = monotonic() + self._chance.uniform(*_ABSENT_S)
            return
        self._next["publisher"] = monotonic() + self._chance.uniform(*self._alive_s)
        self.publishers += 1
        start = 1000.0 + (monotonic() - self._begin) * max(self._rate * _STEP_S, 1.0) + 100.0 * self.publishers
        if self._transport == "stream":
            self._publisher = _Thread(self._stream, start)
        else:
            given = (str(self._messages), self._transport, str(self._rate), str(start))
            words = [sys.executable, "-m", "benchmarks.live_soak", *given]
            self._publisher = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _toggle_master(self) -> None:
        port = urlsplit(os.environ.get("ROS_MASTER_URI", "http://127.0.0.1:11311")).port
        if self._master is not None:
            _end(self._master, signal.SIGKILL)
            self._master = None
            self._next["master"] = monotonic() + self._chance.uniform(*_ABSENT_S)
            return
        self._next["master"] = monotonic() + self._chance.uniform(*self._alive_s)
        self.masters += 1
        words = ["/usr/bin/rosmaster", "--core", "-p", str(port)]
        environment = os.environ | {"PATH": f"/usr/bin:{os.environ['PATH']}"}
        self._master = subprocess.Popen(
            words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        _wait_until(lambda: _is_listening(port))

    def close(self) -> None:
        if self._publisher is not None:
            _end(self._publisher, signal.SIGKILL)
        if self._transport == "ros1" and self._master is None:
            self._toggle_master()  # the node unregisters there
        self._ends.close()
        if self._master is not None:
            _end(self._master, signal.SIGKILL)


class _Thread:
    """A publisher of the stream's own process: scans as fast as they are processed."""

    def __init__(self, stream: Stream, start: float) -> None:
        self._stopped = Event()
        self._thread = Thread(target=self._run, args=(stream, start))
        self._thread.start()

    def _run(self, stream: Stream, start: float) -> None:
        for scan in _scans(start):
            if self._stopped.is_set():
                return
            stream.push(scan)

    def poll(self) -> int | None:
        return None if self._thread.is_alive() else 0

    def send_signal(self, _: int) -> None:
        self._stopped.set()

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)


@cache
def _drive() -> list[Scan]:
    return list(open_source("sim:city?sensor=lux4&frames=24"))


def _scans(start: float) -> Iterator[Scan]:
    for number, scan in enumerate(there_and_back(_drive())):
        yield replace(scan, time=start + _STEP_S * number)


def _write_messages(path: Path, version: Literal[1, 2]) -> None:
    """Mounting, clouds and odometry of the drive, serialised, for a publisher that starts fast."""
    messages, drive = RosMessages(version), _drive()
    header = messages.header(messages.stamp(0.0), "base_link")
    mounting = messages.to_bytes(messages.transform(header, "lidar", drive[0].T_vehicle_sensor))
    pairs = []
    for scan in islice(there_and_back(drive), 2 * len(drive) - 2):
        cloud = cloud_of_scan(messages, messages.header(messages.stamp(0.0), "lidar"), scan)
        place = messages.odometry(messages.header(messages.stamp(0.0), "odom"), "base_link", scan.T_world_vehicle)
        pairs.append((messages.to_bytes(place), messages.to_bytes(cloud)))
    path.write_bytes(pickle.dumps((mounting, pairs)))


def publish(file: str, transport: str, rate: float, start: float) -> None:
    """Clouds, odometry and the mounting, `rate` per second, until the process is killed."""
    mounting, pairs = pickle.loads(Path(file).read_bytes())
    graph: Transport = graph_of(transport, "roadbed_player")
    for topic, kind in (("/points", CLOUD), ("/odom", ODOMETRY), ("/tf_static", TRANSFORMS)):
        graph.advertise(topic, kind)
    _wait_until(lambda: graph.has_listeners("/points") and graph.has_listeners("/tf_static"))
    due = monotonic()
    for number in count():
        if number % 50 == 0:
            graph.publish("/tf_static", mounting)
        second, part = divmod(round((start + _STEP_S * number) * 1e9), 1_000_000_000)
        for topic, data in zip(("/odom", "/points"), pairs[number % len(pairs)]):
            changed = bytearray(data)
            struct.pack_into("<II", changed, _STAMP_AT, second, part)
            graph.publish(topic, bytes(changed))
        due = max(due + 1 / rate, monotonic())
        sleep(max(due - monotonic(), 0.0))


def _wrong_in_cloud(cloud: Any) -> str:
    """What is wrong: labels are known ones, probabilities lie in 0..1, heights are missing only with their label."""
    fields = cloud_fields(cloud, "labelled")
    label, probability, height = (fields[name] for name in ("label", "ground_probability", "height_above_ground"))
    wrong = {
        "labels": ~np.isin(label, [int(each) for each in Label]),
        "probabilities": ~((probability >= 0) & (probability <= 1)),
        "heights": ~np.isfinite(height) & (label != Label.UNKNOWN),
    }
    return ", ".join(f"{where.sum()} {name} of {len(label)}" for name, where in wrong.items() if where.any())


def _wrong_in_grid(grid: Any) -> str:
    percent = np.asarray(grid.data, np.int8)
    if len(percent) != grid.info.width * grid.info.height:
        return f"{len(percent)} cells, expected {grid.info.width} x {grid.info.height}"
    wrong = (percent < -1) | (percent > 100)
    return f"{wrong.sum()} cells of {len(percent)}" if wrong.any() else ""


def _wait_until(condition: Any) -> None:
    deadline = monotonic() + _PATIENCE_S
    while not condition():
        if monotonic() > deadline:
            raise DeviceError("bench live-soak: no answer within two minutes")
        sleep(0.05)


def _is_listening(port: int | None) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port or 11311)) == 0


def _end(process: Any, number: int) -> None:
    process.send_signal(number)
    process.wait(_PATIENCE_S)


if __name__ == "__main__":
    publish(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
