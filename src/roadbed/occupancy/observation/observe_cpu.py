# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of the observation grid: points to polar table and cell counts."""

import math

import numpy as np

from roadbed.kernels.jit import merged, njit
from roadbed.kernels.numeric import U, max, min
from roadbed.occupancy.observation.arrays import GROUND, HIGH, TOUCHED
from roadbed.occupancy.observation.model import MARKING_WEIGHT, MOST_WEIGHT, NO_BEAM
from roadbed.runtime.primitives_cpu import fast_azimuth

HALVES = 2  # of `collect`


# Indices are integers stored as floats, so that loops over them stay vectors.


@njit(inline="always")
def nearest_node(ground, x, y):
    """Index, column and row of the nearest node of the ground; the index is -1 outside of it."""
    column = np.floor((x - ground.x0) / ground.spacing + 0.5)
    row = np.floor((y - ground.y0) / ground.spacing + 0.5)
    within = (column >= 0) & (row >= 0) & (column < ground.columns) & (row < ground.rows)
    return (row * ground.columns + column if within else -1.0), column, row


@njit(inline="always")
def plane_at(plane, x, y):
    return plane[0] + plane[1] * x + plane[2] * y


@njit(inline="always")
def azimuth_bin(dx, dy, bins):
    return min(np.floor(azimuth_part(dx, dy, bins)), bins - 1.0)


@njit(inline="always")
def azimuth_part(dx, dy, bins):
    """The full turn from -pi on, in bins."""
    return (fast_azimuth(dx, dy) + math.pi) * (bins / (2 * math.pi))


@njit(cache=True)
def clear(collected):
    """Empty the tables: only what is marked as filled has to be written."""
    bins, table, farthest, cover, covered, hits, ground_seen, lowest, highest, touched = collected
    for azimuth in range(U(farthest.shape[0])):
        begin = azimuth * U(bins)
        for k in range(begin, begin + U(farthest[azimuth] + 1)):
            table[k] = NO_BEAM
        for k in range(begin, begin + U(bins if covered[azimuth] else 0)):
            cover[k] = -NO_BEAM
        farthest[azimuth], covered[azimuth] = -1, 0
    for block in range(U(touched.shape[0])):
        if touched[block]:
            begin, end = block * U(TOUCHED), min((block + U(1)) * U(TOUCHED), U(hits.shape[0]))
            for cell in range(begin, end):
                hits[cell] = 0
                ground_seen[cell] = 0
                lowest[cell] = np.inf
                highest[cell] = -np.inf
            touched[block] = 0


@njit(cache=True, nogil=True)
def collect(first, last, located, model, out, surface):
    """Scatter the points: lowest slope per polar bin of beams and of low obstacles; per cell obstacle weight, hit
    subcells and ground returns. The two HALVES may run on different threads."""
    for half in range(first, last):
        if half == 0:
            _collect_beams(located, out)
        else:
            _collect_returns(located, out, surface)
            if model.layers_apart > 0:
                _drop_single_layers(out, model, surface)


@merged()
def _collect_beams(located, out):
    table, farthest, cover, bins = out.table, out.farthest, out.cover, out.bins
    for k in range(U(located.ray.shape[0])):
        ray, low, slope, azimuth = located.ray[k], located.low[k], located.slope[k], located.azimuth[k]
        if ray >= 0:
            farthest[azimuth] = max(farthest[azimuth], ray - azimuth * bins)
            if slope < table[ray]:
                table[ray] = slope
        if low >= 0:
            cover[low] = min(cover[low], slope) if cover[low] > -NO_BEAM else slope
            out.covered[azimuth] = 1


@merged()
def _collect_returns(located, out, surface):
    hits, ground_seen, touched, surface = out.hits, out.ground_seen, out.touched, surface.reshape(-1)
    for k in range(U(located.cell.shape[0])):
        cell, weight = located.cell[k], located.weight[k]
        if cell < 0:
            continue
        touched[U(cell) // U(TOUCHED)] = 1
        if hits[cell] < MOST_WEIGHT:
            hits[cell] += weight
        if weight > MARKING_WEIGHT:
            surface[cell] |= np.uint16(1 << located.subcell[k])
            out.lowest[cell] = min(out.lowest[cell], located.slope[k])
            if located.kind[k] & HIGH:
                out.highest[cell] = max(out.highest[cell], located.slope[k])
        ground_seen[cell] |= located.kind[k] & GROUND


@merged()
def _drop_single_layers(out, model, surface):
    """Returns of one layer, or low ones alone, are no surface: where a ring meets a bank moves with the sensor."""
    lowest, highest = out.lowest.reshape(surface.shape), out.highest.reshape(surface.shape)
    rows, columns, reach = surface.shape[0], surface.shape[1], model.layers_within
    flat = surface.reshape(-1)
    for block in range(out.touched.shape[0]):
        if not out.touched[block]:
            continue
        for cell in range(block * TOUCHED, min((block + 1) * TOUCHED, flat.shape[0])):
            if flat[cell] == 0:
                continue
            row, column = cell // columns, cell % columns
            least, greatest = lowest[row, column], highest[row, column]
            for r in range(max(row - reach, 0), min(row + reach + 1, rows)):
                for c in range(max(column - reach, 0), min(column + reach + 1, columns)):
                    least, greatest = min(least, lowest[r, c]), max(greatest, highest[r, c])
            if greatest - least < model.layers_apart:
                flat[cell] = 0


@njit(cache=True, nogil=True)
def finish_rays(first, last, collected, underside_bins):
    """From where beams ended to the lowest beam that passed each bin, and to the slope of underpasses."""
    for azimuth in range(first, last):
        begin = azimuth * collected.bins
        running_minimum(collected.table[begin : begin + collected.farthest[azimuth] + 1])
        if collected.covered[azimuth]:
            spread_cover(collected.cover[begin : begin + collected.bins], underside_bins)


@merged()
def running_minimum(ray):
    """From far to near: a beam that ended further out passed every nearer bin of its ray."""
    lowest = NO_BEAM
    for k in range(ray.shape[0] - 1, -1, -1):
        lowest = min(lowest, ray[k])
        ray[k] = lowest


@merged()
def spread_cover(ray, bins):
    """A low obstacle covers the next `bins` bins behind it, which its body may fill.

    In: lowest slope of low obstacles per bin. Out: the slope under which a beam passes beneath an obstacle.
    """
    slope, until = -NO_BEAM, -1
    for k in range(ray.shape[0]):
        found = ray[k]
        ray[k] = slope if k <= until else -NO_BEAM
        if found > -NO_BEAM:
            slope = max(slope, found) if k <= until else found
            until = k + bins
