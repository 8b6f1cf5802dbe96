# SPDX-License-Identifier: Apache-2.0
"""ROS 1 with rospy; messages are passed as bytes, so no message packages are needed."""

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import urlsplit
from xmlrpc.client import ServerProxy

from roadbed.core.errors import DeviceError
from roadbed.outputs.ros_messages.store import RosMessages

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_WATCH_S = 2.0  # interval of checks whether the master knows this node
_SENT_AT_ONCE = 2  # queued messages per topic and subscriber
_SERVICES = ("get_loggers", "set_logger_level")  # of every rospy node
_M_ARENA_MAX, _HEAPS = -8, 2  # glibc's name of the option, and its value here


class Ros1:
    """A node on the ROS 1 graph that `ROS_MASTER_URI` names; it registers again after a restart of the master.

    With a master on this machine, and unless ROS_IP or ROS_HOSTNAME say otherwise, it listens on loopback only.
    """

    version: Literal[1, 2] = 1

    def __init__(self, name: str = "roadbed") -> None:
        try:
            import genpy
            import rosgraph
            import rospy
        except ImportError:
            raise DeviceError(
                "roadbed ros1 needs rospy: install Debian's ros-core and python3-rospy, and run Roadbed in an "
                "environment made with --system-site-packages (docs/ros.md)"
            ) from None
        self._rospy, self._genpy = rospy, genpy
        limit_heaps()
        uri = rosgraph.get_master_uri()
        if urlsplit(uri).hostname in _LOOPBACK and not {"ROS_IP", "ROS_HOSTNAME"} & set(os.environ):
            os.environ["ROS_IP"] = "127.0.0.1"
        if not rosgraph.is_master_online():
            raise DeviceError(f"ROS 1: found no master at {uri}: start roscore, or set ROS_MASTER_URI")
        rospy.init_node(name, disable_signals=True)
        self._master = rosgraph.Master(rospy.get_name())
        self.address = rospy.get_node_uri()
        self._messages = RosMessages(1)
        self._publishers: dict[str, Any] = {}
        self._subscribers: dict[str, Any] = {}
        self._unsent: dict[tuple[str, str], int] = {}  # messages dropped for a topic's subscriber
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="roadbed-ros1-watch", daemon=True)
        self._watcher.start()

    def subscribe(self, topic: str, kind: str, callback: Callable[[bytes], None]) -> None:
        # rospy's default buffer of 64 kB: a larger one is allocated for each read and delays clouds
        # (docs/notebook/transport.md).
        self._subscribers[topic] = self._rospy.Subscriber(
            topic, self._raw(kind), lambda message: callback(message.data), tcp_nodelay=True
        )

    def advertise(self, topic: str, kind: str) -> None:
        # Each connection has its own queue: a slow subscriber loses its oldest messages.
        self._publishers[topic] = self._rospy.Publisher(
            topic, self._raw(kind), queue_size=_SENT_AT_ONCE, tcp_nodelay=True
        )

    def has_listeners(self, topic: str) -> bool:
        return self._publishers[topic].get_num_connections() > 0

    def publish(self, topic: str, data: bytes) -> None:
        publisher = self._publishers[topic]
        self._notice_slow(topic, publisher)
        message = publisher.data_class()
        message.data = data
        try:
            publisher.publish(message)
        except self._rospy.ROSException:  # closed meanwhile
            if not self._closed.is_set():
                raise

    def _notice_slow(self, topic: str, publisher: Any) -> None:
        """rospy drops the oldest message of a full queue silently: warn at the 1st, 10th, 100th, ... of them."""
        for connection in list(publisher.impl.connections):
            if len(getattr(connection, "_queue", ())) < _SENT_AT_ONCE:
                continue
            key = topic, str(connection.endpoint_id)
            self._unsent[key] = self._unsent.get(key, 0) + 1
            if self._unsent[key] in (1, 10, 100, 1000, 10_000):
                self.warn(f"{topic}: {key[1]} is too slow: {self._unsent[key]} messages were dropped, oldest first")

    def warn(self, problem: str) -> None:
        self._rospy.logwarn(problem)

    def close(self) -> None:
        self._closed.set()
        self._watcher.join()
        self._rospy.signal_shutdown("roadbed was stopped")

    def _raw(self, kind: str) -> Any:
        """A message class that passes bytes; ROS compares its name and MD5 sum with the peer's."""
        text, md5 = self._messages.definition(kind)

        class Raw(self._genpy.Message):  # type: ignore[name-defined]
            _type, _md5sum, _full_text = kind.replace("/msg/", "/"), md5, text
            _has_header = False
            __slots__ = ("data",)
            _slot_types = ("uint8[]",)

            def __init__(self) -> None:
                self.data = b""

            def serialize(self, buffer: Any) -> None:
                buffer.write(self.data)

            def deserialize(self, data: bytes) -> Any:
                self.data = bytes(data)
                return self

        return Raw

    def _watch(self) -> None:
        """Register again after a restart of the master, which has lost all registrations."""
        problem = ""
        while not self._closed.wait(_WATCH_S):
            before, problem = problem, ""
            try:
                if self._register_missing():
                    self.warn("ROS 1: the master was restarted; registered again")
            except OSError:
                problem = "the master does not answer; existing connections stay"
            except Exception as error:  # not a ROS master, or one that ends just now
                problem = f"the master answers with {type(error).__name__}: {error}"
            if problem and problem != before:
                self.warn(f"ROS 1: {problem}")

    def _register_missing(self) -> bool:
        """Register what the master does not know of this node: topics, /rosout and the logger services."""
        name = self._rospy.get_name()
        node: Any = ServerProxy(self.address)
        known = [{entry for entry, nodes in kind if name in nodes} for kind in self._master.getSystemState()]
        published, subscribed = (call(name)[2] for call in (node.getPublications, node.getSubscriptions))
        missing = [entry for entry in published if entry[0] not in known[0]]
        for topic, kind in missing:
            self._master.registerPublisher(topic, kind, self.address)
        for topic, kind in subscribed:
            if topic not in known[1]:
                missing.append(topic)
                publishers = self._master.registerSubscriber(topic, kind, self.address)
                node.publisherUpdate("/master", topic, publishers)
        services = [f"{name}/{service}" for service in _SERVICES if f"{name}/{service}" not in known[2]]
        if services:  # at the port of the topics
            _, host, port = node.requestTopic(name, "/rosout", [["TCPROS"]])[2]
            for service in services:
                self._master.registerService(service, f"rosrpc://{host}:{port}", self.address)
        return bool(missing or services)


def limit_heaps() -> None:
    """Let the threads of this process share two heaps of glibc, unless MALLOC_ARENA_MAX says otherwise.

    rospy starts a thread for each connection. With up to eight heaps per core, those of ended threads keep the memory
    of their last messages: 10 MB more after 47 restarts of a publisher.
    """
    if "MALLOC_ARENA_MAX" not in os.environ:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc only
        if mallopt is not None:
            mallopt(_M_ARENA_MAX, _HEAPS)
