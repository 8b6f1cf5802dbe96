# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of the observation grid: points to polar table and cell counts, counts to probabilities."""

from __future__ import annotations

import math

import numpy as np

from roadbed.compute.cpu import U
from roadbed.compute.kernels import njit
from roadbed.occupancy.model import (
    FAR_ABOVE,
    LEAST_ODDS,
    LEAST_SEEN,
    MARKING_WEIGHT,
    MIXED_HITS,
    MOST_WEIGHT,
    NO_BEAM,
    SOFT_SIGMAS,
    SUBCELLS,
    WEIGHT_ONE,
)


@njit(cache=True, inline="always")
def nearest_node(ground, x, y):
    column = math.floor((x - ground.x0) / ground.spacing + 0.5)
    row = math.floor((y - ground.y0) / ground.spacing + 0.5)
    if column < 0 or row < 0 or column >= ground.columns or row >= ground.rows:
        return -1
    return row * ground.columns + column


@njit(cache=True, inline="always")
def plane_at(ground, x, y):
    return ground.plane[0] + ground.plane[1] * x + ground.plane[2] * y


@njit(cache=True, inline="always")
def azimuth_bin(dx, dy, bins):
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


@njit(cache=True, nogil=True)
def locate_points(first, last, cloud, grid, ground, model, out):
    """Per chosen point: polar bin and slope of its beam, cell and bit in it, obstacle weight o_j, whether it shows the
    ground, and the polar bin where it ends if it is a low obstacle."""
    points, rotation, translation, sensor = cloud.points, cloud.rotation, cloud.translation, cloud.origin
    for k in range(U(first), U(last)):
        j = cloud.chosen[k]
        out.ray[k] = -1
        out.cell[k] = -1
        out.weight[k] = 0
        out.on_ground[k] = 0
        out.low[k] = -1
        dz = cloud.heights[j]
        px, py, pz = points[j, 0], points[j, 1], points[j, 2]
        if not (math.isfinite(px) and math.isfinite(py) and math.isfinite(pz)):
            continue
        x = rotation[0, 0] * px + rotation[0, 1] * py + rotation[0, 2] * pz + translation[0]
        y = rotation[1, 0] * px + rotation[1, 1] * py + rotation[1, 2] * pz + translation[1]
        z = rotation[2, 0] * px + rotation[2, 1] * py + rotation[2, 2] * pz + translation[2]
        known = math.isfinite(dz)
        if not known:
            dz = z - plane_at(ground, x, y)
        if dz <= -model.low_outlier:
            continue
        dx, dy = x - sensor[0], y - sensor[1]
        distance = math.sqrt(dx * dx + dy * dy)
        if distance < model.min_range:
            continue
        # The last range bin whose centre the beam passed, a margin before its end.
        last = int((distance - model.range_margin) / grid.spacing - 0.5) - 1
        if last >= 0:
            azimuth = azimuth_bin(dx, dy, model.azimuth_bins)
            out.ray[k] = azimuth * model.range_bins + min(last, model.range_bins - 1)
            out.slope[k] = (z - sensor[2]) / distance
            end = int(distance / grid.spacing)
            if model.obstacle_height < dz < model.underside and end < model.range_bins:
                out.low[k] = azimuth * model.range_bins + end
        gx, gy = x - grid.x, y - grid.y
        fine_column = math.floor((grid.cosine * gx + grid.sine * gy) * SUBCELLS / grid.spacing)
        fine_row = math.floor((grid.cosine * gy - grid.sine * gx) * SUBCELLS / grid.spacing)
        column, row = fine_column // SUBCELLS, fine_row // SUBCELLS
        if column < 0 or row < 0 or column >= grid.columns or row >= grid.rows:
            continue
        out.cell[k] = row * grid.columns + column
        out.subcell[k] = (fine_row % SUBCELLS) * SUBCELLS + fine_column % SUBCELLS
        lowest = model.obstacle_height - (SOFT_SIGMAS * model.obstacle_height_sigma if known else 0.0)
        if lowest < dz < model.clearance:
            # An uncertain ground makes the step from ground to obstacle softer.
            node = nearest_node(ground, x, y)
            uncertain = model.ground_sigma**2
            if known and node >= 0 and math.isfinite(ground.variance[node]):
                uncertain = min(ground.variance[node], uncertain)
            variance = model.obstacle_height_sigma**2 + uncertain
            share = 1 / (1 + math.exp(-(dz - model.obstacle_height) / math.sqrt(variance)))
            out.weight[k] = int(share * WEIGHT_ONE + 0.5)
        if known and dz <= model.obstacle_height:
            out.on_ground[k] = 1


