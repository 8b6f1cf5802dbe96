# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of the observation grid: points to polar table and cell counts, counts to probabilities."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from roadbed.occupancy.model import (
    FAR_ABOVE,
    LEAST_ODDS,
    LEAST_SEEN,
    MARKING_WEIGHT,
    MIXED_HITS,
    NO_BEAM,
    SOFT_SIGMAS,
    SUBCELLS,
)


class GridShape(NamedTuple):
    """The grid's lower left corner (m, lattice frame), its cells, and its axes' turn against the lattice's."""

    x: float
    y: float
    resolution: float
    columns: int
    rows: int
    cosine: float
    sine: float


class GroundSurface(NamedTuple):
    """The ground's layers as flat arrays with NaN where unknown, and the plane to assume there."""

    x0: float
    y0: float
    spacing: float
    columns: int
    rows: int
    elevation: np.ndarray  # (nodes,)
    slope: np.ndarray  # (nodes, 2)
    variance: np.ndarray  # (nodes,)
    fallback: np.ndarray  # height at x = y = 0 and slopes along x and y of the plane the vehicle stands on


class SensorModel(NamedTuple):
    """ObservationConfig as plain numbers; see there."""

    azimuth_bins: int
    range_bins: int
    min_range: float
    range_margin: float
    obstacle_height: float
    obstacle_height_sigma: float
    clearance: float
    low_outlier: float
    sure_height: float
    height_spread: float
    detection: float
    ground_detection: float
    log_hit_ratio: float
    hits: float
    mixed_free: float
    clip: float
    ground_sigma: float
    unknown_ground: float
    underside: float
    underside_bins: int
    beneath: float


@njit(cache=True, inline="always")
def _nearest_node(ground, x, y):
    column = math.floor((x - ground.x0) / ground.spacing + 0.5)
    row = math.floor((y - ground.y0) / ground.spacing + 0.5)
    if column < 0 or row < 0 or column >= ground.columns or row >= ground.rows:
        return -1
    return row * ground.columns + column


@njit(cache=True, inline="always")
def _plane_at(ground, x, y):
    return ground.fallback[0] + ground.fallback[1] * x + ground.fallback[2] * y


@njit(cache=True, inline="always")
def _azimuth_bin(dx, dy, bins):
    return min(int((_azimuth(dx, dy) + math.pi) * (bins / (2 * math.pi))), bins - 1)


@njit(cache=True, inline="always")
def _azimuth(dx, dy):
    """atan2 by the polynomial of Abramowitz and Stegun 4.4.49, within 0.001 degrees: the bins are far wider."""
    wide, high = abs(dx), abs(dy)
    steep = high > wide
    t = (wide / high if steep else high / wide) if wide + high > 0 else 0.0
    t2 = t * t
    angle = t * (0.9998660 + t2 * (-0.3302995 + t2 * (0.1801410 + t2 * (-0.0851330 + t2 * 0.0208351))))
    if steep:
        angle = math.pi / 2 - angle
    if dx < 0:
        angle = math.pi - angle
    return -angle if dy < 0 else angle


