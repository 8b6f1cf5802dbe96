# SPDX-License-Identifier: Apache-2.0
"""Which frame is shown, with which parameters: one thread runs the pipeline, everyone else only states wishes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

from roadbed.config import Config
from roadbed.viewer.runner import Runner, Shown
from roadbed.viewer.scans import scans_of


@dataclass(frozen=True)
class _Task:
    """A frame to run now; with `long` once more, after a past in which velocities settle."""

    index: int
    config: Config
    long: bool = False


class Player:
    """`seek`, `step`, `play`, `tune` return at once; the thread calls `on_frame`, `on_error` and `on_state`."""

    def __init__(self, source: Any, config: Config, occupancy: bool = True) -> None:
        self._wake = threading.Condition()
        self._wanted, self._config = 0, config
        self._playing, self._speed, self._closed, self._redo = False, 1.0, False, True
        self._settle = False  # the frame on the screen has yet to be run with a long past
        self.shown: Shown | None = None
        self.on_frame: Callable[[Shown], None] = lambda shown: None
        self.on_error: Callable[[int, Exception], None] = lambda index, error: None
        self.on_state: Callable[[], None] = lambda: None
        self.scans = scans_of(source, self._notify)
        self._runner = Runner(self.scans, config, occupancy)
        self._playing = self.scans.live
        self._thread = threading.Thread(target=self._work, name="roadbed-player", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, after the scan it is at, and let go of the source."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        self.scans.close()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

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
        """Go on from the current frame; from the first one where the recording has come to its end."""
        with self._wake:
            if playing and not self.scans.live and self._wanted >= self.scans.span()[1]:
                self._wanted, self._redo = self.scans.span()[0], True
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
                        self._fail(self._wanted, error)
                    if task is not None:
                        break
                    waits_for_clock = self._playing and not self.scans.live
                    self._wake.wait(timeout=max(due - monotonic(), 0.001) if waits_for_clock else None)
                if self._closed:
                    return
            assert task is not None
            started = monotonic()
            try:
                shown = self._run(task)
                if self._closed:
                    return
                if shown is None:
                    continue
                self.on_frame(shown)
                pause = 0.0 if self.scans.live else _pause_between(self.shown, shown)
                due = started + pause / self._speed
                self.shown = shown  # once it is: whoever waits for it finds it drawn
            except Exception as error:
                self._fail(task.index, error)

    def _run(self, task: _Task) -> Shown | None:
        if not task.long:
            shown = self._runner.run(task.index, task.config, lambda: self._closed)
            self._settle = shown is not None and not shown.settled
            return shown
        settled = self._runner.run_long(task.index, task.config, self._is_superseded)
        self._settle = settled is None
        return settled

    def _is_superseded(self) -> bool:
        return self._redo or self._playing or self._closed

    def _fail(self, index: int, error: Exception) -> None:
        """Show the error, stand still, stay ready for the next wish, which may have come meanwhile."""
        self._playing, self._settle = False, False
        self._runner.forget()
        self.on_error(index, error)
        self.on_state()

    def _next_task(self, due: float) -> _Task | None:
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
            idle = self._settle and not self._playing
            more = self.shown is not None and self.shown.past < self._wanted - first
            return _Task(self._wanted, self._config, long=True) if idle and more else None
        self._redo = False
        self._wanted = min(max(self._wanted, first), last)
        return _Task(self._wanted, self._config)


def _pause_between(earlier: Shown | None, later: Shown) -> float:
    """Seconds between two frames of a recording, 0.1 where scans carry no usable time."""
    times = [shown.result.scan.time for shown in (earlier, later) if shown is not None]
    pause = times[1] - times[0] if len(times) == 2 and None not in times else 0.0  # type: ignore[operator]
    return pause if 0.0 < pause < 2.0 else 0.1
