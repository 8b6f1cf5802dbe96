# SPDX-License-Identifier: Apache-2.0
"""A ROS 2 process that lists nodes and topics as rmw_cyclonedds does: `dds_graph_reader.py ENDPOINTS`.

It knows nothing of Roadbed: Cyclone DDS' own classes read `ros_discovery_info` and the built-in topics.
"""

import json
import os
import sys
import time
from dataclasses import dataclass

from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsParticipant,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
)
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import array, sequence, uint8
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

LENGTH = 24 if os.environ.get("ROS_DISTRO") == "humble" else 16


@dataclass
class Gid(IdlStruct, typename="rmw_dds_common::msg::dds_::Gid_"):
    data: array[uint8, LENGTH]


@dataclass
class NodeEntitiesInfo(IdlStruct, typename="rmw_dds_common::msg::dds_::NodeEntitiesInfo_"):
    node_namespace: str
    node_name: str
    reader_gid_seq: sequence[Gid]
    writer_gid_seq: sequence[Gid]


@dataclass
class ParticipantEntitiesInfo(IdlStruct, typename="rmw_dds_common::msg::dds_::ParticipantEntitiesInfo_"):
    gid: Gid
    node_entities_info_seq: sequence[NodeEntitiesInfo]


def user_data(qos):
    """Pairs of key=value; as rmw_dds_common encodes them."""
    found = qos[Policy.Userdata]
    text = found.data.decode() if found else ""
    return dict(pair.split("=", 1) for pair in text.split(";") if pair)


participant = DomainParticipant(int(os.environ["ROS_DOMAIN_ID"]))
latched = Qos(Policy.Reliability.Reliable(50_000_000), Policy.Durability.TransientLocal, Policy.History.KeepAll)
infos = DataReader(participant, Topic(participant, "ros_discovery_info", ParticipantEntitiesInfo), latched)
builtin = {
    "reader": BuiltinDataReader(participant, BuiltinTopicDcpsSubscription),
    "writer": BuiltinDataReader(participant, BuiltinTopicDcpsPublication),
}
participants = BuiltinDataReader(participant, BuiltinTopicDcpsParticipant)
nodes, endpoints, ros = {}, {}, set()
deadline = time.monotonic() + 120
complete = False
while not complete and time.monotonic() < deadline:
    time.sleep(0.1)
    ros |= {one.key.bytes for one in participants.take(10) if one.key and user_data(one.qos).get("enclave") == "/"}
    for kind, reader in builtin.items():
        for one in reader.take(100):
            if one.topic_name and one.topic_name.startswith("rt/"):
                hash_ = user_data(one.qos).get("typehash", "")
                endpoints[one.key.bytes] = (kind, one.topic_name, one.type_name, hash_)
    for info in infos.take(100):
        if bytes(info.gid.data)[:16] in ros:
            nodes[bytes(info.gid.data)] = info.node_entities_info_seq
    listed = [
        (f"{node.node_namespace}{node.node_name}", *endpoints[bytes(gid.data)[:16]])
        for found in nodes.values()
        for node in found
        for gid in (*node.reader_gid_seq, *node.writer_gid_seq)
        if bytes(gid.data)[:16] in endpoints
    ]
    complete = len(listed) >= int(sys.argv[1])
print(json.dumps(listed))
