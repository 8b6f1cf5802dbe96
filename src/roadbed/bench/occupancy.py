# SPDX-License-Identifier: Apache-2.0
"""Time per step of the occupancy, laid out as the many-core paper's table 1 and figures 7 and 8.

A step is what the paper's is: eight sensors pooled, priors interpolated on a grid that turns with the vehicle, and the
filter of the `paper` preset.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

import numpy as np

from roadbed.config import Config
from roadbed.config.occupancy import FilterConfig
from roadbed.geometry import Float32
from roadbed.occupancy.arrays import Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.fuse import Fusion
from roadbed.occupancy.hsbof import Hsbof
from roadbed.timing import timed

SENSORS = 8  # LiDARs pooled in the paper
FIELD_OF_VIEW = math.radians(110)  # of each, all around the vehicle
TIME_STEP, OWN_SPEED, TURN = 0.1, 8.0, 0.02  # s, m/s, rad per step
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
    step_ms: float  # fusion and filter
    best_ms: float  # the fastest step
    processor_ms: float  # of all threads together: what a busy machine hardly changes
    tasks_ms: dict[str, float]

    def as_row(self) -> dict[str, Any]:
        key = (self.particles, self.resolution)
        return {
            "particles": self.particles,
            "resolution_m": self.resolution,
            "cells": self.cells,
            "step_ms": round(self.step_ms, 3),
            "best_ms": round(self.best_ms, 3),
            "processor_ms": round(self.processor_ms, 3),
            "paper_many_core_ms": PAPER_TABLE_1.get(key),
            "paper_gpu_ms": PAPER_GPU.get(key),
            **{f"{name}_ms": round(value, 3) for name, value in self.tasks_ms.items()},
        }


def bench_occupancy(steps: int = 30, warm_up: int = 12) -> dict[str, Any]:
    """`rows`: table 1; `default_filter`: the same with our default filter; `figure_7`: per task against particles;
    `figure_8`: against resolution."""
    paper, default = Config.preset("paper").occupancy.filter, FilterConfig()

    def rows(filter_: FilterConfig, *cases: tuple[int, float]) -> list[dict[str, Any]]:
        return [time_steps(filter_, *case, steps, warm_up).as_row() for case in cases]

    return {
        "grid_m": [*_extent()],
        "rows": rows(paper, *PAPER_TABLE_1),
        "default_filter": rows(default, *PAPER_TABLE_1),
        "figure_7": rows(paper, *((count, 0.2) for count in FIGURE_7_PARTICLES)),
        "figure_8": rows(paper, *((19_000, resolution) for resolution in FIGURE_8_RESOLUTIONS)),
    }


def time_steps(config: FilterConfig, particles: int, resolution: float, steps: int, warm_up: int) -> Timing:
    """A drive at constant speed round a bend, past walls, with cars around, on the paper's grid."""
    length, width = _extent()
    shape = (round(width / resolution), round(length / resolution))
    filter_ = Hsbof(shape, resolution, config.with_changes(particles=particles))
    fusion = Fusion(resolution, Config.preset("paper").occupancy.fusion)
    motion = _motion(width)
    totals: list[float] = []
    processor: list[float] = []
    parts: list[dict[str, float]] = []
    for number, reports in enumerate(_drive(shape, resolution, steps + warm_up)):
        fusing: dict[str, float] = {}
        begin, begin_processor = perf_counter(), process_time()
        with timed(fusing, "fuse"):
            fusion.move(motion)
            observation = fusion(number * TIME_STEP, reports)
        filter_.step(observation, TIME_STEP, motion, (OWN_SPEED, 0.0))
        if number >= warm_up:
            totals.append(perf_counter() - begin)
            processor.append(process_time() - begin_processor)
            parts.append(filter_.timings | fusing)
    tasks = {
        task: 1e3 * float(np.median([sum(part[name] for name in names) for part in parts]))
        for task, names in TASKS.items()
    }
    return Timing(
        particles=particles,
        resolution=resolution,
        cells=shape[0] * shape[1],
        step_ms=1e3 * float(np.median(totals)),
        best_ms=1e3 * min(totals),
        processor_ms=1e3 * float(np.median(processor)),
        tasks_ms=tasks,
    )


def _extent() -> tuple[float, float]:
    """m, the paper's grid along and across the vehicle."""
    grid = Config.preset("paper").occupancy.grid
    return grid.length, grid.width


def _motion(width: float) -> GridMotion:
    """One step along the vehicle's heading and a little to the left, about the middle of its rear edge."""
    rotation = np.array([[math.cos(TURN), -math.sin(TURN)], [math.sin(TURN), math.cos(TURN)]])
    middle = np.array([0.0, width / 2])
    travel = np.array([OWN_SPEED * TIME_STEP, 0.0])
    return GridMotion(rotation, middle - rotation @ middle + travel, None)


def _drive(shape: tuple[int, int], resolution: float, steps: int) -> Iterator[dict[str, Observation]]:
    """What eight sensors report of a street, each of its own sector and with its own errors."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[0 : shape[0], 0 : shape[1]].astype(np.float32)
    forward = (columns + np.float32(0.5)) * np.float32(resolution)
    left = (rows + np.float32(0.5)) * np.float32(resolution) - np.float32(shape[0] * resolution / 2)
    azimuth = np.arctan2(left, forward)
    headings = np.arange(SENSORS) * 2 * math.pi / SENSORS
    in_view = [np.abs(np.angle(np.exp(1j * (azimuth - at)))) < FIELD_OF_VIEW / 2 for at in headings]
    for step in range(steps):
        x, y, yaw = _place(step)
        east, north = x + np.cos(yaw) * forward - np.sin(yaw) * left, y + np.sin(yaw) * forward + np.cos(yaw) * left
        probability, observedness = _street(east, north, step * TIME_STEP)
        hit = probability > 0.5
        yield {
            f"lidar_{number}": Observation(
                np.clip(probability + rng.normal(0, 0.02, shape), 0.05, 0.95).astype(np.float32),
                observedness * seen * np.float32(0.85 + 0.01 * number),
                np.where(hit & seen, np.uint16(1 << number), 0).astype(np.uint16),
            )
            for number, seen in enumerate(in_view)
        }


def _place(step: int) -> tuple[float, float, float]:
    """x, y and heading after so many steps of `_motion`."""
    yaw = step * TURN
    chords = OWN_SPEED * TIME_STEP * np.exp(1j * TURN * np.arange(step)).sum()
    return float(chords.real), float(chords.imag), yaw


def _street(x: Float32, y: Float32, time: float) -> tuple[Float32, Float32]:
    """Walls on both sides, parked cars, and three cars that drive."""
    hit = np.abs(np.abs(y) - 12) < 0.3
    hit |= (np.abs(np.abs(y) - 8) < 0.9) & (np.mod(x, 12) < 4.5)
    for start, lane, speed in ((20.0, -2.0, 10.0), (5.0, 2.0, 12.0), (60.0, 5.0, -9.0)):
        hit |= (np.abs(y - lane) < 0.9) & (np.abs(x - start - speed * time) < 2.2)
    hidden = np.abs(y) > 12.4
    probability = np.where(hit, 0.95, np.where(hidden, 0.5, 0.06)).astype(np.float32)
    return probability, np.where(hidden, 0.0, 0.95).astype(np.float32)
