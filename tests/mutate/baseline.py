# SPDX-License-Identifier: Apache-2.0
"""Which tests a mutation is judged by, and what these tests say of the unchanged code on this machine."""

import hashlib
import json
import re
from functools import cache
from pathlib import Path

from tests.conftest import ROOT
from tests.mutate.mutation import Mutation
from tests.mutate.plugin import is_part

# Tests that use a device say so in their names; a kernel for devices can turn no other test red.
_DEVICE = ("opencl", "device", "cuda", "kernel")
_NO_SUBJECT = {"cpu", "device", "test"}  # words of file names that do not say what a file is about


class Baseline:
    """Outcome and seconds of tests without a mutation; asked for where a test is red, known until its file changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tests: dict[str, tuple[str, float]] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            item = json.loads(line)
            if item["digest"] == _digest(item["test"]):
                self._tests[item["test"]] = (item["outcome"], item["seconds"])

    def of(self, test: str) -> tuple[str, float] | None:
        return self._tests.get(test)

    def add(self, test: str, outcome: str, seconds: float) -> None:
        self._tests[test] = (outcome, seconds)
        item = {"test": test, "digest": _digest(test), "outcome": outcome, "seconds": round(seconds, 2)}
        with self.path.open("a") as out:
            out.write(json.dumps(item) + "\n")

    def red(self, mutation: Mutation) -> set[str]:
        """Tests of this mutation that do not pass without it: they cannot judge it here."""
        return {test for test, (outcome, _) in self._tests.items() if outcome != "passed" and concerns(mutation, test)}


@cache
def files_of(mutation: Mutation) -> list[str]:
    """Test files, from the project's root, that the mutation names or that lie in folders it names; likely ones first.

    Likely are tests of devices for their kernels, files that import the changed one, and files that share a word of
    their name with it.
    """
    found: dict[str, None] = {}
    for test in mutation.tests:
        place = ROOT / "tests" / test.split("::")[0]
        inside = sorted(place.rglob("test_*.py"), key=lambda file: file.stat().st_size) if place.is_dir() else [place]
        for file in inside:
            found[file.relative_to(ROOT).as_posix()] = None
    module = Path("roadbed", mutation.path).with_suffix("")
    about, for_devices = _words(module.parent.name) | _words(module.name), mutation.path.endswith(".cl")
    package, name = re.escape(".".join(module.parts[:-1])), re.escape(module.name)
    imports = re.compile(rf"{package}\.{name}\b|from {package} import .*\b{name}\b")

    def unlikely(file: str) -> tuple[bool, bool, bool]:
        text = (ROOT / file).read_text() if (ROOT / file).exists() else ""
        return for_devices and "device" not in file, not imports.search(text), not about & _words(Path(file).stem)

    return sorted(found, key=unlikely)


def words_of(mutation: Mutation) -> tuple[str, ...]:
    """Words of which the name of a test must have one to be able to notice the mutation; none: every test can."""
    return _DEVICE if mutation.path.endswith(".cl") else ()


def last_of(mutation: Mutation) -> tuple[str, ...]:
    """Words in the names of tests that run last: those of devices, unless the mutation is in the kernel of a device."""
    return () if mutation.path.endswith(".cl") else ("opencl", "cuda")


def concerns(mutation: Mutation, test: str) -> bool:
    """Whether a test can judge a mutation; a file that could not be imported counts for its tests."""
    names = tuple(f"tests/{name}" for name in mutation.tests)
    if "::" not in test:
        return is_part(test, names) or any(name.startswith(f"{test}::") for name in names)
    return is_part(test, names) and (not words_of(mutation) or any(word in test for word in words_of(mutation)))


def _words(name: str) -> set[str]:
    return {word.rstrip("s") for word in name.split("_")} - _NO_SUBJECT


def _digest(test: str) -> str:
    path = ROOT / test.split("::")[0]
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""
