# SPDX-License-Identifier: Apache-2.0
"""Moving cells grouped into clusters, which are tracked over time: identity, box, velocity, acceleration, existence."""

import math

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Grid, Pose
from roadbed.core.tracked_objects import NO_TRACKS, TRACK, Tracks
from roadbed.occupancy.objects.arrays import NO_CLUSTERS, CellGrid, Clusters, Moment, MovingLayers
from roadbed.occupancy.objects.clusters_cpu import find_clusters
from roadbed.occupancy.objects.model import ClusterRule, TrackRule
from roadbed.occupancy.objects.tracks_cpu import track_clusters

_CAPACITY = 64  # tracks at first


class ClusterFinder:
    """Groups of moving cells within `join` metres of each other; parts of one body are put together."""

    def __init__(self, shape: tuple[int, int], rule: ClusterRule) -> None:
        self._rule = rule
        self._stamps = np.zeros(shape[0] * shape[1], np.uint8)

    def __call__(
        self,
        lattice: Grid,
        moving: NDArray[np.bool_],
        layers: MovingLayers,
        known: Tracks = NO_TRACKS,
        time: float = 0.0,
    ) -> Clusters:
        """Of the cells that move (rows, columns); what lies in the box of a known object is one.

        Boxes hold the returns from the cells and from those beside them; the cells themselves where none returned.
        """
        cells = np.flatnonzero(moving)  # many times as fast as by rows and columns
        if not len(cells):
            return NO_CLUSTERS
        return find_clusters(cells, layers, CellGrid.of(lattice), self._rule, self._stamps, known, time)


class ObjectTracker:
    """Gives the clusters of successive frames stable ids."""

    def __init__(self, rule: TrackRule) -> None:
        self._rule = rule
        self._tracks: Tracks = np.empty(_CAPACITY, TRACK)
        self._counters = np.array([0, 1])  # tracks there are, and the next id

    @property
    def known(self) -> Tracks:
        """The tracks in memory."""
        return self._tracks[: self._counters[0]]

    def reset(self) -> None:
        """Forget the objects; ids are never given twice."""
        self._counters[0] = 0

    def move(self, T_before_now: Pose) -> None:
        """The grid's axes turned and moved; objects keep their position and velocity in the world."""
        tracks, turn = self.known, T_before_now.rotation[:2, :2]
        places = np.stack([tracks["x"], tracks["y"]], axis=1) - T_before_now.translation[:2]
        tracks["x"], tracks["y"] = (places @ turn).T
        tracks["heading"] -= T_before_now.yaw
        turns = np.kron(np.eye(3), turn)  # of position, velocity and acceleration
        tracks["state"][:, :2] -= T_before_now.translation[:2]
        tracks["state"] = tracks["state"] @ turns
        tracks["covariance"] = turns.T @ tracks["covariance"] @ turns

    def update(self, clusters: Clusters, time: float, viewpoint: tuple[float, float] = (math.nan, math.nan)) -> Tracks:
        """The objects of this frame, seen from `viewpoint`; a cluster continues the nearest object within the gate."""
        count, new = int(self._counters[0]), len(clusters)
        if not count and not new:
            return NO_TRACKS
        if count + new > len(self._tracks):
            self._tracks = np.concatenate([self._tracks, np.empty(count + new, TRACK)])
        return track_clusters(self._tracks, self._counters, clusters, Moment(time, *viewpoint), self._rule)
