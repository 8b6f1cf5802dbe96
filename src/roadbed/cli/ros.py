# SPDX-License-Identifier: Apache-2.0
"""`roadbed ros1` and `roadbed ros2`: the pipeline as a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from roadbed.cli.options import Occupancy, Processing, expand_options, prepare
from roadbed.cli.screen import Json, print_json, until_stopped
from roadbed.core.errors import InputError

if TYPE_CHECKING:
    from roadbed.live.ros_node import Transport


@dataclass(frozen=True)
class NodeRequest(Processing):
    """Options of both nodes."""

    clouds: Annotated[list[str], typer.Argument(help="Topics of sensor_msgs/PointCloud2, one per sensor.")]
    odometry: Annotated[
        str | None, typer.Option(help="Topic of nav_msgs/Odometry; without it or empty: TF from --world to --vehicle.")
    ] = None
    world: Annotated[str, typer.Option(help="Fixed frame of the odometry.")] = "odom"
    vehicle: Annotated[str, typer.Option(help="Frame of the vehicle.")] = "base_link"
    on_road: Annotated[
        bool, typer.Option("--on-road", help="The vehicle frame lies on the road, so that TF gives sensor heights.")
    ] = False
    prefix: Annotated[str, typer.Option(help="Prefix of the published topics.")] = "/roadbed"
    occupancy: Occupancy = True


@expand_options
def ros1(request: NodeRequest, as_json: Json = False) -> None:
    """Run as a ROS 1 node.

    Subscribes to clouds and odometry; publishes labelled clouds, elevation, occupancy, objects.
    """
    from roadbed.live.ros1 import Ros1

    _run(Ros1(), request, as_json)


@expand_options
def ros2(
    request: NodeRequest,
    reliable: Annotated[bool, typer.Option("--reliable", help="Reliable QoS, if the publishers offer it.")] = False,
    as_json: Json = False,
) -> None:
    """Run as a ROS 2 node: with rclpy, else as a DDS participant."""
    from roadbed.live.ros2 import open_ros2

    _run(open_ros2(reliable), request, as_json)


def _run(transport: Transport, request: NodeRequest, as_json: bool) -> None:
    """Run the node until it is stopped."""
    from roadbed.live.ros_node import NodeOptions, RosNode, checked_topics
    from roadbed.outputs.ros_messages.results import FrameNames
    from roadbed.sources.read_options import ReadOptions

    config, mounting = request.settings(), ReadOptions(mounting=request.mounting).T_vehicle_sensor()
    if mounting is not None and (len(request.clouds) > 1 or request.height is not None):
        raise InputError("--mounting: found --height or several topics, expected one topic alone; TF mounts several")
    options = NodeOptions(
        clouds=checked_topics(request.clouds),
        odometry=request.odometry,
        frames=FrameNames(world=request.world, vehicle=request.vehicle),
        on_road=request.on_road,
        T_vehicle_sensor=mounting,
        prefix="/" + request.prefix.strip("/"),
        occupancy=request.occupancy,
    )
    prepare("", config, occupancy=request.occupancy)
    with until_stopped() as stopped:
        node = RosNode(transport, options, config)
        try:
            if not as_json:
                clouds = ", ".join(options.clouds)
                print(f"listening to {clouds} at {transport.address}; results under {options.prefix}/")
                print("Ctrl+C stops it", flush=True)
            stopped.wait()
        finally:
            node.close()
    statistics = node.stream.statistics()
    if as_json:
        total = statistics.total
        print_json({"received": total.received, "processed": total.processed, "dropped": total.dropped})
    else:
        print(statistics.line())
