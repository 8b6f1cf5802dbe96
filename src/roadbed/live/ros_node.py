# SPDX-License-Identifier: Apache-2.0
"""The ROS node, the same for ROS 1, ROS 2 and DDS: serialised messages in and out."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, time
from typing import Any, Literal, Protocol

from roadbed.config import Config
from roadbed.config.text import parse_yaml
from roadbed.core.errors import ConfigError, InputError, RoadbedError, foreign_errors
from roadbed.core.geometry import Pose
from roadbed.live.counts import Statistics
from roadbed.live.stream import LiveResult, Stream
from roadbed.outputs.ros_messages.results import GROUND_TOPICS, OCCUPANCY_TOPICS, TOPICS, FrameNames, ResultMessages
from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.sources.bags.scan_messages import scan_of_message
from roadbed.sources.bags.transforms import TransformGraph, frame_name, message_pose, stamp_seconds
from roadbed.sources.bags.type_names import CLOUD, DIAGNOSTICS, ODOMETRY, TRANSFORMS

STRING = "std_msgs/msg/String"
_REPORT_S = 1.0  # between two messages on /diagnostics
_SILENT_S = 3.0  # without a cloud, after which a topic counts as silent
_RECOVERED_S = 10.0  # after which a warning that was not true meanwhile is logged again
_WARNINGS_KEPT = 1000
_FIXED = {"backend", "device", "live"}  # parameters that a running stream keeps


class Transport(Protocol):
    """Interface of ROS 1, ROS 2 and DDS: serialised messages by topic."""

    version: Literal[1, 2]
    address: str  # where it listens

    def subscribe(self, topic: str, kind: str, callback: Callable[[bytes], None]) -> None: ...

    def advertise(self, topic: str, kind: str) -> None: ...

    def has_listeners(self, topic: str) -> bool: ...

    def publish(self, topic: str, data: bytes) -> None: ...

    def warn(self, problem: str) -> None:
        """Log a warning."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class NodeOptions:
    """Topics and frame names of the node."""

    clouds: tuple[str, ...]
    odometry: str | None = None  # nav_msgs/Odometry; without: the transform from `frames.world` to `frames.vehicle`
    frames: FrameNames = field(default_factory=FrameNames)
    on_road: bool = False  # the vehicle frame is at road level: TF gives the mounting of each sensor
    T_vehicle_sensor: Pose | None = None  # m, of the only sensor over the road; None: from TF
    prefix: str = "/roadbed"
    occupancy: bool = True


