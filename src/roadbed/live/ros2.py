# SPDX-License-Identifier: Apache-2.0
"""ROS 2: with rclpy where it is installed, else as a DDS participant; messages stay serialised."""

import os
import threading
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from roadbed.core.errors import DeviceError
from roadbed.live.ros_node import Transport


def open_ros2(reliable: bool = False) -> Transport:
    """Connect to ROS 2 with rclpy, else with DDS."""
    if find_spec("rclpy") is not None:
        return Rclpy(reliable)
    from roadbed.live.dds import Dds

    return Dds(reliable)


class Rclpy:
    """An rclpy node. Messages stay serialised, but rclpy needs their packages installed."""

    version: Literal[1, 2] = 2

    def __init__(self, reliable: bool = False) -> None:
        import rclpy
        from rclpy.executors import SingleThreadedExecutor

        self._rclpy, self._reliable = rclpy, reliable
        rclpy.init(args=[])
        self._node = rclpy.create_node("roadbed")
        self.address = (
            f"ROS domain {os.environ.get('ROS_DOMAIN_ID', '0')} by {rclpy.get_rmw_implementation_identifier()}"
        )
        self._publishers: dict[str, Any] = {}
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._executor.spin, name="roadbed-rclpy", daemon=True)
        self._thread.start()

    def subscribe(self, topic: str, kind: str, callback: Callable[[bytes], None]) -> None:
        self._node.create_subscription(_class_of(kind), topic, callback, self._quality(topic), raw=True)

    def advertise(self, topic: str, kind: str) -> None:
        try:
            self._publishers[topic] = self._node.create_publisher(_class_of(kind), topic, 5)
        except DeviceError as error:  # grid_map_msgs may be missing; the other topics are published
            self.warn(f"{topic}: not published: {error}")

    def has_listeners(self, topic: str) -> bool:
        return topic in self._publishers and self._publishers[topic].get_subscription_count() > 0

    def publish(self, topic: str, data: bytes) -> None:
        if topic in self._publishers:
            self._publishers[topic].publish(data)

    def warn(self, problem: str) -> None:
        self._node.get_logger().warning(problem)

    def close(self) -> None:
        self._executor.shutdown()
        self._thread.join()
        self._node.destroy_node()
        self._rclpy.try_shutdown()

    def _quality(self, topic: str) -> Any:
        from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

        latched = topic.endswith("tf_static")
        sure = latched or self._reliable
        return QoSProfile(
            depth=100,
            reliability=ReliabilityPolicy.RELIABLE if sure else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
        )


def _class_of(kind: str) -> Any:
    package, _, name = kind.split("/")
    try:
        return getattr(import_module(f"{package}.msg"), name)
    except (ImportError, AttributeError):
        raise DeviceError(f"message {kind}: the ROS 2 package {package} is not installed") from None
