# SPDX-License-Identifier: Apache-2.0
"""Slow float64 NumPy oracles of the occupancy stage, written from the equations and not from the kernels."""

import math
from functools import partial

import numpy as np


def observation(points, heights, sensor, grid, config, elevation=0.0, sigma=0.0):
    """p_z and lambda over flat ground by looking at every beam for every cell; `config` is a SensorModel."""
    azimuth_bins = config.azimuth_bins
    dx, dy = points[:, 0] - sensor[0], points[:, 1] - sensor[1]
    distance = np.hypot(dx, dy)
    azimuth = np.minimum(((np.arctan2(dy, dx) + np.pi) / (2 * np.pi) * azimuth_bins).astype(int), azimuth_bins - 1)
    valid = (distance >= config.min_range) & np.isfinite(heights) & (heights > -config.low_outlier)
    slope = (points[:, 2] - sensor[2]) / np.where(distance > 0, distance, 1)
    last_bin = np.floor((distance - config.range_margin) / grid.spacing - 0.5).astype(int) - 1
    cell = grid.index(points[:, 0], points[:, 1])
    softness = math.sqrt(config.obstacle_height_sigma**2 + min(sigma, config.ground_sigma) ** 2)
    weight = 1 / (1 + np.exp(-(heights - config.obstacle_height) / softness))
    low = config.obstacle_height - 3 * config.obstacle_height_sigma
    weight[(heights <= low) | (heights >= config.clearance)] = 0

    probability, observedness = np.full(grid.shape, 0.5), np.zeros(grid.shape)
    for row in range(grid.rows):
        for column in range(grid.columns):
            x, y = grid.x[column], grid.y[row]
            here = valid & (cell == row * grid.columns + column)
            n_o = min(weight[here].sum(), config.hits)
            range_ = math.hypot(x - sensor[0], y - sensor[1])
            bearing = math.atan2(y - sensor[1], x - sensor[0])
            bin_ = min(int((bearing + math.pi) / (2 * math.pi) * azimuth_bins), azimuth_bins - 1)
            passes = valid & (last_bin >= int(range_ / grid.spacing))
            lowest = []  # slope of the lowest beam of each ray that has any
            # The next ray on each side has a say, or the one after it where that has no beam.
            for rays in ((0,), (-1, -2), (1, 2)) if config.whole_cells else ((0,),):
                beams = [valid & (last_bin >= 0) & (azimuth == (bin_ + ray) % azimuth_bins) for ray in rays]
                some = next((of_ray for of_ray in beams if of_ray.any()), None)
                if some is not None or rays == (0,):
                    passing = passes & (False if some is None else some)
                    lowest.append(slope[passing].min(initial=np.inf))
            ratio = 1.0
            if (here & (heights <= config.obstacle_height)).any():
                ratio = 1 - config.ground_detection
            elif max(lowest) < np.inf:
                passes_at = max(sensor[2] + max(lowest) * range_ - elevation, 0.0)
                excess = max(passes_at - config.sure_height, 0.0)
                survive = math.exp(-(excess**2) / (2 * (config.height_spread**2 + sigma**2)))
                ratio = 1 - config.detection * survive
            log_occupied = n_o * config.log_hit_ratio
            kappa = config.mixed_free if n_o >= 0.5 else 1.0
            seen = 1 - math.exp(-log_occupied) * ratio
            if seen >= 1e-6:
                p = 1 / (1 + math.exp(-(log_occupied + kappa * math.log(ratio))))
                probability[row, column] = min(max(p, config.clip), 1 - config.clip)
                observedness[row, column] = seen
    return probability, observedness


