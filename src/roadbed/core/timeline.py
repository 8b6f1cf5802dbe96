# SPDX-License-Identifier: Apache-2.0
"""Which scans follow each other, and which start a new sequence, by their times and poses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from roadbed.core.geometry import Pose


@dataclass(frozen=True, kw_only=True)
class TimelineLimits:
    """Beyond these a scan does not continue the sequence of the scans before it."""

    longest_pause: float = 2.0  # s between scans
    new_recording: float = 1.0  # s that time may run back
    largest_speed: float = 80.0  # m/s between poses
    largest_step: float = 10.0  # m between poses of scans without time
    largest_turn: float = 45.0  # degrees between poses


class Link(Enum):
    """How a scan relates to the ones before it."""

    ALONE = "no pose: uses nothing of other scans, leaves nothing for them"
    FIRST = "first of a sequence, or of its next part after a jump or a long pause"
    NEXT = "follows the last scan"
    ASIDE = "late or repeated: may use the state, does not change it"


@dataclass(frozen=True)
class Moment:
    """Position of one scan in the sequence."""

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
    """Keeps the last pose and times. `update` adds one scan: `classify`, then `record`.

    With `in_order` a scan is late if it is older than the last one of any sensor, else only of its own sensor.
    """

    def __init__(self, limits: TimelineLimits | None = None, in_order: bool = False) -> None:
        self.limits = limits or TimelineLimits()
        self.in_order = in_order
        self.reset()

    def reset(self) -> None:
        """The next scan is the first of a sequence."""
        self._T_world_vehicle: Pose | None = None
        self._time: float | None = None
        self._time_of_sensor: dict[str, float] = {}

    def update(self, time: float | None, sensors: Sequence[str], T_world_vehicle: Pose | None) -> Moment:
        """Classify the next scan, of these sensors, and keep its pose and time unless it is ALONE or ASIDE."""
        moment = self.classify(time, sensors, T_world_vehicle)
        self.record(moment, time, sensors, T_world_vehicle)
        return moment

    def record(self, moment: Moment, time: float | None, sensors: Sequence[str], T_world_vehicle: Pose | None) -> None:
        """Keep the pose and times of a scan, as `classify` described it."""
        if moment.link is Link.FIRST:
            self.reset()
        if moment.link in (Link.FIRST, Link.NEXT):
            self._T_world_vehicle = T_world_vehicle
            if time is not None:
                self._time = time
                self._time_of_sensor.update(dict.fromkeys(sensors, time))

    def classify(self, time: float | None, sensors: Sequence[str], T_world_vehicle: Pose | None) -> Moment:
        """How a scan relates to the last ones; changes nothing."""
        last = self._T_world_vehicle
        if T_world_vehicle is None:
            return Moment(Link.ALONE, diagnostics=("no pose: this scan stands alone",) if last is not None else ())
        if last is None:
            return Moment(Link.FIRST)
        limits = self.limits
        seconds = None
        if time is not None and self._time is not None:
            seconds = time - self._time
            since_own = min((time - self._time_of_sensor.get(name, -math.inf) for name in sensors), default=math.inf)
            if seconds < -limits.new_recording:
                return Moment(Link.FIRST, diagnostics=(f"time ran back by {-seconds:.3g} s: started anew",))
            if since_own == 0:
                return Moment(
                    Link.ASIDE, seconds, diagnostics=("repeated scan: same sensor and time as before; not kept",)
                )
            behind = min(since_own, seconds) if self.in_order else since_own
            if behind < 0:
                note = f"late scan: {-behind:.3f} s older than the last one; not kept"
                return Moment(Link.ASIDE, seconds, diagnostics=(note,))
            if seconds > limits.longest_pause:
                return Moment(Link.FIRST, diagnostics=(f"pause of {seconds:.1f} s: started cold",))
        metres, turn = last.distance_to(T_world_vehicle), math.degrees(last.angle_to(T_world_vehicle))
        farthest = limits.largest_step if seconds is None else 1.0 + limits.largest_speed * abs(seconds)
        if metres > farthest or turn > limits.largest_turn:
            return Moment(
                Link.FIRST, diagnostics=(f"pose jump of {metres:.1f} m and {turn:.0f} degrees: started cold",)
            )
        return Moment(Link.NEXT, seconds, (last, T_world_vehicle))
