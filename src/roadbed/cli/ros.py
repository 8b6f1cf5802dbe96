# SPDX-License-Identifier: Apache-2.0
"""`roadbed ros1` and `roadbed ros2`: the pipeline as a node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadbed.cli.options import Backend, Device
from roadbed.cli.screen import Json, print_json
from roadbed.cli.spread import spread
from roadbed.cli.stopping import until_stopped
from roadbed.cli.warm_up import prepare

if TYPE_CHECKING:
    from roadbed.live.ros_node import Transport


@dataclass(frozen=True)
class NodeRequest:
    """What both nodes can be told."""

    clouds: Annotated[list[str], typer.Argument(help="Topics of sensor_msgs/PointCloud2, one per sensor.")]
    odometry: Annotated[
        str | None, typer.Option(help="Topic of nav_msgs/Odometry; without it TF from --world to --vehicle is used.")
    ] = None
    world: Annotated[str, typer.Option(help="Frame in which the odometry lies.")] = "odom"
    vehicle: Annotated[str, typer.Option(help="Frame of the vehicle.")] = "base_link"
    on_road: Annotated[
        bool,
        typer.Option("--on-road", help="The vehicle frame lies on the road: TF gives the mountings."),
    ] = False
    prefix: Annotated[str, typer.Option(help="Results are published under this name.")] = "/roadbed"
    occupancy: Annotated[bool, typer.Option(help="Run the occupancy filter too.")] = True
    config: Annotated[Path | None, typer.Option("--config", "-c", help="YAML configuration.")] = None
    backend: Backend = None
    device: Device = None


@spread
def ros1(request: NodeRequest, as_json: Json = False) -> None:
    """A ROS 1 node: clouds and odometry in, labelled clouds, elevation, occupancy and objects out."""
    from roadbed.live.ros1 import Ros1

    _run(Ros1(), request, as_json)


@spread
def ros2(
    request: NodeRequest,
    reliable: Annotated[
        bool, typer.Option("--reliable", help="Ask publishers to send lost packets again; they have to offer it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """A ROS 2 node, by rclpy where it is there, else as a DDS participant of its own."""
    from roadbed.live.ros2 import open_ros2

    _run(open_ros2(reliable), request, as_json)


def _run(transport: Transport, request: NodeRequest, as_json: bool) -> None:
    """Until it is stopped; says where it listens once it does."""
    from roadbed.config import Config
    from roadbed.live.ros_node import NodeOptions, RosNode, checked_topics
    from roadbed.messages.results import FrameNames

    config = Config.load(request.config) if request.config else Config()
    wanted = {"backend": request.backend, "device": request.device}
    config = config.with_changes(**{name: value for name, value in wanted.items() if value is not None})
    options = NodeOptions(
        clouds=checked_topics(request.clouds),
        odometry=request.odometry,
        frames=FrameNames(world=request.world, vehicle=request.vehicle),
        on_road=request.on_road,
        prefix="/" + request.prefix.strip("/"),
        occupancy=request.occupancy,
    )
    prepare("", config, occupancy=request.occupancy)
    with until_stopped() as stopped:
        node = RosNode(transport, options, config)
        try:
            _say(as_json, {"clouds": options.clouds, "results": options.prefix, "listens": transport.address})
            stopped.wait()
        finally:
            node.close()
    statistics = node.stream.statistics()
    if as_json:
        total = statistics.total
        print_json({"received": total.received, "processed": total.processed, "dropped": total.dropped})
    else:
        print(statistics.line())


def _say(as_json: bool, facts: dict[str, Any]) -> None:
    if not as_json:
        print(f"listening to {', '.join(facts['clouds'])} at {facts['listens']}; results under {facts['results']}/")
        print("Ctrl+C stops it", flush=True)
