# SPDX-License-Identifier: Apache-2.0
"""A copy of the project in which one file at a time is changed, with Numba's cache beside its files."""

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

from tests.conftest import ROOT, data_folder
from tests.mutate.mutation import Mutation

_LONGEST = 900  # s for the tests of one mutation
_NOTICED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_IMPORTED = re.compile(r"^from roadbed\.([\w.]+) import", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """`noticed`, `survived` or `stale`: the place is no longer in the file."""

    what: str
    by: str = ""  # the first red test


class Tree:
    """Copied once; files keep their times, so that compiled kernels stay valid."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "src" / "roadbed"
        for name in ("src", "tests", "docs", "scripts", "examples"):
            caches = None if name == "src" else shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=caches, dirs_exist_ok=True)
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
            "PYTHONDONTWRITEBYTECODE": "1",
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
        before, stamp = file.read_text(), file.stat()
        stale = self._caches(path)
        aside = self.folder / "compiled"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        for number, cache in enumerate(stale):
            shutil.move(cache, aside / str(number))
        file.write_text(text)
        try:
            yield
        finally:
            file.write_text(before)
            os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            for cache in self._caches(path):
                cache.unlink()
            for number, cache in enumerate(stale):
                shutil.move(aside / str(number), cache)

    def _caches(self, path: str) -> list[Path]:
        """Compiled kernels of a file and of all that import it: Numba does not see changes in other files."""
        if not path.endswith(".py"):
            return []
        texts = {str(file.relative_to(self.package)): file.read_text() for file in self.package.rglob("*.py")}
        importers: dict[str, set[str]] = {}
        for name, text in texts.items():
            for module in _IMPORTED.findall(text):
                importers.setdefault(module.replace(".", "/") + ".py", set()).add(name)
        found, to_see = {path}, [path]
        while to_see:
            for name in importers.get(to_see.pop(), set()) - found:
                found.add(name)
                to_see.append(name)
        return [
            cache
            for name in found
            for cache in (self.package / name).parent.glob(f"__pycache__/{Path(name).stem}.*.nb[ic]")
        ]
