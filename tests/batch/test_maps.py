# SPDX-License-Identifier: Apache-2.0
"""One map of many sequences: any order and grouping gives the same map; the batch merges in a fixed order."""

import shutil
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from roadbed.batch.work import do_merge
from roadbed.core.errors import InputError
from roadbed.mapping.merge import foreign_to_map, merge_maps, new_map_folder
from roadbed.mapping.reader import MapReader
from tests.batch.conftest import content, job_in


@pytest.fixture(scope="module")
def maps(alone, sequences):
    return [alone.of(sequence) / "map" for sequence in sequences]


def known(folder):
    """All that a map says: planes of every node, points of every voxel, counts of every cell."""
    stored = MapReader(folder)
    planes = {key: stored.planes(key) for key in stored.ground.keys}
    exact = {("points", key): [rows.tolist() for rows in stored.points.get(key).rows()] for key in stored.points.keys}
    exact |= {("cells", key): stored.cells.get(key).occupied.tolist() for key in stored.cells.keys}
    assert not stored.damaged
    return planes, exact


def assert_same(one, other):
    assert one[1] == other[1]
    assert set(one[0]) == set(other[0])
    for key, planes in one[0].items():
        np.testing.assert_allclose(planes.elevation, other[0][key].elevation, atol=1e-4, rtol=0)
        for layer in ("slope_x", "slope_y", "variance"):
            np.testing.assert_allclose(getattr(planes, layer), getattr(other[0][key], layer), atol=1e-4, rtol=1e-3)


def merged(job, maps, name):
    target = job.folder / name
    merge_maps([MapReader(path) for path in maps], lambda: new_map_folder(target, maps))
    return target


def test_any_order_and_any_grouping_gives_the_same_map(maps, tmp_path):
    job, (a, b, c) = job_in(tmp_path), maps
    expected = known(merged(job, maps, "all"))
    assert any(planes.known.sum() > 50 for planes in expected[0].values())
    for number, order in enumerate(permutations(maps)):
        assert_same(known(merged(job, order, f"order-{number}")), expected)
    left = merged(job, (merged(job, (a, b), "ab"), c), "(ab)c")
    right = merged(job, (merged(job, (b, c), "bc"), a), "(bc)a")
    assert_same(known(left), expected)
    assert_same(known(right), expected)
    assert content(merged(job, maps, "again")) == content(job.folder / "all")
    assert foreign_to_map(job.folder / "all") is None


def test_the_batch_merges_all_maps_in_the_order_of_the_sequences(alone, maps, sequences, tmp_path):
    job = replace(alone, folder=tmp_path)
    for path, sequence in zip(maps, sequences):
        shutil.copytree(path, job.of(sequence) / "map")
    assert next(do_merge(job, "the map", sequences)).status == "done"
    assert content(tmp_path / "map") == content(merged(job, maps, "expected"))
    for sequence in sequences:
        shutil.rmtree(job.of(sequence) / "map")
    with pytest.raises(InputError, match="no sequence has a map"):
        next(do_merge(job, "the map", sequences))
