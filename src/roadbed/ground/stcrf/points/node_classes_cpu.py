# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Classes of nodes, from the counters of the nodes around: sums along rows, then across them."""

import numpy as np

from roadbed.ground.stcrf import model
from roadbed.kernels.jit import inner, merged, njit
from roadbed.kernels.numeric import ONE, F, U, max, min

SUMS = 5  # sums over neighbours that decide the class of a node
_INNER, _OUTER, _REGION, _GROUND, _WALLS = range(SUMS)
_REACH = tuple(np.int64(reach) for reach in (1, 2, model.REGION, 1, 1))  # nodes to each side
# Empty nodes at the ends of a row, so that loops need no border test.
MARGIN = sorted(reach for reach in _REACH if reach != model.REGION)[-1]
_ROUGH = np.int32(1 << 16)  # counts of smooth and of rough nodes are summed as one number: neither reaches 2^16
_SMOOTH = _ROUGH - np.int32(1)


@njit(inline="always")
def _state(points, raised):
    """0: too few points, 1: smooth, _ROUGH: rough."""
    rough = raised >= model.ROUGH_RETURNS and F(raised) > model.ROUGH_SHARE * F(points)
    return (_ROUGH if rough else np.int32(1)) if points >= model.FEWEST_RETURNS else np.int32(0)


@njit(inline="always")
def _add(total, values, sign):
    for i in range(U(total.shape[0])):
        total[i] += sign * values[i]


@inner()
def _running_sum(values, reach, out):
    """Sum of `values` within `reach` places to each side, clipped at the ends."""
    n = values.shape[0]
    total = 0
    for i in range(min(reach, n)):
        total += values[i]
    # Three ranges, so that the long one in the middle asks nothing.
    inner, outer = min(reach + 1, n), max(n - reach, 0)
    for i in range(min(inner, outer)):
        total += values[i + reach]
        out[i] = total
    for i in range(U(inner), U(max(inner, outer))):
        total += np.int64(values[i + U(reach)]) - np.int64(values[i - U(reach) - ONE])
        out[i] = total
    for i in range(min(inner, outer), inner):
        out[i] = total
    for i in range(max(inner, outer), n):
        total -= values[i - reach - 1]
        out[i] = total


@inner()
def _slide(along, reach, row, is_first, total):
    """`total`: the rows within `reach` of a row, from those around the row before."""
    if is_first:
        total[:] = 0
        for other in range(max(row - reach, 0), min(row + reach + 1, along.shape[0])):
            _add(total, along[other], np.int32(1))
        return
    if row + reach < along.shape[0]:
        _add(total, along[row + reach], np.int32(1))
    if row - reach - 1 >= 0:
        _add(total, along[row - reach - 1], np.int32(-1))


@inner()
def box_sum(values, reach, along, out):
    """Sum over the (2 reach + 1)^2 nodes around each node, clipped at the border; `along` is scratch."""
    for row in range(values.shape[0]):
        _running_sum(values[row], reach, along[row])
    for row in range(values.shape[0]):
        for column in range(U(values.shape[1])):
            out[row, column] = out[max(row - 1, 0), column]
        _slide(along, reach, row, row == 0, out[row])


@inner()
def _sum_beside(values, reach, out):
    """Sum of `values`, which have a margin, within a small `reach`; the loops vectorise."""
    middle = U(MARGIN)
    for i in range(U(out.shape[0])):
        out[i] = values[i + middle]
    for k in range(ONE, U(reach) + ONE):
        for i in range(U(out.shape[0])):
            out[i] += values[i + middle - k] + values[i + middle + k]


@merged()
def sum_along(counters, row, state, sums):
    """`sums` (SUMS, rows, columns) of one row of nodes: its neighbours in that row. `state` is scratch.

    `counters` and `state` have a margin on both ends.
    """
    for column in range(U(state.shape[0])):
        state[column] = _state(counters[model.NEAR, column], counters[model.NEAR_HIGH, column])
    _sum_beside(state, _REACH[_INNER], sums[_INNER, row])
    _sum_beside(state, _REACH[_OUTER], sums[_OUTER, row])
    for column in range(U(state.shape[0])):
        state[column] = _state(counters[model.OPEN_NEAR, column], counters[model.OPEN_HIGH, column])
    _running_sum(state[MARGIN:-MARGIN], _REACH[_REGION], sums[_REGION, row])
    _sum_beside(counters[model.SEEN_GROUND], _REACH[_GROUND], sums[_GROUND, row])
    _sum_beside(counters[model.WALL_RETURNS], _REACH[_WALLS], sums[_WALLS, row])


@inner()
def classify_rows(first_row, last_row, active_nodes, sums, p00, node_classes):
    """`node_classes`: bits per active node from the sums along all rows and information p00.

    The ring two nodes away decides about smoothness: an isolated object touches only the nodes inside it, so it cannot
    vouch for its own roughness, while a kerb, a bank or a verge crosses the ring.
    """
    columns, first_active, last_active = sums.shape[2], active_nodes.row[first_row], active_nodes.row[last_row]
    if first_active == last_active:
        return
    first_row, last_row = (
        active_nodes.nodes[first_active] // columns,
        active_nodes.nodes[last_active - 1] // columns + 1,
    )
    around = np.empty((SUMS, columns), np.int32)
    inner, outer, region = around[_INNER], around[_OUTER], around[_REGION]
    ground, walls = around[_GROUND], around[_WALLS]
    for row in range(first_row, last_row):
        for k in range(SUMS):
            _slide(sums[k], _REACH[k], np.int64(row), row == first_row, around[k])
        for i in range(U(active_nodes.row[row]), U(active_nodes.row[row + 1])):
            node = U(active_nodes.nodes[i])
            column = node - U(row * columns)
            support = p00[row + 1, column + ONE]
            ring = outer[column] - inner[column]
            smooth, rough = ring & _SMOOTH, ring // _ROUGH
            even, uneven = region[column] & _SMOOTH, region[column] // _ROUGH
            is_even = F(even) > model.EVEN_SHARE * F(even + uneven)
            kind = np.uint8(0)
            if rough <= model.RING_ROUGH and smooth >= model.RING_SMOOTH:
                kind |= model.SMOOTH
            if support < model.SUPPORT_RATIO and F(ground[column]) < model.FOOT_RATIO * F(walls[column] + 1):
                kind |= model.FOOT_BY_RATIO
            if is_even and support < model.SUPPORT_EVEN:
                kind |= model.FOOT_BY_SUPPORT
            if not is_even and walls[column] < model.OPEN_WALLS:
                kind |= model.OPEN
            node_classes[node] = kind
