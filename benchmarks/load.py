# SPDX-License-Identifier: Apache-2.0
"""More scans than can be processed: large sensors push at their own rate, and the stream says what it dropped."""

import threading
from dataclasses import replace
from itertools import pairwise
from time import monotonic, sleep
from typing import Any

import numpy as np

from roadbed.bench.timing import there_and_back
from roadbed.config import Config
from roadbed.core.frames import Scan
from roadbed.live.stream import LiveResult, Stream
from roadbed.sources import open_source


def load_rows(
    sensors: int = 4,
    rate: float = 20.0,
    points: int = 250_000,
    scans: int = 200,
    config: Config | None = None,
) -> list[dict[str, Any]]:
    """One row per sensor, each pushing `scans` scans from a thread of its own: what went in, came out and was dropped.

    `oldest_first`: results came in the order of their times, and the scans that waited at the end are among them, so
    nothing was dropped for an older one.
    """
    names = [f"sensor_{number}" for number in range(sensors)]
    drive = [_grown(scan, points) for scan in open_source("sim:city?sensor=hdl64e&frames=4")]
    times: dict[str, list[float]] = {name: [] for name in names}
    waited: dict[str, list[float]] = {name: [] for name in names}

    def note(live: LiveResult) -> None:
        times[live.result.scan.sensor].append(live.result.scan.time or 0.0)
        waited[live.result.scan.sensor].append(live.latency["waited"])

    stream = Stream(config, on_result=note)
    stream.warm_up()
    with stream:
        pushers = [threading.Thread(target=_push, args=(stream, drive, name, rate, scans)) for name in names]
        for pusher in pushers:
            pusher.start()
        for pusher in pushers:
            pusher.join()
    counts = stream.statistics().sensors
    last = [round(1e3 * (scans - back) / rate) for back in range(min(stream.config.live.queue, scans), 0, -1)]
    return [
        {
            "sensor": name,
            "points": points,
            "rate_hz": rate,
            **{what: getattr(counts[name], what) for what in ("received", "processed", "dropped", "refused")},
            "oldest_first": _rising(times[name]) and [round(1e3 * t) for t in times[name][-len(last) :]] == last,
            "longest_wait_ms": round(1e3 * max(waited[name]), 1),
        }
        for name in names
    ]


def _push(stream: Stream, drive: list[Scan], name: str, rate: float, scans: int) -> None:
    start = monotonic()
    moving = there_and_back(drive)
    for number in range(scans):
        sleep(max(start + number / rate - monotonic(), 0.0))
        stream.push(replace(next(moving), sensor=name, time=number / rate))


def _grown(scan: Scan, points: int) -> Scan:
    """The scan drawn from until it has so many points, each a centimetre from where one was measured."""
    rng = np.random.default_rng(0)
    drawn = scan.points[rng.integers(len(scan), size=points)]
    measured = drawn + rng.normal(scale=0.01, size=drawn.shape).astype(np.float32)
    return Scan(measured, time=scan.time, T_world_sensor=scan.T_world_sensor, T_vehicle_sensor=scan.T_vehicle_sensor)


def _rising(times: list[float]) -> bool:
    return all(before < after for before, after in pairwise(times))
