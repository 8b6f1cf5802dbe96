# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Nodes of few points side by side, one in each lane of a vector: half of all nodes have not enough to fill one.

A node's points lie below each other in its lane, so that its sums need not be added up across lanes. Nodes of about as
many points are abreast; those of many fill vectors of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.compute.cpu import F, U, inner
from roadbed.compute.lanes import LANES, STEP
from roadbed.compute.scratch import scratch
from roadbed.ground.stcrf.model import FAR_ABOVE

BAND = 8  # rows whose nodes are sorted together: what is read and written for them stays in the nearest cache
MOST_POINTS = 32  # of a node that lies beside others; even
STRIDE = 3 * LANES  # x, y, z of one point in each lane
_LENGTHS = MOST_POINTS + 2  # the last one stands for all that are longer


class Abreast(NamedTuple):
    """Nodes of each band of rows by length, LANES at a time, then its long ones; see `slots_of`."""

    node: np.ndarray  # (slots,)
    mean_at: np.ndarray  # (slots,) where the planes of the node lie,
    data_at: np.ndarray  # (slots,) and its data term
    points: np.ndarray  # x, y, z of LANES points after those of LANES others
    first: np.ndarray  # (slots,) where those of the lanes that begin here are,
    steps: np.ndarray  # (slots,) and how many of each lane
    counts: np.ndarray  # (bands, 2) slots in use: lanes, and long nodes after them

    @classmethod
    def of(cls, rows: int, nodes: int, points: int, ranges: int) -> Abreast:
        """For so many at most."""
        bands = rows // BAND + ranges + 1
        slots = nodes + LANES * bands
        node, mean_at, data_at, first, steps = np.zeros((5, slots), np.int32)
        room = np.empty(3 * (points + LANES * MOST_POINTS * bands), np.float32)
        return cls(node, mean_at, data_at, room, first, steps, np.zeros((bands, 2), np.int32))


@inner()
def band_of(part, row):
    """Number of the band of a range of rows that begins at a row; no two have the same, wherever ranges begin."""
    return row // BAND + part


@inner()
def slots_of(listed, band, first_row):
    """Where the nodes of a band begin."""
    return listed.row[first_row] + LANES * band


@inner()
def _sort_by_length(points, rows, slot, columns, stride, abreast):
    """Nodes with points to their slots, the longest first but for those that lie alone; how many of both."""
    next_slot, nodes = scratch(_LENGTHS, np.int32), points.listed.nodes
    for i in range(points.listed.row[rows[0]], points.listed.row[rows[1]]):
        next_slot[min(points.length[nodes[i]], _LENGTHS - 1)] += 1
    total = slot
    for length in range(MOST_POINTS, 0, -1):
        here = next_slot[length]
        next_slot[length] = total
        total += here
    lanes = (total - slot + LANES - 1) // LANES * LANES
    alone = next_slot[_LENGTHS - 1]
    next_slot[_LENGTHS - 1] = slot + lanes
    for row in range(rows[0], rows[1]):
        for i in range(points.listed.row[row], points.listed.row[row + 1]):
            node = nodes[i]
            length = min(points.length[node], _LENGTHS - 1)
            if length == 0:
                continue
            place, column = next_slot[length], node - row * columns + 1
            next_slot[length] += 1
            abreast.node[place] = node
            abreast.mean_at[place] = (row + 1) * 3 * stride + column
            abreast.data_at[place] = (row + 1) * 9 * stride + column
    for place in range(total, slot + lanes):  # the last one again: its sums are written twice, the same
        abreast.node[place] = abreast.node[total - 1]
        abreast.mean_at[place], abreast.data_at[place] = abreast.mean_at[total - 1], abreast.data_at[total - 1]
    return lanes, alone


@inner()
def _fill_lanes(points, slot, at, abreast):
    """Points of LANES nodes below each other from `at` on, filled up to the longest; where the next ones begin."""
    steps, out = (points.length[abreast.node[slot]] + 1) // 2 * 2, abreast.points
    abreast.first[slot], abreast.steps[slot] = at, steps
    for lane in range(LANES):
        node, place = abreast.node[slot + lane], U(at + lane)
        length, first = U(points.length[node]), U(points.reserved[node])
        for k in range(first, first + length):
            out[place], out[place + STEP], out[place + STEP + STEP] = points.x[k], points.y[k], points.z[k]
            place += U(STRIDE)
        for _ in range(length, U(steps)):
            out[place], out[place + STEP], out[place + STEP + STEP] = F(0), F(0), FAR_ABOVE
            place += U(STRIDE)
    return at + steps * STRIDE


@inner()
def lay_abreast(points, part, rows, columns, stride, abreast):
    """The nodes of a range of rows and their points; `stride` is that of the planes."""
    for first_row in range(rows[0], rows[1], BAND):
        band, last_row = band_of(part, first_row), min(first_row + BAND, rows[1])
        slot = slots_of(points.listed, band, first_row)
        lanes, alone = _sort_by_length(points, (first_row, last_row), slot, columns, stride, abreast)
        abreast.counts[band, 0], abreast.counts[band, 1] = lanes, alone
        # All lanes but the first ones hold as many points as the lanes before, or fewer: there is room.
        at = 3 * (points.reserved[first_row * columns] + LANES * MOST_POINTS * band)
        for first in range(slot, slot + lanes, LANES):
            at = _fill_lanes(points, first, at, abreast)
