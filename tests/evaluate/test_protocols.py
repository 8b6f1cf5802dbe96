# SPDX-License-Identifier: Apache-2.0
"""Both scoring protocols on points whose verdict is known, and the score's arithmetic."""

import numpy as np
import pytest

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.evaluate.metrics import ElevationScore, Score
from roadbed.evaluate.protocols import patchwork, patchwork_plusplus, protocol

# class, z: road, car, low vegetation, high vegetation, unlabelled, outlier, terrain with an instance number
CLASSES = np.array([40, 10, 70, 70, 0, 1, 72 | 5 << 16], np.uint32)
HEIGHTS = np.array([-1.7, -1.0, -1.5, -1.0, -1.7, -1.7, -1.6])


def _scan() -> Scan:
    points = np.zeros((len(CLASSES), 3))
    points[:, 2] = HEIGHTS
    return Scan(points, classes=CLASSES)


def test_patchwork_plusplus_ignores_vegetation():
    ground, scored = patchwork_plusplus(_scan())
    assert scored.tolist() == [True, True, False, False, False, False, True]
    assert ground[scored].tolist() == [True, False, True]


def test_patchwork_counts_low_vegetation_as_ground():
    ground, scored = patchwork(_scan())
    assert scored.tolist() == [True, True, True, True, False, False, True]
    assert ground[scored].tolist() == [True, False, True, False, True]


def test_unknown_protocol_and_missing_truth_are_named():
    with pytest.raises(InputError, match=r"expected one of patchwork\+\+, patchwork"):
        protocol("mine")
    with pytest.raises(InputError, match="true class per point"):
        patchwork(Scan(np.zeros((1, 3))))


def test_scores_follow_their_definitions():
    predicted = np.array([1, 1, 1, 0, 0, 1], bool)
    actual = np.array([1, 1, 0, 1, 0, 0], bool)
    scored = np.array([1, 1, 1, 1, 1, 0], bool)
    score = Score.of(predicted, actual, scored)
    assert score.precision == pytest.approx(200 / 3)
    assert score.recall == pytest.approx(200 / 3)
    assert score.f1 == pytest.approx(200 / 3)
    assert score.iou == pytest.approx(50)
    assert Score.of(actual, actual, scored) == Score(100, 100, 100, 100)


def test_a_score_of_nothing_is_unknown_not_perfect():
    some, none, scored = np.array([1, 0], bool), np.zeros(2, bool), np.ones(2, bool)
    nothing_found = Score.of(none, some, scored)
    assert np.isnan(nothing_found.precision)
    assert (nothing_found.recall, nothing_found.f1, nothing_found.iou) == (0, 0, 0)
    nothing_there = Score.of(some, none, scored)
    assert np.isnan(nothing_there.recall)
    assert (nothing_there.precision, nothing_there.f1) == (0, 0)
    assert np.isnan([*vars(Score.of(none, none, scored)).values()]).all()
    mean = Score.mean([nothing_found, Score(50, 100, 200 / 3, 50)])
    assert (mean.precision, mean.recall, mean.iou) == (50, 50, 25)
    assert np.isnan(Score.mean([nothing_found, nothing_found]).precision)


def test_a_calibrated_surface_has_68_and_95_percent_within_one_and_two_sigma():
    rng = np.random.default_rng(0)
    sigma = rng.uniform(0.01, 0.3, (200, 200))
    truth = rng.normal(size=(200, 200))
    score = ElevationScore.of(truth + sigma * rng.normal(size=truth.shape), sigma**2, truth, np.ones_like(truth, bool))
    assert score.within_1_sigma == pytest.approx(0.683, abs=0.01)
    assert score.within_2_sigma == pytest.approx(0.954, abs=0.01)
