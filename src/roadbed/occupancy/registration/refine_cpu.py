# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that lay what is registered once more over a younger scan: what speeds up is faster by now, and what
had not moved by then does not move at all.

A registered velocity is the mean of the time between both scans, and so late by half of it."""

from __future__ import annotations

import math

import numpy as np

from roadbed.kernels.jit import inner, njit
from roadbed.occupancy.registration.register_cpu import lay_over, set_velocity, total_agreement


@inner()
def _mean_shift(present, former, now, old, between, expected_x, expected_y, scores, rule):
    """Mean of the shifts around the expected one that agree nearly as well as the best, NaN where that is not good; and
    how well that agrees."""
    count = present.shape[0] + former.shape[0]
    best = -count
    for j in range(scores.shape[0]):
        for i in range(scores.shape[0]):
            dx, dy = expected_x + i - rule.around, expected_y + j - rule.around
            scores[j, i] = total_agreement(present, former, now, old, between, dx, dy, -count)
            best = max(best, scores[j, i])
    if best < rule.good * count:
        return math.nan, math.nan, best
    enough = math.ceil(best - rule.nearly * count)
    sum_x = sum_y = alike = 0
    for j in range(scores.shape[0]):
        for i in range(scores.shape[0]):
            if scores[j, i] >= enough:
                sum_x, sum_y, alike = sum_x + i - rule.around, sum_y + j - rule.around, alike + 1
    return expected_x + sum_x / alike, expected_y + sum_y / alike, best


@njit(cache=True, nogil=True)
def refine_velocities(first, last, now, old, between, rule, velocity):
    """Of some components of now, where they are known, not slow and faster since `old`, a younger scan than before."""
    per_velocity = rule.age / rule.subcell
    votes, voted = np.zeros(old.start.shape[0], np.int32), np.full(old.start.shape[0], -1, np.int32)
    present, former = np.empty((2 * rule.points, 2), np.int32), np.empty((2 * rule.points, 2), np.int32)
    scores = np.empty((2 * rule.around + 1, 2 * rule.around + 1), np.int32)
    for k in range(first, last):
        vx, vy = float(velocity[k, 0]), float(velocity[k, 1])
        if not vx * vx + vy * vy >= rule.refined_speed * rule.refined_speed:  # nor where it is not a number
            continue
        cells = now.cells[now.start[k] : now.start[k + 1]]
        count, old_count = lay_over(cells, now, old, between, (votes, voted), (present, former), rule)
        if count == 0:
            if rule.confirmed > 0:
                velocity[k] = np.nan
            continue
        laid = present[:count], former[:old_count], now.picture, old.picture, between
        expected = math.floor(vx * per_velocity + 0.5), math.floor(vy * per_velocity + 0.5)
        dx, dy, best = _mean_shift(*laid, *expected, scores, rule)
        # A wall behind a gap is seen elsewhere after a while, and in between still where it is.
        points = count + old_count
        if rule.confirmed > 0 and best - total_agreement(*laid, 0, 0, -points) < rule.confirmed * points:
            velocity[k] = np.nan
            continue
        # What keeps its speed or slows down is known better over the longer time: faces that come into sight pull a
        # short shift down. Nothing changes where the shift is not a number.
        if dx * vx + dy * vy > (vx * vx + vy * vy) * per_velocity:
            set_velocity(velocity, k, dx, dy, rule)
