# SPDX-License-Identifier: Apache-2.0
"""Few nodes apart from all others are not reported, on every engine: components against a flood fill."""

from dataclasses import replace

import numpy as np
import pytest

from roadbed import Config
from roadbed.ground.stcrf.arrays import ActiveColumns
from roadbed.ground.stcrf.model import CLEAN_VARIANCE, SMALL_COMPONENT, SMALL_SHARE
from roadbed.ground.stcrf.surface.small_components_cpu import drop_small_components
from tests.devices import BACKENDS
from tests.ground import engines
from tests.occupancy.oracle import components

SIZE = 40  # m, as in other tests: they share the programs for accelerators


def patch(x_from, x_to, y_from, y_to, z):
    x, y = (a.ravel() for a in np.meshgrid(np.arange(x_from + 0.1, x_to, 0.2), np.arange(y_from + 0.1, y_to, 0.2)))
    return np.column_stack([x, y, np.full(x.size, z)])


def surface(name, *without):
    config = Config().with_changes(ground={"stcrf": {"length": SIZE, "width": SIZE}, "without": without})
    road, yard = patch(-10, 10, -5, 5, 0.0), patch(12, 19, 8, 15, 0.02)
    parts = [road, yard, patch(-18, -16, 16, 18, 0.05), patch(-9, -8, 5, 6, 0.0)]
    given = replace(engines.given(config, np.concatenate(parts)), rise=1.7)  # m of the sensor over the road
    output = engines.engine(name, config).frame(given)
    return output.elevation, output.variance


def large_components(elevation, doubt, islands):
    """The rule as it reads: a known node beside a clean one of a large component."""
    known, label = np.isfinite(elevation), components(doubt <= CLEAN_VARIANCE)
    least = min(islands, SMALL_SHARE * np.count_nonzero(known))
    large = np.isin(label, np.flatnonzero(np.bincount(label[label >= 0]) >= least))
    padded = np.pad(large, 1)
    beside = np.any([padded[r : r + SIZE, c : c + SIZE] for r in range(3) for c in range(3)], axis=0)
    return known & beside


@pytest.mark.parametrize("name", BACKENDS)
def test_islands_are_unknown_and_nothing_else_changes(name):
    elevation, variance = surface(name, "small_components")
    found, uncertain = surface(name)
    _, doubt = surface(name, "small_components", "neighbour_disagreement")  # these planes agree: no doubt from that
    expected = large_components(elevation, doubt, SMALL_COMPONENT)
    np.testing.assert_array_equal(np.isfinite(found), expected)
    np.testing.assert_allclose(found[expected], elevation[expected], atol=1e-6)
    np.testing.assert_allclose(uncertain[expected], variance[expected], rtol=1e-5)
    assert (uncertain[~expected] > Config().ground.stcrf.known_sigma ** 2).all()


def test_a_share_of_all_nodes_is_enough_where_few_are_known():
    """60 nodes are asked of a large surface; 3 % of this small one are ten: the yard stays, two by two nodes do not."""
    found, _ = surface("cpu")
    middle = SIZE // 2
    assert np.isfinite(found[middle + 8 : middle + 15, middle + 12 : middle + 19]).all()
    assert np.isnan(found[middle + 16 : middle + 18, middle - 18 : middle - 16]).all()
    assert np.isfinite(found[middle + 5, middle - 9])  # one node, but at the road


def everywhere(size):
    """All columns of a square lattice, as active ones."""
    lo, hi = np.ones(size, np.int32), np.full(size, size + 1, np.int32)
    return ActiveColumns(lo, hi, lo, hi)


@pytest.mark.parametrize(("variance", "reported"), [(0.01, 64), (0.03, 0)])
def test_nodes_that_agree_on_nothing_are_no_surface(variance, reported):
    """8 x 8 nodes beside which there is no other; over a crown each lies at another height, so none is clean."""
    variances = np.full((20, 20), 9, np.float32)
    variances[6:14, 6:14] = variance
    elevation, slope = np.zeros((20, 20), np.float32), np.zeros((20, 20, 2), np.float32)
    drop_small_components(60, np.float32(0.0625), np.float32(9), everywhere(20), elevation, slope, variances)
    assert np.isfinite(elevation[6:14, 6:14]).sum() == reported
    assert (variances <= 0.0625).sum() == reported


@pytest.mark.parametrize("seed", range(6))
def test_what_stays_is_beside_a_large_component_however_they_are_shaped(seed):
    """Random blobs: components that meet at corners, wind around each other and touch the border."""
    rng = np.random.default_rng(seed)
    coarse = rng.choice([0.01, 0.04, 9.0], (SIZE, SIZE), p=[0.3, 0.1, 0.6]).astype(np.float32)
    doubt = np.minimum(coarse, np.roll(coarse, seed % 3, axis=seed % 2))
    elevation = np.where(doubt <= 0.0625, np.float32(1), np.float32(np.nan))
    expected, slope = large_components(elevation, doubt, 12), np.zeros((SIZE, SIZE, 2), np.float32)
    drop_small_components(12, np.float32(0.0625), np.float32(9), everywhere(SIZE), elevation, slope, doubt)
    assert 0 < expected.sum() < expected.size
    np.testing.assert_array_equal(np.isfinite(elevation), expected)
    np.testing.assert_array_equal(doubt <= 0.0625, expected)
