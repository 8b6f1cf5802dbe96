# SPDX-License-Identifier: Apache-2.0
"""Compares the labels and the occupancy of an accelerator with those of the CPU over a sequence."""

from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any

import numpy as np

from roadbed.config import Config
from roadbed.core.frames import OccupancyFrame, Scan
from roadbed.core.geometry import Float32
from roadbed.ground import GroundFilter
from roadbed.occupancy import OccupancyFilter
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend

LEAST_MASS, LEAST_SPEED = 0.01, 0.1  # m/s; smaller values count as these
GRIDS = ("occupancy", "static", "velocity")


def agreement_rows(scans: Iterable[Scan], config: Config, backend: Backend | CpuBackend) -> Iterator[dict[str, Any]]:
    """One row per frame: times of the two ground filters, labels that differ, the mean relative error of each occupancy
    grid in percent, and cells in which anything differs. Both occupancy filters get the ground of the CPU.

    Occupancy and static: |ours - CPU's| / CPU's, mean over all cells. Velocity: length of the difference over the CPU's
    speed, mean over the cells that have a velocity in either; where only one has, the error counts as 100 %.
    """
    ground, accelerated = GroundFilter(config, CpuBackend()), GroundFilter(config, backend)
    reference, filter_ = OccupancyFilter(config, CpuBackend()), OccupancyFilter(config, backend)
    for number, scan in enumerate(scans):
        begin = perf_counter()
        surface = ground(scan)
        middle = perf_counter()
        label = accelerated(scan).label
        times = {"cpu_ground_ms": 1e3 * (middle - begin), "ground_ms": 1e3 * (perf_counter() - middle)}
        labels = int(np.count_nonzero(label != surface.label))
        expected, found = reference(scan, surface), filter_(scan, surface)
        errors = compare(found, expected)
        percent = {f"{name}_error_percent": 100 * errors[name] for name in GRIDS}
        yield {"frame": number, **times, "differing_labels": labels, **percent, **_differing(found, expected)}


def compare(found: OccupancyFrame, expected: OccupancyFrame) -> dict[str, float]:
    """The mean relative error of each grid."""
    return {
        "occupancy": _relative(found.occupied, expected.occupied),
        "static": _relative(found.static, expected.static),
        "velocity": _velocity_error(found.velocity, expected.velocity),
    }


def _relative(found: Float32, expected: Float32) -> float:
    reference = np.maximum(np.abs(expected, dtype=np.float64), LEAST_MASS)
    return float(np.mean(np.abs(found.astype(np.float64) - expected) / reference))


def _velocity_error(found: Float32, expected: Float32) -> float:
    ours, theirs = np.isfinite(found[..., 0]), np.isfinite(expected[..., 0])
    both, either = ours & theirs, ours | theirs
    if not either.any():
        return 0.0
    apart = np.linalg.norm(found[both].astype(np.float64) - expected[both], axis=-1)
    speed = np.maximum(np.linalg.norm(expected[both].astype(np.float64), axis=-1), LEAST_SPEED)
    return float((np.sum(apart / speed) + np.count_nonzero(ours ^ theirs)) / np.count_nonzero(either))


def _differing(found: OccupancyFrame, expected: OccupancyFrame) -> dict[str, int]:
    """Cells with another bit in any mass, cells that move in one alone, and cells with a velocity in the CPU's."""
    masses = [(getattr(found, name), getattr(expected, name)) for name in ("static", "dynamic", "free")]
    return {
        "cells": expected.static.size,
        "cells_with_velocity": int(np.isfinite(expected.velocity[..., 0]).sum()),
        "differing_cells": int(np.logical_or.reduce([ours != theirs for ours, theirs in masses]).sum()),
        "differing_moving": int(np.count_nonzero(found.moving != expected.moving)),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Speed-up of the ground (without the first of several frames), mean and worst error of each grid, and numbers of
    labels and cells that differed."""
    timed = rows[1:] or rows
    cpu_ms, ms = (float(np.median([row[name] for row in timed])) for name in ("cpu_ground_ms", "ground_ms"))
    names = [f"{name}_error_percent" for name in GRIDS]
    return {
        "ground_speed_up": cpu_ms / ms,
        **{f"mean_{name}": float(np.mean([row[name] for row in rows])) for name in names},
        **{f"worst_{name}": float(max(row[name] for row in rows)) for name in names},
        **{name: sum(row[name] for row in rows) for name in rows[0] if name.startswith("differing_")},
    }
