# SPDX-License-Identifier: Apache-2.0
"""Time per step of the occupancy, laid out as the many-core paper's table 1 and figures 7 and 8.

A step is what the paper's is: eight sensors pooled, priors interpolated on a grid that turns with the vehicle, and the
filter of the `paper` preset. It starts from finished observation grids, or from the points of eight LiDARs.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from time import perf_counter, process_time
from typing import Any

import numba
import numpy as np

from benchmarks.energy import Meter
from benchmarks.occupancy_steps import steps_on
from roadbed import GroundFilter, OccupancyFilter
from roadbed.config import Config
from roadbed.config.occupancy import OccupancyConfig
from roadbed.core.errors import DeviceError
from roadbed.core.geometry import Float32
from roadbed.kernels import parallel
from roadbed.occupancy.arrays import Cells, Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.hsbof.model import FilterModel
from roadbed.occupancy.programs import GROUP
from roadbed.runtime import opencl_devices
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend
from roadbed.runtime.device import Device
from roadbed.runtime.opencl import OpenclBackend
from roadbed.sources import open_source

SENSORS = 8  # LiDARs pooled in the paper
FIELD_OF_VIEW = math.radians(110)  # of each, all around the vehicle
TIME_STEP, OWN_SPEED, TURN = 0.1, 8.0, 0.02  # s, m/s, rad per step
# Rakotovao et al. 2015, table 1: ms on the many-core; the text gives 90 ms for a GPU at the last row.
PAPER_TABLE_1 = {(19_000, 0.1): 487.0, (19_000, 0.2): 325.0, (10_000, 0.1): 387.0, (10_000, 0.2): 168.0}
PAPER_GPU = {(10_000, 0.2): 90.0}
FIGURE_7_PARTICLES = (2_500, 5_000, 10_000, 19_000, 40_000, 80_000)
FIGURE_8_RESOLUTIONS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
GROUP_SIZES = (32, 64, 128, 256)
LAYOUT_CASE = (19_000, 0.1)  # particles and resolution at which work is laid out in other ways
AHEAD = 8  # steps whose input is made before they are timed
# The paper's tasks, and the steps of ours that make them up.
TASKS = {
    "particles_propagation": ("propagate_particles", "reorder_particles"),
    "priors_propagation": ("propagate_priors",),
    "measurement_update": ("register_hits", "update_measurement", "estimate_velocities"),
    "resampling": ("give_birth", "resample", "normalise"),
    "multi_sensor_fusion": ("fuse",),
}
EIGHT_LIDARS = "sim:city?sensor=lux8"


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
    joules: float | None = None  # per step
    watts: float | None = None

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
            "joules_per_step": self.joules,
            "watts": self.watts,
            **{f"{name}_ms": round(value, 3) for name, value in self.tasks_ms.items()},
        }


def bench_occupancy(backend: Backend | CpuBackend, steps: int = 30, warm_up: int = 12) -> dict[str, Any]:
    """`rows`: table 1; `default_filter`: the same with our default filter; `figure_7`: per task against particles;
    `figure_8`: against resolution; `from_points`: table 1 with the observation grids made of points; `figure_9`:
    against cores; on accelerators also how the work is laid out."""
    paper, default = Config.preset("paper").occupancy, OccupancyConfig()
    meter = Meter(backend.device)

    def rows(config: OccupancyConfig, *cases: tuple[int, float], energy: Meter | None = None) -> list[dict[str, Any]]:
        return [time_steps(config, *case, steps, warm_up, backend, energy=energy).as_row() for case in cases]

    out = {
        "device": f"{backend.device.name}, {backend.device.driver}",
        "energy": meter.name or meter.why_not,
        "grid_m": [*_extent()],
        "rows": rows(paper, *PAPER_TABLE_1, energy=meter),
        "default_filter": rows(default, *PAPER_TABLE_1, energy=meter),
        "figure_7": rows(paper, *((count, 0.2) for count in FIGURE_7_PARTICLES)),
        "figure_8": rows(paper, *((19_000, resolution) for resolution in FIGURE_8_RESOLUTIONS)),
        "from_points": [time_from_points(*case, steps, warm_up, backend) for case in PAPER_TABLE_1],
    }
    return out | (threads(steps, warm_up) if isinstance(backend, CpuBackend) else layouts(backend, steps, warm_up))


def time_from_points(
    particles: int, resolution: float, steps: int, warm_up: int, backend: Backend | CpuBackend
) -> dict[str, Any]:
    """The occupancy filter of the `paper` preset on simulated scans of eight LiDARs: an observation grid of each one's
    points, fusion, filter. The ground is given."""
    changes = {"grid": {"spacing": resolution}, "filter": {"particles": particles}}
    config = Config.preset("paper").with_changes(occupancy=changes)
    ground, occupancy = GroundFilter(config), OccupancyFilter(config, backend)
    took, observing = [], []
    for number, scan in enumerate(open_source(f"{EIGHT_LIDARS}&frames={steps + warm_up}")):
        segmented = ground(scan)
        begin = perf_counter()
        frame = occupancy(scan, segmented)
        if number >= warm_up:
            took.append(perf_counter() - begin)
            observing.append(frame.timings.get("observe", math.nan))
    return {
        "particles": particles,
        "resolution_m": resolution,
        "points": len(scan),
        "step_ms": 1e3 * float(np.median(took)),
        "best_ms": 1e3 * min(took),
        "observe_ms": 1e3 * float(np.median(observing)),  # on accelerators not known by itself
        "paper_many_core_ms": PAPER_TABLE_1[particles, resolution],
    }


def threads(steps: int, warm_up: int) -> dict[str, Any]:
    """`figure_9` on the CPU: the same work by 1, 2, 3 ... threads."""
    paper, before = Config.preset("paper").occupancy, parallel.most_threads
    rows: list[dict[str, Any]] = []
    try:
        for count in cores(numba.get_num_threads()):
            parallel.most_threads = count
            timing = time_steps(paper, *LAYOUT_CASE, steps, warm_up)
            rows.append({"units": count, "step_ms": timing.step_ms, "best_ms": timing.best_ms, **timing.tasks_ms})
    finally:
        parallel.most_threads = before
    return {"figure_9": _with_speed_up(rows)}


def _with_speed_up(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Against the first row, of the whole step and of the task that the paper draws."""
    names = {"step_speed_up": "step_ms", "measurement_update_speed_up": "measurement_update"}
    return [row | {name: rows[0][of] / row[of] for name, of in names.items()} for row in rows]