class RosNode:
    """Subscribes, processes, publishes; `close` finishes the queued scans."""

    def __init__(self, transport: Transport, options: NodeOptions, config: Config | None = None) -> None:
        self._transport, self._options = transport, options
        self._messages = RosMessages(transport.version)
        self._transforms = TransformGraph()
        self._unmounted: dict[str, str] = {}  # frame: topic of clouds without a transform to the vehicle
        self._lock = threading.Lock()
        self._said: dict[str, float] = {}  # when a warning was last true
        self._arrivals = dict.fromkeys(options.clouds, monotonic())  # of the last cloud per topic
        self._closed = threading.Event()
        self.stream = Stream(
            config,
            on_ground=partial(self._publish, topics=GROUND_TOPICS),
            on_result=self._publish_rest,
            on_problem=transport.warn,
            occupancy=options.occupancy,
        )
        for topic in TOPICS if options.occupancy else GROUND_TOPICS:
            transport.advertise(self._name(topic), TOPICS[topic])
        transport.advertise("/diagnostics", DIAGNOSTICS)
        self.stream.expect_mountings()
        if options.odometry:
            self.stream.expect_poses()
        self.stream.warm_up()
        self.stream.start()
        self._reporter = threading.Thread(target=self._report, name="roadbed-diagnostics", daemon=True)
        self._reporter.start()
        self._subscribe("/tf_static", TRANSFORMS, self._take_transforms)
        self._subscribe("/tf", TRANSFORMS, self._take_transforms)
        self._subscribe(f"{options.prefix}/change", STRING, self._take_change)
        if options.odometry:
            self._subscribe(options.odometry, ODOMETRY, self._take_odometry)
        for topic in options.clouds:
            self._subscribe(topic, CLOUD, partial(self._take_cloud, topic))

    def close(self) -> None:
        self._closed.set()
        self.stream.stop()
        self._reporter.join()
        self._transport.close()

    def _name(self, topic: str) -> str:
        return "/tf" if topic == "tf" else f"{self._options.prefix}/{topic}"

    def _subscribe(self, topic: str, kind: str, take: Callable[[Any], None]) -> None:
        """Invalid messages are counted and reported; the node continues."""

        def callback(data: bytes) -> None:
            try:
                with foreign_errors(topic, kind.rpartition("/")[2]):
                    message = self._messages.from_bytes(data, kind)
                take(message)
            except RoadbedError as error:
                if kind == CLOUD:
                    self.stream.refuse(topic, str(error))
                else:
                    self._transport.warn(str(error))

        self._transport.subscribe(topic, kind, callback)

    def _take_cloud(self, topic: str, cloud: Any) -> None:
        self._arrivals[topic] = monotonic()
        scan = scan_of_message(cloud, topic)
        with self._lock:
            self._mount(scan.sensor, topic)
        self.stream.push(scan, cloud)

    def _mount(self, sensor: str, topic: str) -> None:
        """Pass the mounting from TF to the stream, or note that it is missing; the caller holds the lock."""
        given = self._options.T_vehicle_sensor
        T_vehicle_sensor = given or self._transforms.between(self._options.frames.vehicle, sensor)
        if T_vehicle_sensor is None:
            self._unmounted[sensor] = topic
        else:
            self._unmounted.pop(sensor, None)
            self.stream.set_mounting(sensor, T_vehicle_sensor, over_road=given is not None or self._options.on_road)

    def _take_transforms(self, message: Any) -> None:
        """Update mountings and, without an odometry topic, the pose if a transform of its chain has changed."""
        frames = self._options.frames
        own = frame_name(frames.grid)
        message.transforms = [entry for entry in message.transforms if frame_name(entry.child_frame_id) != own]
        with self._lock:
            self._transforms.add(message)
            for sensor, topic in tuple(self._unmounted.items()):
                self._mount(sensor, topic)
            chain = self._transforms.chain(frames.world, frames.vehicle)
            T_world_vehicle = self._transforms.between(frames.world, frames.vehicle)
        if chain is None or T_world_vehicle is None or self._options.odometry:
            return
        stamps = [stamp_seconds(e.header.stamp) for e in message.transforms if frame_name(e.child_frame_id) in chain]
        if stamps and max(stamps) > 0:
            self.stream.push_pose(max(stamps), T_world_vehicle)

    def _take_odometry(self, message: Any) -> None:
        """The pose of the vehicle frame; TF gives the transform from the frame of the odometry."""
        pose, vehicle = message_pose(message), self._options.frames.vehicle
        body = frame_name(str(message.child_frame_id)) or vehicle
        with self._lock:
            T_body_vehicle = self._transforms.between(body, vehicle)
        if T_body_vehicle is None:
            self._warn_once(f"{self._options.odometry}: follows {body!r}, which has no transform to {vehicle!r}")
        else:
            pose = pose @ T_body_vehicle
        self.stream.push_pose(stamp_seconds(message.header.stamp), pose)

    def _take_change(self, message: Any) -> None:
        """Merge YAML into the current configuration."""
        origin = f"{self._options.prefix}/change"
        values = parse_yaml(str(message.data), origin)
        if not isinstance(values, dict):
            raise ConfigError(f"{origin}: expected a mapping of parameters, found {type(values).__name__}")
        fixed = sorted(_FIXED & set(values))
        if fixed:
            raise ConfigError(f"{origin}: {', '.join(fixed)}: expected at the start of the node, cannot change later")
        self.stream.change(self.stream.config.with_changes(**values))

    def _publish_rest(self, live: LiveResult) -> None:
        if live.result.occupancy is not None:
            self._publish(live, OCCUPANCY_TOPICS)
        sensor = live.result.scan.sensor
        with self._lock:
            topic = self._unmounted.get(sensor)
            known = ", ".join(self._transforms.frames) or "none"
        if topic is not None:
            self._warn_once(
                f"{topic}: frame {sensor!r}: found no transform to {self._options.frames.vehicle!r}; scans are "
                f"processed one by one until it arrives; known frames: {known}",
                key=f"{topic} {sensor}",
            )
        for note in live.diagnostics if topic is None else live.result.diagnostics:
            self._warn_once(note)

    def _publish(self, live: LiveResult, topics: dict[str, str]) -> None:
        """Publish the topics that have subscribers."""
        made = ResultMessages(self._messages, live.result, self._options.frames, live.payload)
        for topic in topics:
            name = self._name(topic)
            if self._transport.has_listeners(name):
                self._transport.publish(name, self._messages.to_bytes(made.make(topic)))

    def _report(self) -> None:
        """Publish diagnostics every `_REPORT_S`; log when sensors fall silent and when scans are lost."""
        before, losing, since = None, False, 0
        while not self._closed.wait(_REPORT_S):
            statistics, now = self.stream.statistics(), monotonic()
            silent = {topic: now - last for topic, last in self._arrivals.items() if now - last > _SILENT_S}
            message, lost = diagnostics(self._messages, statistics, before, silent)
            self._transport.publish("/diagnostics", self._messages.to_bytes(message))
            for topic in silent:
                self._warn_once(f"{topic}: no cloud for {_SILENT_S:.0f} s", key=f"silent {topic}")
            since = since + lost if losing else lost
            if bool(lost) != losing:
                losing = bool(lost)
                self._transport.warn(
                    f"scans are being lost: {statistics.line()}" if losing else f"{since} scans were lost"
                )
            before = statistics

    def _warn_once(self, text: str, key: str = "") -> None:
        """Log a warning once, not for every scan, and again when it was not true for a while."""
        key, now = key or text, monotonic()
        last = self._said.pop(key, -_RECOVERED_S)
        self._said[key] = now
        if len(self._said) > _WARNINGS_KEPT:
            del self._said[next(iter(self._said))]
        if now - last >= _RECOVERED_S:
            self._transport.warn(text)


