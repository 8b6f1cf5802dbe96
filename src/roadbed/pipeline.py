# SPDX-License-Identifier: Apache-2.0
"""The whole chain: scan -> ground -> occupancy, with what moves kept out of the ground."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from numpy.typing import ArrayLike

from roadbed.compute.backend import Backend
from roadbed.compute.host import Host
from roadbed.compute.opening import opened
from roadbed.config import Config, GroundConfig, OccupancyConfig
from roadbed.frames import GroundFrame, Moving, OccupancyFrame, Scan
from roadbed.geometry import Pose
from roadbed.ground import GroundFilter
from roadbed.mapping.survey import Survey
from roadbed.occupancy import OccupancyFilter


@dataclass(frozen=True, eq=False)
class Result:
    """Everything known after one scan."""

    scan: Scan
    ground: GroundFrame
    occupancy: OccupancyFrame | None
    seconds: Mapping[str, float] = field(default_factory=dict)  # per stage

    @property
    def notes(self) -> tuple[str, ...]:
        """Of both stages; what both have noticed is said once."""
        return tuple(dict.fromkeys(self.ground.notes + (self.occupancy.notes if self.occupancy else ())))


class Pipeline:
    """Feed scans in time order; each call gives the ground and the occupancy after that scan.

    `backend` and `device` are given as to GroundFilter. Calls from several threads take turns.
    """

    def __init__(
        self,
        config: Config | GroundConfig | OccupancyConfig | None = None,
        backend: str | Backend | Host | None = None,
        device: int | str | None = None,
        *,
        occupancy: bool = True,
        map_folder: str | Path | None = None,
    ) -> None:
        self.config = Config.of(config)
        self.backend = opened(backend, device, (self.config.backend, self.config.device))
        self.ground = GroundFilter(self.config, self.backend, map_folder=map_folder)
        self.occupancy = OccupancyFilter(self.config, self.backend) if occupancy else None
        self._survey: Survey | None = None
        if map_folder is not None:
            self._survey = Survey(map_folder, self.config.ground.stcrf.spacing, self.config.occupancy.grid.spacing)
        self._turn = threading.RLock()
        self._last: OccupancyFrame | None = None

    def __call__(
        self,
        scan: Scan | ArrayLike,
        T_world_sensor: Pose | ArrayLike | None = None,
        time: float | None = None,
        on_ground: Callable[[Result], None] | None = None,
    ) -> Result:
        """The next scan, or its points (N, 3) with a pose and a time where they are known.

        `on_ground` gets the result without its occupancy as soon as the labels are there.
        """
        scan = Scan.of(scan, T_world_sensor, time)
        with self._turn:
            begin = perf_counter()
            ground = self.ground(scan, moving=self._moving())
            segmented = perf_counter()
            seconds = {"ground": segmented - begin}
            if on_ground is not None:
                on_ground(Result(scan, ground, None, dict(seconds)))
            if self.occupancy is not None:
                segmented = perf_counter()
                self._last = self.occupancy(scan, ground)
                seconds["occupancy"] = perf_counter() - segmented
            if self._survey is not None:
                begin = perf_counter()
                self._survey.add(ground, self._last)
                seconds["map"] = perf_counter() - begin
            return Result(scan, ground, self._last, seconds)

    def run(self, source: Iterable[Scan]) -> Iterator[Result]:
        """Results one by one, as the source gives scans; scans of unrelated places are kept apart."""
        sequential = getattr(source, "sequential", True)
        for scan in source:
            if not sequential:
                self.reset()
            yield self(scan)

    def reset(self) -> None:
        """Forget the past: the next scan starts cold."""
        with self._turn:
            self.ground.reset()
            if self.occupancy is not None:
                self.occupancy.reset()
            self._last = None

    def close(self) -> None:
        """Write what the long-term map holds; without one there is nothing to do."""
        self.ground.save_map()
        if self._survey is not None:
            self._survey.flush()

    def _moving(self) -> Moving | None:
        """Cells that moved a frame ago, for the ground to leave out."""
        if self._last is None or not self._last.moving.any():
            return None
        return self._last.moving_cells()
