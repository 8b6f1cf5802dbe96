# SPDX-License-Identifier: Apache-2.0
"""The node, the same for ROS 1, ROS 2 and bare DDS: bytes of messages in, bytes of messages out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

from roadbed.config import Config
from roadbed.config.text import parse_yaml
from roadbed.core.errors import ConfigError, InputError, RoadbedError
from roadbed.io.foreign import foreign_errors
from roadbed.live.diagnostics import diagnostics
from roadbed.live.stream import LiveResult, Stream
from roadbed.messages.clouds import scan_of_cloud
from roadbed.messages.results import GROUND_TOPICS, OCCUPANCY_TOPICS, TOPICS, FrameNames, ResultMessages
from roadbed.messages.store import CLOUD, DIAGNOSTICS, ODOMETRY, TRANSFORMS, RosMessages
from roadbed.sources.bags.transforms import TransformGraph, frame_name, message_pose, stamp_seconds

STRING = "std_msgs/msg/String"


class Transport(Protocol):
    """What the node asks of ROS 1, ROS 2 or DDS: serialised messages by topic."""

    version: Literal[1, 2]
    address: str  # where it listens

    def subscribe(self, topic: str, kind: str, heard: Callable[[bytes], None]) -> None: ...

    def advertise(self, topic: str, kind: str) -> None: ...

    def has_listeners(self, topic: str) -> bool: ...

    def publish(self, topic: str, data: bytes) -> None: ...

    def say(self, problem: str) -> None:
        """A warning where people of that system look for it."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class NodeOptions:
    """Which topics the node listens to and what frames are called."""

    clouds: tuple[str, ...]
    odometry: str | None = None  # nav_msgs/Odometry; None: the transform from `frames.world` to `frames.vehicle`
    frames: FrameNames = field(default_factory=FrameNames)
    on_road: bool = False  # the vehicle frame's origin lies on the road, so that TF tells each sensor's mounting
    prefix: str = "/roadbed"
    occupancy: bool = True


