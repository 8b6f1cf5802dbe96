# SPDX-License-Identifier: Apache-2.0
"""ROS 2 without ROS: a DDS participant with ROS 2's topic names, type names and CDR encoding.

Cyclone DDS' Python classes convert messages to Python objects, at a hundred times the cost for a cloud. Its C layer
passes serialised bytes, which the type store encodes and decodes.

ROS 2 tools read more than the topics: `ros2 node list` and `ros2 topic info` use the topic `ros_discovery_info` of
rmw_dds_common; type hashes (REP 2011) are in the user data of endpoints.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Literal
from uuid import UUID

import numpy as np
from rosbags.typesys import Stores, get_typestore

from roadbed.core.errors import DeviceError
from roadbed.live.dds_network import Network, keep_on_loopback
from roadbed.outputs.ros_messages.store import RosMessages

_WAKE_MS = 200
_TAKEN_AT_ONCE = 100
_PARTICIPANT_DATA = b"enclave=/;"  # marks a participant of ROS 2
_GRAPH_TOPIC, _GRAPH_KIND = "ros_discovery_info", "rmw_dds_common/msg/ParticipantEntitiesInfo"
_NODE_INFO, _GID = "rmw_dds_common/msg/NodeEntitiesInfo", "rmw_dds_common/msg/Gid"
_LONG_GIDS = {"foxy", "galactic", "humble"}  # ROS_DISTRO with GIDs of 24 bytes; 16 since


class Dds:
    """One participant in the domain that ROS_DOMAIN_ID names, on the network of `Network.from_environment`.

    With `reliable`, lost packets are requested again; the publisher has to offer reliable QoS. Else any publisher
    matches, as with ROS 2's sensor-data profile.
    """

    version: Literal[1, 2] = 2

    def __init__(self, reliable: bool = False) -> None:
        domain, network = _domain_id(), Network.from_environment()
        try:
            self._load()
        except ImportError:
            raise DeviceError(
                "roadbed ros2 needs rclpy, or cyclonedds 0.10.2 built for Debian's cyclonedds-dev: "
                "scripts/install-cyclonedds.sh (docs/ros.md)"
            ) from None
        try:
            if network.config is not None:
                self._configured = self._domain.Domain(domain, network.config)
            ours = self._qos.Qos(self._qos.Policy.Userdata(_PARTICIPANT_DATA))
            self._participant = self._domain.DomainParticipant(domain, qos=ours)
        except self._core.DDSException as error:
            raise DeviceError(f"DDS domain {domain}: cannot be joined {network.text} ({error})") from None
        if network.loopback:
            keep_on_loopback(domain)
        else:
            self.warn(f"{network.text}: other machines can read the results and change parameters (docs/security.md)")
        self.address = f"DDS domain {domain} {network.text}"
        self._reliable = reliable
        self._topics: dict[str, Any] = {}
        self._writers: dict[str, Any] = {}
        self._readers: list[tuple[Any, Callable[[bytes], None]]] = []
        self._store = RosMessages(2).store
        self._graph = _NodeInfo(self._participant.get_guid())
        self._graph_writer = self._pub.DataWriter(
            self._participant, self._topic_of(_GRAPH_TOPIC, _GRAPH_KIND), self._quality(1, latched=True)
        )
        self._waitset = self._core.WaitSet(self._participant)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="roadbed-dds", daemon=True)
        self._thread.start()

    def _load(self) -> None:
        from cyclonedds import _clayer, core, domain, idl, pub, qos, sub, topic

        self._clayer, self._core, self._domain, self._idl = _clayer, core, domain, idl
        self._pub, self._qos, self._sub, self._topic = pub, qos, sub, topic

    def subscribe(self, topic: str, kind: str, callback: Callable[[bytes], None]) -> None:
        latched = topic.endswith("tf_static")
        quality = self._quality(100, kind, latched=latched, reliable=latched or self._reliable)
        reader = self._sub.DataReader(self._participant, self._topic_of(topic, kind), quality)
        self._graph.readers.append(reader.get_guid())
        self._announce()
        states = self._core.ViewState.Any | self._core.InstanceState.Any | self._core.SampleState.NotRead
        condition = self._core.ReadCondition(reader, states)
        with self._lock:
            self._readers.append((condition, callback))
            self._waitset.attach(condition)

    def advertise(self, topic: str, kind: str) -> None:
        quality = self._quality(5, kind, latched=topic.endswith("tf_static"))
        self._writers[topic] = self._pub.DataWriter(self._participant, self._topic_of(topic, kind), quality)
        self._graph.writers.append(self._writers[topic].get_guid())
        self._announce()

    def has_listeners(self, topic: str) -> bool:
        # The Python package lacks this call; the C library has it.
        writer = ctypes.c_int32(self._writers[topic]._ref)
        return self._core.Entity._dll_handle.dds_get_matched_subscriptions(writer, None, ctypes.c_size_t(0)) > 0

    def publish(self, topic: str, data: bytes) -> None:
        padded = data + bytes(-len(data) % 4)
        status = self._clayer.ddspy_write(self._writers[topic]._ref, padded)
        if status < 0 and not self._closed.is_set():
            self.warn(f"{topic}: message not sent: {self._core.DDSException(status, 'a reader is too slow')}")

    def warn(self, problem: str) -> None:
        print(f"roadbed: {problem}", file=sys.stderr, flush=True)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _listen(self) -> None:
        while not self._closed.is_set():
            if not self._waitset.wait(_WAKE_MS * 1_000_000):
                continue
            with self._lock:
                readers = list(self._readers)
            for condition, callback in readers:
                taken = self._clayer.ddspy_take(condition._ref, _TAKEN_AT_ONCE)
                for data, info in taken if isinstance(taken, list) else ():
                    if info.valid_data:
                        self._hand_on(callback, data)

    def _hand_on(self, callback: Callable[[bytes], None], data: bytes) -> None:
        try:
            callback(data)
        except Exception as error:  # one bad message does not end the thread
            self.warn(f"message not processed: {type(error).__name__}: {error}")

    def _topic_of(self, topic: str, kind: str) -> Any:
        """ROS 2 prefixes topic names with `rt`. The struct's field is a placeholder: only bytes are passed."""
        if topic not in self._topics:
            package, _, name = kind.split("/")
            struct = self._idl.make_idl_struct(name, f"{package}::msg::dds_::{name}_", {"unused": int})
            # As in ROS 2, no type is announced: readers that know the real fields would reject the placeholder.
            description: Any = struct.__idl__
            description.populate()
            description._xt_data = (True, True)
            description._xt_bytedata = (None, None)
            name = topic if topic == _GRAPH_TOPIC else f"rt{topic}"
            self._topics[topic] = self._topic.Topic(self._participant, name, struct)
        return self._topics[topic]

    def _announce(self) -> None:
        """Publish what this node consists of now."""
        data = self._graph.message()
        self._clayer.ddspy_write(self._graph_writer._ref, data + bytes(-len(data) % 4))

    def _quality(self, depth: int, kind: str = "", *, latched: bool = False, reliable: bool = True) -> Any:
        """QoS of an endpoint; `kind` is the message type whose hash is announced."""
        policy = self._qos.Policy
        blocking_ns = 50_000_000  # that a full buffer may block the publisher
        return self._qos.Qos(
            policy.Reliability.Reliable(blocking_ns) if reliable else policy.Reliability.BestEffort,
            policy.Durability.TransientLocal if latched else policy.Durability.Volatile,
            policy.History.KeepLast(depth),
            policy.DataRepresentation(use_cdrv0_representation=True),
            *([policy.Userdata(f"typehash={self._store.hash_rihs01(kind)};".encode())] if kind else []),
        )