def layouts(backend: Backend, steps: int, warm_up: int) -> dict[str, Any]:
    """The same work laid on the device in other ways: scheduling, work-groups, and on fewer compute units."""
    timing = partial(_layout_timing, backend, steps, warm_up)
    return {
        "scheduling": [
            {"scheduling": name, **timing(concurrent=name == "parallel")} for name in ("sequential", "parallel")
        ],
        "work_groups": [{"work_items": size, **timing(group=size)} for size in GROUP_SIZES],
        "figure_9": _with_speed_up(_parts(backend, steps, warm_up)),
    }


def _parts(backend: Backend, steps: int, warm_up: int) -> list[dict[str, Any]]:
    """The work by 1, 2, 3 ... compute units of an OpenCL device: sub-devices; none of a device that cannot be divided.

    A sub-device of PoCL runs on all cores, so PoCL is started with fewer of them, in a process for each number.
    """
    device, rows = backend.device, list[dict[str, Any]]()
    for units in cores(device.units) if device.backend == "opencl" else ():
        if "Portable Computing Language" in device.driver:
            limits = dict.fromkeys(("POCL_CPU_MAX_CU_COUNT", "POCL_MAX_PTHREAD_COUNT"), str(units))
            command = [sys.executable, "-m", __name__, str(device.index), str(steps), str(warm_up)]
            timing = json.loads(
                subprocess.run(command, env=os.environ | limits, check=True, stdout=subprocess.PIPE).stdout
            )
        else:
            try:
                timing = _layout_timing(SubDevice(replace(device, units=units), probe=False), steps, warm_up)
            except DeviceError:
                break
        rows.append({"units": units, **timing})
    return rows


