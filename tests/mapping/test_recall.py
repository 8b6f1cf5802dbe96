# SPDX-License-Identifier: Apache-2.0
"""What the map takes from a drive: the best each node was known, and of two surfaces the lower."""

import numpy as np

from roadbed.core.geometry import Grid
from roadbed.mapping.information import SurfaceRules, planes_of
from roadbed.mapping.recall import Recall

RULES = SurfaceRules()
LATTICE = Grid.centred(6, 4, 1.0)


def prior(points):
    information = np.zeros((9, *LATTICE.shape), np.float32)
    information[0], information[3], information[5] = points, points / 12, points / 12
    return information


def notice(recall, points, height):
    heights = np.full(LATTICE.shape, height, np.float32)
    recall.notice(prior(points), heights, np.zeros((*LATTICE.shape, 2), np.float32))


def heights(recall):
    return planes_of(recall.information, 0.0, RULES).elevation


def test_it_keeps_the_surface_that_rests_on_most_points():
    recall = Recall(LATTICE, RULES)
    for points, height, kept in ((3, 0.1, 0.1), (9, 0.2, 0.2), (4, 0.0, 0.2)):
        notice(recall, points, height)
        np.testing.assert_allclose(heights(recall), kept, atol=1e-4)
    notice(recall, 100, np.nan)
    np.testing.assert_allclose(heights(recall), 0.2, atol=1e-4)


def test_a_lower_surface_wins_unless_hardly_anything_stands_behind_it():
    recall = Recall(LATTICE, RULES)
    notice(recall, 20, 3.0)  # the top of a bush
    notice(recall, 1.5, 0.0)
    np.testing.assert_allclose(heights(recall), 3.0, atol=1e-3)
    notice(recall, 3, 0.0)
    np.testing.assert_allclose(heights(recall), 0.0, atol=1e-3)
    notice(recall, 20, 3.0)
    np.testing.assert_allclose(heights(recall), 0.0, atol=1e-3)
    notice(recall, 40, 3.0)
    np.testing.assert_allclose(heights(recall), 3.0, atol=1e-3)


def test_it_rolls_with_the_lattice_and_its_base():
    recall = Recall(LATTICE, RULES)
    field = np.arange(24, dtype=np.float32).reshape(LATTICE.shape) / 100
    recall.notice(prior(5), field, np.zeros((*LATTICE.shape, 2), np.float32))
    recall.roll(2, -1, 0.5)
    found = heights(recall)
    np.testing.assert_allclose(found[1:, :-2], field[:-1, 2:] - 0.5, atol=1e-4)
    assert np.isnan(found[0]).all()
    assert np.isnan(found[:, -2:]).all()
    recall.roll(100, 0, 0.0)
    assert not recall.information.any()
