# SPDX-License-Identifier: Apache-2.0
"""Whether given poses are inverted (world to sensor): seen from two places, what stands must lie at one."""

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Pose

_CELL_M, _REACH_M = 0.3, 40.0
_LAYER_M, _LAYERS = 0.3, 12  # above and below the sensor; what stands has points in three of them
_NEAREST_M, _FARTHEST_M = 1.0, 8.0  # between two places that are compared
_MOST_POINTS = 40_000
_PAIRS, _MOST_PAIRS = 3, 10  # compared before an answer, and at most
_MATCHES = 200  # points at least, for an answer
_TIMES_MORE = 1.5
_SIDE = int(2 * _REACH_M / _CELL_M)
_NOTE = "poses look inverted (world to sensor): what stands moves twice as fast; expected T_world_sensor"


class PoseCheck:
    """Compares the first scans of a sequence that are metres apart."""

    def __init__(self) -> None:
        self._last: tuple[Pose, NDArray[np.bool_]] | None = None
        self._pairs = 0
        self._matches = np.zeros(2)  # with the poses, and with their inverses

    def add(self, points: NDArray[np.float32], pose: Pose | None) -> str:
        """The next scan; a note once poses turn out to be inverted."""
        note = ""
        if self._pairs >= _MOST_PAIRS or pose is None:
            return note
        moved = None if self._last is None else pose.distance_to(self._last[0])
        if moved is not None and moved < _NEAREST_M:
            return note
        standing, cells = _standing(points)
        if self._last is not None and moved is not None and moved < _FARTHEST_M:
            last, seen = self._last
            for k, T_last_now in enumerate((last.inverse() @ pose, last @ pose.inverse())):
                self._matches[k] += seen[_cell_of(T_last_now @ standing)].sum()
            self._pairs += 1
            note = self._decided()
        self._last = pose, cells
        return note

    def _decided(self) -> str:
        given, inverted = self._matches
        if self._pairs < _PAIRS or max(given, inverted) < _MATCHES:
            return ""
        are_inverted = inverted > _TIMES_MORE * given
        if are_inverted or given > inverted:
            self._pairs = _MOST_PAIRS
        return _NOTE if are_inverted else ""


@np.errstate(over="ignore", invalid="ignore")  # huge coordinates are out of reach
def _standing(points: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Points of what stands, and the cells in which they are."""
    points = points[:: len(points) // _MOST_POINTS + 1]
    layer = points[:, 2] * np.float32(1 / _LAYER_M) + np.float32(_LAYERS / 2)
    near = (np.abs(points[:, :2]) < _REACH_M).all(axis=1) & (layer >= 0) & (layer < _LAYERS)
    near &= (np.abs(points[:, :2]) > 2.0).any(axis=1)  # not the vehicle itself
    points = points[near]
    cell = _cell_of(points)
    hit = np.zeros((_LAYERS, _SIDE * _SIDE + 1), bool)
    hit[layer[near].astype(np.intp), cell] = True
    cells = hit.sum(axis=0) >= 3
    cells[-1] = False
    return points[cells[cell]], cells


def _cell_of(points: NDArray[np.float32]) -> NDArray[np.intp]:
    """Of each point; the last one for those out of reach."""
    place = np.floor((points[:, :2] + _REACH_M) * (1 / _CELL_M)).astype(np.intp)
    inside = ((place >= 0) & (place < _SIDE)).all(axis=1)
    return np.where(inside, place[:, 1] * _SIDE + place[:, 0], _SIDE * _SIDE)
