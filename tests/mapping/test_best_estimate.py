# SPDX-License-Identifier: Apache-2.0
"""What the map takes from a sequence: the best each node was known, and of two surfaces the lower."""

import numpy as np

from roadbed.core.geometry import Grid
from roadbed.mapping.best_estimate import BestEstimate
from roadbed.mapping.information import SurfaceParameters, planes_of

RULES = SurfaceParameters()
LATTICE = Grid.centred(6, 4, 1.0)


def prior(points):
    information = np.zeros((9, *LATTICE.shape), np.float32)
    information[0], information[3], information[5] = points, points / 12, points / 12
    return information


def notice(best, points, height):
    heights = np.full(LATTICE.shape, height, np.float32)
    best.update(prior(points), heights, np.zeros((*LATTICE.shape, 2), np.float32))


def heights(best):
    return planes_of(best.information, 0.0, RULES).elevation


def test_it_keeps_the_surface_that_rests_on_most_points():
    best = BestEstimate(LATTICE, RULES)
    for points, height, kept in ((3, 0.1, 0.1), (9, 0.2, 0.2), (4, 0.0, 0.2)):
        notice(best, points, height)
        np.testing.assert_allclose(heights(best), kept, atol=1e-4)
    notice(best, 100, np.nan)
    np.testing.assert_allclose(heights(best), 0.2, atol=1e-4)


def test_a_lower_surface_wins_unless_hardly_anything_stands_behind_it():
    best = BestEstimate(LATTICE, RULES)
    notice(best, 20, 3.0)  # the top of a bush
    notice(best, 1.5, 0.0)
    np.testing.assert_allclose(heights(best), 3.0, atol=1e-3)
    notice(best, 3, 0.0)
    np.testing.assert_allclose(heights(best), 0.0, atol=1e-3)
    notice(best, 20, 3.0)
    np.testing.assert_allclose(heights(best), 0.0, atol=1e-3)
    notice(best, 40, 3.0)
    np.testing.assert_allclose(heights(best), 3.0, atol=1e-3)


def test_it_rolls_with_the_grid_and_its_base():
    best = BestEstimate(LATTICE, RULES)
    field = np.arange(24, dtype=np.float32).reshape(LATTICE.shape) / 100
    best.update(prior(5), field, np.zeros((*LATTICE.shape, 2), np.float32))
    best.roll(2, -1, 0.5)
    found = heights(best)
    np.testing.assert_allclose(found[1:, :-2], field[:-1, 2:] - 0.5, atol=1e-4)
    assert np.isnan(found[0]).all()
    assert np.isnan(found[:, -2:]).all()
    best.roll(100, 0, 0.0)
    assert not best.information.any()
