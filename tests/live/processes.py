# SPDX-License-Identifier: Apache-2.0
"""Processes of a live test: started together, ended one by one whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from tests.conftest import ROOT, take_interrupts

PATIENCE = 300.0  # s, a hang guard for a busy machine


class Processes:
    """`start` gives a running process whose output goes to a file; leaving the block ends those that are left."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        # Unbuffered: tests wait for what a process prints.
        ours = {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
        self._environment = {**os.environ, **ours, **environment}
        self.running: list[subprocess.Popen] = []

    def start(self, name: str, *command: str | Path) -> subprocess.Popen:
        log = (self._folder / f"{name}.log").open("wb")
        process = subprocess.Popen(
            [str(part) for part in command],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=take_interrupts,
        )
        log.close()
        self.running.append(process)
        return process

    def said(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def wait_for(self, name: str, text: str, times: int = 1) -> None:
        """Until a process has printed `text` so many times."""
        wait_until(lambda: self.said(name).count(text) >= times, lambda: f"{name}: no {text!r} in:\n{self.said(name)}")

    def stop(self, process: subprocess.Popen, number: int = signal.SIGINT) -> int:
        process.send_signal(number)
        return process.wait(PATIENCE)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        """Asked first: roscore ends its children then, which live in sessions of their own."""
        for process in reversed(self.running):
            process.stdin.close()  # what waits for it ends by itself
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in reversed(self.running):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(PATIENCE)


def wait_until(condition, explain=lambda: "") -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, explain()
        time.sleep(0.05)
