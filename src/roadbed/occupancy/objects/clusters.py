# SPDX-License-Identifier: Apache-2.0
"""Moving cells of one frame grouped into clusters: one car is one cluster, whatever part of it is seen."""

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Grid
from roadbed.core.tracked_objects import NO_TRACKS, Tracks
from roadbed.occupancy.objects.arrays import NO_CLUSTERS, CellGrid, Clusters, MovingLayers
from roadbed.occupancy.objects.clusters_cpu import find_clusters
from roadbed.occupancy.objects.model import ClusterRule


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
        grid = CellGrid(lattice.rows, lattice.columns, lattice.x0, lattice.y0, lattice.spacing)
        return find_clusters(cells, layers, grid, self._rule, self._stamps, known, time)