def checked_topics(clouds: list[str]) -> tuple[str, ...]:
    """Topic names with their leading slash, each once."""
    names = tuple(f"/{name.strip('/')}" for name in clouds)
    if not names or "/" in names or len(set(names)) < len(names):
        raise InputError(f"topics: expected one or more different names, found {', '.join(clouds) or 'none'}")
    return names


_OK, _WARN, _ERROR = 0, 1, 2


def diagnostics(
    messages: RosMessages, now: Statistics, before: Statistics | None, silent: Mapping[str, float]
) -> tuple[Any, int]:
    """Rate, latency and counts as a DiagnosticArray, and the scans lost since `before`.

    A warning if scans were lost, an error if a topic has been `silent` (s).
    """
    total = now.total
    lost = total.dropped + total.refused - (before.total.dropped + before.total.refused if before else 0)
    text = f"{lost} scans lost in the last second" if lost else now.line()
    if silent:
        text = ", ".join(f"{topic}: no cloud for {seconds:.0f} s" for topic, seconds in silent.items())
    values = {"rate_hz": f"{now.rate:.2f}", "waiting": now.waiting, "without_pose": total.without_pose}
    for sensor, counts in now.sensors.items():
        for name in ("received", "processed", "dropped", "refused"):
            values[f"{sensor}/{name}"] = getattr(counts, name)
    for stage, (median, p95) in now.latency.items():
        values[f"{stage}_ms"] = f"{1e3 * median:.1f}"
        values[f"{stage}_p95_ms"] = f"{1e3 * p95:.1f}"
    pairs = [messages.make("diagnostic_msgs/msg/KeyValue", key=key, value=str(value)) for key, value in values.items()]
    status = messages.make(
        "diagnostic_msgs/msg/DiagnosticStatus",
        level=_ERROR if silent else _WARN if lost else _OK,
        name="roadbed: pipeline",
        message=text,
        hardware_id="roadbed",
        values=pairs,
    )
    return messages.make(DIAGNOSTICS, header=messages.header(messages.stamp(time()), ""), status=[status]), lost
