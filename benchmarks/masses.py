# SPDX-License-Identifier: Apache-2.0
"""The filter's invariant over many steps: no mass below zero, none too many, and particles carry what is dynamic."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.hsbof_state import HsbofState
from roadbed.config.occupancy import OccupancyConfig
from roadbed.occupancy.arrays import Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.hsbof.filter import Hsbof
from roadbed.occupancy.hsbof.model import FilterModel
from roadbed.occupancy.registration.register import Registration
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend

SHAPE, SPACING = (80, 100), 0.25
_MODEL = FilterModel.of(OccupancyConfig.parse({"filter": {"particles": 2000}}))


def mass_rows(backend: Backend | CpuBackend, steps: int, samples: int = 10) -> Iterator[dict[str, Any]]:
    """After each part of the steps: the largest excess of a cell's masses over 1, the smallest mass, and the largest
    difference between a cell's dynamic mass and that of its particles."""
    filter_: Hsbof | HsbofState
    if isinstance(backend, CpuBackend):
        filter_ = Hsbof(SHAPE, SPACING, _MODEL)
    else:
        filter_ = HsbofState(backend, SHAPE, SPACING, _MODEL)
    registration = Registration(filter_.cells, _MODEL.registration)
    ends = set(np.linspace(0, steps, min(samples, steps) + 1).astype(int)[1:].tolist())
    for number, (observation, dt, motion) in enumerate(_course(steps), start=1):
        if isinstance(filter_, Hsbof):
            filter_.step(observation, dt, motion)
        else:
            filter_.upload(observation, registration(observation, dt, motion))
            filter_.step(dt, motion)
        if number in ends:
            yield {"steps": number, **_masses(filter_)}


def _course(steps: int) -> Iterator[tuple[Observation, float, GridMotion]]:
    """Boxes that move and stand, noise, and steps in which nothing is seen, on a grid that rolls and turns."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[0 : SHAPE[0], 0 : SHAPE[1]] * SPACING
    angle = 0.01
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    motions = (GridMotion(), GridMotion.rolled(1, 0, SPACING), GridMotion(turn, np.array([0.1, -0.1]), None))
    for number in range(steps):
        hit = (np.abs(columns - 12 - 9 * np.sin(number / 30)) < 2) & (np.abs(rows - 8) < 1)
        hit |= np.abs(rows - 16) < 0.3
        noisy = number % 7 == 0
        p = rng.uniform(0.05, 0.95, SHAPE) if noisy else np.where(hit, 0.95, 0.05)
        seen = 0.0 if number % 11 == 0 else rng.uniform(0, 1, SHAPE) if noisy else 0.95
        surface = np.where(p > 0.5, 0xFFFF, 0).astype(np.uint16)
        observedness = np.broadcast_to(np.float32(seen), SHAPE).copy()
        yield Observation(p.astype(np.float32), observedness, surface), 0.1, motions[int(rng.integers(3))]


def _masses(filter_: Hsbof | HsbofState) -> dict[str, float]:
    static, dynamic, free = (np.asarray(mass, np.float64) for mass in filter_.masses[:3])
    if isinstance(filter_, Hsbof):
        count, arrays = filter_.particles.count, filter_.particles.arrays
        cells, mass = arrays.cell[:count], arrays.mass[:count]
    else:
        cells, mass = filter_.particle_masses()
    carried = np.bincount(cells, weights=mass, minlength=dynamic.size).reshape(SHAPE)
    return {
        "particles": len(cells),
        "excess": float(np.max(static + dynamic + free - 1)),
        "least": float(min(mass.min() for mass in (static, dynamic, free))),
        "uncarried": float(np.abs(carried - dynamic).max()),
    }
