# SPDX-License-Identifier: Apache-2.0
"""Message definitions that Roadbed reads and writes: the standard ones, tf2_msgs for ROS 1, grid_map_msgs, packets."""

from functools import cache
from typing import Any

from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from roadbed.sources.bags.type_names import GRID_MAP, HESAI_TYPE, OUSTER_TYPES, TRANSFORMS, VELODYNE_TYPE

_STAMP = "builtin_interfaces/Time stamp\n"
_PACKETS = {  # by the type of a revolution: the type of a packet and its definition
    VELODYNE_TYPE: ("velodyne_msgs/msg/VelodynePacket", f"{_STAMP}uint8[1206] data\n"),
    HESAI_TYPE: ("hesai_lidar/msg/PandarPacket", f"{_STAMP}uint8[] data\nuint32 size\n"),
}
_GRID_MAP_INFO = "grid_map_msgs/msg/GridMapInfo"
_SIZE = "float64 resolution\nfloat64 length_x\nfloat64 length_y\ngeometry_msgs/Pose pose\n"
_LAYERS = (
    "string[] layers\nstring[] basic_layers\nstd_msgs/Float32MultiArray[] data\n"
    "uint16 outer_start_index\nuint16 inner_start_index\n"
)


@cache
def message_types(is_ros1: bool) -> Any:
    """The type store of ROS 1 (Noetic) or ROS 2 (Humble)."""
    store = get_typestore(Stores.ROS1_NOETIC if is_ros1 else Stores.ROS2_HUMBLE)
    if is_ros1:
        store.register(get_types_from_msg("geometry_msgs/TransformStamped[] transforms", TRANSFORMS))
    # The header moved from the inner to the outer message between the two.
    header = "std_msgs/Header header\n"
    store.register(get_types_from_msg(header * is_ros1 + _SIZE, _GRID_MAP_INFO))
    store.register(get_types_from_msg(header * (not is_ros1) + "grid_map_msgs/GridMapInfo info\n" + _LAYERS, GRID_MAP))
    for name, (packet, definition) in _PACKETS.items():
        store.register(get_types_from_msg(definition, packet))
        store.register(get_types_from_msg(f"{header}{packet}[] packets\n", name))
    for name in OUSTER_TYPES:
        store.register(get_types_from_msg("uint8[] buf\n", name))
    return store
