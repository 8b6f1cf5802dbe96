# SPDX-License-Identifier: Apache-2.0
"""Points in the order of their nodes: runs of points are moved as one, and it shows nowhere."""

from dataclasses import replace

import numba
import numpy as np
import pytest

from roadbed.config import Config
from roadbed.ground.engine import Exclusion
from roadbed.ground.stcrf.arrays import Runs
from roadbed.ground.stcrf.cpu import StcrfCpu
from roadbed.ground.stcrf.points.sort_cpu import BLOCK
from roadbed.kernels.simd import LANES
from tests.ground.engines import given

CONFIG = Config.parse({"ground": {"stcrf": {"length": 22, "width": 13, "spacing": 1.0}}})  # rows end within vectors
ROWS, COLUMNS = 13, 22


def ring(count: int, rng: np.random.Generator) -> np.ndarray:
    """Neighbours lie on one node mostly, on one after the other in places, and outside of the lattice in some."""
    angle = np.linspace(0, 6 * np.pi, count)
    reach = rng.choice([2.0, 5.0, 9.0], count // 50 + 1).repeat(50)[:count]
    points = np.column_stack([reach * np.cos(angle), reach * np.sin(angle), rng.normal(0, 1, count)])
    points[::97], points[::89, 1], points[::83, 2] = 0, np.nan, np.inf
    return points.astype(np.float32)


def places(runs: Runs, count: int) -> np.ndarray:
    """Of each point in the order of the nodes, from the runs block by block."""
    place = np.full(count, -1)
    for block in range(-(-count // BLOCK)):
        run = runs.of_block[block]
        assert runs.first[run] == block * BLOCK
        while runs.first[run] < min((block + 1) * BLOCK, count):
            first, last = runs.first[run : run + 2]
            assert first < last
            assert first // LANES == (last - 1) // LANES
            place[first:last] = runs.position[run] + np.arange(last - first)
            run += 1
    return place


@pytest.mark.parametrize("count", [1, 7, BLOCK - 1, BLOCK, 5 * BLOCK + 13])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_point_comes_to_its_node_in_the_order_of_the_scan(count, threads):
    rng = np.random.default_rng(count)
    points, own = ring(count, rng), rng.random(count) < 0.2
    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, before))
    try:
        engine = StcrfCpu(CONFIG)
        frame = replace(given(CONFIG, points), exclude=Exclusion(own, rng.random(count) < 0.5))
        found = engine._sort(frame)
    finally:
        numba.set_num_threads(before)
    place = points + frame.placement.translation.astype(np.float32)
    with np.errstate(invalid="ignore"):
        row, column = np.floor(place[:, 1]), np.floor(place[:, 0])
        inside = (row >= 0) & (row < ROWS) & (column >= 0) & (column < COLUMNS)
    inside &= np.isfinite(points).all(axis=1) & (points != 0).any(axis=1) & ~own
    node = np.where(inside, row * COLUMNS + column, ROWS * COLUMNS)
    order = np.argsort(node, kind="stable")
    assert np.array_equal(places(found.runs, count)[order], np.arange(count))
    assert np.array_equal(found.start, np.searchsorted(np.sort(node), np.arange(ROWS * COLUMNS + 1)))
    order = order[: inside.sum()]
    np.testing.assert_allclose(found.x[: len(order)], (place[:, 0] - column - 0.5)[order], atol=1e-5)
    np.testing.assert_allclose(found.y[: len(order)], (place[:, 1] - row - 0.5)[order], atol=1e-5)
    assert np.array_equal(found.z[: len(order)], points[order, 2])
    assert np.array_equal(found.mark[: len(order)] > 0, frame.exclude.non_ground[order])
    active_nodes = found.active_nodes.nodes[: found.active_nodes.row[-1]]
    assert np.array_equal(active_nodes, np.unique(node[inside]))
    assert np.array_equal(found.active_nodes.row, np.searchsorted(active_nodes, np.arange(ROWS + 1) * COLUMNS))
