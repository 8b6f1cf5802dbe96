# SPDX-License-Identifier: Apache-2.0
"""The one judge of which scans follow each other, and which must not be joined to what came before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from roadbed.config.shared import TimelineConfig
from roadbed.core.geometry import Pose


class Link(Enum):
    """How a scan relates to the ones before it."""

    ALONE = "no pose: nothing is used from other scans, nothing is kept"
    FIRST = "start of a drive, or of its next part after a jump or a long pause"
    NEXT = "follows the last scan"
    ASIDE = "late or repeated: what is known may be used, the result is not kept"


@dataclass(frozen=True)
class Moment:
    """One scan's place in time."""

    link: Link
    seconds: float | None = None  # since the last scan of any sensor; None unless it follows one and both have a time
    poses: tuple[Pose, Pose] | None = None  # T_world_vehicle of the last scan it follows, and its own
    diagnostics: tuple[str, ...] = ()

    @property
    def T_old_new(self) -> Pose:
        """Vehicle now -> vehicle at the last scan; identity unless it follows one."""
        if self.poses is None:
            return Pose.identity()
        old, new = self.poses
        return old.inverse() @ new


class Timeline:
    """Keeps the last pose and times; `judge` places one scan after them, as `foresee` and then `take` do.

    `in_order`: a scan must not be older than the last one of any sensor, or it is late; else only of its own sensor.
    """

    def __init__(self, config: TimelineConfig | None = None, in_order: bool = False) -> None:
        self.config = config or TimelineConfig()
        self.in_order = in_order
        self.reset()

    def reset(self) -> None:
        """The next scan is the first of a drive."""
        self._T_world_vehicle: Pose | None = None
        self._time: float | None = None
        self._time_of_sensor: dict[str, float] = {}

    def judge(self, time: float | None, sensors: Sequence[str], T_world_vehicle: Pose | None) -> Moment:
        """`sensors` are those that saw the scan. One that stands alone or aside leaves no trace."""
        moment = self.foresee(time, sensors, T_world_vehicle)
        self.take(moment, time, sensors, T_world_vehicle)
        return moment

    def take(self, moment: Moment, time: float | None, sensors: Sequence[str], T_world_vehicle: Pose | None) -> None:
        """Keep what was foreseen of a scan."""
        if moment.link is Link.FIRST:
            self.reset()
        if moment.link in (Link.FIRST, Link.NEXT):
            self._T_world_vehicle = T_world_vehicle
            if time is not None:
                self._time = time
                self._time_of_sensor.update(dict.fromkeys(sensors, time))

    def foresee(self, time: float | None, sensors: Sequence[str], T_world_vehicle: Pose | None) -> Moment:
        """Where a scan would be placed; nothing is kept of it."""
        last = self._T_world_vehicle
        if T_world_vehicle is None:
            return Moment(Link.ALONE, diagnostics=("no pose: this scan stands alone",) if last is not None else ())
        if last is None:
            return Moment(Link.FIRST)
        config = self.config
        seconds = None
        if time is not None and self._time is not None:
            seconds = time - self._time
            since_own = min((time - self._time_of_sensor.get(name, -math.inf) for name in sensors), default=math.inf)
            if seconds < -config.new_recording:
                return Moment(Link.FIRST, diagnostics=(f"time ran back by {-seconds:.3g} s: started anew",))
            if since_own == 0:
                return Moment(
                    Link.ASIDE, seconds, diagnostics=("repeated scan: same sensor and time as before; not kept",)
                )
            behind = min(since_own, seconds) if self.in_order else since_own
            if behind < 0:
                note = f"late scan: {-behind:.3f} s older than the last one; not kept"
                return Moment(Link.ASIDE, seconds, diagnostics=(note,))
            if seconds > config.longest_pause:
                return Moment(Link.FIRST, diagnostics=(f"pause of {seconds:.1f} s: started cold",))
        metres, turn = last.distance_to(T_world_vehicle), math.degrees(last.angle_to(T_world_vehicle))
        farthest = config.largest_step if seconds is None else 1.0 + config.largest_speed * abs(seconds)
        if metres > farthest or turn > config.largest_turn:
            return Moment(
                Link.FIRST, diagnostics=(f"pose jump of {metres:.1f} m and {turn:.0f} degrees: started cold",)
            )
        return Moment(Link.NEXT, seconds, (last, T_world_vehicle))
