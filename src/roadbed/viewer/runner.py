# SPDX-License-Identifier: Apache-2.0
"""Runs single frames with their history: the frames before are processed first where the pipeline has not seen them."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from roadbed.config import Config
from roadbed.core.errors import InputError
from roadbed.outputs.report import frame_scores
from roadbed.pipeline import Pipeline, Result
from roadbed.viewer.scans import Scans

SHORT_PAST = 5  # frames: enough for labels, fast enough for a slider
LONG_PAST = 20  # frames after which velocities equal those of the whole sequence up to noise
Superseded = Callable[[], bool]  # whether another frame was requested


@dataclass(frozen=True, eq=False)
class Shown:
    """A frame on the screen."""

    index: int
    result: Result
    scores: dict[str, float]  # percent; empty without truth
    before: dict[str, float]  # the same frame with the configuration the viewer started with
    past: int  # frames that the filters saw before it
    settled: bool  # whether its velocities have settled


class Runner:
    """Runs any frame of `scans`; keeps the pipeline, so that the next frame costs one frame."""

    def __init__(self, scans: Scans, config: Config, occupancy: bool) -> None:
        self._scans, self._start_config, self._occupancy = scans, config, occupancy
        self._pipeline: Pipeline | None = None
        self._at: tuple[int, Config] | None = None  # last frame the pipeline saw, with which configuration
        self._past = 0  # frames the pipeline saw before that
        self._before: tuple[int, int, dict[str, float]] | None = None  # index, requested history, scores

    def run(self, index: int, config: Config, superseded: Superseded, *, long: bool = False) -> Shown | None:
        """Continue with the frame if it is the next one, else process the few frames before it first; with `long`
        always the many frames in which velocities settle.

        None if `superseded` meanwhile, which is checked before each scan.
        """
        past = LONG_PAST if long else SHORT_PAST
        with suppress(_SupersededError):
            result = None if long else self._continue(index, config)
            if result is None:
                pipeline = Pipeline(config, occupancy=self._occupancy)
                result, seen = self._after(pipeline, index, past, superseded)
                self._keep(pipeline, index, config, seen)
            return self._shown(index, config, result, past, superseded)
        return None

    def forget(self) -> None:
        """Forget the state of the pipeline, e.g. after a failure."""
        self._at = None

    def _keep(self, pipeline: Pipeline, index: int, config: Config, past: int) -> None:
        self._pipeline, self._at, self._past = pipeline, (index, config), past

    def _continue(self, index: int, config: Config) -> Result | None:
        """Process the frame if it is the next one; a live source may skip frames."""
        if self._pipeline is None or self._at is None or not self._scans.sequential:
            return None
        at, in_force = self._at
        if config != in_force or not (index == at + 1 or (self._scans.live and index > at)):
            return None
        self._at = None  # if this fails, the state of the pipeline is unknown
        result = self._pipeline(self._scans.get(index))
        self._keep(self._pipeline, index, config, self._past + 1)
        return result

    def _after(self, pipeline: Pipeline, index: int, past: int, superseded: Superseded) -> tuple[Result, int]:
        """The frame after up to `past` others, and their number."""
        first = max(self._scans.bounds()[0], index - past) if self._scans.sequential else index
        seen = 0
        for earlier in range(first, index):
            if superseded():
                raise _SupersededError
            with suppress(InputError):  # an unreadable scan is left out of the history
                pipeline(self._scans.get(earlier))
                seen += 1
        return pipeline(self._scans.get(index)), seen

    def _shown(self, index: int, config: Config, result: Result, past: int, superseded: Superseded) -> Shown:
        scores = frame_scores(result.scan, result.ground)
        before = self._scores_before(index, past, superseded) if scores and config != self._start_config else scores
        moves = self._occupancy and self._scans.sequential
        return Shown(index, result, scores, before, self._past, not moves or self._past >= LONG_PAST)

    def _scores_before(self, index: int, past: int, superseded: Superseded) -> dict[str, float]:
        """The scores of the initial configuration on this frame, computed once."""
        if self._before is None or self._before[:2] != (index, past):
            result, _ = self._after(Pipeline(self._start_config, occupancy=False), index, past, superseded)
            self._before = index, past, frame_scores(result.scan, result.ground)
        return self._before[2]


class _SupersededError(Exception):
    """Another frame was requested."""