class _NodeInfo:
    """The node with its endpoints as messages of `ros_discovery_info`."""

    def __init__(self, participant: UUID) -> None:
        old = os.environ.get("ROS_DISTRO", "") in _LONG_GIDS
        self._store = get_typestore(Stores.ROS2_HUMBLE if old else Stores.ROS2_JAZZY)
        self._gid_bytes = 24 if old else 16
        self._participant = participant
        self.readers: list[UUID] = []
        self.writers: list[UUID] = []

    def message(self) -> bytes:
        types = self._store.types
        node = types[_NODE_INFO](
            node_namespace="/",
            node_name="roadbed",
            reader_gid_seq=[self._gid(guid) for guid in self.readers],
            writer_gid_seq=[self._gid(guid) for guid in self.writers],
        )
        info = types[_GRAPH_KIND](gid=self._gid(self._participant), node_entities_info_seq=[node])
        return bytes(self._store.serialize_cdr(info, _GRAPH_KIND))

    def _gid(self, guid: UUID) -> Any:
        padded = guid.bytes.ljust(self._gid_bytes, b"\0")
        return self._store.types[_GID](data=np.frombuffer(padded, np.uint8))


def _domain_id() -> int:
    named = os.environ.get("ROS_DOMAIN_ID") or "0"
    if not named.isdecimal() or int(named) > 232:
        raise DeviceError(f"ROS_DOMAIN_ID: expected a number from 0 to 232, found {named!r}")
    return int(named)
