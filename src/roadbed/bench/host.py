# SPDX-License-Identifier: Apache-2.0
"""Host cost of a frame outside kernels: Python calls, their time, launches and copies."""

import cProfile
import pstats
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from time import thread_time
from typing import Any

import numba

from roadbed.core.frames import Scan
from roadbed.ground import GroundFilter
from roadbed.pipeline import Pipeline

_WAITING = {(name, file) for name in ("finish", "wait") for file in ("opencl.py", "cuda.py")}  # for a device


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
    for (file, _, name), (_, count, own, _, _) in table.stats.items():
        path = Path(file)
        calls += count
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
