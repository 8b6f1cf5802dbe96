# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that register components once more against a younger scan: objects that speed up are faster by now, and
what had not moved by then does not move at all.

A registered velocity is the mean over the time between both scans, and so late by half of it."""

from __future__ import annotations

import math

import numpy as np

from roadbed.kernels.jit import inner, njit
from roadbed.kernels.numeric import ZERO, max
from roadbed.occupancy.registration.register_cpu import extent_of, matched_points, set_velocity, total_agreement


@inner()
def _mean_shift(present, former, now, old, transform, expected_x, expected_y, scores, rule):
    """Mean of the shifts around the expected one that agree nearly as well as the best, NaN where the best is not good;
    and the best agreement."""
    count = present.shape[0] + former.shape[0]
    best = -count
    for j in range(scores.shape[0]):
        for i in range(scores.shape[0]):
            dx, dy = expected_x + i - rule.refined_reach, expected_y + j - rule.refined_reach
            scores[j, i] = total_agreement(present, former, now, old, transform, dx, dy, -count)
            best = max(best, scores[j, i])
    if best < rule.good * count:
        return math.nan, math.nan, best
    enough = math.ceil(best - rule.refined_slack * count)
    sum_x = sum_y = alike = 0
    for j in range(scores.shape[0]):
        for i in range(scores.shape[0]):
            if scores[j, i] >= enough:
                sum_x, sum_y, alike = sum_x + i - rule.refined_reach, sum_y + j - rule.refined_reach, alike + 1
    return expected_x + sum_x / alike, expected_y + sum_y / alike, best


@njit(cache=True, nogil=True)
def refine_velocities(first, last, now, old, transform, rule, velocity):
    """Refine the velocities of components that are known, not both slow and small, and faster since `old`, the younger
    scan."""
    per_velocity = rule.age / rule.subcell
    votes, voted = np.zeros(old.start.shape[0], np.int32), np.full(old.start.shape[0], -1, np.int32)
    present, former = np.empty((2 * rule.points, 2), np.int32), np.empty((2 * rule.points, 2), np.int32)
    scores = np.empty((2 * rule.refined_reach + 1, 2 * rule.refined_reach + 1), np.int32)
    for k in range(first, last):
        vx, vy = float(velocity[k, 0]), float(velocity[k, 1])
        if math.isnan(vx):
            continue
        cells = now.cells[now.start[k] : now.start[k + 1]]
        slow = vx * vx + vy * vy < rule.refined_speed * rule.refined_speed
        if slow and extent_of(cells, now.label.shape[1]) <= rule.small:  # limbs move more than the body
            continue
        least = 0.0 if slow else rule.confirmed  # what is slow has hardly left its place since: rest agrees, too
        count, old_count = matched_points(cells, now, old, transform, (votes, voted), (present, former), rule)
        if count == 0:
            if least > 0:
                velocity[k] = np.nan
            continue
        matched = present[:count], former[:old_count], now.bitmap, old.bitmap, transform
        expected = math.floor(vx * per_velocity + 0.5), math.floor(vy * per_velocity + 0.5)
        dx, dy, best = _mean_shift(*matched, *expected, scores, rule)
        # A wall seen through a gap appears elsewhere after a while, but in between still where it is.
        points = count + old_count
        if least > 0 and best - total_agreement(*matched, ZERO, ZERO, -points) < least * points:
            velocity[k] = np.nan
            continue
        # Constant or falling speeds are known better over the longer time: faces that come into sight shorten a short
        # shift. Nothing changes where the shift is NaN.
        if dx * vx + dy * vy > (vx * vx + vy * vy) * per_velocity:
            set_velocity(velocity, k, dx, dy, rule)
