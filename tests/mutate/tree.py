# SPDX-License-Identifier: Apache-2.0
"""Copies of the project in which one file at a time is changed, with compiled kernels of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT, data_folder
from tests.mutate import plugin
from tests.mutate.mutation import Mutation

_NOTHING_RAN = 5  # pytest's exit status


@dataclass(frozen=True)
class Said:
    """What pytest said: its exit status (None where it was stopped), its output and what each test did."""

    status: int | None
    output: str
    tests: dict[str, tuple[str, float]]

    @property
    def red(self) -> str | None:
        """The first test that failed, or what ended the run; None where all passed."""
        if self.status is None:
            return "the time limit"
        if self.status < 0:
            return f"signal {-self.status}"
        if self.status in (0, _NOTHING_RAN):
            return None
        failed = (name for name, (outcome, _) in self.tests.items() if outcome == "failed")
        return next(failed, None) or self.output.strip()[-200:]


class Tree:
    """The project in a folder, with compiled kernels of its own: a change compiles what depends on it."""

    def __init__(self, folder: Path, kernels: Path, threads: int) -> None:
        self.folder = folder
        self.package = folder / "src" / "roadbed"
        for name in ("src", "tests", "docs", "scripts", "examples", "benchmarks"):
            shutil.rmtree(folder / name, ignore_errors=True)
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "Makefile", "LICENSE"):
            shutil.copy2(ROOT / name, folder / name)
        self._environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(folder / "src"), str(folder), *_packages()]),
            "PYTHONDONTWRITEBYTECODE": "1",  # of two changes within a second, one would look like the other
            "ROADBED_DATA": str(data_folder() or ""),
            "NUMBA_CACHE_DIR": str(kernels),
            "NUMBA_NUM_THREADS": str(threads),
            "POCL_CACHE_DIR": str(kernels / "pocl"),
            "POCL_MAX_PTHREAD_COUNT": str(threads),
            "CI": "1",  # the same examples for every mutation
        }

    @contextmanager
    def changed(self, mutation: Mutation) -> Iterator[None]:
        """The tree with one mistake in it; afterwards it is as it was."""
        file = self.package / mutation.path
        before = file.read_text()
        changed = mutation.applied(before)
        assert changed is not None, f"{mutation.path} has no such place"
        file.write_text(changed)
        try:
            yield
        finally:
            file.write_text(before)

    def run(self, files: Sequence[str], end: float, chosen: Sequence[str] = ()) -> Said:
        """Tests of the tree as it is; with some chosen, these alone, up to the first red one."""
        told, wanted = self.folder / "told.json", self.folder / "chosen.json"
        told.unlink(missing_ok=True)
        environment = self._environment | {plugin.TOLD: str(told)}
        command = [sys.executable, "-m", "pytest", "--no-header", "-rfE", "-p", "no:cacheprovider"]
        command += ["-p", plugin.__name__, "--tb=no"]
        if chosen:
            wanted.write_text(json.dumps(list(chosen)))
            environment[plugin.CHOSEN] = str(wanted)
            command.append("-x")
        process = subprocess.Popen(
            [*command, *files], cwd=self.folder, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=max(end - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            return Said(None, "", {})
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return Said(process.returncode, output, json.loads(told.read_text()) if told.exists() else {})


def _packages() -> list[str]:
    """Where this process finds packages besides those that are installed."""
    return [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
