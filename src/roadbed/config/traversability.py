# SPDX-License-Identifier: Apache-2.0
"""Where a vehicle can drive: what costs nothing, and what is too much, of each property of the ground."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from roadbed.config.base import Stage


class TraversabilityConfig(Stage):
    """Up to the first number of each pair a node is free to drive on, from the second on it is not at all."""

    slope_free: float = Field(0.15, ge=0, le=10, description="steepness, a tangent, in any direction")
    slope_most: float = Field(0.50, gt=0, le=10)
    step_free: float = Field(0.05, ge=0, le=10, description="m between the planes of two neighbours where they meet")
    step_most: float = Field(0.25, gt=0, le=10)
    roughness_free: float = Field(0.03, ge=0, le=10, description="m, rms of 3 x 3 nodes around their plane")
    roughness_most: float = Field(0.15, gt=0, le=10)
    sigma_free: float = Field(0.10, ge=0, le=10, description="m, standard deviation of the elevation")
    sigma_most: float = Field(0.25, gt=0, le=10)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for name in ("slope", "step", "roughness", "sigma"):
            free, most = getattr(self, f"{name}_free"), getattr(self, f"{name}_most")
            if free >= most:
                raise ValueError(f"{name}_free = {free:g} must be below {name}_most = {most:g}")
        return self
