# SPDX-License-Identifier: Apache-2.0
"""One map of many sequences: any order and any grouping of the merges says the same, and ours is always the same."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from roadbed.batch.maps import do_merge, levels
from roadbed.core.geometry import Pose
from roadbed.mapping.index import MapIndex
from roadbed.mapping.merge import foreign_to_map
from roadbed.mapping.reader import MapReader
from tests.batch.conftest import content, job_in


@pytest.fixture(scope="module")
def maps(alone, sequences):
    return [alone.of(sequence) / "map" for sequence in sequences]


def known(folder):
    """All that a map says: planes of every node, points of every voxel, counts of every cell."""
    stored = MapReader(folder)
    planes = {key: stored.planes(key) for key in stored.keys}
    exact = {("points", key): [rows.tolist() for rows in stored.points(key).rows()] for key in stored.point_keys}
    exact |= {("cells", key): stored.cells(key).occupied.tolist() for key in stored.cell_keys}
    assert not stored.damaged
    return planes, exact


def assert_same(one, other):
    assert one[1] == other[1]
    assert set(one[0]) == set(other[0])
    for key, planes in one[0].items():
        np.testing.assert_allclose(planes.elevation, other[0][key].elevation, atol=1e-4, rtol=0)
        for layer in ("slope_x", "slope_y", "variance"):
            np.testing.assert_allclose(getattr(planes, layer), getattr(other[0][key], layer), atol=1e-4, rtol=1e-3)


def merged(job, maps, name, onto):
    target = job.folder / name
    assert next(do_merge(job, name, maps, target, onto)).status == "done"
    return target


def test_any_order_and_any_grouping_gives_the_same_map(maps, tmp_path):
    job, (a, b, c) = job_in(tmp_path), maps
    expected = known(merged(job, maps, "all", a))
    assert any(planes.known.sum() > 50 for planes in expected[0].values())
    for number, order in enumerate(permutations(maps)):
        assert_same(known(merged(job, order, f"order-{number}", a)), expected)
    left = merged(job, (merged(job, (a, b), "ab", a), c), "(ab)c", a)
    right = merged(job, (merged(job, (b, c), "bc", a), a), "(bc)a", a)
    assert_same(known(left), expected)
    assert_same(known(right), expected)
    assert content(merged(job, maps, "again", a)) == content(job.folder / "all")
    assert foreign_to_map(job.folder / "all") is None


@pytest.mark.parametrize("count", [1, 2, 8, 9, 64, 65, 100])
def test_levels_use_every_map_once_and_end_in_the_target(count, tmp_path):
    maps = [tmp_path / str(number) for number in range(count)]
    holds = {path: [path] for path in maps}
    merges = []
    for merges in levels(maps, tmp_path / "target", tmp_path / "between"):
        for merge in merges:
            holds[merge.target] = [part for path in merge.maps for part in holds.pop(path)]
    assert holds == {tmp_path / "target": maps}
    assert len(merges) == 1


def test_maps_in_frames_of_their_own_go_onto_one_frame_once(maps, tmp_path):
    """Whatever group they are in: a map that was moved to its group's frame and then on would land on other nodes."""
    job, (a, b, c) = job_in(tmp_path), maps
    turned = Path(shutil.copytree(b, tmp_path / "turned"))
    index = MapIndex.of(turned)
    T = Pose.from_euler(0.37, -0.21, 0.05, yaw=0.02)
    replace(index, T_map_world=T @ index.T_map_world).write(turned)
    expected = known(merged(job, (a, turned, c), "all-at-once", a))
    group = merged(job, (turned, c), "group", a)
    assert (MapIndex.of(group).T_map_world.matrix == MapIndex.of(a).T_map_world.matrix).all()
    assert_same(known(merged(job, (a, group), "grouped", a)), expected)
