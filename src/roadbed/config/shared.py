# SPDX-License-Identifier: Apache-2.0
"""Parameters of all stages: the vehicle, and which scans belong to one sequence."""

from __future__ import annotations

from pydantic import Field

from roadbed.config.base import Stage
from roadbed.core.timeline import TimelineLimits

_DEFAULT = TimelineLimits()


class BodyConfig(Stage):
    """A box around the ego vehicle, m in the vehicle frame: origin on the road, x forward, y left."""

    front: float = Field(gt=0, le=50)
    rear: float = Field(lt=0, ge=-50)
    left: float = Field(gt=0, le=20)
    right: float = Field(lt=0, ge=-20)
    top: float = Field(2.5, gt=0, le=50, description="m above the road")


class VehicleConfig(Stage):
    """The vehicle that carries the sensors."""

    body: BodyConfig | None = Field(
        None, description="box of the ego vehicle, whose returns are ignored; None: found by itself"
    )
    find_body: bool = Field(True, description="find the ego vehicle from the returns that move along with it")
    clearance: float = Field(2.5, gt=0, le=50, description="m above the ground under which the vehicle passes")


class TimelineConfig(Stage):
    """When a scan continues the sequence before it, and when it starts a new one."""

    longest_pause: float = Field(_DEFAULT.longest_pause, gt=0, description="s between scans; a longer one starts cold")
    new_recording: float = Field(
        _DEFAULT.new_recording, gt=0, description="s that time may run back; further is another recording"
    )
    largest_speed: float = Field(
        _DEFAULT.largest_speed, gt=0, description="m/s between poses; a larger one is a jump and starts cold"
    )
    largest_step: float = Field(_DEFAULT.largest_step, gt=0, description="m between poses where scans carry no time")
    largest_turn: float = Field(_DEFAULT.largest_turn, gt=0, le=180, description="degrees between poses")

    @property
    def limits(self) -> TimelineLimits:
        """The same values as `Timeline` takes them."""
        return TimelineLimits(**self.model_dump())
