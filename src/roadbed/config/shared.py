# SPDX-License-Identifier: Apache-2.0
"""Parameters that concern every stage: the vehicle, and how scans follow each other."""

from __future__ import annotations

from pydantic import Field

from roadbed.config.base import Stage


class BodyConfig(Stage):
    """A box around the own vehicle, metres in the vehicle frame: origin on the road, x ahead, y to the left."""

    front: float = Field(gt=0, le=50)
    rear: float = Field(lt=0, ge=-50)
    left: float = Field(gt=0, le=20)
    right: float = Field(lt=0, ge=-20)
    top: float = Field(2.5, gt=0, le=50, description="m above the road")


class VehicleConfig(Stage):
    """What carries the sensors."""

    body: BodyConfig | None = Field(None, description="own body, whose returns do not count; none: it is found")
    find_body: bool = Field(True, description="find the body from what travels along while the vehicle drives")
    clearance: float = Field(2.5, gt=0, le=50, description="m above the ground under which the vehicle passes")


class TimelineConfig(Stage):
    """When scans belong to one drive, and when the past must not be joined to them."""

    longest_pause: float = Field(2.0, gt=0, description="s between scans; a longer one starts cold")
    new_recording: float = Field(1.0, gt=0, description="s that time may run back; further is another recording")
    largest_speed: float = Field(80.0, gt=0, description="m/s between poses; a larger one is a jump, starts cold")
    largest_step: float = Field(10.0, gt=0, description="m between poses where scans carry no time")
    largest_turn: float = Field(45.0, gt=0, le=180, description="degrees between poses")
