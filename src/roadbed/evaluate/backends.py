# SPDX-License-Identifier: Apache-2.0
"""Compares backends on one scan: different labels, and time per phase."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadbed.config import Config
from roadbed.core.frames import GroundFrame, Scan
from roadbed.ground import GroundFilter
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend
from roadbed.runtime.device_selection import devices, open_backend


@dataclass(frozen=True, eq=False)
class BackendRun:
    """One backend on one scan. Differences are against the first backend."""

    backend: str
    device: str
    frame: GroundFrame
    seconds: float  # best of several calls: array in, labels out
    phases: dict[str, float]  # s, per phase of the CPU or per kernel of the device
    labels_different: int
    largest_elevation_difference: float  # m, where the surface is known to both


@dataclass(frozen=True, eq=False)
class Comparison:
    """Backends next to each other; the first is the reference."""

    runs: tuple[BackendRun, ...]
    allowed: int  # labels that may differ: none with grid variance, 1 in 10,000 with the STCRF

    @property
    def agree(self) -> bool:
        return all(run.labels_different <= self.allowed for run in self.runs)

    def as_dict(self) -> dict[str, Any]:
        return {
            "agree": self.agree,
            "backends": [run.backend for run in self.runs],
            "devices": [run.device for run in self.runs],
            "different_labels": max(run.labels_different for run in self.runs),
            "elevation_difference_m": max(run.largest_elevation_difference for run in self.runs),
            "milliseconds": [round(1e3 * run.seconds, 3) for run in self.runs],
            "speed_up": [round(self.runs[0].seconds / run.seconds, 2) for run in self.runs],
            "phases_ms": {
                run.backend: {name: round(1e3 * seconds, 4) for name, seconds in run.phases.items()}
                for run in self.runs
            },
        }


def compare(
    scan: Scan,
    config: Config | None = None,
    backends: Sequence[str | Backend | CpuBackend] = ("cpu", "auto"),
    device: int | str | None = None,
    repeats: int = 5,
) -> Comparison:
    """Run `scan` alone (without its odometry) on each backend; "auto" is the best accelerator, a CPU's if need be."""
    scan = Scan(scan.points, T_vehicle_sensor=scan.T_vehicle_sensor, sensor=scan.sensor, name=scan.name)
    runs: list[BackendRun] = []
    for name in backends:
        opened = open_backend(_resolved(name), None if name == "cpu" else device) if isinstance(name, str) else name
        ground = GroundFilter(config, opened)
        frame = ground(scan)
        seconds = []
        for _ in range(repeats):
            begin = time.perf_counter()
            frame = ground(scan)
            seconds.append(time.perf_counter() - begin)
        reference = runs[0].frame if runs else frame
        off = np.abs(frame.elevation - reference.elevation)
        runs.append(
            BackendRun(
                backend=ground.backend.device.backend,
                device=ground.backend.device.name,
                frame=frame,
                seconds=min(seconds),
                phases=ground.profile(scan),
                labels_different=int(np.count_nonzero(frame.label != reference.label)),
                largest_elevation_difference=float(np.nanmax(off)) if np.isfinite(off).any() else 0.0,
            )
        )
    return Comparison(tuple(runs), 0 if ground.config.ground.method == "variance" else len(scan) // 10_000)


def _resolved(backend: str) -> str:
    if backend != "auto":
        return backend
    found = devices()
    return found[0].backend if found else "auto"
