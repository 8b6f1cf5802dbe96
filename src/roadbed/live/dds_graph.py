# SPDX-License-Identifier: Apache-2.0
"""What ROS 2 tools read of a DDS participant next to its topics: node name, endpoints and type hashes.

`ros2 node list` and `ros2 topic info` use the topic `ros_discovery_info` of rmw_dds_common; type hashes (REP 2011) are
in the user data of endpoints.
"""

from __future__ import annotations

import os
from typing import Any
from uuid import UUID

import numpy as np
from rosbags.typesys import Stores, get_typestore

TOPIC, KIND = "ros_discovery_info", "rmw_dds_common/msg/ParticipantEntitiesInfo"
PARTICIPANT_DATA = b"enclave=/;"  # marks a participant of ROS 2
_NODE_INFO, _GID = "rmw_dds_common/msg/NodeEntitiesInfo", "rmw_dds_common/msg/Gid"
_LONG_GIDS = {"foxy", "galactic", "humble"}  # ROS_DISTRO with GIDs of 24 bytes; 16 since


class NodeInfo:
    """The node with its endpoints as messages of `ros_discovery_info`."""

    def __init__(self, participant: UUID, name: str = "roadbed", namespace: str = "/") -> None:
        old = os.environ.get("ROS_DISTRO", "") in _LONG_GIDS
        self._store = get_typestore(Stores.ROS2_HUMBLE if old else Stores.ROS2_JAZZY)
        self._gid_bytes = 24 if old else 16
        self._participant, self._name, self._namespace = participant, name, namespace
        self._readers: list[UUID] = []
        self._writers: list[UUID] = []

    def add_reader(self, guid: UUID) -> bytes:
        self._readers.append(guid)
        return self._message()

    def add_writer(self, guid: UUID) -> bytes:
        self._writers.append(guid)
        return self._message()

    def _message(self) -> bytes:
        types = self._store.types
        node = types[_NODE_INFO](
            node_namespace=self._namespace,
            node_name=self._name,
            reader_gid_seq=[self._gid(guid) for guid in self._readers],
            writer_gid_seq=[self._gid(guid) for guid in self._writers],
        )
        info = types[KIND](gid=self._gid(self._participant), node_entities_info_seq=[node])
        return bytes(self._store.serialize_cdr(info, KIND))

    def _gid(self, guid: UUID) -> Any:
        padded = guid.bytes.ljust(self._gid_bytes, b"\0")
        return self._store.types[_GID](data=np.frombuffer(padded, np.uint8))
