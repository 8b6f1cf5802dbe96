# SPDX-License-Identifier: Apache-2.0
"""Parameters of all stages: the vehicle, which scans belong to one sequence, traversability, and live runs."""

from typing import Literal, Self

from pydantic import Field, model_validator

from roadbed.config.base import Stage
from roadbed.core.timeline import TimelineLimits
from roadbed.core.traversability import TraversabilityLimits

_TIMELINE, _LIMITS = TimelineLimits(), TraversabilityLimits()


class BodyConfig(Stage):
    """A box around the ego vehicle, m in the vehicle frame: origin on the road, x forward, y left."""

    front: float = Field(gt=0, le=50, description="m, largest x")
    rear: float = Field(lt=0, ge=-50, description="m, smallest x")
    left: float = Field(gt=0, le=20, description="m, largest y")
    right: float = Field(lt=0, ge=-20, description="m, smallest y")
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

    longest_pause: float = Field(_TIMELINE.longest_pause, gt=0, description="s between scans; a longer one starts cold")
    new_recording: float = Field(
        _TIMELINE.new_recording, gt=0, description="s that time may run back; further is another recording"
    )
    largest_speed: float = Field(
        _TIMELINE.largest_speed, gt=0, description="m/s between poses; a larger one is a jump and starts cold"
    )
    largest_step: float = Field(_TIMELINE.largest_step, gt=0, description="m between poses where scans carry no time")
    largest_turn: float = Field(_TIMELINE.largest_turn, gt=0, le=180, description="degrees between poses")

    @property
    def limits(self) -> TimelineLimits:
        """The same values as `Timeline` takes them."""
        return TimelineLimits(**self.model_dump())


class TraversabilityConfig(Stage):
    """Up to the first value of each pair a cell is free to drive on; from the second on it is impassable."""

    slope_free: float = Field(_LIMITS.slope_free, ge=0, le=10, description="steepness, a tangent, in any direction")
    slope_most: float = Field(_LIMITS.slope_most, gt=0, le=10, description="a tangent, impassable from there on")
    step_free: float = Field(
        _LIMITS.step_free, ge=0, le=10, description="m between the planes of two neighbours where they meet"
    )
    step_most: float = Field(_LIMITS.step_most, gt=0, le=10, description="m, impassable from there on")
    roughness_free: float = Field(
        _LIMITS.roughness_free, ge=0, le=10, description="m, rms of 3 x 3 cells around their plane"
    )
    roughness_most: float = Field(_LIMITS.roughness_most, gt=0, le=10, description="m, impassable from there on")
    sigma_free: float = Field(_LIMITS.sigma_free, ge=0, le=10, description="m, standard deviation of the elevation")
    sigma_most: float = Field(_LIMITS.sigma_most, gt=0, le=10, description="m, impassable from there on")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for name in ("slope", "step", "roughness", "sigma"):
            free, most = getattr(self, f"{name}_free"), getattr(self, f"{name}_most")
            if free >= most:
                raise ValueError(f"{name}_free = {free:g} must be below {name}_most = {most:g}")
        return self

    @property
    def limits(self) -> TraversabilityLimits:
        """The same values as `GroundFrame.traversability` takes them."""
        return TraversabilityLimits(**self.model_dump())


class LiveConfig(Stage):
    """Queues between a sensor and the pipeline, one per sensor."""

    queue: int = Field(2, ge=1, le=10000, description="scans of one sensor that wait, at most")
    when_full: Literal["drop_oldest", "wait"] = Field(
        "drop_oldest", description="what a full queue does: drop its oldest scan, or block the caller"
    )
    pose_wait: float = Field(
        0.2, ge=0, le=60, description="s that a scan waits for its pose, and the first scans for their mounting"
    )