@njit(cache=True)
def collect(located, out):
    """Scatter the points: lowest slope per polar bin of beams and of low obstacles; per cell obstacle weight, hit
    subcells and ground returns."""
    table, cover = out.table.reshape(-1), out.cover.reshape(-1)
    table[:] = NO_BEAM
    cover[:] = NO_BEAM
    out.hits[:] = 0
    out.surface[:] = 0
    out.ground_seen[:] = 0
    for k in range(located.ray.shape[0]):
        ray, low, slope = located.ray[k], located.low[k], located.slope[k]
        if ray >= 0 and slope < table[ray]:
            table[ray] = slope
        if low >= 0:
            cover[low] = min(cover[low], slope)
        cell = located.cell[k]
        if cell < 0:
            continue
        if out.hits[cell] < MOST_WEIGHT:
            out.hits[cell] += located.weight[k]
        if located.weight[k] > MARKING_WEIGHT:
            out.surface[cell] |= np.uint16(1 << located.subcell[k])
        out.ground_seen[cell] |= located.on_ground[k]


@njit(cache=True, nogil=True)
def running_minimum(first, last, table):
    """From far to near: a beam that ended further out passed every nearer bin of its azimuth. (rays, bins)"""
    for azimuth in range(first, last):
        lowest = NO_BEAM
        for k in range(table.shape[1] - 1, -1, -1):
            lowest = min(lowest, table[azimuth, k])
            table[azimuth, k] = lowest


@njit(cache=True, nogil=True)
def spread_cover(first, last, cover, bins):
    """What stands low in a bin covers the next `bins` bins behind it: there is room for its body. (rays, bins)

    In: lowest slope of low obstacles per bin. Out: the slope under which a beam passes beneath something.
    """
    for azimuth in range(first, last):
        slope, until = -NO_BEAM, -1
        for k in range(cover.shape[1]):
            found = cover[azimuth, k]
            cover[azimuth, k] = slope if k <= until else -NO_BEAM
            if found < NO_BEAM:
                slope = max(slope, found) if k <= until else found
                until = k + bins


@njit(cache=True, inline="always")
def covered_at(cover, azimuth, bin_, beside):
    """The slope under which a beam passes beneath something in its ray, or in as many beside it."""
    slope, rays = cover[azimuth, bin_], cover.shape[0]
    for k in range(1, beside + 1):
        before, after = azimuth - k, azimuth + k
        before += rays if before < 0 else 0
        after -= rays if after >= rays else 0
        slope = max(slope, cover[before, bin_], cover[after, bin_])
    return slope


@njit(cache=True, inline="always")
def surface_at(ground, x, y, model):
    """Height of the ground, its uncertainty, and whether it is known; else that of the vehicle's plane."""
    node = nearest_node(ground, x, y)
    if node >= 0 and math.isfinite(ground.elevation[node]):
        variance = ground.variance[node]
        if variance <= model.ground_sigma**2:
            nx = ground.x0 + (node % ground.columns) * ground.spacing
            ny = ground.y0 + (node // ground.columns) * ground.spacing
            surface = float(ground.elevation[node])
            if math.isfinite(ground.slope[node, 0]):
                surface += ground.slope[node, 0] * (x - nx) + ground.slope[node, 1] * (y - ny)
            return surface, float(math.sqrt(variance)), True
    return plane_at(ground, x, y), model.ground_sigma, False


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


@njit(cache=True, nogil=True)
def judge_cells(first, last, collected, sensor, grid, ground, model, probability, observedness):
    """p_z and lambda of every cell from the lowest passing beam and the obstacle returns in it.

    A beam that went beneath something, as under a car, hardly shows that the space there is free.
    """
    table, cover, hits, ground_seen = collected.table, collected.cover, collected.hits, collected.ground_seen
    for row in range(first, last):
        for column in range(grid.columns):
            gx = (column + 0.5) * grid.spacing
            gy = (row + 0.5) * grid.spacing
            x = grid.x + grid.cosine * gx - grid.sine * gy
            y = grid.y + grid.sine * gx + grid.cosine * gy
            dx, dy = x - sensor[0], y - sensor[1]
            distance = math.sqrt(dx * dx + dy * dy)
            cell = row * grid.columns + column

            lowest, beneath, azimuth = NO_BEAM, -NO_BEAM, 0
            bin_ = int(distance / grid.spacing)
            if bin_ < model.range_bins:
                azimuth = azimuth_bin(dx, dy, model.azimuth_bins)
                lowest = table[azimuth, bin_]
            n_o = min(hits[cell] / WEIGHT_ONE, model.hits)
            if lowest >= NO_BEAM and n_o == 0 and ground_seen[cell] == 0:
                probability[row, column] = 0.5
                observedness[row, column] = 0
                continue

            if bin_ < model.range_bins and model.beneath < 1:
                beneath = covered_at(cover, azimuth, bin_, model.rays_beside)
            odds = 1.0
            surface, sigma, known = surface_at(ground, x, y, model)
            trust = model.beneath if lowest < beneath else 1.0
            if ground_seen[cell]:
                # The beam that ended here on the ground may itself have come from beneath.
                if surface - sensor[2] < beneath * distance:
                    trust = model.beneath
                odds = passing_odds(0.0, 0.0, trust * model.ground_detection, model)
            elif lowest < NO_BEAM:
                detection = model.detection if known else model.detection * model.unknown_ground
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