@njit(cache=True, parallel=True)
def locate_points(
    points, chosen, height, rotation, origin, sensor, grid, ground, model,
    ray, slope, cell, subcell, weight, on_ground, low,
):  # fmt: skip
    """Per chosen point: polar bin and slope of its beam, cell and bit in it, obstacle weight o_j, whether it shows the
    ground, and the polar bin where it ends if it is a low obstacle."""
    for k in prange(chosen.shape[0]):
        j = chosen[k]
        ray[k] = -1
        cell[k] = -1
        weight[k] = 0
        on_ground[k] = 0
        low[k] = -1
        dz = height[j]
        px, py, pz = points[j, 0], points[j, 1], points[j, 2]
        if not (math.isfinite(px) and math.isfinite(py) and math.isfinite(pz)):
            continue
        x = rotation[0, 0] * px + rotation[0, 1] * py + rotation[0, 2] * pz + origin[0]
        y = rotation[1, 0] * px + rotation[1, 1] * py + rotation[1, 2] * pz + origin[1]
        z = rotation[2, 0] * px + rotation[2, 1] * py + rotation[2, 2] * pz + origin[2]
        known = math.isfinite(dz)
        if not known:
            dz = z - _plane_at(ground, x, y)
        if dz <= -model.low_outlier:
            continue
        dx, dy = x - sensor[0], y - sensor[1]
        distance = math.sqrt(dx * dx + dy * dy)
        if distance < model.min_range:
            continue
        # The last range bin whose centre the beam passed, a margin before its end.
        last = int((distance - model.range_margin) / grid.resolution - 0.5) - 1
        if last >= 0:
            azimuth = _azimuth_bin(dx, dy, model.azimuth_bins)
            ray[k] = azimuth * model.range_bins + min(last, model.range_bins - 1)
            slope[k] = (z - sensor[2]) / distance
            end = int(distance / grid.resolution)
            if model.obstacle_height < dz < model.underside and end < model.range_bins:
                low[k] = azimuth * model.range_bins + end
        gx, gy = x - grid.x, y - grid.y
        fine_column = math.floor((grid.cosine * gx + grid.sine * gy) * SUBCELLS / grid.resolution)
        fine_row = math.floor((grid.cosine * gy - grid.sine * gx) * SUBCELLS / grid.resolution)
        column, row = fine_column // SUBCELLS, fine_row // SUBCELLS
        if column < 0 or row < 0 or column >= grid.columns or row >= grid.rows:
            continue
        cell[k] = row * grid.columns + column
        subcell[k] = (fine_row % SUBCELLS) * SUBCELLS + fine_column % SUBCELLS
        lowest = model.obstacle_height - (SOFT_SIGMAS * model.obstacle_height_sigma if known else 0.0)
        if lowest < dz < model.clearance:
            # An uncertain ground makes the step from ground to obstacle softer.
            node = _nearest_node(ground, x, y)
            uncertain = model.ground_sigma**2
            if known and node >= 0 and math.isfinite(ground.variance[node]):
                uncertain = min(ground.variance[node], uncertain)
            variance = model.obstacle_height_sigma**2 + uncertain
            weight[k] = 1 / (1 + math.exp(-(dz - model.obstacle_height) / math.sqrt(variance)))
        if known and dz <= model.obstacle_height:
            on_ground[k] = 1


@njit(cache=True)
def collect(ray, slope, cell, subcell, weight, on_ground, low, table, cover, hits, surface, ground_seen):
    """Scatter the points: lowest slope per polar bin of beams and of low obstacles; per cell obstacle weight, hit
    subcells and ground returns."""
    table[:] = NO_BEAM
    cover[:] = NO_BEAM
    hits[:] = 0
    surface[:] = 0
    ground_seen[:] = 0
    for k in range(ray.shape[0]):
        if ray[k] >= 0 and slope[k] < table[ray[k]]:
            table[ray[k]] = slope[k]
        if low[k] >= 0:
            cover[low[k]] = min(cover[low[k]], slope[k])
        c = cell[k]
        if c < 0:
            continue
        hits[c] += weight[k]
        if weight[k] > MARKING_WEIGHT:
            surface[c] |= np.uint16(1 << subcell[k])
        ground_seen[c] |= on_ground[k]


@njit(cache=True, parallel=True)
def running_minimum(table):
    """From far to near: a beam that ended further out passed every nearer bin of its azimuth. (rays, bins)"""
    for azimuth in prange(table.shape[0]):
        lowest = NO_BEAM
        for k in range(table.shape[1] - 1, -1, -1):
            lowest = min(lowest, table[azimuth, k])
            table[azimuth, k] = lowest


