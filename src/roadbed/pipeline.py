# SPDX-License-Identifier: Apache-2.0
"""The whole chain: scan -> ground -> occupancy, with what moves kept out of the ground."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from roadbed.config import Config
from roadbed.frames import GroundFrame, OccupancyFrame, Scan
from roadbed.ground import GroundFilter
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
        return self.ground.notes + (self.occupancy.notes if self.occupancy else ())


class Pipeline:
    """Feed scans in time order; each call gives the ground and the occupancy after that scan."""

    def __init__(
        self, config: Config | None = None, *, occupancy: bool = True, map_folder: str | Path | None = None
    ) -> None:
        self.config = config or Config()
        self.ground = GroundFilter(self.config, map_folder=map_folder)
        self.occupancy = OccupancyFilter(self.config) if occupancy else None
        self._last: OccupancyFrame | None = None

    def __call__(self, scan: Scan) -> Result:
        started = perf_counter()
        ground = self.ground(scan, moving=self._moving())
        segmented = perf_counter()
        seconds = {"ground": segmented - started}
        frame = None
        if self.occupancy is not None:
            if scan.T_world_sensor is None:
                self.occupancy.reset()  # without odometry nothing can be carried over
            frame = self.occupancy(scan, ground)
            seconds["occupancy"] = perf_counter() - segmented
        self._last = frame
        return Result(scan, ground, frame, seconds)

    def run(self, source: Iterable[Scan]) -> Iterator[Result]:
        """Results one by one, as the source gives scans; scans of unrelated places are kept apart."""
        sequential = getattr(source, "sequential", True)
        for scan in source:
            if not sequential:
                self.reset()
            yield self(scan)

    def reset(self) -> None:
        """Forget the past: the next scan starts cold."""
        self.ground.reset()
        if self.occupancy is not None:
            self.occupancy.reset()
        self._last = None

    def close(self) -> None:
        """Write what the long-term map holds; without one there is nothing to do."""
        self.ground.save_map()

    def _moving(self):  # type: ignore[no-untyped-def]
        """Cells that moved a frame ago, for the ground to leave out."""
        if self._last is None or not self._last.moving.any():
            return None
        return self._last.moving_cells()
