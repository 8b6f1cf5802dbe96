# SPDX-License-Identifier: Apache-2.0
"""The process that runs cases, under a limit of memory; it may crash or hang, so what it does is seen from outside."""

import mmap
import os
import re
import resource
import struct
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from random import Random

from roadbed.core.errors import RoadbedError
from tests.fuzz.damage import LARGEST_CASE
from tests.fuzz.targets import Target

# What a case may take beyond ten times its size: 32 MiB unpacked, with the copies that make a scan of it.
MEMORY_FLOOR = 192 << 20
_ADDRESS_SPACE = 2 << 30  # beyond what is mapped at the start: nothing honest needs it
_CASES_PER_PROCESS = 50_000  # then a fresh one, as memory that is kept must not add up to a finding
_HEAD = struct.Struct("<QIIq")  # case number, target, length, state
_COUNTS = struct.Struct("<QQ")
REFUSED = "refused"


class SharedCase:
    """The case that is being run, and how many each target has had and accepted; survives the worker."""

    def __init__(self, targets: int) -> None:
        self._counts_at = _HEAD.size
        self._data_at = _HEAD.size + _COUNTS.size * targets
        self._memory = mmap.mmap(-1, self._data_at + LARGEST_CASE)

    def begin(self, target: int, number: int, data: bytes) -> None:
        self._memory[self._data_at : self._data_at + len(data)] = data
        _HEAD.pack_into(self._memory, 0, number, target, len(data), 1)

    def end(self, target: int, number: int, accepted: bool) -> None:
        place = self._counts_at + _COUNTS.size * target
        _COUNTS.pack_into(self._memory, place, number + 1, self.counts(target)[1] + accepted)
        _HEAD.pack_into(self._memory, 0, number, target, 0, 0)

    def counts(self, target: int) -> tuple[int, int]:
        """Cases the target has had, and how many of them it read."""
        had, accepted = _COUNTS.unpack_from(self._memory, self._counts_at + _COUNTS.size * target)
        return had, accepted

    def progress(self) -> tuple[int, int, int]:
        """Number, target and state of the case that is being run, or was last."""
        number, target, _, state = _HEAD.unpack_from(self._memory, 0)
        return number, target, state

    def current(self) -> tuple[int, int, bytes] | None:
        """Target, number and bytes of the case that is being run."""
        number, target, length, state = _HEAD.unpack_from(self._memory, 0)
        return (target, number, self._memory[self._data_at : self._data_at + length]) if state else None


class Findings:
    """A folder of offending inputs, each with what happened beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, target: Target, number: int, data: bytes, what: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        stem = self.folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', target.name)}-{number}"
        stem.with_suffix(".input").write_bytes(data)
        stem.with_suffix(".txt").write_text(f"{target.name} case {number}\n{what}\n", errors="backslashreplace")

    def all(self) -> list[str]:
        """One line per kind of finding: the target, the first case and what happened."""
        kinds: dict[tuple[str, str], list[str]] = {}
        for path in sorted(self.folder.glob("*.txt")):
            case, *_, what = path.read_text().strip().splitlines()
            kind = case.partition(" case")[0], re.sub(r"\d+", "0", what)[:60]
            kinds.setdefault(kind, []).append(f"{case}: {what[:200]}")
        return [f"{len(lines)} x {lines[0]}" for lines in kinds.values()]


def case(target: Target, seed: int, number: int) -> bytes:
    return target.make(Random(f"{seed}/{target.name}/{number}"))[:LARGEST_CASE]


def problem(target: Target, data: bytes, scratch: Path) -> str | None:
    """What is wrong with how the target takes the case; None where it is read, REFUSED where one line says why not."""
    try:
        target.run(data, scratch)
    except RoadbedError as error:
        text = str(error)
        if not text.isprintable():
            return f"more than one line: {text!r}"
        if "MemoryError" in text or "there is memory" in text:
            return f"asked for more memory than {_ADDRESS_SPACE} bytes: {text}"
        return REFUSED
    except BaseException:
        return traceback.format_exc()
    return None


def work(
    targets: Sequence[Target], seed: int, shared: SharedCase, findings: Findings, scratch: Path, until: float, most: int
) -> None:
    """Run cases of all targets in turn until the time is over or each has had `most`."""
    _limit_memory()
    warnings.simplefilter("ignore")
    warnings.simplefilter("error", RuntimeWarning)
    nowhere = scratch / "nowhere"  # commands that name the folder they are in find nothing to work on
    nowhere.mkdir(exist_ok=True)
    os.chdir(nowhere)
    baseline = _peak_memory()
    done = 0
    while done < _CASES_PER_PROCESS:
        waiting = [index for index in range(len(targets)) if shared.counts(index)[0] < most]
        if not waiting or time.monotonic() > until:
            return
        for index in waiting:
            slice_end = time.monotonic() + 0.2
            for number in range(shared.counts(index)[0], most):
                data = case(targets[index], seed, number)
                shared.begin(index, number, data)
                what = problem(targets[index], data, scratch)
                taken = _peak_memory() - baseline
                if what in (None, REFUSED) and taken > MEMORY_FLOOR + 10 * len(data):
                    what = f"took {taken} bytes of memory for {len(data)} bytes"
                shared.end(index, number, accepted=what is None)
                if what not in (None, REFUSED):
                    findings.add(targets[index], number, data, what)
                    if "bytes of memory" in what:
                        return  # the peak stays: a fresh process sees the next one
                done += 1
                if time.monotonic() > slice_end:
                    break


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _ADDRESS_SPACE,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
