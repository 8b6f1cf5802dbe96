# SPDX-License-Identifier: Apache-2.0
"""Playback: one thread runs the pipeline; other threads set the target frame and the parameters."""

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from roadbed.config import Config
from roadbed.viewer.runner import Runner, Shown
from roadbed.viewer.scans import scans_of

_Task = tuple[int, Config, bool]  # a frame to process; True: after a longer history, in which velocities settle


class Player:
    """`seek`, `step`, `play`, `tune` return at once; the thread calls `on_frame`, `on_error` and `on_state`."""

    def __init__(self, source: Any, config: Config, occupancy: bool = True) -> None:
        self._wake = threading.Condition()
        self._target, self.config = 0, config
        self.playing, self._speed, self._closed, self._redo = False, 1.0, False, True
        self._settle = False  # the shown frame still needs its long history
        self.shown: Shown | None = None
        self.on_frame: Callable[[Shown], None] = lambda shown: None
        self.on_error: Callable[[int, Exception], None] = lambda index, error: None
        self.on_state: Callable[[], None] = lambda: None
        self.scans = scans_of(source, self._notify)
        self._runner = Runner(self.scans, config, occupancy)
        self.playing = self.scans.live
        self._thread = threading.Thread(target=self._work, name="roadbed-player", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop the thread after its current scan, and close the source."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        self.scans.close()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def seek(self, index: int) -> None:
        self._request(_target=index, playing=False, _redo=True)

    def step(self, frames: int) -> None:
        with self._wake:
            self._request(_target=self._target + frames, playing=False, _redo=True)

    def play(self, playing: bool) -> None:
        """Play from the current frame, or from the first one at the end of a recording."""
        with self._wake:
            if playing and not self.scans.live and self._target >= self.scans.bounds()[1]:
                self._target, self._redo = self.scans.bounds()[0], True
            self._request(playing=playing)

    def set_speed(self, speed: float) -> None:
        self._request(_speed=speed)

    def tune(self, config: Config) -> None:
        """Run the current frame again with other parameters."""
        self._request(config=config, _redo=True)

    def _request(self, **values: Any) -> None:
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
                        self._fail(self._target, error)
                    if task is not None:
                        break
                    waits_for_clock = self.playing and not self.scans.live
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
                self.shown = shown  # set after it was drawn, for those who wait for it
            except Exception as error:
                self._fail(task[0], error)

    def _run(self, task: _Task) -> Shown | None:
        index, config, long = task
        if long:
            settled = self._runner.run(index, config, lambda: self._redo or self.playing or self._closed, long=True)
            self._settle = settled is None
            return settled
        shown = self._runner.run(index, config, lambda: self._closed)
        self._settle = shown is not None and not shown.settled
        return shown

    def _fail(self, index: int, error: Exception) -> None:
        """Report the error and stop playing; the next request continues."""
        self.playing, self._settle = False, False
        self._runner.forget()
        self.on_error(index, error)
        self.on_state()

    def _next_task(self, due: float) -> _Task | None:
        """The next task, or None to wait. The caller holds the lock."""
        first, last = self.scans.bounds()
        if last < first:
            return None
        if self.playing and not self._redo and monotonic() >= due:
            following = last if self.scans.live else self._target + 1
            if following > last:
                self.playing = False
                self.on_state()
            elif following != self._target or self.shown is None:
                self._target, self._redo = following, True
        if not self._redo:
            idle = self._settle and not self.playing
            more = self.shown is not None and self.shown.past < self._target - first
            return (self._target, self.config, True) if idle and more else None
        self._redo = False
        self._target = min(max(self._target, first), last)
        return self._target, self.config, False


def _pause_between(earlier: Shown | None, later: Shown) -> float:
    """Seconds between two frames of a recording, 0.1 where scans carry no usable time."""
    times = [shown.result.scan.time for shown in (earlier, later) if shown is not None]
    pause = times[1] - times[0] if len(times) == 2 and None not in times else 0.0  # type: ignore[operator]
    return pause if 0.0 < pause < 2.0 else 0.1