def cell_update(cell, p_z, seen, particles, config, mature=0.0, dt=0.1, tested=0.0, beside=False):
    """One cell through P3-P10 and U1-U3 of the filter's equations. `cell` = (S, D, E); particles = [(vx, vy, m)], of
    whose mass a share was `tested`; `beside` cells that move more is born.

    Returns (S, D, E, U), the new particle masses and the newborn mass.
    """
    steps = dt / 0.1

    def over(rate):
        return 1 - (1 - rate) ** steps

    s, d_old, e = cell
    hit = p_z > 0.5
    if seen <= 0:
        s *= math.exp(-dt / config.static_memory)
        probable = min(e, 0.55)
        sure = (e - probable) * math.exp(-dt / config.sure_memory)
        e = probable * math.exp(-dt / config.free_memory) + sure
    masses, to_static = [], 0.0
    for vx, vy, m in particles:
        m *= config.survival**steps * (1 - over(1 - config.unobserved_survival) * (1 - seen))
        stop = over(config.dynamic_to_static) * math.exp(-(vx**2 + vy**2) / (2 * config.stop_speed**2))
        to_static += stop * m
        masses.append((1 - stop) * m)
    arriving = sum(masses)
    left = min(d_old, 2 * (arriving + to_static)) if hit else d_old
    e += config.vacated * seen * left
    if s + e > 1:
        s, e = s / (s + e), e / (s + e)
    u = 1 - s - e
    born = 0.0
    if hit or not config.hits_only:
        e_sd = over(config.static_to_dynamic)
        e_ed = over(config.beside if beside else config.empty_to_dynamic) * (1 - mature)
        e_es = over(config.empty_to_static)
        e_es += mature * (over(config.maturity_static) - e_es)
        born = e_sd * s + e_ed * e
        s, e = (1 - e_sd) * s + e_es * e, (1 - e_es - e_ed) * e
    if hit and arriving > 0:
        claimed = config.claimed * (1 - tested) * seen * u
        s, u = s + claimed, u - claimed
    s = min(s + to_static, 0.999)
    if config.exclusive:
        d = min(arriving, 0.98)
        total = s * (1 - d) + d * (1 - s) + (1 - s) * (1 - d)
        s, d, rest = s * (1 - d) / total, d * (1 - s) / total, (1 - s) * (1 - d) / total
    else:
        total = s + arriving + e + born + u
        s, d, rest = s / total, arriving / total, (e + born + u) / total
    others = e + born + u
    if others > 1e-12:
        e, born, u = (value * rest / others for value in (e, born, u))
    else:
        s, e, born, u = s + rest, 0.0, 0.0, 0.0
    k_s, k_d = (config.hit_static, config.hit_dynamic) if hit else (config.free_static, config.free_dynamic)
    if hit:
        k_s, k_d = k_s + mature * k_d, k_d * (1 - mature)
    looked = seen * u if config.keep_unknown else u
    s, born, e, u = s + k_s * looked, born + k_d * looked, e + (1 - k_s - k_d) * looked, u - looked
    z = p_z * (s + d + born) + (1 - p_z) * e + 0.5 * u
    scale = p_z / z * (d / arriving if arriving > 0 else 0.0)
    s_new, d_new, e_new = min(p_z * s / z, 0.999), p_z * (d + born) / z, min((1 - p_z) * e / z, 0.999)
    return (s_new, d_new, e_new, 1 - s_new - d_new - e_new), [m * scale for m in masses], p_z * born / z


def moments(particles, one_particle=0.0):
    """Mean and covariance of particles (vx, vy, mass), with the variance of one particle shared by all of them."""
    old = np.array(particles, float)
    if not len(old) or old[:, 2].sum() <= 1e-3:
        return None
    weight = old[:, 2] / old[:, 2].sum()
    mean = weight @ old[:, :2]
    deviation = old[:, :2] - mean
    return mean, (weight[:, None] * deviation).T @ deviation + np.eye(2) * one_particle / len(old)


def components(hit):
    """8-connected components numbered by their first cell, by flooding; -1 where nothing was hit."""
    label, count = np.full(hit.shape, -1), 0
    for seed in zip(*np.nonzero(hit)):
        if label[seed] >= 0:
            continue
        front = [seed]
        label[seed] = count
        while front:
            row, column = front.pop()
            for r in range(max(row - 1, 0), min(row + 2, hit.shape[0])):
                for c in range(max(column - 1, 0), min(column + 2, hit.shape[1])):
                    if hit[r, c] and label[r, c] < 0:
                        label[r, c] = count
                        front.append((r, c))
        count += 1
    return label


def background(hit, maturity, config, spacing):
    """Cells of components too large for a mover, and next to a cell that has been static for long or such a cell."""
    label, padded = components(hit), np.pad(maturity, 1)
    views = [padded[r : r + hit.shape[0], c : c + hit.shape[1]] for r in range(3) for c in range(3)]
    found = np.zeros(hit.shape, bool)
    for k in range(label.max() + 1):
        cells = np.argwhere(label == k)
        found[label == k] = (
            len(cells) > config.most_cells or np.ptp(cells, axis=0).max() * spacing > config.extent + 1e-9
        )
    return found & (np.max(views, axis=0) >= config.background_time)


