# SPDX-License-Identifier: Apache-2.0
"""Which frame is shown, with which parameters: one thread runs the pipeline, everyone else only states wishes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from roadbed.config import Config
from roadbed.errors import InputError
from roadbed.outputs.report import frame_scores
from roadbed.pipeline import Pipeline, Result
from roadbed.viewer.scans import scans_of

HISTORY = 5  # frames run before a frame that is jumped to or tuned, so that it has a past as in a drive


@dataclass(frozen=True, eq=False)
class Shown:
    """A frame as it is on the screen."""

    index: int
    result: Result
    scores: dict[str, float]  # percent; empty without truth
    before: dict[str, float]  # the same frame with the configuration the viewer started with
    milliseconds: float


class Player:
    """`seek`, `step`, `play`, `tune` return at once; the thread calls `on_frame`, `on_error` and `on_state`."""

    def __init__(self, source: Any, config: Config, occupancy: bool = True) -> None:
        self._wake = threading.Condition()
        self._wanted, self._config, self._start_config = 0, config, config
        self._playing, self._speed, self._closed, self._redo = False, 1.0, False, True
        self._occupancy = occupancy
        self._pipeline: Pipeline | None = None
        self._at: tuple[int, Config] | None = None  # last frame the pipeline saw, with which configuration
        self._before: tuple[int, dict[str, float]] | None = None
        self.shown: Shown | None = None
        self.on_frame: Callable[[Shown], None] = lambda shown: None
        self.on_error: Callable[[int, Exception], None] = lambda index, error: None
        self.on_state: Callable[[], None] = lambda: None
        self.scans = scans_of(source, self._notify)
        self._playing = self.scans.live
        self._thread = threading.Thread(target=self._work, name="roadbed-player", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and let go of the source."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        self.scans.close()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=10)

    @property
    def playing(self) -> bool:
        return self._playing

    @property
    def config(self) -> Config:
        return self._config

    def seek(self, index: int) -> None:
        self._wish(_wanted=index, _playing=False, _redo=True)

    def step(self, frames: int) -> None:
        with self._wake:
            self._wish(_wanted=self._wanted + frames, _playing=False, _redo=True)

    def play(self, playing: bool) -> None:
        self._wish(_playing=playing)

    def set_speed(self, speed: float) -> None:
        self._wish(_speed=speed)

    def tune(self, config: Config) -> None:
        """Run the current frame again with other parameters."""
        self._wish(_config=config, _redo=True)

    def _wish(self, **values: Any) -> None:
        with self._wake:
            for name, value in values.items():
                setattr(self, name, value)
            self._wake.notify_all()
        self.on_state()

    def _notify(self) -> None:
        with self._wake:
            self._wake.notify_all()

    def _work(self) -> None:
        due = monotonic()
        while True:
            with self._wake:
                task = None
                while not self._closed:
                    try:
                        task = self._next_task(due)
                    except Exception as error:  # a live source that failed
                        self._fail(error)
                    if task is not None:
                        break
                    waits_for_clock = self._playing and not self.scans.live
                    self._wake.wait(timeout=max(due - monotonic(), 0.001) if waits_for_clock else None)
                if self._closed:
                    return
            assert task is not None
            index, config = task
            started = monotonic()
            try:
                previous, self.shown = self.shown, self._run(index, config)
                if self._closed:
                    return
                self.on_frame(self.shown)
                pause = 0.0 if self.scans.live else _pause_between(previous, self.shown)
                due = started + pause / self._speed
            except Exception as error:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Show the error, stand still, stay ready for the next wish."""
        self._playing, self._redo, self._at = False, False, None
        self.on_error(self._wanted, error)
        self.on_state()

    def _next_task(self, due: float) -> tuple[int, Config] | None:
        """What to run now, or None to wait. Called with the lock held."""
        first, last = self.scans.span()
        if last < first:
            return None
        if self._playing and not self._redo and monotonic() >= due:
            following = last if self.scans.live else self._wanted + 1
            if following > last:
                self._playing = False
                self.on_state()
            elif following != self._wanted or self.shown is None:
                self._wanted, self._redo = following, True
        if not self._redo:
            return None
        self._redo = False
        self._wanted = min(max(self._wanted, first), last)
        return self._wanted, self._config

    def _run(self, index: int, config: Config) -> Shown:
        started = monotonic()
        result = self._continue(index, config) or self._afresh(index, config)
        elapsed = 1e3 * (monotonic() - started)
        scores = frame_scores(result.scan, result.ground)
        before = self._scores_before(index) if scores and config != self._start_config else scores
        return Shown(index, result, scores, before, elapsed)

    def _continue(self, index: int, config: Config) -> Result | None:
        """The next frame of the drive, if that is what is asked for."""
        if self._pipeline is None or self._at != (index - 1, config) or not self.scans.sequential:
            return None
        self._at = None  # whatever happens now, the pipeline has moved on
        result = self._pipeline(self.scans.get(index))
        self._at = index, config
        return result

    def _afresh(self, index: int, config: Config) -> Result:
        """Any frame, with a short past."""
        self._at = None
        self._pipeline = Pipeline(config, occupancy=self._occupancy)
        result = self._pass(self._pipeline, index)
        self._at = index, config
        return result

    def _pass(self, pipeline: Pipeline, index: int) -> Result:
        first = max(self.scans.span()[0], index - HISTORY) if self.scans.sequential else index
        for earlier in range(first, index):
            with suppress(InputError):  # a scan that cannot be read is missing from the past, no more
                pipeline(self.scans.get(earlier))
        return pipeline(self.scans.get(index))

    def _scores_before(self, index: int) -> dict[str, float]:
        """The scores that the starting configuration has on this frame, computed once per frame."""
        if self._before is None or self._before[0] != index:
            result = self._pass(Pipeline(self._start_config, occupancy=False), index)
            self._before = index, frame_scores(result.scan, result.ground)
        return self._before[1]


def _pause_between(earlier: Shown | None, later: Shown) -> float:
    """Seconds between two frames of a recording, 0.1 where scans carry no usable time."""
    times = [shown.result.scan.time for shown in (earlier, later) if shown is not None]
    pause = times[1] - times[0] if len(times) == 2 and None not in times else 0.0  # type: ignore[operator]
    return pause if 0.0 < pause < 2.0 else 0.1
