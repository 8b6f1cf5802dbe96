# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Small components: a few nodes apart from all others are a tree crown or a sign, not the ground."""

import numpy as np

from roadbed.ground.stcrf.model import CLEAN_VARIANCE, SMALL_SHARE
from roadbed.kernels.jit import inlined, merged, njit
from roadbed.kernels.numeric import ONE, F, U, max, min
from roadbed.kernels.simd import STEP, load, mask_bits
from roadbed.runtime.components_cpu import root_of


@inlined()
def _are_above(variance, row, column, limit):
    """Whether a whole vector of nodes is above a limit, as most of a lattice is."""
    return column + STEP <= U(variance.shape[1]) and not mask_bits(load(variance, (row, column)) <= limit)


@merged()
def _find_runs(variance, row, first, runs):
    """Write the clean nodes of a row as runs [from, to) of columns, from index `first` on; returns the end index."""
    n, inside, column = first, False, U(0)
    while column < U(variance.shape[1]):
        if not inside and _are_above(variance, row, column, CLEAN_VARIANCE):
            column += STEP
            continue
        clean = variance[row, column] <= CLEAN_VARIANCE
        if clean and not inside:
            runs[n, 0] = column
        if inside and not clean:
            runs[n, 1] = column
            n += 1
        inside = clean
        column += ONE
    if inside:
        runs[n, 1] = variance.shape[1]
        n += 1
    return n


@merged()
def _join_rows(runs, below, first, last, parent):
    """Join runs first..last of a row with runs below..first of the previous row that they touch, also by a corner."""
    other = np.int64(below)
    for run in range(first, last):
        parent[run] = run
        while other < first and runs[other, 1] < runs[run, 0]:
            other += 1
        touching = other
        while touching < first and runs[touching, 0] <= runs[run, 1]:
            one, two = root_of(parent, np.int64(run)), root_of(parent, touching)
            parent[max(one, two)] = min(one, two)
            touching += 1


@merged()
def _mark_large(runs, row_runs, parent, size, least, large_components):
    """Set 1 for the nodes of large components; `large_components` has a border of one node."""
    for row in range(row_runs.shape[0] - 1):
        for run in range(row_runs[row], row_runs[row + 1]):
            if F(size[root_of(parent, np.int64(run))]) >= least:
                large_components[row + 1, runs[run, 0] + 1 : runs[run, 1] + 1] = 1


@njit(cache=True, nogil=True)
def drop_small_components(fewest, largest_variance, unknown_variance, active_columns, elevation, slope, variance):
    """Make nodes unknown that have no clean neighbour in a large component: of `fewest` nodes, or a share of all.

    The leaves of a tree crown are at many heights, so that its nodes disagree and few are clean.
    """
    rows, columns = variance.shape
    runs, row_runs = np.empty((rows * (columns // 2 + 1), 2), np.int32), np.empty(rows + 1, np.int32)
    row_runs[0] = 0
    parent = np.empty(runs.shape[0], np.int32)
    all_known, known = unknown_variance <= largest_variance, 0
    for row in range(rows):
        row_runs[row + 1] = row_runs[row]
        if not (all_known or active_columns.lo[row] < active_columns.hi[row]):
            continue
        row_runs[row + 1] = _find_runs(variance, U(row), row_runs[row], runs)
        _join_rows(runs, row_runs[max(row - 1, 0)], row_runs[row], row_runs[row + 1], parent)
        for column in range(U(columns)):
            known += variance[row, column] <= largest_variance
    size = np.empty(np.int64(row_runs[rows]), np.int32)
    size[:] = 0
    for run in range(size.shape[0]):
        size[root_of(parent, np.int64(run))] += runs[run, 1] - runs[run, 0]
    large_components = np.zeros((rows + 2, columns + 2), np.uint8)
    _mark_large(runs, row_runs, parent, size, min(F(fewest), SMALL_SHARE * F(known)), large_components)
    large_nearby = np.empty(columns + 2, np.uint8)
    for row in range(rows):
        if not (all_known or active_columns.lo[row] < active_columns.hi[row]):
            continue
        for c in range(U(columns + 2)):
            large_nearby[c] = large_components[row, c] | large_components[row + 1, c] | large_components[row + 2, c]
        c = U(0)
        while c < U(columns):
            if _are_above(variance, U(row), c, largest_variance):
                c += STEP
                continue
            if variance[row, c] <= largest_variance and not (
                large_nearby[c] | large_nearby[c + ONE] | large_nearby[c + U(2)]
            ):
                variance[row, c] = unknown_variance
                elevation[row, c] = slope[row, c, 0] = slope[row, c, 1] = F(np.nan)
            c += ONE
