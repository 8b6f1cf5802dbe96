# SPDX-License-Identifier: Apache-2.0
"""Repeated timing for busy machines: median, 95th percentile, processor time and phases."""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import count
from os import cpu_count
from time import perf_counter, process_time
from typing import Any

import numpy as np

from roadbed.core.frames import Scan


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
    import numba

    return {
        "bench": name,
        "date": date.today().isoformat(),
        "machine": platform.machine(),
        "cores": cpu_count(),
        "threads": numba.get_num_threads(),
        "python": platform.python_version(),
        "numba": numba.__version__,
        **more,
        "rows": list(rows),
    }
