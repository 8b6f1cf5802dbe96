# SPDX-License-Identifier: Apache-2.0
"""Numba kernel of the inverse sensor model: passing beams and returns of a cell become p_z and lambda, and returns that
hang are no surface.

Cells are processed in blocks. Loops without branches over one array with constant offsets compile to vector
instructions; table lookups and exponentials run between them.
"""

import math

import numpy as np

from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.kernels.numeric import U, max, min
from roadbed.kernels.scratch import scratch
from roadbed.occupancy.observation.arrays import TOUCHED
from roadbed.occupancy.observation.model import (
    FAR_ABOVE,
    LEAST_ODDS,
    LEAST_SEEN,
    MIXED_HITS,
    NO_BEAM,
    RAYS_BESIDE,
    WEIGHT_ONE,
)
from roadbed.occupancy.observation.observe_cpu import azimuth_bin, azimuth_part, nearest_node, plane_at

_BLOCK = 32  # cells of a row
_STRETCH = 4 * _BLOCK  # cells whose visibility is tested together first
(
    _X, _Y, _DISTANCE, _BEAMS, _NODE, _TO_X, _TO_Y,
    _LOWEST, _BENEATH, _HEIGHT, _VARIANCE, _SLOPE_X, _SLOPE_Y, _HITS, _ON_GROUND,
    _DETECTION, _EXPONENT, _ODDS, _P, _SEEN,
) = (U(k * _BLOCK) for k in range(20))  # fmt: skip
_ROOM = 20 * _BLOCK


@inlined()
def _place_block(row, begin, origin_x, origin_y, grid, ground, model, block):
    """Positions of the cells, their bins of the polar table and their ground nodes; -1 outside of these."""
    gy = (row + 0.5) * grid.spacing
    for i in range(U(_BLOCK)):
        gx = (begin + np.int64(i) + 0.5) * grid.spacing
        x = grid.x + grid.cosine * gx - grid.sine * gy
        y = grid.y + grid.sine * gx + grid.cosine * gy
        dx, dy = x - origin_x, y - origin_y
        distance = math.sqrt(dx * dx + dy * dy)
        bin_ = np.floor(distance / grid.spacing)
        azimuth = azimuth_bin(dx, dy, model.azimuth_bins)
        node, node_column, node_row = nearest_node(ground, x, y)
        block[_X + i] = x
        block[_Y + i] = y
        block[_DISTANCE + i] = distance
        block[_BEAMS + i] = azimuth * model.range_bins + bin_ if bin_ < model.range_bins else -1.0
        block[_NODE + i] = node
        block[_TO_X + i] = x - (ground.x0 + node_column * ground.spacing)
        block[_TO_Y + i] = y - (ground.y0 + node_row * ground.spacing)


@inner()
def _out_of_sight(row, begin, count, origin_x, origin_y, grid, model, farthest):
    """Whether no beam can have passed these cells: every ray towards them ends before the nearest of them."""
    gx, gy, length = (begin + 0.5) * grid.spacing, (row + 0.5) * grid.spacing, (count - 1) * grid.spacing
    dx = grid.x + grid.cosine * gx - grid.sine * gy - origin_x
    dy = grid.y + grid.sine * gx + grid.cosine * gy - origin_y
    along = min(max(-(dx * grid.cosine + dy * grid.sine), 0.0), length)
    near_x, near_y = dx + along * grid.cosine, dy + along * grid.sine
    nearest = math.sqrt(near_x * near_x + near_y * near_y)
    one = azimuth_part(dx, dy, model.azimuth_bins)
    other = azimuth_part(dx + length * grid.cosine, dy + length * grid.sine, model.azimuth_bins)
    if abs(other - one) > 0.5 * model.azimuth_bins:  # across the seam of the table
        return False
    # One more bin on each side for rounding.
    bin_ = int(nearest / grid.spacing) - 1
    for azimuth in range(max(int(min(one, other)) - 1, 0), min(int(max(one, other)) + 2, model.azimuth_bins)):
        if farthest[azimuth] >= bin_:
            return False
    return True


@inlined()
def _covered_at(cover, at, bins, size, beside):
    """The slope under which a beam passes beneath an obstacle in its ray, or in `beside` rays on each side."""
    slope = cover[at]
    for k in range(1, beside + 1):
        before, after = at - k * bins, at + k * bins
        before += size if before < 0 else 0
        after -= size if after >= size else 0
        slope = max(max(slope, cover[before]), cover[after])
    return slope