class ScanPair:
    """Two scans of one and the same grid, whose components are compared."""

    def __init__(self, now, old, config, spacing):
        self.config, self.spacing = config, spacing
        self.label, self.old_label = (components((o.surface > 0) & (o.probability > 0.5)) for o in (now, old))
        self.fine, self.old_fine = _subcells(now), _subcells(old)
        self.here, self.before = _agreements(self.fine, now), _agreements(self.old_fine, old)

    def points(self, cells, speed, age):
        """Those of a component of now and of its partner, None where there is none or too few; up to a speed."""
        around = [self.old_label[max(r - 1, 0) : r + 2, max(c - 1, 0) : c + 2].ravel() for r, c in cells]
        votes = np.concatenate(around)
        if not (votes >= 0).any():  # among those that left their place
            (first, low), (last, high) = self.around(cells, speed, age)
            box = slice(max(first, 0), last), slice(max(low, 0), high)
            votes = self.old_label[box][self.label[box] < 0]
        if not (votes >= 0).any():
            return None
        old_cells = np.argwhere(self.old_label == np.argmax(np.bincount(votes[votes >= 0])))
        if np.ptp(old_cells, axis=0).max() * self.spacing > 1.3 * self.config.extent:
            return None
        both = ((self.fine, cells), (self.old_fine, old_cells))
        present, former = (_points(fine, these, self.config.points) for fine, these in both)
        return None if min(len(present), len(former)) < 5 else (present, former)

    def around(self, cells, speed, age):
        """The first and the end of the rows and columns that something of these cells may have come from."""
        reach = int(min(speed * age, 1.5 * np.ptp(cells, axis=0).max() * self.spacing + 0.4) / self.spacing + 1e-9)
        return cells.min(axis=0) - reach, cells.max(axis=0) + reach + 1

    def alone(self, cells, speed, age):
        """Whether it alone has new cells there, and a single old one lost some, as far as the grid shows."""
        (first, low), (last, high) = self.around(cells, speed, age)
        if min(first, low) < 0 or last > self.label.shape[0] or high > self.label.shape[1]:
            return False
        box = slice(first, last), slice(low, high)
        now, old = self.label[box], self.old_label[box]
        new, left = np.unique(now[(now >= 0) & (old < 0)]), np.unique(old[(now < 0) & (old >= 0)])
        return len(left) == 1 and set(new) <= {self.label[tuple(cells[0])]}

    def agreement(self, points, dx, dy):
        present, former = points
        total = _sum_at(self.before, present - (dx, dy)) + _sum_at(self.here, former - (-dx, -dy))
        return total / (len(present) + len(former))


def refined(now, old, age, config, spacing, velocities):
    """Velocities that are known, in m/s, as the mean of the shifts that are nearly the best around the expected one,
    where that is longer along them; not known where the scan agrees nearly as well with rest, or tells nothing. What is
    slow stays as it is if small, else known."""
    pair, out = ScanPair(now, old, config, spacing), velocities.copy()
    reach = round(config.refined_reach / (spacing / 4))
    around = [(dx, dy) for dy in range(-reach, reach + 1) for dx in range(-reach, reach + 1)]
    for k, velocity in enumerate(velocities):
        cells = np.argwhere(pair.label == k)
        slow = np.hypot(*velocity) < config.refined_speed
        if np.isnan(velocity[0]) or (slow and np.ptp(cells, axis=0).max() * spacing <= config.small):
            continue
        asked, points = config.confirmed > 0 and not slow, pair.points(cells, config.speed, age)
        if points is None:
            out[k] = np.nan if asked else velocity
            continue
        expected = np.floor(velocity * age / (spacing / 4) + 0.5).astype(int)
        scores = np.array([pair.agreement(points, *(expected + shift)) for shift in around])
        if asked and scores.max() - pair.agreement(points, 0, 0) < config.confirmed - 1e-9:
            out[k] = np.nan
        if np.isnan(out[k, 0]) or scores.max() < config.good - 1e-9:
            continue
        nearly = np.array(around)[scores >= scores.max() - config.refined_slack - 1e-9]
        younger = (expected + nearly.mean(axis=0)) * spacing / 4 / age
        out[k] = younger if (younger - velocity) @ velocity > 0 else velocity
    return out


