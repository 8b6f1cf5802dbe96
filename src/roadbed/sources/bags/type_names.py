# SPDX-License-Identifier: Apache-2.0
"""Names of the message types that are read and written, and of topics and frames with a meaning for Roadbed."""

CLOUD = "sensor_msgs/msg/PointCloud2"
ODOMETRY = "nav_msgs/msg/Odometry"
TRANSFORMS = "tf2_msgs/msg/TFMessage"
GRID_MAP = "grid_map_msgs/msg/GridMap"
OCCUPANCY_GRID = "nav_msgs/msg/OccupancyGrid"
MARKERS = "visualization_msgs/msg/MarkerArray"
DIAGNOSTICS = "diagnostic_msgs/msg/DiagnosticArray"
LIVOX_TYPES = ("livox_ros_driver/msg/CustomMsg", "livox_ros_driver2/msg/CustomMsg")
VELODYNE_TYPE = "velodyne_msgs/msg/VelodyneScan"  # the packets of a revolution
HESAI_TYPE = "hesai_lidar/msg/PandarScan"
OUSTER_TYPES = ("ouster_ros/msg/PacketMsg", "ouster_sensor_msgs/msg/PacketMsg")  # one packet
CLOUD_TYPES, PACKET_TYPES = (CLOUD, *LIVOX_TYPES), (VELODYNE_TYPE, HESAI_TYPE, *OUSTER_TYPES)
SCAN_TYPES = CLOUD_TYPES + PACKET_TYPES
RESULTS = "/roadbed"  # prefix of the topics that Roadbed writes
RIG_TOPIC = "/rig/tf_static"  # one transform per sensor of merged scans, in the order of their field sensor_index
# The projection of the vehicle on the road (REP 120): a transform from it gives the height of a sensor. The heights of
# base_link and other frames over the road are unknown.
ROAD_FRAME = "base_footprint"
POSE_TYPES = (ODOMETRY, "geometry_msgs/msg/PoseStamped", "geometry_msgs/msg/PoseWithCovarianceStamped")
