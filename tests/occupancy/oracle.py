# SPDX-License-Identifier: Apache-2.0
"""Slow float64 NumPy oracles of the occupancy stage, written from the equations and not from the kernels."""

from __future__ import annotations

import math

import numpy as np


def observation(points, heights, sensor, lattice, config, elevation=0.0, sigma=0.0, clearance=2.5):
    """p_z and lambda over flat ground by looking at every beam for every cell."""
    azimuth_bins = round(360 / config.azimuth_step)
    dx, dy = points[:, 0] - sensor[0], points[:, 1] - sensor[1]
    distance = np.hypot(dx, dy)
    azimuth = np.minimum(((np.arctan2(dy, dx) + np.pi) / (2 * np.pi) * azimuth_bins).astype(int), azimuth_bins - 1)
    valid = (distance >= config.min_range) & np.isfinite(heights) & (heights > -config.low_outlier)
    slope = (points[:, 2] - sensor[2]) / np.where(distance > 0, distance, 1)
    last_bin = np.floor((distance - config.range_margin) / lattice.spacing - 0.5).astype(int) - 1
    cell = lattice.index(points[:, 0], points[:, 1])
    softness = math.sqrt(config.obstacle_height_sigma**2 + min(sigma, config.ground_sigma) ** 2)
    weight = 1 / (1 + np.exp(-(heights - config.obstacle_height) / softness))
    low = config.obstacle_height - 3 * config.obstacle_height_sigma
    weight[(heights <= low) | (heights >= clearance)] = 0

    probability, observedness = np.full(lattice.shape, 0.5), np.zeros(lattice.shape)
    for row in range(lattice.rows):
        for column in range(lattice.columns):
            x, y = lattice.x[column], lattice.y[row]
            here = valid & (cell == row * lattice.columns + column)
            n_o = min(weight[here].sum(), config.hits)
            range_ = math.hypot(x - sensor[0], y - sensor[1])
            bearing = math.atan2(y - sensor[1], x - sensor[0])
            bin_ = min(int((bearing + math.pi) / (2 * math.pi) * azimuth_bins), azimuth_bins - 1)
            passing = valid & (azimuth == bin_) & (last_bin >= int(range_ / lattice.spacing))
            ratio = 1.0
            if (here & (heights <= config.obstacle_height)).any():
                ratio = 1 - config.ground_detection
            elif passing.any():
                passes_at = max(sensor[2] + slope[passing].min() * range_ - elevation, 0.0)
                excess = max(passes_at - config.sure_height, 0.0)
                survive = math.exp(-(excess**2) / (2 * (config.height_spread**2 + sigma**2)))
                ratio = 1 - config.detection * survive
            log_occupied = n_o * math.log(config.hit / config.false_alarm)
            kappa = config.mixed_free if n_o >= 0.5 else 1.0
            seen = 1 - math.exp(-log_occupied) * ratio
            if seen >= 1e-6:
                p = 1 / (1 + math.exp(-(log_occupied + kappa * math.log(ratio))))
                probability[row, column] = min(max(p, config.clip), 1 - config.clip)
                observedness[row, column] = seen
    return probability, observedness


def cell_update(cell, p_z, seen, particles, config, mature=0.0, dt=0.1):
    """One cell through P3-P10 and U1-U3 of the filter's equations. `cell` = (S, D, E); particles = [(vx, vy, m)].

    Returns (S, D, E, U), the new particle masses and the newborn mass.
    """
    steps = dt / 0.1

    def over(rate):
        return 1 - (1 - rate) ** steps

    s, d_old, e = cell
    hit = p_z > 0.5
    if seen <= 0:
        s *= math.exp(-dt / config.static_memory)
        e *= math.exp(-dt / config.free_memory)
    e += seen * d_old if config.vacated_is_free else 0.0
    if s + e > 1:
        s, e = s / (s + e), e / (s + e)
    u = 1 - s - e
    masses, to_static = [], 0.0
    for vx, vy, m in particles:
        m *= config.survival**steps * (1 - over(1 - config.unobserved_survival) * (1 - seen))
        stop = over(config.dynamic_to_static) * math.exp(-(vx**2 + vy**2) / (2 * config.stop_speed**2))
        to_static += stop * m
        masses.append((1 - stop) * m)
    arriving = sum(masses)
    born = 0.0
    if hit or not config.hits_only:
        e_sd = over(config.static_to_dynamic)
        e_ed = over(config.empty_to_dynamic) * (1 - mature)
        e_es = over(config.empty_to_static)
        e_es += mature * (over(config.maturity.static_rate) - e_es)
        born = e_sd * s + e_ed * e
        s, e = (1 - e_sd) * s + e_es * e, (1 - e_es - e_ed) * e
    s = min(s + to_static, 0.999)
    if config.compose == "odds":
        d = min(arriving, 0.98)
        total = s * (1 - d) + d * (1 - s) + (1 - s) * (1 - d)
        s, d, rest = s * (1 - d) / total, d * (1 - s) / total, (1 - s) * (1 - d) / total
    elif config.compose == "static-first":
        d = min(arriving, 1 - s)
        rest = 1 - s - d
    else:
        total = s + arriving + e + born + u
        s, d, rest = s / total, arriving / total, (e + born + u) / total
    others = e + born + u
    if others > 1e-12:
        e, born, u = (value * rest / others for value in (e, born, u))
    else:
        s, e, born, u = s + rest, 0.0, 0.0, 0.0
    split = config.unknown_hit if hit else config.unknown_free
    k_s, k_d = split.static, split.dynamic
    if hit:
        k_s, k_d = k_s + mature * k_d, k_d * (1 - mature)
    looked = seen * u if config.keep_unknown else u
    s, born, e, u = s + k_s * looked, born + k_d * looked, e + (1 - k_s - k_d) * looked, u - looked
    z = p_z * (s + d + born) + (1 - p_z) * e + 0.5 * u
    scale = p_z / z * (d / arriving if arriving > 0 else 0.0)
    s_new, d_new, e_new = min(p_z * s / z, 0.999), p_z * (d + born) / z, min((1 - p_z) * e / z, 0.999)
    return (s_new, d_new, e_new, 1 - s_new - d_new - e_new), [m * scale for m in masses], p_z * born / z


def moments(particles, age):
    """Mean and covariance of particles (vx, vy, mass, age) that are old enough."""
    old = np.array([p[:3] for p in particles if p[3] >= age], float)
    if not len(old) or old[:, 2].sum() <= 1e-3:
        return None
    weight = old[:, 2] / old[:, 2].sum()
    mean = weight @ old[:, :2]
    deviation = old[:, :2] - mean
    return mean, (weight[:, None] * deviation).T @ deviation
