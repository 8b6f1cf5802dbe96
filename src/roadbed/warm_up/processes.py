# SPDX-License-Identifier: Apache-2.0
"""Compiles the CPU kernels before they are needed, in one process per core.

`python -m roadbed.warm_up.processes` is such a process: it runs the jobs named on its standard input and reports the
kernels that it compiles on its standard output.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from roadbed.core.errors import InputError, RoadbedError

_BEGIN, _END, _DONE = "begin ", "end ", "done "
_PACKAGE = Path(__file__).parents[1]

# The packages whose kernels each job compiles; `workload` has a function of the same name that calls the kernels.
# The longest job is first, so that the last one to finish is short.
JOBS = {
    "ground": ("ground.stcrf.points", "ground.stcrf.start", "ground.stcrf.em", "ground.stcrf.motion"),
    "occupancy": ("occupancy",),
    "labels": ("ground.stcrf.labels", "ground.stcrf.surface", "ground.visibility"),
    "simulator": ("simulate",),
    "mounting": ("ground.mounting", "ground.cloud", "ground.ego"),
    "variance": ("ground.variance",),
    "pictures": ("outputs.images",),
    "files": ("sources",),
}


def warm_up(jobs: Iterable[str] = tuple(JOBS), processes: int | None = None) -> int:
    """Compile the kernels of these jobs that are not cached, in `processes` processes (by default one per core).

    Returns the number of kernels that were missing.
    """
    from roadbed.kernels import progress

    names = list(jobs)
    for name in names:
        if name not in JOBS:
            raise InputError(f"warm-up: {name!r}: expected {', '.join(JOBS)}")
    waiting = cold(names)
    kernels = progress.missing(kernel for name in waiting for kernel in kernels_of(name))
    begin, end = progress.expect_elsewhere(kernels)
    queue, workers = deque(waiting), min(len(waiting), processes or len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(max(workers, 1)) as pool:
        ended = [pool.submit(_work, queue, begin, end) for _ in range(workers)]
        failures = [str(error) for process in ended if (error := process.exception())]
    if failures:
        raise RoadbedError("; ".join(failures))
    for stage in {progress.stage_of(kernel) for kernel in kernels}:
        progress.ready(stage)
    return len(kernels)


def cold(jobs: Sequence[str] = tuple(JOBS)) -> list[str]:
    """The jobs that have not been run with the current sources."""
    return [name for name in jobs if not _proof(name).exists()]


def kernels_of(job: str) -> list[str]:
    """Names of the kernels of a job that Python calls."""
    from roadbed.kernels import progress

    for file in _sources(job):
        import_module(f"roadbed.{'.'.join(file.relative_to(_PACKAGE).with_suffix('').parts)}")
    return progress.kernels_of(f"roadbed.{package}" for package in JOBS[job])


def _sources(job: str) -> list[Path]:
    """The source files of a job's kernels."""
    files = (file for package in JOBS[job] for file in _PACKAGE.joinpath(*package.split(".")).rglob("*.py"))
    return sorted(file for file in files if "@njit(" in file.read_text())


def _proof(name: str) -> Path:
    """The file whose existence proves that this job was run with these sources on this machine."""
    from llvmlite import binding as llvm

    from roadbed.kernels import cache

    machine = f"{platform.machine()}-{llvm.get_host_cpu_name()}-{sys.implementation.cache_tag}"
    return cache.folder() / f"{name}-{machine}-{cache.digest_of(*_sources(name))}.done"


def _work(queue: deque[str], begin: Callable[[str], None], end: Callable[[str], None]) -> None:
    """Start one process, give it jobs until the queue is empty, and call `begin` and `end` for each kernel."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),  # the same Roadbed as here
        "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1",  # no terminal colours in messages
    }
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "roadbed.warm_up.processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        while queue:
            name = queue.popleft()
            with suppress(BrokenPipeError):  # the process has ended: so has its output, which tells
                os.write(process.stdin.fileno(), f"{name}\n".encode())
            for line in process.stdout:
                if line.startswith(_BEGIN):
                    begin(line.removeprefix(_BEGIN).strip())
                elif line.startswith(_END):
                    end(line.removeprefix(_END).strip())
                elif line.startswith(_DONE):
                    break
            else:  # the process has ended before the job was done
                errors.seek(0)
                lines = errors.read().strip().splitlines() or [f"its process ended with status {process.wait()}"]
                raise RoadbedError(f"warm-up of {name} failed: {lines[-1]}")
        process.stdin.close()


def _serve() -> None:
    """Run the jobs named on standard input; report to the parent by lines on standard output."""
    import gc

    from numba.core import event

    from roadbed.io.atomic import atomic_write
    from roadbed.kernels import progress
    from roadbed.warm_up import workload

    gc.set_threshold(100_000)  # a process that only compiles keeps most objects until it ends
    progress.watch(None)
    listener = progress.KernelListener(
        lambda name: print(f"{_BEGIN}{name}", flush=True), lambda name: print(f"{_END}{name}", flush=True)
    )
    with event.install_listener("numba:compile", listener):
        for line in sys.stdin:
            name, begun = line.strip(), time.process_time()
            getattr(workload, name)()
            with atomic_write(_proof(name)) as file:
                file.write(f"{time.process_time() - begun:.1f} s of processor time\n".encode())
            print(f"{_DONE}{name}", flush=True)


if __name__ == "__main__":
    _serve()
