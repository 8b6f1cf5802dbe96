# SPDX-License-Identifier: Apache-2.0
"""A drive that does not end: what grows, slows down, leaks or stops being a number."""

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.validity import is_valid, mass_error
from roadbed.config import Config
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.pipeline import Pipeline, Result
from roadbed.sources import open_source

CIRCLE_M, FRAMES_A_LAP = 100.0, 2000  # in small steps, so that the lattices keep rolling
LARGEST_MASS_ERROR = 1e-3


def soak_rows(
    frames: int,
    samples: int = 100,
    config: Config | None = None,
    backend: str = "cpu",
    device: str | None = None,
    occupancy: bool = True,
) -> Iterator[dict[str, Any]]:
    """`samples` rows, each over an equal part of the frames: latency, memory, handles, threads and soundness."""
    chosen = Config.of(config).with_changes(backend=backend, device=device)
    pipeline = Pipeline(chosen, occupancy=occupancy)
    drive = _endless(list(open_source("sim:city?sensor=lux4&frames=64")))
    edges = np.unique(np.linspace(0, frames, min(samples, frames) + 1).astype(int))
    for begin, end in pairwise(edges):
        window = Window()
        for _ in range(begin, end):
            scan = next(drive)
            start, spent = perf_counter(), process_time()
            result = pipeline(scan)
            window.add(result, perf_counter() - start, process_time() - spent)
        yield {"frames": int(end), **window.row(), **resources()}


class Window:
    """What a run of frames showed."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._processor: list[float] = []
        self._unsound, self._ground_points, self._information, self._mass_error = 0, 0, 0.0, 0.0

    def add(self, result: Result, seconds: float, processor: float) -> None:
        self._seconds.append(seconds)
        self._processor.append(processor)
        wrong = 0.0 if result.occupancy is None else mass_error(result.occupancy)
        self._unsound += not (is_valid(result.ground) and wrong < LARGEST_MASS_ERROR)
        self._ground_points += int(result.ground.is_ground.sum())
        self._information = max(self._information, float(1 / result.ground.variance.min()))
        self._mass_error = max(self._mass_error, wrong)

    def row(self) -> dict[str, Any]:
        milliseconds = 1e3 * np.array(self._seconds)
        return {
            "unsound": self._unsound,
            "ground_points": self._ground_points // len(milliseconds),
            "median_ms": round(float(np.median(milliseconds)), 3),
            "p99_ms": round(float(np.percentile(milliseconds, 99)), 3),
            "processor_ms": round(1e3 * float(np.median(self._processor)), 3),
            "information": round(self._information, 1),
            "mass_error": self._mass_error,
        }


def _endless(scans: list[Scan]) -> Iterator[Scan]:
    """The same scans over and over, on a circle."""
    index = 0
    while True:
        angle = 2 * np.pi * index / FRAMES_A_LAP
        place = Pose.from_euler(CIRCLE_M * np.cos(angle), CIRCLE_M * np.sin(angle), 0, yaw=angle + np.pi / 2)
        yield replace(scans[index % len(scans)], T_world_sensor=place, time=index / 25)
        index += 1


def resources(process: int | str = "self") -> dict[str, Any]:
    """Memory, open files and threads of a process, where the system tells."""
    try:
        resident = int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        count = {name: len(os.listdir(f"/proc/{process}/{folder}")) for name, folder in _COUNTED.items()}
    except OSError:
        return {"memory_mb": None, **dict.fromkeys(_COUNTED)}
    return {"memory_mb": round(resident / 2**20, 1), **count}


_COUNTED = {"handles": "fd", "threads": "task"}


def growth(rows: list[dict[str, Any]], name: str) -> float | None:
    """The last tenth against the second one: the first still fills caches and pools."""
    tenth = max(1, len(rows) // 10)
    values = [row[name] for row in rows]
    if None in values:
        return None
    return float(np.median(values[-tenth:]) - np.median(values[tenth : 2 * tenth] or values[:1]))


def draw(rows: list[dict[str, Any]], path: Path, title: str) -> None:
    """Latency, memory, handles and information over the frames, as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 9), layout="constrained")
    axes = figure.subplots(5, 1, sharex=True)
    frames = [row["frames"] for row in rows]
    curves = {
        "processor, ms": ("processor_ms",),
        "clock, ms": ("median_ms", "p99_ms"),
        "memory, MB": ("memory_mb",),
        "files, threads": ("handles", "threads"),
        "information, 1/m²": ("information",),
    }
    for panel, (label, names) in zip(axes, curves.items()):
        for name in names:
            panel.plot(frames, [row[name] for row in rows], label=name.replace("_", " "))
        panel.set_ylabel(label)
        panel.set_ylim(0, 1.2 * max(row[name] or 1 for row in rows for name in names))
        panel.grid(alpha=0.3)
        if len(names) > 1:
            panel.legend(frameon=False, ncols=len(names))
    axes[-1].set_xlabel("frames")
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