@njit(cache=True, parallel=True)
def spread_cover(cover, bins):
    """What stands low in a bin covers the next `bins` bins behind it: there is room for its body. (rays, bins)

    In: lowest slope of low obstacles per bin. Out: the slope under which a beam passes beneath something.
    """
    for azimuth in prange(cover.shape[0]):
        slope, until = -NO_BEAM, -1
        for k in range(cover.shape[1]):
            found = cover[azimuth, k]
            cover[azimuth, k] = slope if k <= until else -NO_BEAM
            if found < NO_BEAM:
                slope = max(slope, found) if k <= until else found
                until = k + bins


@njit(cache=True, inline="always")
def passing_odds(clearance, ground_sigma, detection, model):
    """LR_free = P(beam passes | occupied) / P(beam passes | empty) at a clearance over the ground."""
    if clearance >= FAR_ABOVE:
        return 1.0
    excess = max(clearance, 0.0) - model.sure_height
    survive = 1.0
    if excess > 0:
        # The ground's own uncertainty adds to the scatter of obstacle heights.
        survive = math.exp(-excess * excess / (2 * (model.height_spread**2 + ground_sigma**2)))
    return 1 - detection * survive


@njit(cache=True, parallel=True)
def judge_cells(table, cover, hits, ground_seen, sensor, grid, ground, model, probability, observedness):
    """p_z and lambda of every cell from the lowest passing beam and the obstacle returns in it.

    A beam that went beneath something, as under a car, hardly shows that the space there is free.
    """
    for row in prange(grid.rows):
        for column in range(grid.columns):
            gx = (column + 0.5) * grid.resolution
            gy = (row + 0.5) * grid.resolution
            x = grid.x + grid.cosine * gx - grid.sine * gy
            y = grid.y + grid.sine * gx + grid.cosine * gy
            dx, dy = x - sensor[0], y - sensor[1]
            distance = math.sqrt(dx * dx + dy * dy)
            cell = row * grid.columns + column

            lowest, beneath = NO_BEAM, -NO_BEAM
            bin_ = int(distance / grid.resolution)
            if bin_ < model.range_bins:
                azimuth = _azimuth_bin(dx, dy, model.azimuth_bins)
                lowest = table[azimuth, bin_]
                beneath = cover[azimuth, bin_]
            n_o = min(hits[cell], model.hits)
            if lowest >= NO_BEAM and n_o == 0 and ground_seen[cell] == 0:
                probability[row, column] = 0.5
                observedness[row, column] = 0
                continue

            odds = 1.0
            trust = model.beneath if lowest < beneath else 1.0
            if ground_seen[cell]:
                odds = passing_odds(0.0, 0.0, trust * model.ground_detection, model)
            elif lowest < NO_BEAM:
                surface, sigma = _plane_at(ground, x, y), model.ground_sigma
                detection = model.detection * model.unknown_ground
                node = _nearest_node(ground, x, y)
                if node >= 0 and math.isfinite(ground.elevation[node]):
                    variance = ground.variance[node]
                    if variance < model.ground_sigma**2:
                        sigma = math.sqrt(variance)
                        detection = model.detection
                        nx = ground.x0 + (node % ground.columns) * ground.spacing
                        ny = ground.y0 + (node // ground.columns) * ground.spacing
                        surface = ground.elevation[node]
                        if math.isfinite(ground.slope[node, 0]):
                            surface += ground.slope[node, 0] * (x - nx) + ground.slope[node, 1] * (y - ny)
                odds = passing_odds(sensor[2] + lowest * distance - surface, sigma, trust * detection, model)

            p = odds / (1 + odds)
            seen = 1 - odds
            if n_o > 0:
                log_occupied = n_o * model.log_hit_ratio
                kappa = model.mixed_free if n_o >= MIXED_HITS else 1.0
                p = 1 / (1 + math.exp(-log_occupied - kappa * math.log(max(odds, LEAST_ODDS))))
                seen = 1 - math.exp(-log_occupied) * odds
            if seen < LEAST_SEEN:
                p, seen = 0.5, 0.0
            probability[row, column] = min(max(p, model.clip), 1 - model.clip)
            observedness[row, column] = seen
