# SPDX-License-Identifier: Apache-2.0
"""The streaming core: push scans and poses from any thread, get results by callback or iterator."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any, Self

import numpy as np

from roadbed.config import Config
from roadbed.core.errors import RoadbedError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.live.counts import Statistics, Tally
from roadbed.live.poses import PoseBuffer, PoseLookup
from roadbed.live.queues import SensorQueues, WaitingScan
from roadbed.pipeline import Pipeline, Result

_POSE_MEMORY = 10.0  # s of poses that are kept, at least


@dataclass(frozen=True, eq=False)
class LiveResult:
    """A result with the payload of its scan, latencies and diagnostics."""

    result: Result
    payload: Any = None  # as pushed with the scan, e.g. the message
    latency: Mapping[str, float] = field(default_factory=dict)  # s: waited, ground, occupancy, total since the push
    stream_diagnostics: tuple[str, ...] = ()

    @property
    def diagnostics(self) -> tuple[str, ...]:
        return self.stream_diagnostics + self.result.diagnostics


class Stream:
    """Runs a pipeline on what is pushed; `with Stream(config) as stream:` starts and stops it.

    `on_ground` gets the labels before the occupancy is ready, `on_result` the whole result, `on_problem` one line about
    an invalid scan; all are called by the stream's thread. `results()` iterates over the results instead.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        on_result: Callable[[LiveResult], None] | None = None,
        on_ground: Callable[[LiveResult], None] | None = None,
        on_problem: Callable[[str], None] | None = None,
        occupancy: bool = True,
    ) -> None:
        self.config = config or Config()
        self._make = partial(Pipeline, occupancy=occupancy)
        self._pipeline = self._make(self.config)
        self._on_result, self._on_ground, self._on_problem = on_result, on_ground, on_problem
        self._wake = threading.Condition()
        self._queues = SensorQueues(self.config.live.queue)
        self._poses = PoseBuffer(max(_POSE_MEMORY, 2 * self.config.live.pose_wait), self.config.timeline.new_recording)
        self._mountings: dict[str, Pose] = {}
        self._over_road: set[str] = set()  # sensors whose body origin is at road level
        self._first_arrivals: dict[str, float] = {}
        self._tally = Tally()
        self._out: deque[LiveResult] | None = None
        self._next_config: Config | None = None
        self._expects_poses = self._expects_mountings = self._stopping = False
        self._thread = threading.Thread(target=self._work, name="roadbed-stream", daemon=True)

    def warm_up(self) -> None:
        """Load or compile all kernels on synthetic scans, before the first real one."""
        rng = np.random.default_rng(0)
        pipeline = self._make(self.config)
        for number in range(3):
            points = np.column_stack([rng.uniform(-20, 20, (2000, 2)), rng.uniform(-1.7, 0.5, 2000)]).astype(np.float32)
            place = Pose.from_euler(float(number))
            pipeline(Scan(points, time=0.1 * number, T_world_sensor=place, intensity=points[:, 0]))

    def start(self) -> Self:
        self._thread.start()
        return self

    def push(self, scan: Scan, payload: Any = None) -> bool:
        """Push a scan; `payload` is returned with its result. False once the stream has been stopped.

        A full queue drops its oldest scan, or with `live.when_full: wait` blocks the caller until there is room.
        """
        arrived = monotonic()
        with self._wake:
            self._first_arrivals.setdefault(scan.sensor, arrived)
            self._tally.count(scan.sensor, "received")
            while self.config.live.when_full == "wait" and self._queues.is_full(scan.sensor) and not self._stopping:
                self._wake.wait()
            if self._stopping:
                self._tally.count(scan.sensor, "dropped")
                return False
            if self._queues.add(WaitingScan(scan, payload, arrived)) is not None:
                self._tally.count(scan.sensor, "dropped")
            self._wake.notify_all()
        return True

    def push_pose(self, time: float, T_world_body: Pose) -> None:
        """Pose of the body that carries the sensors at `time`; may arrive before or after the scans."""
        with self._wake:
            self._expects_poses = True
            note = self._poses.add(time, T_world_body)
            self._wake.notify_all()
        if note:
            self._report(note)

    def expect_poses(self) -> None:
        """Poses will be pushed: scans wait for them from the start."""
        with self._wake:
            self._expects_poses = True

    def set_mounting(self, sensor: str, T_body_sensor: Pose, *, over_road: bool = False) -> None:
        """Pose of a sensor on the body; `over_road`: the body's origin is at road level."""
        with self._wake:
            self._mountings[sensor] = T_body_sensor
            (self._over_road.add if over_road else self._over_road.discard)(sensor)
            self._wake.notify_all()

    def expect_mountings(self) -> None:
        """Mountings will be set: the first scans of a sensor wait for its mounting for a while."""
        with self._wake:
            self._expects_mountings = True

    def refuse(self, sensor: str, problem: str) -> None:
        """Count and report a scan that could not be read."""
        with self._wake:
            self._tally.count(sensor, "received")
            self._tally.count(sensor, "refused")
        self._report(problem)

    def change(self, config: Config) -> None:
        """Change parameters from the next scan on. The filters restart; queues and backend stay."""
        with self._wake:
            kept = {name: getattr(self.config, name) for name in ("live", "backend", "device")}
            self._next_config = config.model_copy(update=kept)
            self.config = self._next_config

    def results(self, keep: int = 16) -> Iterator[LiveResult]:
        """Iterate over results until the stream stops; a slow reader loses the oldest of `keep`."""
        with self._wake:
            self._out = deque(maxlen=keep) if self._out is None else self._out
        return self._iterate(self._out)

    def _iterate(self, out: deque[LiveResult]) -> Iterator[LiveResult]:
        while True:
            with self._wake:
                while not out and self._thread.is_alive():
                    self._wake.wait(timeout=0.5)
                if not out:
                    return
                found = out.popleft()
            yield found

    def statistics(self) -> Statistics:
        with self._wake:
            return self._tally.statistics(len(self._queues))

    def stop(self, finish: bool = True) -> Statistics:
        """End the thread, after the queued scans (`finish`) or at once. Idempotent."""
        with self._wake:
            if not finish:
                for entry in self._queues.clear():
                    self._tally.count(entry.scan.sensor, "dropped")
            first, self._stopping = not self._stopping, True
            self._wake.notify_all()
        if self._thread.ident is not None and threading.current_thread() is not self._thread:
            self._thread.join()
        if first:
            self._pipeline.close()
        return self.statistics()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: Any, *_: object) -> None:
        self.stop(finish=kind is None)

    def _work(self) -> None:
        try:
            while (found := self._next()) is not None:
                entry, pose = found
                try:
                    self._process(entry, pose)
                except Exception as error:  # one bad scan does not end the stream
                    with self._wake:
                        self._tally.count(entry.scan.sensor, "refused")
                    problem = str(error) if isinstance(error, RoadbedError) else f"{type(error).__name__}: {error}"
                    self._report(f"{entry.scan.sensor}: {problem}")
        finally:
            with self._wake:
                self._wake.notify_all()

    def _next(self) -> tuple[WaitingScan, PoseLookup] | None:
        """The next scan once its pose has arrived or `live.pose_wait` is over; None at the end."""
        with self._wake:
            while True:
                entry = self._queues.next()
                if entry is None:
                    if self._stopping:
                        return None
                    self._wake.wait()
                    continue
                found, since = self._pose_of(entry)
                left = since + self.config.live.pose_wait - monotonic()
                if found.may_come and left > 0 and not self._stopping:
                    self._wake.wait(timeout=left)
                    continue
                if self._queues.take(entry):
                    self._wake.notify_all()
                    return entry, found

    def _pose_of(self, entry: WaitingScan) -> tuple[PoseLookup, float]:
        """The pose of a scan, and the start of the wait for it; for a mounting that is the first scan of the sensor."""
        scan = entry.scan
        if self._expects_mountings and scan.sensor not in self._mountings:
            found = PoseLookup(scan.T_world_sensor, True, f"the mounting of {scan.sensor!r} is unknown")
            return found, self._first_arrivals[scan.sensor]
        if scan.T_world_sensor is not None or scan.time is None or not self._expects_poses:
            return PoseLookup(scan.T_world_sensor), entry.arrived
        found = self._poses.at(scan.time)
        T_body_sensor = self._mountings.get(scan.sensor, scan.T_vehicle_sensor)
        if found.pose is not None and T_body_sensor is not None:
            found = replace(found, pose=found.pose @ T_body_sensor)
        return found, entry.arrived

    def _process(self, entry: WaitingScan, found: PoseLookup) -> None:
        begin = monotonic()
        diagnostics: tuple[str, ...] = (f"pose: {found.note}",) if found.note else ()
        latency = {"waited": begin - entry.arrived}
        scan = entry.scan.at(found.pose)
        with self._wake:
            config, self._next_config = self._next_config, None
            if scan.sensor in self._over_road:
                scan = replace(scan, T_vehicle_sensor=self._mountings[scan.sensor])
        if config is not None:
            self._pipeline.close()
            self._pipeline = self._make(config)
            diagnostics += ("parameters changed: filters restarted",)

        def labelled(result: Result) -> None:
            latency["ground"] = monotonic() - entry.arrived
            if self._on_ground is not None:
                self._on_ground(LiveResult(result, entry.payload, dict(latency), diagnostics))

        result = self._pipeline(scan, on_ground=labelled)
        end = monotonic()
        latency["total"] = end - entry.arrived
        live = LiveResult(result, entry.payload, latency, diagnostics)
        with self._wake:
            self._tally.count(entry.scan.sensor, "processed")
            if self._expects_poses and found.pose is None:
                self._tally.count(entry.scan.sensor, "without_pose")
            self._tally.processed_in(latency, end)
            if self._out is not None:
                self._out.append(live)
            self._wake.notify_all()
        if self._on_result is not None:
            self._on_result(live)

    def _report(self, problem: str) -> None:
        if self._on_problem is not None:
            self._on_problem(problem)
