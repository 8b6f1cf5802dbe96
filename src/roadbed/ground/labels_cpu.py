# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Labels from the height over the surface and from what stands in the fine column around a point."""

from __future__ import annotations

import numpy as np

from roadbed.frames import Label
from roadbed.ground.numeric_cpu import FAST, F, exp_negative, njit, prange

_UNKNOWN, _GROUND, _OBSTACLE = np.uint8(Label.UNKNOWN), np.uint8(Label.GROUND), np.uint8(Label.OBSTACLE)
_OVERHANG, _LOW_OUTLIER = np.uint8(Label.OVERHANG), np.uint8(Label.LOW_OUTLIER)


@njit(cache=True, fastmath=FAST)
def _measure_nodes(
    nodes_first, nodes_last, start, x, y, z, column, mean, dz, bands, columns, foot, threshold, knee, top,
    clear_threshold, clearance,
):  # fmt: skip
    """Height over the plane of the node, and per column how many points lie in each band of heights."""
    for c in range(nodes_first, nodes_last):
        first, last = start[c], start[c + 1]
        if first == last:
            continue
        row = c // columns
        plane = mean[row + 1, :, c - row * columns + 1]
        h, sx, sy = plane[0], plane[1], plane[2]
        bands[c, :, :] = 0
        for k in range(first, last):
            d = z[k] - (h + sx * x[k] + sy * y[k])
            dz[k] = d
            if d < foot or d >= clearance:
                continue
            counts = bands[c, column[k]]
            if d < threshold:
                counts[0] += np.uint16(1)
            elif d < knee:
                counts[1] += np.uint16(1)
            elif d < top:
                counts[2] += np.uint16(1)
            if d >= clear_threshold:
                counts[3] += np.uint16(1)


@njit(cache=True, fastmath=FAST)
def _around(bands, start, c, column, columns, rows, side, sums):
    """Band counts summed over the 3 x 3 columns around a column, across node borders."""
    row, node_column = c // columns, c % columns
    base_x = node_column * side + column % side
    base_y = row * side + column // side
    sums[:] = 0
    for y in range(max(base_y - 1, 0), min(base_y + 2, rows * side)):
        for x in range(max(base_x - 1, 0), min(base_x + 2, columns * side)):
            node = y // side * columns + x // side
            if start[node] < start[node + 1]:
                counts = bands[node, y % side * side + x % side]
                for k in range(4):
                    sums[k] += counts[k]


@njit(cache=True, fastmath=FAST)
def _is_standing(low, middle, high, ratio):
    """A connected structure rises here: returns in both upper bands, and more of them than at the foot."""
    return middle > 0 and high > 0 and middle + high > ratio * low


@njit(cache=True, fastmath=FAST)
def _label_nodes(
    nodes_first, nodes_last, start, column, origin, dz, bands, columns, rows, side, foot, foot_around,
    threshold, clear_threshold, clearance, low_outlier, use_columns, ratio, use_around, ratio_around, use_clear, up,
    down, label, probability, height,
):  # fmt: skip
    sums = np.zeros(4, np.int32)
    for c in range(nodes_first, nodes_last):
        for k in range(start[c], start[c + 1]):
            d = dz[k]
            i = origin[k]
            height[i] = d
            probability[i] = exp_negative(d * d * (up if d >= F(0) else down))
            if d < -low_outlier:
                label[i] = _LOW_OUTLIER
                continue
            if d >= clearance:
                label[i] = _OVERHANG
                continue
            ground = d < foot
            if not ground and d < threshold:
                ground = True
                if use_columns:
                    counts = bands[c, column[k]]
                    ground = not _is_standing(counts[0], counts[1], counts[2], ratio)
                if ground and use_around and d >= foot_around:
                    _around(bands, start, c, np.int32(column[k]), columns, rows, side, sums)
                    ground = not _is_standing(sums[0], sums[1], sums[2], ratio_around)
            elif not ground and use_clear and d < clear_threshold:
                _around(bands, start, c, np.int32(column[k]), columns, rows, side, sums)
                ground = sums[3] == 0
            label[i] = _GROUND if ground else _OBSTACLE


@njit(parallel=True, cache=True, fastmath=FAST)
def label_points(
    chunks, start, x, y, z, column, origin, node, mean, dz, bands, columns, rows, side, foot, foot_around, threshold,
    knee, top, clear_threshold, clearance, low_outlier, use_columns, ratio, use_around, ratio_around, use_clear,
    sigma_up, sigma_down, label, probability, height,
):  # fmt: skip
    parts = chunks.shape[0] - 1
    for i in prange(parts):
        _measure_nodes(
            chunks[i], chunks[i + 1], start, x, y, z, column, mean, dz, bands, columns, foot, threshold, knee, top,
            clear_threshold, clearance,
        )  # fmt: skip
    up = F(-0.5) / (sigma_up * sigma_up)
    down = F(-0.5) / (sigma_down * sigma_down)
    n = node.shape[0]
    for i in prange(parts):
        for j in range(i * n // parts, (i + 1) * n // parts):
            if node[j] < 0:
                label[j] = _UNKNOWN
                probability[j] = F(0)
                height[j] = F(np.nan)
        _label_nodes(
            chunks[i], chunks[i + 1], start, column, origin, dz, bands, columns, rows, side, foot, foot_around,
            threshold, clear_threshold, clearance, low_outlier, use_columns, ratio, use_around, ratio_around,
            use_clear, up, down, label, probability, height,
        )  # fmt: skip


@njit(cache=True, fastmath=FAST)
def describe_surface(
    information, mean, lo, hi, height_information, slope_information, scale, largest_variance, base, elevation, slope,
    variance,
):  # fmt: skip
    """Elevation, slope and variance = scale [(P + P0)^-1]_00; NaN where the variance exceeds what counts as known."""
    nothing = F(np.nan)
    unknown_variance = scale / height_information
    for row in range(elevation.shape[0]):
        p = information[row + 1]
        for column in range(elevation.shape[1]):
            c = column + 1
            value = unknown_variance
            if lo[row] <= c < hi[row]:
                p00 = p[0, c] + height_information
                l1, l2 = p[1, c] / p00, p[2, c] / p00
                d1 = p[3, c] + slope_information - l1 * p[1, c]
                t = p[4, c] - l1 * p[2, c]
                l3 = t / d1
                d2 = p[5, c] + slope_information - l2 * p[2, c] - l3 * t
                lever = l1 * l3 - l2
                value = scale * (F(1) / p00 + l1 * l1 / d1 + lever * lever / d2)
            variance[row, column] = value
            known = value <= largest_variance
            elevation[row, column] = mean[row + 1, 0, c] + base if known else nothing
            slope[row, column, 0] = mean[row + 1, 1, c] if known else nothing
            slope[row, column, 1] = mean[row + 1, 2, c] if known else nothing
