# SPDX-License-Identifier: Apache-2.0
"""Records what arrives: bytes of clouds, and a grid read by Cyclone DDS' own classes: `dds_checker.py out.pickle N`."""

import os
import pickle
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import float32, float64, int8, int32, sequence, uint32
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from roadbed.live.dds import Dds
from roadbed.sources.bags.type_names import CLOUD


@dataclass
class Time(IdlStruct, typename="builtin_interfaces::msg::dds_::Time_"):
    sec: int32
    nanosec: uint32


@dataclass
class Header(IdlStruct, typename="std_msgs::msg::dds_::Header_"):
    stamp: Time
    frame_id: str


@dataclass
class Point(IdlStruct, typename="geometry_msgs::msg::dds_::Point_"):
    x: float64
    y: float64
    z: float64


@dataclass
class Quaternion(IdlStruct, typename="geometry_msgs::msg::dds_::Quaternion_"):
    x: float64
    y: float64
    z: float64
    w: float64


@dataclass
class Pose(IdlStruct, typename="geometry_msgs::msg::dds_::Pose_"):
    position: Point
    orientation: Quaternion


@dataclass
class MapMetaData(IdlStruct, typename="nav_msgs::msg::dds_::MapMetaData_"):
    map_load_time: Time
    resolution: float32
    width: uint32
    height: uint32
    origin: Pose


@dataclass
class OccupancyGrid(IdlStruct, typename="nav_msgs::msg::dds_::OccupancyGrid_"):
    header: Header
    info: MapMetaData
    data: sequence[int8]


clouds, grids, count = [], [], int(sys.argv[2])
graph = Dds(reliable=True)
graph.subscribe("/roadbed/labelled", CLOUD, clouds.append)
participant = DomainParticipant(int(os.environ["ROS_DOMAIN_ID"]))
quality = Qos(Policy.Reliability.Reliable(50_000_000), Policy.History.KeepLast(100))
reader = DataReader(participant, Topic(participant, "rt/roadbed/occupancy", OccupancyGrid), quality)
print("listening", flush=True)
deadline = time.monotonic() + 280
while (len(clouds) < count or len(grids) < count) and time.monotonic() < deadline:
    grids += [(grid.header.frame_id, grid.info.width, bytes(v & 255 for v in grid.data)) for grid in reader.take(10)]
    time.sleep(0.05)
Path(sys.argv[1]).write_bytes(pickle.dumps((clouds, grids)))
