# SPDX-License-Identifier: Apache-2.0
"""Counts of the CPU on their own, without any device to compare with: the cells of a vote, sums around nodes."""

import numpy as np
import pytest

from roadbed.ground.stcrf.labels.vote_cpu import empty_votes, outvoted
from roadbed.ground.stcrf.model import VOTE_LAYER, VOTE_LOWEST
from roadbed.ground.stcrf.points.node_classes_cpu import _running_sum
from roadbed.kernels.jit import njit


@njit()
def decide(y, x, d, is_ground, votes):
    return outvoted(y, x, d, is_ground, votes)


@njit()
def sums_within(values, reach, out):
    _running_sum(values, reach, out)


@pytest.mark.parametrize("reach", [0, 1, 4, 12])
def test_sums_reach_as_far_as_they_should_and_end_at_the_ends(reach):
    for n in (1, 3, 10, 40):
        values, out = np.arange(1, n + 1, dtype=np.int32), np.zeros(n, np.int32)
        sums_within(values, reach, out)
        assert out.tolist() == [values[max(i - reach, 0) : i + reach + 1].sum() for i in range(n)]


@pytest.mark.parametrize("layer", [0, 5])
def test_the_27_cells_around_a_point_decide_and_no_other(layer):
    """Cell (y, x) of a layer is at [y + 1, x + 1, layer + 1], inside a border of empty cells."""
    y, x, d = np.uint64(1), np.uint64(2), np.float32(VOTE_LOWEST + (layer + 0.5) * VOTE_LAYER)
    votes = empty_votes(12, 12)
    inside = np.zeros(votes.shape, bool)
    inside[y : y + np.uint64(3), x : x + np.uint64(3), layer : layer + 3] = True
    for cell in np.ndindex(votes.shape):
        votes[cell] = 1
        assert decide(y, x, d, False, votes) == inside[cell], cell
        votes[cell] = -1
        assert decide(y, x, d, True, votes) == (not inside[cell]), cell
        votes[cell] = 0
    assert decide(y, x, d, True, votes)  # a tie changes nothing
    assert not decide(y, x, d, False, votes)
