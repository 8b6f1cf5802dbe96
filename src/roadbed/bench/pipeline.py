# SPDX-License-Identifier: Apache-2.0
"""Time per frame of the whole pipeline, from scan to occupancy."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from roadbed.bench.timing import device_phases, host_figures, measure, there_and_back
from roadbed.config import Config
from roadbed.pipeline import Pipeline
from roadbed.sources import open_source

SENSORS = {"lux4": "4 x LUX", "vlp16": "VLP-16", "hdl64e": "HDL-64E"}

_STEP = "occupancy: "  # before the names of its steps


def pipeline_rows(
    backend: str = "cpu", device: str | None = None, sensors: Sequence[str] = tuple(SENSORS), seconds: float = 8.0
) -> Iterator[dict[str, Any]]:
    """One row per sensor: median and 95th percentile of a whole frame, its stages, the steps of its occupancy, what it
    costs the host, and the phases on an accelerator.
    """
    for sensor in sensors:
        scans = list(open_source(f"sim:city?sensor={sensor}&frames=24"))
        pipeline = Pipeline(Config.parse({"backend": backend, "device": device}))
        frames = there_and_back(scans)
        timing = measure(
            lambda pipeline=pipeline, frames=frames: pipeline(next(frames)),  # type: ignore[misc]
            lambda result: {**result.timings, **{_STEP + k: v for k, v in result.occupancy.timings.items()}},
            repeats=100,
            seconds=seconds,
            warm_up=len(scans),
        )
        grid, phases = pipeline.config.occupancy.grid, timing.phases_ms
        yield {
            "case": SENSORS.get(sensor, sensor),
            "sensors": len(scans[0].mounts) or 1,
            "points": len(scans[0]),
            "cells": round(grid.length / grid.spacing) * round(grid.width / grid.spacing),
            "median_ms": round(timing.median_ms, 2),
            "p95_ms": round(timing.p95_ms, 2),
            "processor_ms": round(timing.processor_ms, 2),
            "hz": round(1e3 / timing.median_ms, 1),
            **{f"{stage}_ms": round(value, 2) for stage, value in phases.items() if not stage.startswith(_STEP)},
            "steps_ms": {k.removeprefix(_STEP): round(v, 2) for k, v in phases.items() if k.startswith(_STEP)},
            **host_figures(pipeline, list(islice(frames, len(scans)))),
            "device_us": device_phases(pipeline, list(islice(frames, len(scans)))),
        }
