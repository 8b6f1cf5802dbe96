# SPDX-License-Identifier: Apache-2.0
"""The occupancy engine on the CPU: observation, fusion and filter by Numba kernels."""

from roadbed.config import Config
from roadbed.core.geometry import Float32
from roadbed.core.memory import check_memory
from roadbed.core.timing import timed
from roadbed.kernels.progress import announce
from roadbed.occupancy.engine import GridMotion, OccupancyInput, OccupancyOutput
from roadbed.occupancy.fusion.fuse import Fusion
from roadbed.occupancy.hsbof.filter import Hsbof
from roadbed.occupancy.hsbof.model import FilterModel
from roadbed.occupancy.observation.observe import Observer
from roadbed.occupancy.placement import lattice_of

_FRAME_BYTES_PER_CELL = 60  # one frame given out, and the grids of observation and fusion


class OccupancyCpu:
    """`roadbed.occupancy.engine.OccupancyEngine`. A frame is observe, fuse, and the steps of the filter."""

    def __init__(self, config: Config) -> None:
        self.config, occupancy = config, config.occupancy
        grid = lattice_of(occupancy.grid)
        size, particles = occupancy.grid, occupancy.filter.particles
        cells = f"{size.length:g} x {size.width:g} m at {size.spacing:g} m ({grid.size:,} cells)"
        needed = Hsbof.bytes_needed(grid.size, particles) + grid.size * _FRAME_BYTES_PER_CELL
        check_memory(f"occupancy.grid: {cells} with {particles:,} particles", needed)
        announce("roadbed.occupancy")
        self._observe = Observer(config)
        self._fusion = Fusion(grid.spacing, occupancy.fusion)
        self._hsbof = Hsbof(grid.shape, grid.spacing, FilterModel.of(occupancy), config.seed)
        self._motion = GridMotion()  # since the last frame

    @property
    def prior(self) -> Float32:
        return self._hsbof.layers[:3].copy()

    def move(self, motion: GridMotion) -> None:
        self._motion = self._motion.then(motion)
        self._fusion.move(motion)

    def prefetch(self, dt: float) -> None:
        """Nothing to do: the same thread computes the frame."""

    def begin(self, given: OccupancyInput) -> None:
        self._given = given

    def finish(self) -> OccupancyOutput:
        timings: dict[str, float] = {}
        given = self._given
        with timed(timings, "observe"):
            reports = self._observe(given)
        with timed(timings, "fuse"):
            observation = self._fusion(given.time, reports)
        h, motion = self._hsbof, self._motion
        self._motion = GridMotion()
        h.step(observation, given.dt, motion, given.ego_velocity, self._observe.layered)
        return OccupancyOutput(
            static=h.masses.static.copy(),
            dynamic=h.masses.dynamic.copy(),
            free=h.masses.free.copy(),
            velocity=h.velocities.mean,
            velocity_covariance=h.velocities.covariance,
            moving=h.moving,
            observation=observation.probability,
            observedness=observation.observedness,
            surface=observation.surface,
            mass_without_particles=h.mass_without_particles,
            timings=timings | h.timings,
        )

    def forget(self) -> None:
        self._motion = GridMotion()
        self._fusion.forget()
        self._hsbof.forget()

    def forget_motion(self, gap: float) -> None:
        self._hsbof.forget_motion(gap)
