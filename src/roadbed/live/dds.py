# SPDX-License-Identifier: Apache-2.0
"""ROS 2 without ROS: a DDS participant with ROS 2's topic names, type names and CDR encoding.

Cyclone DDS' Python classes convert messages to Python objects, at a hundred times the cost for a cloud. Its C layer
passes serialised bytes, which the type store encodes and decodes.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Literal

from roadbed.core.errors import DeviceError
from roadbed.live.dds_network import Network, keep_on_loopback

_WAKE_MS = 200
_TAKEN_AT_ONCE = 100


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
            self._participant = self._domain.DomainParticipant(domain)
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
        reader = self._sub.DataReader(self._participant, self._topic_of(topic, kind), self._reading(topic))
        states = self._core.ViewState.Any | self._core.InstanceState.Any | self._core.SampleState.NotRead
        condition = self._core.ReadCondition(reader, states)
        with self._lock:
            self._readers.append((condition, callback))
            self._waitset.attach(condition)

    def advertise(self, topic: str, kind: str) -> None:
        policy = self._qos.Policy
        quality = self._qos.Qos(
            policy.Reliability.Reliable(50_000_000),  # ns that a full buffer may block the publisher
            policy.Durability.TransientLocal if topic.endswith("tf_static") else policy.Durability.Volatile,
            policy.History.KeepLast(5),
            policy.DataRepresentation(use_cdrv0_representation=True),
        )
        self._writers[topic] = self._pub.DataWriter(self._participant, self._topic_of(topic, kind), quality)

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
            self._topics[topic] = self._topic.Topic(self._participant, f"rt{topic}", struct)
        return self._topics[topic]

    def _reading(self, topic: str) -> Any:
        policy = self._qos.Policy
        latched = topic.endswith("tf_static")
        sure = latched or self._reliable
        return self._qos.Qos(
            policy.Reliability.Reliable(50_000_000) if sure else policy.Reliability.BestEffort,
            policy.Durability.TransientLocal if latched else policy.Durability.Volatile,
            policy.History.KeepLast(100),
            policy.DataRepresentation(use_cdrv0_representation=True),
        )


def _domain_id() -> int:
    named = os.environ.get("ROS_DOMAIN_ID") or "0"
    if not named.isdecimal() or int(named) > 232:
        raise DeviceError(f"ROS_DOMAIN_ID: expected a number from 0 to 232, found {named!r}")
    return int(named)
