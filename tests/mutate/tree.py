# SPDX-License-Identifier: Apache-2.0
"""A copy of the project in which one file at a time is changed, with compiled kernels of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from roadbed.compute import kernel_cache
from tests.conftest import ROOT, data_folder
from tests.mutate.mutation import Mutation

_LONGEST = 900  # s for the tests of one mutation
_NOTICED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """`noticed`, `survived` or `stale`: the place is no longer in the file."""

    what: str
    by: str = ""  # the first red test


class Tree:
    """The project, and the kernels that were compiled for it so far: they are known by their content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "src" / "roadbed"
        for name in ("src", "tests", "docs", "scripts", "examples"):
            shutil.rmtree(folder / name, ignore_errors=True)
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        self._kernels = folder / "kernels"
        if kernel_cache.folder().is_dir() and not self._kernels.exists():
            shutil.copytree(kernel_cache.folder(), self._kernels / "roadbed")
        for name in ("pyproject.toml", "README.md", "Makefile", "LICENSE"):
            shutil.copy2(ROOT / name, folder / name)

    def judge(self, mutation: Mutation) -> Outcome:
        """Run the tests against the changed file, and leave the tree as it was."""
        changed = mutation.applied((self.package / mutation.path).read_text())
        if changed is None:
            return Outcome("stale")
        with self._changed(mutation.path, changed):
            return self.run(mutation.tests)

    def run(self, tests: tuple[str, ...]) -> Outcome:
        """What the tests say of the tree as it is."""
        environment = os.environ | {
            "PYTHONPATH": f"{self.folder / 'src'}{os.pathsep}{self.folder}",
            "ROADBED_DATA": str(data_folder() or ""),
            "NUMBA_CACHE_DIR": str(self._kernels),
            "CI": "1",  # the same examples for every mutation
        }
        there = [f"tests/{test}" for test in tests if (self.folder / "tests" / test.split("::")[0]).exists()]
        command = [sys.executable, "-m", "pytest", "-x", "--no-header", "-p", "no:cacheprovider", *there]
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=_LONGEST
            )
        except subprocess.TimeoutExpired:
            return Outcome("noticed", "the time limit")
        if done.returncode == 0:
            return Outcome("survived")
        found = _NOTICED.search(done.stdout)
        return Outcome("noticed", found.group(1) if found else done.stdout.strip()[-200:])

    @contextmanager
    def _changed(self, path: str, text: str) -> Iterator[None]:
        file = self.package / path
        before = file.read_text()
        file.write_text(text)
        try:
            yield
        finally:
            file.write_text(before)
