# SPDX-License-Identifier: Apache-2.0
"""Moving cells and objects as visualization_msgs/MarkerArray: a line per cell; box, arrow and text per object."""

from typing import Any

import numpy as np

from roadbed.core.frames import GroundFrame, OccupancyFrame
from roadbed.core.geometry import Pose
from roadbed.outputs.ros_messages.layers import ground_heights
from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.sources.bags.type_names import MARKERS

_SECONDS_SHOWN = 0.5  # an arrow ends where the item will be then
_OBJECT_HEIGHT_M = 1.6  # objects are known in the plane; boxes are drawn this high
_MOST_CELLS = 2000
_ARROW, _CUBE, _LINE_LIST, _TEXT = 0, 1, 5, 9
_DELETE_ALL = 3
_RED, _ORANGE, _WHITE = (0.9, 0.1, 0.1, 1.0), (1.0, 0.55, 0.0, 0.45), (1.0, 1.0, 1.0, 1.0)


def _velocity_lines(ground: GroundFrame, frame: OccupancyFrame) -> np.ndarray:
    """From each moving cell to where it will be in half a second: (N, 2, 3) m in the grid frame."""
    row, column = np.nonzero(frame.moving & np.isfinite(frame.velocity).all(axis=2))
    every = max(1, -(-len(row) // _MOST_CELLS))
    row, column = row[::every], column[::every]
    start = np.stack([frame.grid.x[column], frame.grid.y[row], np.zeros(len(row))], axis=1)
    end = start.copy()
    end[:, :2] += _SECONDS_SHOWN * frame.velocity[row, column]
    lines = np.stack([start, end], axis=1)
    lines = lines if frame.T_ground_grid is None else frame.T_ground_grid @ lines
    lines[..., 2] = ground_heights(ground, lines[:, 0, 0], lines[:, 0, 1])[:, None] + 0.3
    return lines


def velocity_markers(messages: RosMessages, header: Any, ground: GroundFrame, frame: OccupancyFrame) -> Any:
    """One list of lines; it replaces the one before."""
    points = [messages.point(point) for point in _velocity_lines(ground, frame).reshape(-1, 3)]
    if not points:
        return messages.make(MARKERS, markers=[_clear(messages, header)])
    lines = _marker(messages, header, "velocities", 0, _LINE_LIST, Pose.identity(), (0.05, 0.0, 0.0), _RED)
    lines.points = points
    return messages.make(MARKERS, markers=[lines])


def object_markers(messages: RosMessages, header: Any, ground: GroundFrame, frame: OccupancyFrame) -> Any:
    """Box, arrow and speed of every tracked object, after a marker that removes the last ones."""
    markers = [_clear(messages, header)]
    T_ground_grid = frame.T_ground_grid or Pose.identity()
    for item in frame.objects:
        pose = T_ground_grid @ Pose.from_euler(*item.position.tolist(), yaw=item.heading)
        x, y = pose.translation[:2]
        z = float(ground_heights(ground, np.array([x]), np.array([y]))[0]) + _OBJECT_HEIGHT_M / 2
        pose = Pose(pose.rotation, np.array([x, y, z]))  # the middle of the box, x along its heading
        length, width = (max(float(size), 0.1) for size in item.extent)
        speed = float(np.hypot(*item.velocity))
        course = float(np.arctan2(item.velocity[1], item.velocity[0])) + T_ground_grid.yaw
        motion = Pose(Pose.from_euler(yaw=course).rotation, pose.translation)
        size = (length, width, _OBJECT_HEIGHT_M)
        markers.append(_marker(messages, header, "boxes", item.id, _CUBE, pose, size, _ORANGE))
        arrow = (max(speed * _SECONDS_SHOWN, 0.1), 0.2, 0.2)
        markers.append(_marker(messages, header, "motion", item.id, _ARROW, motion, arrow, _RED))
        above = Pose(np.eye(3), pose.translation + np.array([0, 0, _OBJECT_HEIGHT_M]))
        text = _marker(messages, header, "speeds", item.id, _TEXT, above, (0.0, 0.0, 0.8), _WHITE)
        text.text = f"{item.id}: {speed:.1f} m/s"
        markers.append(text)
    return messages.make(MARKERS, markers=markers)


def _clear(messages: RosMessages, header: Any) -> Any:
    return messages.make("visualization_msgs/msg/Marker", header=header, action=_DELETE_ALL)


def _marker(
    messages: RosMessages,
    header: Any,
    namespace: str,
    number: int,
    kind: int,
    pose: Pose,
    size: tuple[float, float, float],
    colour: tuple[float, float, float, float],
) -> Any:
    red, green, blue, alpha = colour
    return messages.make(
        "visualization_msgs/msg/Marker",
        header=header,
        ns=namespace,
        id=number,
        type=kind,
        pose=messages.pose(pose),
        scale=messages.vector(size),
        color=messages.make("std_msgs/msg/ColorRGBA", r=red, g=green, b=blue, a=alpha),
    )
