# SPDX-License-Identifier: Apache-2.0
"""Compiles the kernels of the CPU before they are needed, in as many processes as there are cores.

`python -m roadbed.warm_up.processes` is such a process: it does the jobs named on its standard input
and reports its progress.
"""

from __future__ import annotations

import gc
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from roadbed.core.errors import InputError, RoadbedError

_BEGIN, _END, _DONE = "begin ", "end ", "done "


@dataclass(frozen=True)
class Job:
    """A part of the package: the packages of its kernels, and the function that uses all of them once."""

    packages: tuple[str, ...]
    exercise: str  # a function of roadbed.warm_up.workload

    def kernels(self) -> list[Any]:
        """The kernels that Python calls there."""
        from roadbed.kernels.progress import entrances

        import_module("roadbed.warm_up.workload")
        for package in self.packages:  # some files of kernels are loaded only when they are needed
            for module in walk_packages(import_module(package).__path__, f"{package}."):
                if module.name.endswith("_cpu"):
                    import_module(module.name)
        return entrances(self.packages)


# The longest first, so that the last to finish is a short one.
JOBS = {
    "ground": Job(("roadbed.ground.stcrf",), "ground"),
    "occupancy": Job(("roadbed.occupancy",), "occupancy"),
    "simulator": Job(("roadbed.simulate",), "simulator"),
    "mounting": Job(("roadbed.ground.mounting", "roadbed.ground.ego"), "mounting"),
    "variance": Job(("roadbed.ground.variance",), "variance"),
    "pictures": Job(("roadbed.outputs.pictures",), "pictures"),
    "files": Job(("roadbed.sources",), "files"),
}


def warm_up(jobs: Iterable[str] = tuple(JOBS), processes: int | None = None) -> int:
    """Compile what these jobs use and is not kept yet, in `processes` at a time (one per core). Returns how many."""
    from roadbed.kernels import progress as compilation

    names = list(jobs)
    for name in names:
        if name not in JOBS:
            raise InputError(f"warm-up: {name!r}: expected {', '.join(JOBS)}")
    waiting = cold(names)
    kernels = compilation.missing(kernel for name in waiting for kernel in JOBS[name].kernels())
    begin, end = compilation.elsewhere(kernels)
    queue, workers = deque(waiting), min(len(waiting), processes or len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(max(workers, 1)) as pool:
        for finished in [pool.submit(_work, queue, begin, end) for _ in range(workers)]:
            finished.result()
    for stage in {compilation.stage_of(kernel) for kernel in kernels}:
        compilation.ready(stage)
    return len(kernels)


def cold(jobs: Sequence[str] = tuple(JOBS)) -> list[str]:
    """The jobs that were not done yet with the kernels as they are now."""
    return [name for name in jobs if not _proof(name).exists()]


def _work(queue: deque[str], begin: Callable[[str], None], end: Callable[[str], None]) -> None:
    """One process that takes jobs from the queue until it is empty; what it says is handed on."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),  # this Roadbed, however it was found here
        "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1",  # messages that nobody reads: a twentieth of its time
    }
    with (
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(
            [sys.executable, "-m", "roadbed.warm_up.processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            env=environment,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        while queue:
            name = queue.popleft()
            print(name, file=process.stdin, flush=True)
            for line in process.stdout:
                if line.startswith(_BEGIN):
                    begin(line.removeprefix(_BEGIN).strip())
                elif line.startswith(_END):
                    end(line.removeprefix(_END).strip())
                elif line.startswith(_DONE):
                    break
            else:  # it ended before the job did
                complaints.seek(0)
                last = (complaints.read().strip().splitlines() or ["no reason given"])[-1]
                raise RoadbedError(f"warm-up of {name} failed: {last}")
        process.stdin.close()


def _proof(name: str) -> Path:
    """The file that says: this job was done with these kernels on this machine."""
    import numba
    from numba.core.registry import cpu_target

    from roadbed.kernels import cache as kernel_cache
    from roadbed.kernels.fingerprint import fingerprint

    made_of = sorted(fingerprint(kernel) for kernel in JOBS[name].kernels())
    machine = (*cpu_target.target_context.codegen().magic_tuple(), numba.__version__, sys.version_info[:2])
    digest = hashlib.sha256(repr((made_of, machine)).encode()).hexdigest()[:16]
    return kernel_cache.folder() / f"{name}-{digest}.done"


def _serve() -> None:
    """Do the jobs named on standard input; tell the parent by lines on standard output."""
    gc.disable()  # it ends soon: a twentieth of its time for a third more memory
    loaded: Any = sys.modules
    loaded.setdefault("scipy", None)  # not there: Numba would load it to see whether kernels could multiply matrices
    from numba.core import event

    from roadbed.io.atomic import atomic_write
    from roadbed.kernels import progress as compilation
    from roadbed.warm_up import workload as exercises

    class Teller(event.Listener):
        def on_start(self, event: Any) -> None:
            print(f"{_BEGIN}{compilation.name_of(event.data['dispatcher'])}", flush=True)

        def on_end(self, event: Any) -> None:
            print(f"{_END}{compilation.name_of(event.data['dispatcher'])}", flush=True)

    compilation.watch(None)
    with event.install_listener("numba:compile", Teller()):
        for line in sys.stdin:
            name, begun = line.strip(), time.process_time()
            getattr(exercises, JOBS[name].exercise)()
            with atomic_write(_proof(name)) as file:
                file.write(f"{time.process_time() - begun:.1f} s of processor time\n".encode())
            print(f"{_DONE}{name}", flush=True)


if __name__ == "__main__":
    _serve()
