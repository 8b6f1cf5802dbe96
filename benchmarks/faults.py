# SPDX-License-Identifier: Apache-2.0
"""How a drive with a fault in it differs from the same drive without, and how soon it is as good again."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.fault_source import KINDS, FaultSource
from benchmarks.validity import is_valid, mass_error
from roadbed.config import Config
from roadbed.core.frames import Scan
from roadbed.pipeline import Pipeline, Result
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend
from roadbed.sources import open_source
from roadbed.sources.source import Source

DRIVE = "sim:city?sensor=vlp16&frames=40"
# As good as untouched: share of the points whose label differs, and mean difference of P(occupied) where it was seen.
SAME_LABELS, SAME_OCCUPANCY = 0.01, 0.02


class Recorded(Source):
    """Scans that lie in memory: many faults are tried on one drive, which is simulated once."""

    def __init__(self, scans: Sequence[Scan]) -> None:
        super().__init__("recorded")
        self._scans = scans

    def __len__(self) -> int:
        return len(self._scans)

    def __getitem__(self, index: int) -> Scan:
        return self._scans[index]


def fault_rows(
    location: str = DRIVE,
    kinds: Sequence[str] = KINDS,
    config: Config | None = None,
    backend: Backend | CpuBackend | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[dict[str, Any]]:
    """One row per fault: what was noticed, how far the results went off, and after how many scans they were back."""
    drive = Recorded(list(open_source(location)))
    untouched = list(Pipeline(config, backend).run(drive))
    for kind in kinds:
        source = FaultSource(f"fault:{kind}", of=drive, **(options or {}))
        results = list(Pipeline(config, backend).run(source))
        yield {"fault": kind, **_compared(source, results, untouched)}


def _compared(source: FaultSource, results: Sequence[Result], untouched: Sequence[Result]) -> dict[str, Any]:
    hit = source.settings.hit
    worst_label, worst_occupancy, recovered_after = 0.0, 0.0, 0
    diagnostics: list[str] = []
    end = max((place for place, number in enumerate(source.numbers) if number in hit), default=hit.start - 1)
    for place, (number, result) in enumerate(zip(source.numbers, results)):
        diagnostics += [note for note in result.diagnostics if note not in untouched[number].diagnostics]
        if place <= end and number in hit:
            continue
        label, occupancy = difference(result, untouched[number])
        worst_label, worst_occupancy = max(worst_label, label), max(worst_occupancy, occupancy)
        if label > SAME_LABELS or occupancy > SAME_OCCUPANCY:
            recovered_after = place - end
    return {
        "finite": all(is_finite(result) for result in results),
        "worst_label": round(worst_label, 4),
        "worst_occupancy": round(worst_occupancy, 4),
        "recovered_after": max(recovered_after, 0),
        "recovered": recovered_after < len(results) - 1 - end,
        "diagnostics": list(dict.fromkeys(diagnostics)),
    }


def difference(one: Result, other: Result) -> tuple[float, float]:
    """Of two results for the same scan: share of labels that differ, and mean |P(occupied)| where one has seen."""
    label = float(np.mean(one.ground.label != other.ground.label)) if len(one.scan) else 0.0
    a, b = one.occupancy, other.occupancy
    if a is None or b is None or a.grid != b.grid:
        return label, 0.0 if a is b else 1.0
    seen = (a.unknown < 0.5) | (b.unknown < 0.5)
    return label, float(np.abs(a.occupied - b.occupied)[seen].mean()) if seen.any() else 0.0


def is_finite(result: Result) -> bool:
    occupancy = result.occupancy
    return is_valid(result.ground) and (occupancy is None or mass_error(occupancy) < 1e-3)
