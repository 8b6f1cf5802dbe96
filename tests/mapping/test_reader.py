# SPDX-License-Identifier: Apache-2.0
"""Nodes of a map are consistent_planes by those beside them, across tiles: a crown is not the ground of its node."""

from dataclasses import replace

import numpy as np
import pytest

from roadbed.core.geometry import Grid, Pose
from roadbed.mapping.information import SurfaceParameters, information_of
from roadbed.mapping.reader import MapReader
from roadbed.mapping.tile_store import TileStore

RULES = SurfaceParameters()
CROWN = 63, 100  # row and column: at the edge between two tiles
ISLAND = 61, 30  # the first of its nodes: across that edge


def write_map(folder, **changes):
    """A slope with humps over two by two tiles, eight points per node; one is 0.8 m too high, 7 x 7 lie apart."""
    grid = Grid(0.5, 0.5, 1.0, 128, 128)
    x, y = grid.mesh()
    height = 0.2 * x + 0.03 * np.sin(x) * np.cos(y)
    height[CROWN] += 0.8
    precision = np.array([8.0, 0.0, 0.0, 1.0, 0.0, 1.0])[:, None] * np.ones(grid.size)
    flat = height.ravel(), np.full(grid.size, 0.2), np.zeros(grid.size)
    information = information_of(precision, *flat).reshape(9, *grid.shape).astype(np.float32)
    known = np.ones(grid.shape, bool)
    known[ISLAND[0] - 1 : ISLAND[0] + 8, ISLAND[1] - 1 : ISLAND[1] + 8] = False
    known[ISLAND[0] : ISLAND[0] + 7, ISLAND[1] : ISLAND[1] + 7] = True
    tiles = TileStore(folder, 1.0, surface=replace(RULES, **changes))
    tiles.begin(Pose.identity())
    tiles.store(grid, information, 0.0, known)
    tiles.flush()
    return np.where(known, height, np.nan)


def whole(stored, name):
    return np.block([[getattr(stored.planes((row, column)), name) for column in (0, 1)] for row in (0, 1)])


def test_a_node_that_contradicts_those_beside_it_is_unknown(tmp_path):
    height = write_map(tmp_path, islands=0)
    elevation = whole(MapReader(tmp_path), "elevation")
    lost = np.argwhere(np.isnan(elevation) & np.isfinite(height))
    assert CROWN in set(map(tuple, lost.tolist()))
    assert np.abs(lost - CROWN).max() <= 1  # it may take those beside it along, no others
    np.testing.assert_allclose(elevation[np.isfinite(elevation)], height[np.isfinite(elevation)], atol=1e-5)


@pytest.mark.parametrize(("islands", "kept"), [(49, 49), (50, 0)])
def test_few_nodes_apart_from_all_others_are_unknown(tmp_path, islands, kept):
    write_map(tmp_path, islands=islands)
    elevation = whole(MapReader(tmp_path), "elevation")
    island = elevation[ISLAND[0] : ISLAND[0] + 7, ISLAND[1] : ISLAND[1] + 7]
    assert np.isfinite(island).sum() == kept
    assert np.isfinite(elevation).sum() > 128**2 - 81 - 9 + kept - 1


def test_the_variance_is_what_planes_disagree_by(tmp_path):
    height = write_map(tmp_path)
    steps = [(rows, columns) for rows in (-1, 0, 1) for columns in (-1, 0, 1)]
    own = sum((np.roll(height, step, (0, 1)) + 0.2 * step[1] - height) ** 2 for step in steps) / 8
    expected = (0.0015**2 + sum(np.roll(own, step, (0, 1)) for step in steps) / 9) / 8 + own
    inside = np.zeros(height.shape, bool)
    inside[3:-3, 3:-3] = True
    inside[CROWN[0] - 3 : CROWN[0] + 4, CROWN[1] - 3 : CROWN[1] + 4] = False
    inside &= np.isfinite(expected)
    inside[ISLAND[0] : ISLAND[0] + 7, ISLAND[1] : ISLAND[1] + 7] = False
    assert inside.sum() > 14_000
    np.testing.assert_allclose(whole(MapReader(tmp_path), "variance")[inside], expected[inside], rtol=0.01)


def test_a_map_kept_without_asking_neighbours_is_not_judged_by_them(tmp_path):
    height = write_map(tmp_path, disagreement=0.0, islands=0)
    stored = MapReader(tmp_path)
    np.testing.assert_allclose(whole(stored, "elevation"), height, atol=1e-5)
    variance = whole(stored, "variance")
    assert variance[np.isfinite(height)] == pytest.approx(RULES.point_variance / 8)