@merged()
def _is_touched(begin, count, touched):
    return touched[begin // U(TOUCHED)] | touched[(begin + count - U(1)) // U(TOUCHED)] != 0


@inlined()
def _returns_in(begin, count, collected, block):
    """Obstacle weight and ground returns of `count` cells from `begin` on. Returns how many cells have either."""
    some = 0
    for i in range(count):
        block[_HITS + i] = collected.hits[begin + i]
        block[_ON_GROUND + i] = collected.ground_seen[begin + i]
        some += (block[_HITS + i] > 0) | (block[_ON_GROUND + i] > 0)
    return some


@inlined()
def _passed_beside(table, at, aside, size, bins):
    """The lowest beam that passed this bin in the next ray, NO_BEAM if all ended before; -NO_BEAM if neither that ray
    nor the one after it has a beam: columns of a sparse sensor are further apart than rays. A cell is wider than its
    own ray: at grazing incidence that ray passes a wall which ends the next."""
    for k in range(1, RAYS_BESIDE + 1):
        beside = (at + k * aside) % size
        if table[beside - beside % bins] < NO_BEAM:
            return table[beside]
    return -NO_BEAM


@inlined()
def _beams_over(count, table, model, block):
    """The lowest beam that passed each cell. Returns how many cells have one."""
    some, bins, size = 0, model.range_bins, model.azimuth_bins * model.range_bins
    for i in range(U(count)):
        at = int(block[_BEAMS + i])
        lowest = table[max(at, 0)]
        if model.whole_cells and at >= 0 and lowest < NO_BEAM:
            before = _passed_beside(table, at, -bins, size, bins)
            lowest = max(max(lowest, before), _passed_beside(table, at, bins, size, bins))
        block[_LOWEST + i] = lowest if at >= 0 else NO_BEAM
        some += (at >= 0) & (lowest < NO_BEAM)
    return some


@inlined()
def _look_up(count, cover, ground, model, block):
    """Underpass slope and ground of those cells that were observed."""
    for k in range(count):
        i = U(k)
        at, node = int(block[_BEAMS + i]), int(block[_NODE + i])
        if block[_LOWEST + i] >= NO_BEAM and block[_HITS + i] == 0 and block[_ON_GROUND + i] == 0:
            continue
        block[_BENEATH + i] = -NO_BEAM
        if at >= 0 and model.underpass < 1:
            block[_BENEATH + i] = _covered_at(
                cover, at, model.range_bins, model.azimuth_bins * model.range_bins, model.neighbour_rays
            )
        if node < 0 or not math.isfinite(ground.elevation[node]):
            block[_VARIANCE + i] = np.inf
            continue
        sloped = math.isfinite(ground.slope[node, 0])
        block[_HEIGHT + i], block[_VARIANCE + i] = ground.elevation[node], ground.variance[node]
        block[_SLOPE_X + i] = ground.slope[node, 0] if sloped else 0.0
        block[_SLOPE_Y + i] = ground.slope[node, 1] if sloped else 0.0


@inlined()
def _weigh(sensor_z, ground, model, block):
    """P(an obstacle stops the lowest beam): detection, and the exponent of the share of obstacles that are high enough.
    Where the ground is unknown the vehicle's plane replaces it."""
    plane = ground.plane[0], ground.plane[1], ground.plane[2]
    for i in range(U(_BLOCK)):
        distance, lowest, beneath = block[_DISTANCE + i], block[_LOWEST + i], block[_BENEATH + i]
        known = block[_VARIANCE + i] <= model.ground_sigma**2
        over = block[_HEIGHT + i] + (block[_SLOPE_X + i] * block[_TO_X + i] + block[_SLOPE_Y + i] * block[_TO_Y + i])
        surface = over if known else plane_at(plane, block[_X + i], block[_Y + i])
        sigma = float(np.float32(math.sqrt(block[_VARIANCE + i]))) if known else model.ground_sigma
        trust = model.underpass if lowest < beneath else 1.0
        # The beam of the ground return may itself have passed beneath an obstacle.
        ended = model.underpass if surface - sensor_z < beneath * distance else trust
        clearance = sensor_z + lowest * distance - surface
        excess = max(clearance, 0.0) - model.sure_height
        # The ground's uncertainty adds to the spread of obstacle heights.
        exponent = -excess * excess / (2 * (model.height_spread**2 + sigma**2))
        detection = trust * (model.detection if known else model.detection * model.unknown_ground)
        passed = (lowest < NO_BEAM) & (clearance < FAR_ABOVE)
        on_ground = block[_ON_GROUND + i] > 0
        block[_DETECTION + i] = ended * model.ground_detection if on_ground else (detection if passed else 0.0)
        block[_EXPONENT + i] = exponent if (excess > 0) & passed & (not on_ground) else 0.0


@inlined()
def _conclude(clip, block):
    """p_z and lambda of cells without returns, from LR_free = P(beam passes | occupied) / P(beam passes | empty)."""
    for i in range(U(_BLOCK)):
        odds = 1 - block[_DETECTION + i] * block[_EXPONENT + i]
        p, seen = odds / (1 + odds), 1 - odds
        unseen = seen < LEAST_SEEN
        block[_ODDS + i] = odds
        block[_P + i] = min(max(0.5 if unseen else p, clip), 1 - clip)
        block[_SEEN + i] = 0.0 if unseen else seen


@inlined()
def _with_returns(n_o, odds, model):
    """p_z and lambda of a cell whose obstacle returns have the total weight `n_o`."""
    log_occupied = n_o * model.log_hit_ratio
    kappa = model.mixed_free if n_o >= MIXED_HITS else 1.0
    p = 1 / (1 + math.exp(-log_occupied - kappa * math.log(max(odds, LEAST_ODDS))))
    seen = 1 - math.exp(-log_occupied) * odds
    if seen < LEAST_SEEN:
        p, seen = 0.5, 0.0
    return min(max(p, model.clip), 1 - model.clip), seen


@njit(cache=True, nogil=True, error_model="numpy")
def apply_sensor_model(first, last, collected, sensor, grid, ground, model, probability, observedness, surface):
    """p_z and lambda of every cell from the lowest passing beam and the obstacle returns in it.

    A beam that passed beneath an obstacle, as under a car, does not show that the cell is free. One that passed far
    beneath shows that the obstacle hangs: what moves on the ground has returns there, or hides what is behind it. But
    not if it passed beneath something else that stands low before the cell: that hides the rest of the obstacle.
    """
    table, cover, farthest = collected.table, collected.cover, collected.farthest
    block = scratch(_ROOM, np.float64)
    origin_x, origin_y, origin_z = sensor[0], sensor[1], sensor[2]
    for row in range(first, last):
        for column in range(U(grid.columns)):
            probability[row, column] = 0.5
            observedness[row, column] = 0
        hidden = False
        for begin in range(0, grid.columns, _BLOCK):
            if begin % _STRETCH == 0:
                length = min(_STRETCH, grid.columns - begin)
                hidden = _out_of_sight(row, begin, length, origin_x, origin_y, grid, model, farthest)
            count = min(_BLOCK, grid.columns - begin)
            touched = _is_touched(U(row * grid.columns + begin), U(count), collected.touched)
            if not touched and (hidden or _out_of_sight(row, begin, count, origin_x, origin_y, grid, model, farthest)):
                continue
            some = _returns_in(U(row * grid.columns + begin), U(count), collected, block)
            _place_block(row, begin, origin_x, origin_y, grid, ground, model, block)
            some += _beams_over(count, table, model, block)
            if some == 0:
                continue
            _look_up(count, cover, ground, model, block)
            _weigh(origin_z, ground, model, block)
            for k in range(count):
                exponent = block[_EXPONENT + U(k)]
                block[_EXPONENT + U(k)] = math.exp(exponent) if exponent < 0 else 1.0
            _conclude(model.clip, block)
            for k in range(count):
                i = U(k)
                if block[_HITS + i] > 0:
                    n_o = min(block[_HITS + i] / WEIGHT_ONE, model.hits)
                    block[_P + i], block[_SEEN + i] = _with_returns(n_o, block[_ODDS + i], model)
                    lowest, distance = block[_LOWEST + i], block[_DISTANCE + i]
                    apart = (collected.lowest[row * grid.columns + begin + k] - lowest) * distance
                    standing = 0 < (block[_BENEATH + i] - lowest) * distance < model.standing
                    if apart >= model.passage and not standing:
                        surface[row, begin + k] = 0
                probability[row, begin + k] = block[_P + i]
                observedness[row, begin + k] = block[_SEEN + i]
