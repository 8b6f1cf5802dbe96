# SPDX-License-Identifier: Apache-2.0
"""Time per step of the occupancy filter, laid out as the many-core paper's table 1 and figures 7 and 8."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from roadbed.config.occupancy import FilterConfig
from roadbed.geometry import Float32
from roadbed.occupancy.arrays import Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.fuse import fuse
from roadbed.occupancy.hsbof import Hsbof

LENGTH, WIDTH = 50.0, 30.0  # m, the paper's grid
SENSORS = 8  # LiDARs pooled in the paper
TIME_STEP, OWN_SPEED = 0.1, 8.0  # s, m/s
# Rakotovao et al. 2015, table 1: ms on the many-core; the text gives 90 ms for a GPU at the last row.
PAPER_TABLE_1 = {(19_000, 0.1): 487.0, (19_000, 0.2): 325.0, (10_000, 0.1): 387.0, (10_000, 0.2): 168.0}
PAPER_GPU = {(10_000, 0.2): 90.0}
FIGURE_7_PARTICLES = (2_500, 5_000, 10_000, 19_000, 40_000, 80_000)
FIGURE_8_RESOLUTIONS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
# The paper's tasks, and the steps of ours that make them up.
TASKS = {
    "particles_propagation": ("propagate_particles", "reorder_particles"),
    "priors_propagation": ("propagate_priors",),
    "measurement_update": ("register_hits", "update_measurement", "estimate_velocities"),
    "resampling": ("give_birth", "resample", "normalise"),
    "multi_sensor_fusion": ("fuse",),
}


@dataclass(frozen=True)
class Timing:
    """Medians over the steps measured, in milliseconds."""

    particles: int
    resolution: float
    cells: int
    step_ms: float  # the filter alone
    best_ms: float  # its fastest step
    tasks_ms: dict[str, float]

    def as_row(self) -> dict[str, Any]:
        key = (self.particles, self.resolution)
        return {
            "particles": self.particles,
            "resolution_m": self.resolution,
            "cells": self.cells,
            "step_ms": round(self.step_ms, 3),
            "best_ms": round(self.best_ms, 3),
            "paper_many_core_ms": PAPER_TABLE_1.get(key),
            "paper_gpu_ms": PAPER_GPU.get(key),
            **{f"{name}_ms": round(value, 3) for name, value in self.tasks_ms.items()},
        }


def bench_occupancy(steps: int = 30, warm_up: int = 12) -> dict[str, Any]:
    """`rows`: table 1; `figure_7`: per task against particles; `figure_8`: against resolution."""
    table = [time_steps(*key, steps, warm_up) for key in PAPER_TABLE_1]
    figure_7 = [time_steps(count, 0.2, steps, warm_up) for count in FIGURE_7_PARTICLES]
    figure_8 = [time_steps(19_000, resolution, steps, warm_up) for resolution in FIGURE_8_RESOLUTIONS]
    return {
        "grid_m": [LENGTH, WIDTH],
        "rows": [timing.as_row() for timing in table],
        "figure_7": [timing.as_row() for timing in figure_7],
        "figure_8": [timing.as_row() for timing in figure_8],
    }


def time_steps(particles: int, resolution: float, steps: int, warm_up: int) -> Timing:
    """A drive at constant speed past walls, with cars around, on the paper's grid."""
    shape = (round(WIDTH / resolution), round(LENGTH / resolution))
    filter_ = Hsbof(shape, resolution, FilterConfig(particles=particles))
    totals: list[float] = []
    parts: list[dict[str, float]] = []
    for number, (observation, motion, fusing) in enumerate(_drive(shape, resolution, steps + warm_up)):
        begin = perf_counter()
        filter_.step(observation, TIME_STEP, motion, (OWN_SPEED, 0.0))
        if number >= warm_up:
            totals.append(perf_counter() - begin)
            parts.append({**filter_.timings, "fuse": fusing})
    tasks = {
        task: 1e3 * float(np.median([sum(part[name] for name in names) for part in parts]))
        for task, names in TASKS.items()
    }
    return Timing(particles, resolution, shape[0] * shape[1], 1e3 * float(np.median(totals)), 1e3 * min(totals), tasks)


def _drive(shape: tuple[int, int], resolution: float, steps: int) -> Iterator[tuple[Observation, GridMotion, float]]:
    """Observation grids of a street, made in advance of each step; the time to pool the sensors comes along."""
    rows, columns = np.mgrid[0 : shape[0], 0 : shape[1]].astype(np.float32)
    y = (rows + np.float32(0.5)) * np.float32(resolution) - np.float32(WIDTH / 2)
    first_column = 0
    for step in range(steps):
        time = step * TIME_STEP
        column = math.floor(time * OWN_SPEED / resolution)
        x = (columns + np.float32(0.5 + column)) * np.float32(resolution)
        probability, observedness = _street(x, y, time)
        sensors = np.stack([probability] * SENSORS), np.stack([observedness] * SENSORS)
        begin = perf_counter()
        fused_probability, fused_observedness = fuse(*sensors, clip=0.05)
        fusing = perf_counter() - begin
        surface = np.where(fused_probability > 0.5, 0x0660, 0).astype(np.uint16)
        shift = column - first_column
        first_column = column
        motion = GridMotion.rolled(shift, 0, resolution)
        yield Observation(fused_probability, fused_observedness, surface), motion, fusing


def _street(x: Float32, y: Float32, time: float) -> tuple[Float32, Float32]:
    """Walls on both sides, parked cars, and three cars that drive."""
    hit = np.abs(np.abs(y) - 12) < 0.3
    hit |= (np.abs(np.abs(y) - 8) < 0.9) & (np.mod(x, 12) < 4.5)
    for start, lane, speed in ((20.0, -2.0, 10.0), (5.0, 2.0, 12.0), (60.0, 5.0, -9.0)):
        hit |= (np.abs(y - lane) < 0.9) & (np.abs(x - start - speed * time) < 2.2)
    hidden = np.abs(y) > 12.4
    probability = np.where(hit, 0.95, np.where(hidden, 0.5, 0.06)).astype(np.float32)
    return probability, np.where(hidden, 0.0, 0.95).astype(np.float32)
