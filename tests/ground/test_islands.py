# SPDX-License-Identifier: Apache-2.0
"""Few seen nodes far from all others are not reported, on every engine; what is near others is."""

import numpy as np
import pytest

from roadbed import Config
from roadbed.ground.stcrf.model import ISLAND_REACH
from tests.devices import BACKENDS
from tests.ground import engines

SIZE = 50  # m


def patch(x_from, x_to, y_from, y_to, z):
    x, y = (a.ravel() for a in np.meshgrid(np.arange(x_from + 0.1, x_to, 0.2), np.arange(y_from + 0.1, y_to, 0.2)))
    return np.column_stack([x, y, np.full(x.size, z)])


def known(name, islands):
    """Where the surface is reported: over a road, 2 x 2 nodes far from it, and one more node beside the road."""
    config = Config().with_changes(ground={"stcrf": {"length": SIZE, "width": SIZE, "islands": islands}})
    parts = [patch(-10, 10, -5, 5, 0.0), patch(18, 20, 18, 20, 0.05), patch(-9, -8, 7, 8, 0.0)]
    output = engines.engine(name, config).frame(engines.given(config, np.concatenate(parts)))
    return np.isfinite(output.elevation)


def seen_around(known):
    """How many known nodes lie around each, counted plainly."""
    padded = np.pad(known, ISLAND_REACH)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2 * ISLAND_REACH + 1,) * 2)
    return windows.sum((2, 3))


@pytest.mark.parametrize("name", BACKENDS)
def test_islands_are_unknown_and_nothing_else_changes(name):
    everything, mainland = known(name, islands=0), known(name, islands=10)
    crown = np.zeros_like(everything)
    crown[SIZE // 2 + 18 : SIZE // 2 + 20, SIZE // 2 + 18 : SIZE // 2 + 20] = True
    assert everything[crown].all()
    np.testing.assert_array_equal(mainland, everything & (seen_around(everything) >= 10))
    assert not mainland[crown].any()
    assert mainland[SIZE // 2 + 7, SIZE // 2 - 9]  # one node, but near the road
    assert np.count_nonzero(everything & ~mainland) == np.count_nonzero(crown)
