# SPDX-License-Identifier: Apache-2.0
"""How many frames a segment of a drive must warm up until it says what the whole drive says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.faults import difference
from roadbed.config import Config
from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.pipeline import Pipeline, Result
from roadbed.sources import open_source

DRIVE = "sim:city?sensor=vlp16&frames=200"
WARM_UPS = (0, 1, 2, 5, 10, 20, 40, 80, 120)
_KEPT = 10  # frames after each cut that are compared
_BEFORE = 20  # frames at least that a segment does not know of, however long it warms up


def segment_rows(
    location: str = DRIVE, warm_ups: Sequence[int] = WARM_UPS, cuts: int = 4, config: Config | None = None
) -> Iterator[dict[str, Any]]:
    """One row per number of warm-up frames: what differs from the drive in one piece, in the frames after a cut.

    The last row is the yardstick: the drive in one piece with other random numbers.
    """
    config = Config.of(config)
    scans = list(open_source(location))
    if len(scans) < max(warm_ups) + _BEFORE + _KEPT:
        raise InputError(f"{location}: found {len(scans)} scans, expected {max(warm_ups) + _BEFORE + _KEPT} or more")
    whole, ground = list(Pipeline(config).run(scans)), list(Pipeline(config, occupancy=False).run(scans))
    places = np.linspace(max(warm_ups) + _BEFORE, len(scans) - _KEPT, cuts).astype(int).tolist()
    kept = [number for cut in places for number in range(cut, cut + _KEPT)]
    for warm_up in warm_ups:
        starts = {cut: cut - warm_up for cut in places}
        with_motion = {n: r for cut, start in starts.items() for n, r in _after(scans, start, cut, config)}
        alone = {n: r for cut, start in starts.items() for n, r in _after(scans, start, cut, config, occupancy=False)}
        yield {
            "warm_up": warm_up,
            **_compared([(alone[n], ground[n]) for n in kept], "ground_alone_"),
            **_compared([(with_motion[n], whole[n]) for n in kept]),
        }
    other = list(Pipeline(config.with_changes(seed=config.seed + 1)).run(scans))
    yield {"warm_up": "another seed", **_compared([(other[n], whole[n]) for n in kept])}


def _after(
    scans: Sequence[Scan], start: int, cut: int, config: Config, occupancy: bool = True
) -> Iterator[tuple[int, Result]]:
    """Results of the frames behind a cut, of a pipeline that begins at `start`."""
    pipeline = Pipeline(config, occupancy=occupancy)
    for number in range(start, cut + _KEPT):
        result = pipeline(scans[number])
        if number >= cut:
            yield number, result


def _compared(pairs: Sequence[tuple[Result, Result]], prefix: str = "") -> dict[str, Any]:
    apart = [difference(one, other) for one, other in pairs]
    out: dict[str, Any] = {
        f"{prefix}same_frames": sum(labels == 0 for labels, _ in apart),
        f"{prefix}labels_differ_percent": _percent([labels for labels, _ in apart]),
    }
    if pairs[0][0].occupancy is None:
        return out
    return out | {
        "occupied_differs": round(float(np.mean([occupied for _, occupied in apart])), 4),
        "moving_cells_agree_percent": _percent([_overlap(one, other) for one, other in pairs]),
        "objects_agree_percent": _percent([_found(one, other) for one, other in pairs]),
        "frames": len(pairs),
    }


def _overlap(one: Result, other: Result) -> float:
    """Of the moving cells: intersection over union; 1 where nothing moves in either."""
    assert one.occupancy is not None
    assert other.occupancy is not None
    union = int((one.occupancy.moving | other.occupancy.moving).sum())
    return float((one.occupancy.moving & other.occupancy.moving).sum()) / union if union else 1.0


def _found(result: Result, expected: Result, reach: float = 1.0) -> float:
    """Share of the objects of the whole drive that the segment has within so many metres; 1 where there are none."""
    assert result.occupancy is not None
    assert expected.occupancy is not None
    ours = [thing.position[:2] for thing in result.occupancy.objects]
    there = [thing.position[:2] for thing in expected.occupancy.objects]
    near = [any(np.hypot(*(place - other)) < reach for other in ours) for place in there]
    return float(np.mean(near)) if near else 1.0


def _percent(shares: Sequence[float]) -> float:
    return round(100 * float(np.mean(shares)), 3)
