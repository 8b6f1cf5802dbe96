# SPDX-License-Identifier: Apache-2.0
"""Limits of traversability: what costs nothing, and what is impassable, for each property of the ground."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from roadbed.config.base import Stage
from roadbed.core.traversability import TraversabilityLimits

_DEFAULT = TraversabilityLimits()


class TraversabilityConfig(Stage):
    """Up to the first value of each pair a cell is free to drive on; from the second on it is impassable."""

    slope_free: float = Field(_DEFAULT.slope_free, ge=0, le=10, description="steepness, a tangent, in any direction")
    slope_most: float = Field(_DEFAULT.slope_most, gt=0, le=10)
    step_free: float = Field(
        _DEFAULT.step_free, ge=0, le=10, description="m between the planes of two neighbours where they meet"
    )
    step_most: float = Field(_DEFAULT.step_most, gt=0, le=10)
    roughness_free: float = Field(
        _DEFAULT.roughness_free, ge=0, le=10, description="m, rms of 3 x 3 cells around their plane"
    )
    roughness_most: float = Field(_DEFAULT.roughness_most, gt=0, le=10)
    sigma_free: float = Field(_DEFAULT.sigma_free, ge=0, le=10, description="m, standard deviation of the elevation")
    sigma_most: float = Field(_DEFAULT.sigma_most, gt=0, le=10)

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
