# SPDX-License-Identifier: Apache-2.0
"""A fuzzing run seen from outside: starts workers, ends those that hang, and keeps what brought them down."""

import faulthandler
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.targets import Target
from tests.fuzz.worker import Findings, SharedCase, work

LONGEST_CASE_S = 2.0  # of processor time, as the machine may be busy
_LONGEST_WAIT_S = 60.0  # of the clock: a case that waits for something takes no processor time
_LOOK_EVERY_S = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Report:
    cases: dict[str, int]
    accepted: dict[str, int]  # of them: read, not refused
    findings: list[str]


def run(targets: Sequence[Target], seed: int, seconds: float, folder: Path, most: int = 2**62) -> Report:
    """Give the targets cases for some seconds, or `most` each."""
    shared, findings = SharedCase(len(targets)), Findings(folder)
    for target in targets:
        target.load()
    until = time.monotonic() + seconds
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=in_memory) as folder_in_memory:
        scratch = Path(folder_in_memory, "cases")
        scratch.mkdir()
        while time.monotonic() < until and any(shared.counts(k)[0] < most for k in range(len(targets))):
            child = os.fork()
            if not child:
                _be_worker(targets, seed, shared, findings, scratch, until, most)
            what, current = _watch(child, shared), shared.current()
            if what is None:
                continue
            if current is None:
                raise RuntimeError(f"the worker failed between cases: {what}; {_log(scratch).read_text()[-2000:]}")
            target, number, data = current
            findings.add(targets[target], number, data, what)
            shared.end(target, number, accepted=False)
    counts = {target.name: shared.counts(k) for k, target in enumerate(targets)}
    return Report(
        {name: had for name, (had, _) in counts.items()},
        {name: accepted for name, (_, accepted) in counts.items()},
        findings.all(),
    )


def _be_worker(
    targets: Sequence[Target], seed: int, shared: SharedCase, findings: Findings, scratch: Path, until: float, most: int
) -> None:
    """The child's whole life."""
    status = 1
    try:
        faulthandler.disable()
        log = os.open(_log(scratch), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):  # compiled libraries print their panics
            os.dup2(log, stream)
        work(targets, seed, shared, findings, scratch, until, most)
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _log(scratch: Path) -> Path:
    return scratch.with_suffix(".log")


def _watch(child: int, shared: SharedCase) -> str | None:
    """Wait for the worker; what went wrong with the case it was at, None where it ended by itself."""
    progress, since, used = None, time.monotonic(), 0.0
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            if status == 0:
                return None
            return f"crashed: {_how(status)}"
        current = shared.current()
        if shared.progress() != progress:
            progress, since, used = shared.progress(), time.monotonic(), _processor_time(child)
        took_long = current is not None and _processor_time(child) - used > LONGEST_CASE_S
        if took_long or time.monotonic() - since > _LONGEST_WAIT_S:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"hung: more than {LONGEST_CASE_S:g} s of processor time or {_LONGEST_WAIT_S:g} s of waiting"
        time.sleep(_LOOK_EVERY_S)


def _how(status: int) -> str:
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit status {os.WEXITSTATUS(status)}"


def _processor_time(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