class RosNode:
    """Subscribes, perceives, publishes; `close` ends it after the scans that wait."""

    def __init__(self, transport: Transport, options: NodeOptions, config: Config | None = None) -> None:
        self._transport, self._options = transport, options
        self._messages = RosMessages(transport.version)
        self._transforms = TransformGraph()
        self._unmounted: dict[str, str] = {}  # frames of clouds that no transform joins to the vehicle, with a topic
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self._closed = threading.Event()
        self.stream = Stream(
            config,
            on_ground=self._publish_ground,
            on_result=self._publish_rest,
            on_problem=transport.say,
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
        """What cannot be read is counted and reported; the node goes on."""

        def heard(data: bytes) -> None:
            try:
                with foreign_errors(topic, kind.rpartition("/")[2]):
                    message = self._messages.from_bytes(data, kind)
                take(message)
            except RoadbedError as error:
                if kind == CLOUD:
                    self.stream.refuse(topic, str(error))
                else:
                    self._transport.say(str(error))

        self._transport.subscribe(topic, kind, heard)

    def _take_cloud(self, topic: str, cloud: Any) -> None:
        scan = scan_of_cloud(cloud, topic)
        with self._lock:
            self._mount(scan.sensor, topic)
        self.stream.push(scan, cloud)

    def _mount(self, sensor: str, topic: str) -> None:
        """Tell the stream where a sensor sits, or remember that TF has not told yet; the lock is held around it."""
        T_vehicle_sensor = self._transforms.between(self._options.frames.vehicle, sensor)
        if T_vehicle_sensor is None:
            self._unmounted[sensor] = topic
        else:
            self._unmounted.pop(sensor, None)
            self.stream.set_mounting(sensor, T_vehicle_sensor, over_road=self._options.on_road)

    def _take_transforms(self, message: Any) -> None:
        """Mountings, and without an odometry topic the pose as well: whenever part of its chain has moved."""
        frames = self._options.frames
        own = frame_name(frames.grid)
        message.transforms = [entry for entry in message.transforms if frame_name(entry.child_frame_id) != own]
        with self._lock:
            self._transforms.add(message)
            for sensor, topic in tuple(self._unmounted.items()):
                self._mount(sensor, topic)
            chain = self._transforms.chain(frames.world, frames.vehicle)
            T_world_vehicle = self._transforms.between(frames.world, frames.vehicle)
        if chain is None or T_world_vehicle is None or self._options.odometry is not None:
            return
        stamps = [stamp_seconds(e.header.stamp) for e in message.transforms if frame_name(e.child_frame_id) in chain]
        if stamps and max(stamps) > 0:
            self.stream.push_pose(max(stamps), T_world_vehicle)

    def _take_odometry(self, message: Any) -> None:
        """The pose of the vehicle's frame, where TF says how the followed body sits on it."""
        pose, vehicle = message_pose(message), self._options.frames.vehicle
        body = frame_name(str(message.child_frame_id)) or vehicle
        with self._lock:
            T_body_vehicle = self._transforms.between(body, vehicle)
        if T_body_vehicle is None:
            self._say_once(f"{self._options.odometry}: follows {body!r}, which no transform joins to {vehicle!r}")
        else:
            pose = pose @ T_body_vehicle
        self.stream.push_pose(stamp_seconds(message.header.stamp), pose)

    def _take_change(self, message: Any) -> None:
        """YAML laid over the configuration in force."""
        origin = f"{self._options.prefix}/change"
        values = parse_yaml(str(message.data), origin)
        if not isinstance(values, dict):
            raise ConfigError(f"{origin}: expected a mapping of parameters, found {type(values).__name__}")
        self.stream.change(self.stream.config.with_changes(**values))

    def _publish_ground(self, live: LiveResult) -> None:
        self._publish(live, GROUND_TOPICS)

    def _publish_rest(self, live: LiveResult) -> None:
        if live.result.occupancy is not None:
            self._publish(live, OCCUPANCY_TOPICS)
        sensor = live.result.scan.sensor
        with self._lock:
            topic = self._unmounted.get(sensor)
            known = ", ".join(self._transforms.frames) or "none"
        if topic is not None:
            self._say_once(
                f"{topic}: frame {sensor!r}: found no transform to {self._options.frames.vehicle!r}; its scans stand "
                f"alone until one comes; frames that exist: {known}",
                key=f"{topic} {sensor}",
            )
        for note in live.diagnostics if topic is None else live.result.diagnostics:
            self._say_once(note)

    def _publish(self, live: LiveResult, topics: dict[str, str]) -> None:
        """Only what somebody listens to is made at all."""
        made = ResultMessages(self._messages, live.result, self._options.frames, live.carried)
        for topic in topics:
            name = self._name(topic)
            if self._transport.has_listeners(name):
                self._transport.publish(name, self._messages.to_bytes(made.make(topic)))

    def _report(self) -> None:
        """Once a second: rate, latency, what was lost."""
        before = None
        while not self._closed.wait(1.0):
            statistics = self.stream.statistics()
            message = diagnostics(self._messages, statistics, before)
            self._transport.publish("/diagnostics", self._messages.to_bytes(message))
            before = statistics

    def _say_once(self, text: str, key: str = "") -> None:
        """Warnings that would come with every scan come once."""
        if (key or text) not in self._said and len(self._said) < 1000:
            self._said.add(key or text)
            self._transport.say(text)


def checked_topics(clouds: list[str]) -> tuple[str, ...]:
    """Topic names with their leading slash, each once."""
    names = tuple(f"/{name.strip('/')}" for name in clouds)
    if not names or "/" in names or len(set(names)) < len(names):
        raise InputError(f"topics: expected one or more different names, found {', '.join(clouds) or 'none'}")
    return names
