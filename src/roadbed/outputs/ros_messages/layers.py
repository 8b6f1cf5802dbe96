# SPDX-License-Identifier: Apache-2.0
"""Grid layers as grid_map_msgs/GridMap and nav_msgs/OccupancyGrid."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.frames import GroundFrame, OccupancyFrame
from roadbed.core.geometry import Grid, Pose
from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.sources.bags.type_names import GRID_MAP, OCCUPANCY_GRID

_SURELY_UNSEEN = 0.9  # unknown mass above which a cell is -1 in an OccupancyGrid


def elevation_layers(ground: GroundFrame) -> dict[str, NDArray[np.float32]]:
    """The surface's layers by the names they have in messages."""
    return {
        "elevation": ground.elevation,
        "variance": ground.variance,
        "slope_x": ground.slope[..., 0],
        "slope_y": ground.slope[..., 1],
        "traversability": ground.traversability().score,
    }


def grid_map(messages: RosMessages, header: Any, grid: Grid, layers: dict[str, NDArray[np.float32]]) -> Any:
    """Layers (rows, columns) as a GridMap, whose first cell lies at the largest x and y and whose x runs fastest."""
    x_min, x_max, y_min, y_max = grid.extent
    size = {"resolution": grid.spacing, "length_x": x_max - x_min, "length_y": y_max - y_min}
    centre = Pose(np.eye(3), np.array([(x_min + x_max) / 2, (y_min + y_max) / 2, 0.0]))
    inner = {"header": header} if messages.version == 1 else {}
    info = messages.make("grid_map_msgs/msg/GridMapInfo", pose=messages.pose(centre), **size, **inner)
    outer = {} if messages.version == 1 else {"header": header}
    return messages.make(
        GRID_MAP,
        info=info,
        layers=list(layers),
        basic_layers=["elevation"] if "elevation" in layers else [],
        data=[_matrix(messages, layer) for layer in layers.values()],
        **outer,
    )


def occupancy_grid(messages: RosMessages, header: Any, frame: OccupancyFrame, layer: str, height: float) -> Any:
    """`occupied`, `static` or `dynamic` in percent, -1 where it is unknown; drawn `height` metres up."""
    probability = getattr(frame, layer)
    percent = np.round(100 * np.clip(np.nan_to_num(probability), 0, 1)).astype(np.int8)
    percent[frame.unknown > _SURELY_UNSEEN] = -1
    grid = frame.grid
    x_min, _, y_min, _ = grid.extent
    corner = Pose(np.eye(3), np.array([x_min, y_min, 0.0]))
    origin = corner if frame.T_ground_grid is None else frame.T_ground_grid @ corner
    origin = Pose(origin.rotation, np.array([*origin.translation[:2], height]))
    info = messages.make(
        "nav_msgs/msg/MapMetaData",
        map_load_time=header.stamp,
        resolution=grid.spacing,
        width=grid.columns,
        height=grid.rows,
        origin=messages.pose(origin),
    )
    return messages.make(OCCUPANCY_GRID, header=header, info=info, data=percent.ravel())


def ground_heights(ground: GroundFrame, x: NDArray, y: NDArray) -> NDArray[np.float64]:
    """Elevation at points of the grid frame, m; the road under the vehicle where it is unknown."""
    under = float(ground.T_grid_sensor.translation[2]) - ground.mounting.height
    index = ground.grid.index(x, y)
    found = ground.elevation.ravel()[index].astype(np.float64)
    return np.where((index >= 0) & np.isfinite(found), found, under)


def _matrix(messages: RosMessages, layer: NDArray[np.float32]) -> Any:
    rows, columns = layer.shape

    def dimension(label: str, size: int, stride: int) -> Any:
        return messages.make("std_msgs/msg/MultiArrayDimension", label=label, size=size, stride=stride)

    dimensions = [dimension("column_index", rows, rows * columns), dimension("row_index", columns, columns)]
    layout = messages.make("std_msgs/msg/MultiArrayLayout", dim=dimensions)
    data = np.ascontiguousarray(layer[::-1, ::-1], np.float32).ravel()
    return messages.make("std_msgs/msg/Float32MultiArray", layout=layout, data=data)