class SubDevice(OpenclBackend):
    """A part of an OpenCL device, with so many of its compute units."""

    def _handle_of(self, device: Device) -> Any:
        by_counts = self._cl.device_partition_property.BY_COUNTS
        try:
            return super()._handle_of(device).create_sub_devices([by_counts, device.units])[0]
        except self._cl.Error as error:
            raise DeviceError(f"{device.name}: has no sub-device of {device.units} compute units ({error})") from None


def _layout_timing(backend: Backend | CpuBackend, steps: int, warm_up: int, **layout: Any) -> dict[str, float]:
    found = time_steps(Config.preset("paper").occupancy, *LAYOUT_CASE, steps, warm_up, backend, **layout)
    return {"step_ms": found.step_ms, "best_ms": found.best_ms, "processor_ms": found.processor_ms, **found.tasks_ms}


def cores(most: int) -> list[int]:
    """Every number up to 16, more than the paper's figure 9 has, then powers of two, and `most` itself."""
    return sorted({most, *range(1, min(most, 16) + 1), *(2**k for k in range(most.bit_length()) if 2**k <= most)})


def time_steps(
    config: OccupancyConfig,
    particles: int,
    resolution: float,
    steps: int,
    warm_up: int,
    backend: Backend | CpuBackend | None = None,
    group: int = GROUP,
    concurrent: bool = False,
    energy: Meter | None = None,
) -> Timing:
    """A drive at constant speed round a bend, past walls, with cars around, on the paper's grid.

    Every other step is timed as a whole, the others by their parts. `group`: work-items per work-group; `concurrent`:
    on a device tasks that do not wait for each other may run at the same time (the paper's figure 6).
    """
    length, width = _extent()
    cells = Cells(round(width / resolution), round(length / resolution), resolution)
    fusion = Config.preset("paper").occupancy.fusion
    filter_ = FilterModel.of(config.with_changes(filter={"particles": particles}))
    stage = steps_on(backend or CpuBackend(), cells, fusion, filter_, group, concurrent)
    motion = _motion(width)
    totals: list[float] = []
    processor: list[float] = []
    parts: list[dict[str, float]] = []
    drive = _drive((cells.rows, cells.columns), resolution, 2 * steps + warm_up)
    for number, reports in enumerate(_some_ahead(map(stage.pack, drive))):
        stage.load(number * TIME_STEP, reports, (TIME_STEP, motion, (OWN_SPEED, 0.0)))
        if number >= warm_up and number % 2:
            parts.append(stage.phases())
            continue
        begin, begin_processor = perf_counter(), process_time()
        stage.step()
        if number >= warm_up:
            totals.append(perf_counter() - begin)
            processor.append(process_time() - begin_processor)
    tasks = {
        task: 1e3 * float(np.median([sum(part[name] for name in names) for part in parts]))
        for task, names in TASKS.items()
    }
    return Timing(
        particles=particles,
        resolution=resolution,
        cells=cells.rows * cells.columns,
        step_ms=1e3 * float(np.median(totals)),
        best_ms=1e3 * min(totals),
        processor_ms=1e3 * float(np.median(processor)),
        tasks_ms=tasks,
        **(energy.per_call(stage.step) if energy else {}),
    )


def _some_ahead(made: Iterator[Any]) -> Iterator[Any]:
    """Made several at a time: a step is timed after another step, not after the work of making its input."""
    while several := list(islice(made, AHEAD)):
        yield from several


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


if __name__ == "__main__":
    index, *counts = map(int, sys.argv[1:])
    place = OpenclBackend(opencl_devices.devices()[index], probe=False)  # the parent has built the same programs
    print(json.dumps(_layout_timing(place, *counts)))
