# SPDX-License-Identifier: Apache-2.0
"""Frames out of the pipeline, each with a past: that of the drive, or the frames before it, run first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from roadbed.config import Config
from roadbed.core.errors import InputError
from roadbed.outputs.report import frame_scores
from roadbed.pipeline import Pipeline, Result
from roadbed.viewer.scans import Scans

SHORT_PAST = 5  # frames: enough for labels, and soon enough to answer a slider
LONG_PAST = 20  # frames after which velocities differ from those of a whole drive by no more than by chance
Superseded = Callable[[], bool]  # whether a frame is not wanted any more


@dataclass(frozen=True, eq=False)
class Shown:
    """A frame as it is on the screen."""

    index: int
    result: Result
    scores: dict[str, float]  # percent; empty without truth
    before: dict[str, float]  # the same frame with the configuration the viewer started with
    past: int  # frames that the filters saw before it
    settled: bool  # whether its velocities can be believed


class Runner:
    """Runs any frame of `scans`; keeps the pipeline, so that the next frame of a drive costs one frame."""

    def __init__(self, scans: Scans, config: Config, occupancy: bool) -> None:
        self._scans, self._start_config, self._occupancy = scans, config, occupancy
        self._pipeline: Pipeline | None = None
        self._at: tuple[int, Config] | None = None  # last frame the pipeline saw, with which configuration
        self._past = 0  # frames the pipeline saw before that
        self._before: tuple[int, int, dict[str, float]] | None = None  # index, past asked for, scores

    def run(self, index: int, config: Config, superseded: Superseded) -> Shown | None:
        """The frame as the next one of the drive where it is that, else after the few frames before it.

        None if it is not wanted any more: that is asked before each scan of a past.
        """
        with suppress(_SupersededError):
            result = self._continue(index, config)
            if result is None:
                self._at = None
                result = self._anew(index, config, SHORT_PAST, superseded)
            return self._shown(index, config, result, SHORT_PAST, superseded)
        return None

    def run_long(self, index: int, config: Config, superseded: Superseded) -> Shown | None:
        """The frame after a past in which velocities settle; None if meanwhile something else is wanted."""
        with suppress(_SupersededError):
            result = self._anew(index, config, LONG_PAST, superseded)
            return self._shown(index, config, result, LONG_PAST, superseded)
        return None

    def forget(self) -> None:
        """After a failure nobody knows what the pipeline has seen."""
        self._at = None

    def _keep(self, pipeline: Pipeline, index: int, config: Config, past: int) -> None:
        self._pipeline, self._at, self._past = pipeline, (index, config), past

    def _continue(self, index: int, config: Config) -> Result | None:
        """The next frame of the drive, if that is what is asked for; a live source may run ahead of the pipeline."""
        if self._pipeline is None or self._at is None or not self._scans.sequential:
            return None
        at, in_force = self._at
        if config != in_force or not (index == at + 1 or (self._scans.live and index > at)):
            return None
        self._at = None  # whatever happens now, the pipeline has moved on
        result = self._pipeline(self._scans.get(index))
        self._keep(self._pipeline, index, config, self._past + 1)
        return result

    def _anew(self, index: int, config: Config, past: int, superseded: Superseded) -> Result:
        """The frame out of a new pipeline, which is kept."""
        pipeline = Pipeline(config, occupancy=self._occupancy)
        result, seen = self._after(pipeline, index, past, superseded)
        self._keep(pipeline, index, config, seen)
        return result

    def _after(self, pipeline: Pipeline, index: int, past: int, superseded: Superseded) -> tuple[Result, int]:
        """The frame after `past` others or as many as there are, and how many there were."""
        first = max(self._scans.span()[0], index - past) if self._scans.sequential else index
        seen = 0
        for earlier in range(first, index):
            if superseded():
                raise _SupersededError
            with suppress(InputError):  # a scan that cannot be read is missing from the past, no more
                pipeline(self._scans.get(earlier))
                seen += 1
        return pipeline(self._scans.get(index)), seen

    def _shown(self, index: int, config: Config, result: Result, past: int, superseded: Superseded) -> Shown:
        scores = frame_scores(result.scan, result.ground)
        before = self._scores_before(index, past, superseded) if scores and config != self._start_config else scores
        moves = self._occupancy and self._scans.sequential
        return Shown(index, result, scores, before, self._past, not moves or self._past >= LONG_PAST)

    def _scores_before(self, index: int, past: int, superseded: Superseded) -> dict[str, float]:
        """The scores that the starting configuration has on this frame, computed once per frame."""
        if self._before is None or self._before[:2] != (index, past):
            result, _ = self._after(Pipeline(self._start_config, occupancy=False), index, past, superseded)
            self._before = index, past, frame_scores(result.scan, result.ground)
        return self._before[2]


class _SupersededError(Exception):
    """Something else is wanted by now."""
