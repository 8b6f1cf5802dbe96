# SPDX-License-Identifier: Apache-2.0
"""ros2 launch roadbed_ros roadbed.launch.py clouds:='/front /rear' odometry:=/odom options:='--on-road'"""

import shlex

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction
from launch.substitutions import LaunchConfiguration

ARGUMENTS = {
    "roadbed": ("roadbed", "the program, e.g. of an environment of its own"),
    "clouds": ("/velodyne_points", "topics of sensor_msgs/PointCloud2, apart by spaces"),
    "odometry": ("/odom", "topic of nav_msgs/Odometry; '' (two quotes): poses from TF, world to vehicle"),
    "world": ("odom", "frame in which the odometry lies"),
    "vehicle": ("base_link", "frame of the vehicle"),
    "options": ("", "more options of `roadbed ros2`, e.g. --on-road --reliable --config car.yaml"),
}


def command(given):
    """The node's command line from the launch arguments."""
    named = " ".join(f"--{name}={given[name]}" for name in ("odometry", "world", "vehicle"))
    return [given["roadbed"], "ros2", *shlex.split(f"{given['clouds']} {named} {given['options']}")]


def start(context):
    given = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    return [ExecuteProcess(cmd=command(given), name="roadbed", output="screen", sigterm_timeout="20")]


def generate_launch_description():
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=text)
        for name, (default, text) in ARGUMENTS.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])