def registration(now, old, age, config, spacing, fast=False, maturity=None):
    """Component per cell and velocity per component by trying every shift, for scans of one and the same grid."""
    speed, least = (config.fast_speed, config.fast_least * age) if fast else (config.speed, config.least)
    pair = ScanPair(now, old, config, spacing)
    label, here, before = pair.label, pair.here, pair.before
    velocities = np.full((max(label.max() + 1, 1), 2), np.nan)
    for k in range(label.max() + 1):
        cells = np.argwhere(label == k)
        extent = np.ptp(cells, axis=0).max() * spacing
        if not config.fewest_cells <= len(cells) <= config.most_cells or extent > config.extent:
            continue
        points = pair.points(cells, speed, age)
        if points is None:
            continue
        present, former = points
        agreement = partial(pair.agreement, points)
        still = agreement(0, 0)
        reach = int(min(speed * age, 1.5 * extent + 0.4) / (spacing / 4) + 1e-9)
        steps = range(-reach, reach + 1, 2)
        shifts = [(dx, dy) for dy in steps for dx in steps if dx * dx + dy * dy <= reach * reach]
        scores = [agreement(*shift) for shift in shifts]
        (x, y), coarse = shifts[int(np.argmax(scores))], max(scores)
        beside = [(x, y)] + [(dx, dy) for dy in (y - 1, y, y + 1) for dx in (x - 1, x, x + 1)]
        scores = [agreement(*shift) for shift in beside]
        (x, y), best = beside[int(np.argmax(scores))], max(scores)
        hardly = least / (spacing / 4)
        near = range(-math.ceil(hardly), math.ceil(hardly) + 1)
        small = max(agreement(dx, dy) for dy in near for dx in near if math.hypot(dx, dy) < hardly)
        same, gain, freed = config.same, config.gain, config.freed
        against = np.count_nonzero(_values_at(before, present) < 0) + np.count_nonzero(_values_at(here, former) < 0)
        if extent <= config.small:
            same, gain = config.small_same, config.small_gain
            freed = 0.0 if pair.alone(cells, speed, age) else freed
        elif maturity is not None and not fast and _stands(maturity, cells, config.standing_time):
            same, gain, freed = config.standing_same, config.standing_gain, config.standing_freed
        if against < freed * (len(present) + len(former)) - 1e-9:
            continue
        fields = max(config.good, still + gain) - 1e-9
        sure = best >= fields and coarse >= fields - 0.25
        usual = None if fast else config.usual_speed * age / (spacing / 4)
        sure &= not _is_alike(present, np.array([x, y]), config.across / (spacing / 4), usual)
        if still <= same and sure and small < best - config.slack:
            velocities[k] = np.array([x, y]) * spacing / 4 / age
    return label, velocities


def _is_alike(points, shift, across, usual):
    """Whether a shift may be from one of two things that look alike to the other."""
    length = math.hypot(*shift)
    if length == 0:
        return False
    along = shift / length
    leaves = length > np.ptp(points @ along) + 1e-9
    narrow = np.ptp(points @ [-along[1], along[0]]) < across - 1e-9
    return narrow and leaves if usual is None else length > usual + 1e-9 and (narrow or leaves)


def _stands(maturity, cells, least):
    """Whether a quarter of the cells have been static for so long."""
    return least > 0 and np.mean([maturity[r, c] >= least for r, c in cells]) >= 0.25


def _subcells(observation):
    """Which subcells returned a beam, (4 rows, 4 columns)."""
    rows, columns = observation.surface.shape
    bits = (observation.surface[:, :, None] >> np.arange(16)) & 1
    bits = np.where(observation.probability[:, :, None] > 0.5, bits, 0).reshape(rows, columns, 4, 4)
    return bits.transpose(0, 2, 1, 3).reshape(4 * rows, 4 * columns).astype(bool)


def _points(fine, cells, most):
    """Subcells (x, y) of some cells, in the cells' order and row by row within a cell."""
    found = [(4 * c + i, 4 * r + j) for r, c in cells for j in range(4) for i in range(4) if fine[4 * r + j, 4 * c + i]]
    return np.array(found[:: max(1, len(found) // most)]).reshape(-1, 2)


def _agreements(fine, observation):
    """g of every subcell: 1 within a subcell of a return, -1 in free cells, 0 elsewhere and around the grid."""
    near = np.pad(fine, 1)
    near = np.any([np.roll(near, (j, i), (0, 1)) for j in (-1, 0, 1) for i in (-1, 0, 1)], axis=0)[1:-1, 1:-1]
    free = (observation.probability < 0.3) & (observation.observedness > 0.5)
    free = np.kron(free, np.ones((4, 4), bool))
    return np.pad(np.where(near, 1, np.where(free, -1, 0)), 1)


def _values_at(agreements, places):
    rows, columns = agreements.shape
    return agreements[np.clip(places[:, 1] + 1, 0, rows - 1), np.clip(places[:, 0] + 1, 0, columns - 1)]


def _sum_at(agreements, places):
    return _values_at(agreements, places).sum()
