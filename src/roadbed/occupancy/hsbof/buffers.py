# SPDX-License-Identifier: Apache-2.0
"""The filter's memory on a device: what an observation is read from, and the state that stays there."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from roadbed.core.errors import DeviceError
from roadbed.occupancy.hsbof.model import FilterModel
from roadbed.occupancy.hsbof.program import PARTICLE, STEP, SYSTEMATIC_DRAW, TILE_STRIP
from roadbed.runtime.backend import Backend
from roadbed.runtime.packed_outputs import PackedOutputs
from roadbed.runtime.primitives import CellSort

_PER_CELL = 2 * 5 * 4 + 4 + 6 * 4 + 2 + 2 * 8 + 8 + (4 + 4 + 2 + 4 + 2)  # bytes, of what is allocated below
_PER_PARTICLE = 2 * PARTICLE.itemsize + 3 * 4 + 4 * 4
_PER_MERGED = 4 + 4 + 8
PARTICLE_WORDS = PARTICLE.itemsize // 4  # records are kept as words: not every library has arrays of records
_MOST_SUM_GROUPS = 256


@dataclass(frozen=True, eq=False)
class ObservationBuffers:
    """What the sensors say, on the device: an `Observation` and a `Registered`, cell by cell."""

    probability: Any  # float32
    observedness: Any  # float32
    surface: Any  # uint16
    label: Any  # int32
    velocity: Any  # float32 (components, 2)
    component_cells: Any  # int32 (components,)


class FilterBuffers:
    """For a grid of `cells` cells and `particles` particles, of which `births` are born per step."""

    def __init__(self, backend: Backend, cells: int, particles: int, births: int, group: int) -> None:
        zeros, merged = backend.zeros, particles + births
        self.step = backend.staging_buffer(STEP.itemsize)
        self.prior = zeros(5 * cells, np.float32)
        self.birth = zeros(cells, np.float32)  # newborn part of the dynamic mass
        self.runs, self.drawn = zeros(2 * cells, np.int32), zeros(2 * cells, np.int32)
        self.particle_mass, self.moving_alone = zeros(cells, np.float32), zeros(-(-cells // 4) * 4, np.uint8)
        self.birth_reached, self.birth_sums = zeros(cells, np.uint64), zeros(tiles_of(cells, group), np.uint64)
        self.birth_draw, self.draw = (zeros(SYSTEMATIC_DRAW.itemsize // 8, np.uint64) for _ in range(2))

        self.particles, self.sorted = (zeros(particles * PARTICLE_WORDS, np.float32) for _ in range(2))
        self.cells, self.source = zeros(particles, np.int32), zeros(particles, np.int32)
        self.order = backend.upload(np.arange(particles, dtype=np.int32))
        self.sort = CellSort(backend, particles, cells + 1)
        self.born, self.born_cells = zeros(births * PARTICLE_WORDS, np.float32), zeros(births, np.int32)
        self.merged_mass, self.merged_origin = zeros(merged, np.float32), zeros(merged, np.int32)
        self.merged_reached, self.merged_sums = zeros(merged, np.uint64), zeros(tiles_of(merged, group), np.uint64)
        self.sum_groups = min(-(-cells // group), _MOST_SUM_GROUPS)
        self.results = PackedOutputs(
            backend,
            {
                "velocity": (2 * cells, np.float32),
                "velocity_covariance": (3 * cells, np.float32),
                "moving": (-(-cells // 4) * 4, np.uint8),
                "lost": (
                    2 * self.sum_groups,
                    np.float32,
                ),  # per work-group: dynamic mass without particles, and all of it
                "masses": (5 * cells, np.float32),
            },
        )
        self.lost, self.moving, self.layers = (self.results[name] for name in ("lost", "moving", "masses"))
        self.mean, self.covariance = self.results["velocity"], self.results["velocity_covariance"]


def tiles_of(count: int, group: int) -> int:
    """Tiles of a draw's sums, one per work-group."""
    return -(-count // (group * TILE_STRIP))


def bytes_needed(cells: int, particles: int, births: int) -> int:
    """Device memory of the filter."""
    merged = (particles + births) * _PER_MERGED
    return cells * _PER_CELL + particles * _PER_PARTICLE + births * PARTICLE.itemsize + merged


def check_memory(backend: Backend, cells: int, model: FilterModel, other: int = 0) -> None:
    """A clear error before anything is allocated for a grid that does not fit with `other` bytes of other stages."""
    particles, device = model.particles, backend.device
    needed = bytes_needed(cells, particles, model.births) + other
    if needed > device.memory or 5 * cells >= 2**31:
        raise DeviceError(
            f"{device.name}: occupancy.grid of {cells:,} cells with {particles:,} particles needs "
            f"{needed / 2**20:,.0f} MiB, found {device.memory / 2**20:,.0f} MiB"
        )
