# SPDX-License-Identifier: Apache-2.0
"""Names of the message types that are read, and of topics and frames with a meaning for Roadbed."""

CLOUD_TYPE = "sensor_msgs/msg/PointCloud2"
LIVOX_TYPES = ("livox_ros_driver/msg/CustomMsg", "livox_ros_driver2/msg/CustomMsg")
VELODYNE_TYPE = "velodyne_msgs/msg/VelodyneScan"  # the packets of a revolution
HESAI_TYPE = "hesai_lidar/msg/PandarScan"
OUSTER_TYPES = ("ouster_ros/msg/PacketMsg", "ouster_sensor_msgs/msg/PacketMsg")  # one packet
CLOUD_TYPES, PACKET_TYPES = (CLOUD_TYPE, *LIVOX_TYPES), (VELODYNE_TYPE, HESAI_TYPE, *OUSTER_TYPES)
SCAN_TYPES = CLOUD_TYPES + PACKET_TYPES
STATIC_TRANSFORMS_TYPE = "tf2_msgs/msg/TFMessage"
RESULTS = "/roadbed"  # prefix of the topics that Roadbed writes
RIG_TOPIC = "/rig/tf_static"  # one transform per sensor of merged scans, in the order of their field sensor_index
# The projection of the vehicle on the road (REP 120): a transform from it gives the height of a sensor. The heights of
# base_link and other frames over the road are unknown.
ROAD_FRAME = "base_footprint"
POSE_TYPES = (
    "nav_msgs/msg/Odometry",
    "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/PoseWithCovarianceStamped",
)
