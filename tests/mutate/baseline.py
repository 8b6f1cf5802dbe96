# SPDX-License-Identifier: Apache-2.0
"""What the tests say of the code as it is, here: which of them run at all, and how long each takes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from tests.conftest import ROOT
from tests.mutate.mutation import Mutation

# Tests that use a device say so in their names; a kernel for devices can turn no other test red.
_DEVICE = ("opencl", "device", "cuda", "kernel")


class Baseline:
    """By file of tests: what each test did and its seconds; made anew where the file has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[str, dict[str, tuple[str, float]]] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            item = json.loads(line)
            if item["digest"] == _digest(item["file"]):
                self._files[item["file"]] = item["tests"]

    def missing(self, mutations: Iterable[Mutation]) -> list[str]:
        """Files of tests that these mutations need and that have not been run here, those that take longest first."""
        needed = {file for mutation in mutations for file in files_of(mutation)}
        return sorted(needed - set(self._files), key=lambda file: -(ROOT / file).stat().st_size)

    def add(self, file: str, tests: dict[str, tuple[str, float]]) -> None:
        self._files[file] = tests
        with self.path.open("a") as out:
            out.write(json.dumps({"file": file, "digest": _digest(file), "tests": tests}) + "\n")

    def chosen(self, mutation: Mutation) -> tuple[list[str], int]:
        """Tests that are green here without the change, file by file and the fastest file first; how many are not."""
        green: list[tuple[float, list[str]]] = []
        missing = 0
        for file in files_of(mutation):
            wanted = {n: told for n, told in self._files.get(file, {}).items() if _concerns(mutation, n)}
            passed = [name for name, (outcome, _) in wanted.items() if outcome == "passed"]
            missing += len(wanted) - len(passed)
            green.append((sum(wanted[name][1] for name in passed), passed))
        return [name for _, names in sorted(green) for name in names], missing

    def seconds(self, names: Iterable[str]) -> float:
        return sum(self._files[name.split("::")[0]][name][1] for name in names)

    def counts(self) -> tuple[int, int]:
        """How many tests are green here, and how many are not."""
        outcomes = [outcome for tests in self._files.values() for outcome, _ in tests.values()]
        green = outcomes.count("passed")
        return green, len(outcomes) - green


def files_of(mutation: Mutation) -> list[str]:
    """The files of tests, from the project's root, that a mutation names or that lie in the folders it names."""
    found: dict[str, None] = {}
    for test in mutation.tests:
        place = ROOT / "tests" / test.split("::")[0]
        for file in sorted(place.rglob("test_*.py")) if place.is_dir() else [place]:
            found[file.relative_to(ROOT).as_posix()] = None
    return list(found)


def _concerns(mutation: Mutation, name: str) -> bool:
    named = any(_is_part(name, f"tests/{test}") for test in mutation.tests)
    return named and (not mutation.path.endswith(".cl") or "::" not in name or any(word in name for word in _DEVICE))


def _is_part(name: str, of: str) -> bool:
    """Whether a test is in a folder, file or family of cases; a file that could not be read stands for its tests."""
    return name == of or name.startswith((f"{of}/", f"{of}::", f"{of}[")) or of.startswith(f"{name}::")


def _digest(file: str) -> str:
    path = ROOT / file
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""
