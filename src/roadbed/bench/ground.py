# SPDX-License-Identifier: Apache-2.0
"""Time of the ground filter: table II of the STCRF paper, and cost by number of points and cells."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import Any

import numpy as np

from roadbed.bench.timing import Timing, device_phases, measure, there_and_back
from roadbed.config import Config
from roadbed.core.frames import Scan
from roadbed.ground import GroundFilter
from roadbed.ground.stcrf.sizes import lattice_of as stcrf_lattice
from roadbed.ground.variance.model import lattice_of as variance_lattice
from roadbed.sources import open_source

# Rummelhard et al. 2017, table II: 6.8 Hz and 21 Hz on a Quadro 2000.
PAPER_MS = {"hdl64e": 147.0, "lux4": 47.6}
# The grid of the report on grid variance, 334 x 334 cells of 0.3 m, in our axes: its y axis points forward.
REPORT_LIMITS = {"x_min": 0.0, "x_max": 100.0, "y_min": -50.0, "y_max": 50.0}
_PHASES = attrgetter("timings")  # s per phase of a frame

Measured = tuple[Timing, dict[str, float]]  # and microseconds per phase on an accelerator


def ground_rows(
    backend: str = "cpu", device: str | None = None, sensors: Sequence[str] = tuple(PAPER_MS), seconds: float = 3.0
) -> Iterator[dict[str, Any]]:
    """One row per case: each sensor with both presets, cold and warm, and grid variance; growing sizes for hdl64e."""
    where = {"backend": backend, "device": device}
    for sensor in sensors:
        scans, paper_ms = _scans(sensor), PAPER_MS.get(sensor)
        for preset in ("paper", "default"):
            config = Config.preset(preset).with_changes(**where)
            yield _row(f"{sensor} {preset} cold", scans[0], config, paper_ms, _cold(config, scans[0], seconds))
            yield _row(f"{sensor} {preset} warm", scans[0], config, paper_ms, _warm(config, scans, seconds))
    for sensor in sensors:
        scan = _scans(sensor, frames=1)[0]
        variance = Config.parse({"ground": {"method": "variance"}, **where})
        yield _row(f"{sensor} variance", scan, variance, None, _cold(variance, scan, seconds))
        report = variance.with_changes(ground={"variance": {"pointcloud_limits": REPORT_LIMITS}})
        yield _row(f"{sensor} variance 334 x 334", scan, report, None, _cold(report, scan, seconds))
    if "hdl64e" in sensors:
        yield from _growth(_scans("hdl64e", frames=1)[0], Config.preset("paper").with_changes(**where), seconds)


def _growth(scan: Scan, paper: Config, seconds: float) -> Iterator[dict[str, Any]]:
    """Doubling points on one grid, then doubling cells under one scan."""
    for factor in (0.25, 0.5, 1, 2, 4):
        resized = _resized(scan, round(100_000 * factor))
        yield _row(f"points x{factor:g}", resized, paper, None, _cold(paper, resized, seconds))
    for factor in (1, 2, 4, 8):
        side = 80.0 * np.sqrt(factor)
        larger = paper.with_changes(ground={"stcrf": {"length": side, "width": side}})
        yield _row(f"cells x{factor}", scan, larger, None, _cold(larger, scan, seconds))


def _scans(sensor: str, frames: int = 12) -> list[Scan]:
    return list(open_source(f"sim:city?sensor={sensor}&frames={frames}"))


def _cold(config: Config, scan: Scan, seconds: float) -> Measured:
    ground = GroundFilter(config)
    alone = replace(scan, T_world_sensor=None)
    return measure(lambda: ground(alone), _PHASES, seconds=seconds), device_phases(ground, 12 * [alone])


def _warm(config: Config, scans: list[Scan], seconds: float) -> Measured:
    ground = GroundFilter(config)
    frames = there_and_back(scans)
    timing = measure(lambda: ground(next(frames)), _PHASES, seconds=seconds, warm_up=2 * len(scans) - 2)
    return timing, device_phases(ground, list(islice(frames, len(scans))))


def _row(case: str, scan: Scan, config: Config, paper_ms: float | None, measured: Measured) -> dict[str, Any]:
    iterations, (timing, device_us) = None, measured
    if config.ground.method == "variance":
        cells = variance_lattice(config.ground.variance).size
    else:
        stcrf = config.ground.stcrf
        cells = stcrf_lattice(config.ground).size
        iterations = stcrf.warm_iterations if "warm" in case else stcrf.iterations
    return {
        "case": case,
        "points": len(scan),
        "cells": cells,
        "iterations": iterations,
        "median_ms": round(timing.median_ms, 3),
        "p95_ms": round(timing.p95_ms, 3),
        "processor_ms": round(timing.processor_ms, 3),
        "paper_ms": paper_ms,
        "ns_per_point": round(1e6 * timing.median_ms / len(scan), 1),
        "phases_ms": {name: round(value, 3) for name, value in timing.phases_ms.items()},
        "device_us": device_us,
    }


def _resized(scan: Scan, count: int) -> Scan:
    """The same scene with another number of points: a stride, or copies jittered by a centimetre."""
    rng = np.random.default_rng(0)
    chosen = np.arange(count) * len(scan) // count if count <= len(scan) else rng.integers(0, len(scan), count)
    jitter = rng.normal(0, 0.01, (count, 3)) if count > len(scan) else 0
    return Scan(scan.points[chosen] + jitter, T_vehicle_sensor=scan.T_vehicle_sensor, name=scan.name)
