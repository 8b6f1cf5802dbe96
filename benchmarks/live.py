# SPDX-License-Identifier: Apache-2.0
"""Latency from the last point to labels and to occupancy, through the bare stream, ROS 1 or DDS."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np

from roadbed.bench.timing import there_and_back
from roadbed.config import Config
from roadbed.core.errors import DeviceError, InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.live.ros_node import Transport
from roadbed.live.stream import Stream
from roadbed.outputs.ros_messages.clouds import cloud_of_scan
from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.sources import open_source
from roadbed.sources.bags.transforms import stamp_seconds
from roadbed.sources.bags.type_names import CLOUD, OCCUPANCY_GRID, ODOMETRY, TRANSFORMS

TRANSPORTS = ("stream", "ros1", "dds")
_START_S = 1000.0  # the first scan's stamp; stamps tell which result belongs to which scan
_PATIENCE_S = 300.0


class Delays:
    """When scans went out, and how much later each kind of answer came back."""

    def __init__(self) -> None:
        self.sent: dict[int, float] = {}
        self.delays: dict[str, dict[int, float]] = {"labels": {}, "occupancy": {}}

    def answer(self, what: str, time: float) -> None:
        number = _number(time)
        if number in self.sent:
            self.delays[what][number] = monotonic() - self.sent[number]


def live_row(
    transport: str = "stream", scans: int = 300, rate: float = 10.0, sensor: str = "hdl64e", backend: str = "cpu"
) -> dict[str, Any]:
    """One run at `rate` scans per second; what was lost is counted, latencies are of what came back."""
    if transport not in TRANSPORTS:
        raise InputError(f"transport {transport!r}: expected one of {', '.join(TRANSPORTS)}")
    drive = list(open_source(f"sim:city?sensor={sensor}&frames=24"))
    moving = [replace(s, time=_START_S + n / rate) for n, s in enumerate(islice(there_and_back(drive), scans))]
    delays = Delays()
    run = _through_stream if transport == "stream" else _through_node
    seconds = run(moving, rate, backend, delays, transport)
    return {
        "transport": transport,
        "sensor": sensor,
        "points": len(drive[0]),
        "rate_hz": rate,
        "scans": scans,
        **{f"{what}_lost": scans - len(found) for what, found in delays.delays.items()},
        **{
            f"{what}_{name}_ms": round(1e3 * float(np.percentile(list(found.values()) or [np.nan], share)), 1)
            for what, found in delays.delays.items()
            for name, share in (("median", 50), ("p95", 95))
        },
        "processor_ms_per_scan": round(1e3 * seconds / max(len(delays.delays["occupancy"]), 1), 1),
    }


def _paced(scans: list[Scan], rate: float, delays: Delays, send: Callable[[Scan], Any]) -> None:
    """Each scan when it is due; its clock runs from just before it is handed over."""
    start = monotonic()
    for number, scan in enumerate(scans):
        sleep(max(start + number / rate - monotonic(), 0.0))
        delays.sent[_number(scan.time or 0.0)] = monotonic()
        send(scan)


def _through_stream(scans: list[Scan], rate: float, backend: str, delays: Delays, _: str) -> float:
    """Processor seconds of this process while scans go through."""
    stream = Stream(
        Config.parse({"backend": backend}),
        on_ground=lambda live: delays.answer("labels", live.result.scan.time or 0.0),
        on_result=lambda live: delays.answer("occupancy", live.result.scan.time or 0.0),
    )
    stream.warm_up()
    before = processor_seconds(os.getpid())
    with stream:
        _paced(scans, rate, delays, stream.push)
    return processor_seconds(os.getpid()) - before


def _through_node(scans: list[Scan], rate: float, backend: str, delays: Delays, transport: str) -> float:
    """Processor seconds of the node, a process of its own; this one publishes and listens, so it has both clocks."""
    options = ["/points", "--odometry", "/odom", "--on-road", "--backend", backend]
    command = ["ros1", *options] if transport == "ros1" else ["ros2", *options, "--reliable"]
    graph = graph_of(transport)
    node = subprocess.Popen([sys.executable, "-m", "roadbed", *command], stdout=subprocess.PIPE, text=True)
    try:
        assert node.stdout is not None
        if not any("Ctrl+C" in line for line in _lines(node.stdout)):
            raise DeviceError(f"bench live: the node did not start: {' '.join(command)}")
        before = processor_seconds(node.pid)
        _play(graph, scans, rate, delays)
        return processor_seconds(node.pid) - before
    finally:
        node.send_signal(signal.SIGINT)
        node.wait(_PATIENCE_S)
        graph.close()


def _lines(stream: Any) -> Iterator[str]:
    """Lines until the node is ready; the rest of what it says is read away."""
    for line in stream:
        yield line
        if "Ctrl+C" in line:
            threading.Thread(target=stream.read, daemon=True).start()
            return


def graph_of(transport: str, name: str = "roadbed_bench") -> Transport:
    """This process as a node on the graph of ROS 1 or DDS."""
    if transport == "ros1":
        from roadbed.live.ros1 import Ros1

        return Ros1(name)
    from roadbed.live.dds import Dds

    return Dds(reliable=True)


def _play(graph: Transport, scans: list[Scan], rate: float, delays: Delays) -> None:
    messages = RosMessages(graph.version)

    def callback(what: str, kind: str) -> Callable[[bytes], None]:
        return lambda data: delays.answer(what, stamp_seconds(messages.from_bytes(data, kind).header.stamp))

    for topic, kind in (("/points", CLOUD), ("/odom", ODOMETRY), ("/tf_static", TRANSFORMS)):
        graph.advertise(topic, kind)
    graph.subscribe("/roadbed/labelled", CLOUD, callback("labels", CLOUD))
    graph.subscribe("/roadbed/occupancy", OCCUPANCY_GRID, callback("occupancy", OCCUPANCY_GRID))
    deadline = monotonic() + 30
    while not (graph.has_listeners("/points") and graph.has_listeners("/odom") and graph.has_listeners("/tf_static")):
        if monotonic() > deadline:
            raise DeviceError("bench live: the node does not listen")
        sleep(0.05)
    sleep(2.0)  # the way back has to be found too
    mounting = scans[0].T_vehicle_sensor
    assert mounting is not None
    header = messages.header(messages.stamp(0.0), "base_link")
    graph.publish("/tf_static", messages.to_bytes(messages.transform(header, "lidar", mounting)))
    sleep(0.5)
    # Made beforehand: a driver would have them ready as well.
    prepared = {}
    for scan in scans[:46]:
        cloud = cloud_of_scan(messages, messages.header(messages.stamp(scan.time), "lidar"), scan)
        prepared[id(scan.points)] = cloud

    def send(scan: Scan) -> None:
        cloud = prepared[id(scan.points)]
        cloud.header = messages.header(messages.stamp(scan.time), "lidar")
        place = scan.T_world_vehicle or Pose.identity()
        odometry = messages.odometry(messages.header(cloud.header.stamp, "odom"), "base_link", place)
        graph.publish("/odom", messages.to_bytes(odometry))
        graph.publish("/points", messages.to_bytes(cloud))

    _paced(scans, rate, delays, send)
    last = monotonic()
    while monotonic() < last + 5.0 and len(delays.delays["occupancy"]) < len(scans):
        sleep(0.05)


def _number(time: float) -> int:
    return round(time * 1000)


def processor_seconds(process: int) -> float:
    """Processor seconds of a process so far; compiling and starting are over when the first scan is sent."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
