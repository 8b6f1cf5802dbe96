# SPDX-License-Identifier: Apache-2.0
"""Time of a frame on a busy machine: median, 95th percentile, processor time, phases, and its cost to the host."""

import cProfile
import platform
import pstats
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import count
from os import sched_getaffinity
from pathlib import Path
from time import perf_counter, process_time, thread_time
from typing import Any

import numba
import numpy as np

from roadbed.core.frames import Scan
from roadbed.ground import GroundFilter
from roadbed.pipeline import Pipeline

_WAITING = {(name, file) for name in ("finish", "wait") for file in ("opencl.py", "cuda.py")}  # for a device


@dataclass(frozen=True)
class Timing:
    """Milliseconds of repeated calls of one function."""

    median_ms: float
    p95_ms: float
    repeats: int
    processor_ms: float = 0.0  # median, of all threads together: little affected by other processes
    phases_ms: Mapping[str, float] = field(default_factory=dict)  # medians


def measure(
    call: Callable[[], Any],
    phases: Callable[[Any], Mapping[str, float]] | None = None,
    repeats: int = 50,
    seconds: float = 3.0,
    warm_up: int = 3,
) -> Timing:
    """Time `call` at most `repeats` times or `seconds` long; `phases` reads seconds per phase off its result."""
    for _ in range(warm_up):
        call()
    times: list[float] = []
    processor: list[float] = []
    parts: dict[str, list[float]] = {}
    end = perf_counter() + seconds
    while len(times) < repeats and (len(times) < 5 or perf_counter() < end):
        start, worked = perf_counter(), process_time()
        result = call()
        times.append(perf_counter() - start)
        processor.append(process_time() - worked)
        for name, value in (phases(result) if phases else {}).items():
            parts.setdefault(name, []).append(value)
    return Timing(
        median_ms=1e3 * float(np.median(times)),
        p95_ms=1e3 * float(np.percentile(times, 95)),
        repeats=len(times),
        processor_ms=1e3 * float(np.median(processor)),
        phases_ms={name: 1e3 * float(np.median(values)) for name, values in parts.items()},
    )


def there_and_back(scans: list[Scan]) -> Iterator[Scan]:
    """The sequence forwards and backwards, endlessly, with increasing time: the filters see no jump."""
    step = (scans[1].time or 0.1) - (scans[0].time or 0.0)
    order = [*range(len(scans)), *range(len(scans) - 2, 0, -1)]
    for number in count():
        yield replace(scans[order[number % len(order)]], time=step * number)


def report(name: str, rows: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """The JSON of `roadbed bench NAME`: machine and date, then the rows."""
    return {
        "bench": name,
        "date": date.today().isoformat(),
        "machine": platform.machine(),
        "cores": len(sched_getaffinity(0)),  # that this process may use
        "threads": numba.get_num_threads(),
        "python": platform.python_version(),
        "numba": numba.__version__,
        **more,
        "rows": list(rows),
    }


def host_figures(pipeline: Pipeline, scans: Sequence[Scan]) -> dict[str, float]:
    """Per frame: calls of functions, and milliseconds of the calling thread's processor time outside the CPU's kernels
    and waits for a device. The profiler that sees them makes each call slower: figures to compare, not to add up.

    Beside them, on an accelerator: graphs and the launches in them, copies to and from the device, and waits for it.
    """
    backend: Any = pipeline.backend
    before, profile = copy(getattr(backend, "traffic", None)), cProfile.Profile(thread_time)
    threads = numba.get_num_threads()
    numba.set_num_threads(1)  # the profiler of some versions of Python sees helpers too, by clocks of their own
    try:
        for scan in scans:
            profile.runcall(pipeline, scan)
    finally:
        numba.set_num_threads(threads)
    calls, seconds = 0, 0.0
    table: Any = pstats.Stats(profile)
    for (file, _, name), (_, number, own, _, _) in table.stats.items():
        path = Path(file)
        calls += number
        if not path.stem.endswith("_cpu") and (name, path.name) not in _WAITING:
            seconds += own
    figures = {"host_calls": round(calls / len(scans)), "host_ms": round(1e3 * seconds / len(scans), 2)}
    if before is not None:
        now, counts = vars(backend.traffic), {name: n for name, n in vars(before).items() if name != "phases"}
        figures |= {name: round((now[name] - then) / len(scans), 1) for name, then in counts.items()}
    return figures


def device_phases(pipeline: Pipeline | GroundFilter, scans: Sequence[Scan]) -> dict[str, float]:
    """Microseconds per frame and phase on an accelerator, one launch after another; the longest first."""
    traffic = getattr(pipeline.backend, "traffic", None)
    if traffic is None:
        return {}
    phases: dict[str, float] = {}
    traffic.phases = phases
    try:
        for scan in scans:
            pipeline(scan)
    finally:
        traffic.phases = None
    longest = sorted(phases.items(), key=lambda phase: -phase[1])
    return {name: round(1e6 * seconds / len(scans), 1) for name, seconds in longest}
