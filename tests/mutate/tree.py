# SPDX-License-Identifier: Apache-2.0
"""Copies of the project in which one file at a time is changed, with compiled kernels of their own."""

from __future__ import annotations

import hashlib
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
# Prints the folder of compiled kernels of each file that has some, and the proof that a job of the warm-up has run.
_KERNEL_FOLDERS = """
import json
from roadbed.kernels import cache
from roadbed.warm_up import processes
files = [file for file in cache._PACKAGE.rglob("*.py") if "njit" in file.read_text()]
found = {str(f.relative_to(cache._PACKAGE)): str(cache.folder() / cache._folder_name(str(f))) for f in files}
print(json.dumps(found | {job: str(processes._proof(job)) for job in processes.JOBS}))
"""


@dataclass(frozen=True)
class Said:
    """What pytest said: its exit status (None where it was stopped), its output and what each test did."""

    status: int | None
    output: str
    tests: dict[str, tuple[str, float]]

    @property
    def red(self) -> str | None:
        """The first test that failed or did not end, or what ended the run; None where all passed."""
        if self.status in (0, _NOTHING_RAN):
            return None
        for outcome in ("failed", plugin.RUNNING):
            for name, (found, _) in self.tests.items():
                if found == outcome:
                    return name
        return self.how

    @property
    def how(self) -> str:
        """How the run ended, where no test failed."""
        if self.status is None:
            return "the time limit"
        return f"signal {-self.status}" if self.status < 0 else self.output.strip()[-200:]


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
        """The tree with one mistake in it; afterwards it is as it was, so that its compiled kernels stay valid."""
        file = self.package / mutation.path
        before, facts = file.read_text(), file.stat()
        changed = mutation.applied(before)
        assert changed is not None, f"{mutation.path} has no such place"
        file.write_text(changed)
        try:
            yield
        finally:
            file.write_text(before)
            os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    def take_kernels(self, other: Tree) -> None:
        """Use what the other tree has compiled: the same files, under the names that this tree's path leads to."""
        found = {tree: json.loads(tree.python("-c", _KERNEL_FOLDERS)) for tree in (self, other)}
        for file, old in found[other].items():
            new = found[self].get(file)
            if new is not None and Path(old).is_dir() and not Path(new).exists():
                sides = [hashlib.sha1(str((tree.package / file).parent).encode()).hexdigest() for tree in (other, self)]
                shutil.copytree(old, new, copy_function=os.link)
                for inner in list(Path(new).iterdir()):
                    inner.rename(inner.with_name(inner.name.replace(*sides)))
            elif new is not None and Path(old).is_file():
                Path(new).touch()

    def python(self, *command: str) -> str:
        """Output of Python in this tree."""
        return subprocess.check_output([sys.executable, *command], cwd=self.folder, env=self._environment, text=True)

    def run(self, files: Sequence[str], end: float, named: Sequence[str], words=(), without=(), last=()) -> Said:
        """Tests of these files as the tree is, up to the first red one: by name, by word, not `without`.

        Tests with a word of `last` in their names run after the others.
        """
        told, selected = self.folder / "told.json", self.folder / "selected.json"
        told.unlink(missing_ok=True)
        rule = {"named": list(named), "words": list(words), "without": sorted(without), "last": list(last)}
        selected.write_text(json.dumps(rule))
        environment = self._environment | {plugin.TOLD: str(told), plugin.SELECTED: str(selected)}
        command = [sys.executable, "-m", "pytest", "--no-header", "-rfE", "-x", "-p", "no:cacheprovider"]
        command += ["-p", plugin.__name__, "--tb=no"]
        process = subprocess.Popen(
            [*command, *files], cwd=self.folder, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=max(end - time.monotonic(), 0.1))
            status: int | None = process.returncode
        except subprocess.TimeoutExpired:
            output, status = "", None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return Said(status, output, json.loads(told.read_text()) if told.exists() else {})


def _packages() -> list[str]:
    """Where this process finds packages besides those that are installed."""
    return [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
