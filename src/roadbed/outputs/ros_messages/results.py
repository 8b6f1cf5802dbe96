# SPDX-License-Identifier: Apache-2.0
"""One result as messages by topic: the one list that ROS 1, ROS 2 and bags share."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partialmethod
from typing import Any

import numpy as np

from roadbed.core.frames import Label, OccupancyFrame, Scan
from roadbed.outputs.ros_messages.clouds import cloud_of_columns, cloud_of_scan, labelled_cloud, part_of_cloud
from roadbed.outputs.ros_messages.layers import elevation_layers, grid_map, ground_heights, occupancy_grid
from roadbed.outputs.ros_messages.markers import object_markers, velocity_markers
from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.pipeline import Result
from roadbed.sources.bags.type_names import CLOUD, GRID_MAP, MARKERS, OCCUPANCY_GRID, TRANSFORMS

# In the order they are published; those of the second table only with the occupancy filter.
GROUND_TOPICS = {
    "tf": TRANSFORMS,
    "labelled": CLOUD,
    "ground": CLOUD,
    "obstacles": CLOUD,
    "elevation": GRID_MAP,
    "surface": CLOUD,
}
OCCUPANCY_TOPICS = {
    "occupancy": OCCUPANCY_GRID,
    "static": OCCUPANCY_GRID,
    "velocities": MARKERS,
    "objects": MARKERS,
}
TOPICS = GROUND_TOPICS | OCCUPANCY_TOPICS


@dataclass(frozen=True)
class FrameNames:
    """Names of the frames. Results on the grid are in the frame `grid`, whose pose is published on `tf`."""

    world: str = "odom"
    vehicle: str = "base_link"
    grid: str = "roadbed_grid"


def sensor_frame(scan: Scan, names: FrameNames | None = None) -> str:
    """The frame of the points: a merged scan of several sensors lies in the vehicle's."""
    return (names or FrameNames()).vehicle if scan.mounts else scan.sensor


class ResultMessages:
    """The messages of one result, each made on demand.

    `cloud` is the message that the scan came in, if it did: its fields, bytes and stamp are kept as they are.
    """

    def __init__(
        self, messages: RosMessages, result: Result, names: FrameNames | None = None, cloud: Any = None
    ) -> None:
        self._messages, self._result, self._names = messages, result, names or FrameNames()
        self._stamp = messages.stamp(result.scan.time) if cloud is None else cloud.header.stamp
        self._grid_header = messages.header(self._stamp, self._names.grid)
        self._cloud = cloud

    def topics(self) -> Iterable[str]:
        """The names in `TOPICS` that this result has messages for."""
        return TOPICS if self._result.occupancy is not None else GROUND_TOPICS

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Every topic's name with its message."""
        return ((topic, self.make(topic)) for topic in self.topics())

    def make(self, topic: str) -> Any:
        """The message of one of `TOPICS`."""
        return getattr(self, f"_{topic}")()

    def _tf(self) -> Any:
        """Pose of the grid: in the world of the odometry, else relative to the vehicle, else to the sensor."""
        ground, scan = self._result.ground, self._result.scan
        if ground.T_world_grid is not None:
            parent, T_parent_grid = self._names.world, ground.T_world_grid
        elif scan.T_vehicle_sensor is not None:
            parent, T_parent_grid = self._names.vehicle, scan.T_vehicle_sensor @ ground.T_grid_sensor.inverse()
        else:
            parent, T_parent_grid = sensor_frame(scan, self._names), ground.T_grid_sensor.inverse()
        header = self._messages.header(self._stamp, parent)
        return self._messages.transform(header, self._names.grid, T_parent_grid)

    @cached_property
    def _labelled_message(self) -> Any:
        cloud = self._cloud
        if cloud is None:
            header = self._messages.header(self._stamp, sensor_frame(self._result.scan, self._names))
            cloud = cloud_of_scan(self._messages, header, self._result.scan)
        return labelled_cloud(self._messages, cloud, self._result.ground)

    def _labelled(self) -> Any:
        return self._labelled_message

    def _ground(self) -> Any:
        return part_of_cloud(self._messages, self._labelled_message, self._result.ground.is_ground)

    def _obstacles(self) -> Any:
        return part_of_cloud(self._messages, self._labelled_message, self._result.ground.label == Label.OBSTACLE)

    def _elevation(self) -> Any:
        ground = self._result.ground
        return grid_map(self._messages, self._grid_header, ground.grid, elevation_layers(ground))

    def _surface(self) -> Any:
        """The known nodes of the surface as points."""
        ground = self._result.ground
        known = np.isfinite(ground.elevation)
        x, y = ground.grid.mesh()
        layers = elevation_layers(ground)
        columns = {"x": x.astype(np.float32), "y": y.astype(np.float32), "z": layers.pop("elevation"), **layers}
        return cloud_of_columns(
            self._messages, self._grid_header, {name: values[known] for name, values in columns.items()}
        )

    def _grid(self, layer: str) -> Any:
        ground = self._result.ground
        x, y = ground.T_grid_sensor.translation[:2]
        road = float(ground_heights(ground, np.array([x]), np.array([y]))[0])
        return occupancy_grid(self._messages, self._grid_header, self._seen, layer, road)

    _occupancy = partialmethod(_grid, "occupied")
    _static = partialmethod(_grid, "static")

    def _velocities(self) -> Any:
        return velocity_markers(self._messages, self._grid_header, self._result.ground, self._seen)

    def _objects(self) -> Any:
        return object_markers(self._messages, self._grid_header, self._result.ground, self._seen)

    @property
    def _seen(self) -> OccupancyFrame:
        assert self._result.occupancy is not None, "occupancy topics need a result with occupancy"
        return self._result.occupancy
