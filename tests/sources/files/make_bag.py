# SPDX-License-Identifier: Apache-2.0
"""Write the points of an ascii PCD file as a bag by the tools of ROS 1 (python3-rosbag) or of MCAP (mcap-ros2-support).

`python3 tests/sources/files/make_bag.py pcl_ascii.pcd OUT.bag`, or OUT.mcap with a Python that has mcap-ros2-support.
"""

import struct
import sys

FIELDS = (("x", 0, 7), ("y", 4, 7), ("z", 8, 7), ("intensity", 12, 7), ("ring", 16, 4))
STEP = 18
FRAMES = 3
SPEED = 5.0  # m/s
MOUNT = (0.4, 0.0, 1.8)


def records(table: str) -> bytes:
    with open(table) as file:
        rows = [
            [float(word) for word in line.split()] for line in file.read().partition("DATA ascii\n")[2].splitlines()
        ]
    return b"".join(struct.pack("<4fH", *row[:4], int(row[4])) for row in rows)


def write_ros1(table: str, out: str) -> None:
    import rosbag
    import rospy
    from geometry_msgs.msg import TransformStamped
    from nav_msgs.msg import Odometry
    from sensor_msgs.msg import PointCloud2, PointField
    from tf2_msgs.msg import TFMessage

    data = records(table)
    with rosbag.Bag(out, "w", compression="bz2") as bag:
        mount = TransformStamped()
        mount.header.frame_id, mount.child_frame_id = "base_footprint", "lidar"
        mount.transform.translation.x, mount.transform.translation.y, mount.transform.translation.z = MOUNT
        mount.transform.rotation.w = 1
        bag.write("/tf_static", TFMessage([mount]), rospy.Time(100))
        for frame in range(FRAMES):
            stamp = rospy.Time(100, frame * 10**8)
            odometry = Odometry(child_frame_id="base_footprint")
            odometry.header.stamp, odometry.header.frame_id = stamp, "odom"
            odometry.pose.pose.position.x = SPEED * 0.1 * frame
            odometry.pose.pose.orientation.w = 1
            bag.write("/odom", odometry, stamp)
            cloud = PointCloud2(height=1, width=len(data) // STEP, point_step=STEP, row_step=len(data), data=data)
            cloud.header.stamp, cloud.header.frame_id = stamp, "lidar"
            cloud.fields = [PointField(name, offset, kind, 1) for name, offset, kind in FIELDS]
            bag.write("/points", cloud, stamp)


HEADER = """================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""
CLOUD = f"""std_msgs/Header header
uint32 height
uint32 width
sensor_msgs/PointField[] fields
bool is_bigendian
uint32 point_step
uint32 row_step
uint8[] data
bool is_dense
{HEADER}================================================================================
MSG: sensor_msgs/PointField
string name
uint32 offset
uint8 datatype
uint32 count
"""
POSE = f"""std_msgs/Header header
geometry_msgs/Pose pose
{HEADER}================================================================================
MSG: geometry_msgs/Pose
geometry_msgs/Point position
geometry_msgs/Quaternion orientation
================================================================================
MSG: geometry_msgs/Point
float64 x
float64 y
float64 z
================================================================================
MSG: geometry_msgs/Quaternion
float64 x
float64 y
float64 z
float64 w
"""


def write_mcap(table: str, out: str) -> None:
    from mcap_ros2.writer import Writer

    data = records(table)
    with open(out, "wb") as file:
        writer = Writer(file)
        cloud = writer.register_msgdef("sensor_msgs/msg/PointCloud2", CLOUD)
        pose = writer.register_msgdef("geometry_msgs/msg/PoseStamped", POSE)
        for frame in range(FRAMES):
            time = 100 * 10**9 + frame * 10**8
            stamp = {"sec": 100, "nanosec": frame * 10**8}
            fields = [{"name": name, "offset": at, "datatype": kind, "count": 1} for name, at, kind in FIELDS]
            message = {
                "header": {"stamp": stamp, "frame_id": "lidar"},
                "height": 1,
                "width": len(data) // STEP,
                "fields": fields,
                "is_bigendian": False,
                "point_step": STEP,
                "row_step": len(data),
                "data": data,
                "is_dense": True,
            }
            writer.write_message("/points", cloud, message, time, time)
            place = {"x": SPEED * 0.1 * frame, "y": 0.0, "z": 0.0}
            still = {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0}
            message = {"header": {"stamp": stamp, "frame_id": "map"}, "pose": {"position": place, "orientation": still}}
            writer.write_message("/pose", pose, message, time, time)
        writer.finish()


if __name__ == "__main__":
    (write_ros1 if sys.argv[2].endswith(".bag") else write_mcap)(*sys.argv[1:])
