# SPDX-License-Identifier: Apache-2.0
"""Parameters of the ground stage: mounting, the spatio-temporal CRF, its labels, and grid variance."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from roadbed.config.base import Stage


class MountingConfig(Stage):
    """The sensor over the road. What is not given is estimated from the first scans and tracked."""

    height: float | None = Field(None, gt=-5, lt=30, description="m over the road; None: estimate")
    pitch: float | None = Field(None, ge=-90, le=90, description="degrees, positive lowers the view; None: estimate")
    roll: float | None = Field(None, ge=-90, le=90, description="degrees; None: estimate")


class StcrfConfig(Stage):
    """Ground as a spatio-temporal conditional random field (Rummelhard et al. 2017)."""

    length: float = Field(120.0, gt=0, le=2000, description="m along x")
    width: float = Field(120.0, gt=0, le=2000, description="m along y")
    spacing: float = Field(1.0, ge=0.1, le=10, description="m between nodes")
    alpha: float = Field(1.0, gt=0, description="confidence in a measurement")
    beta: float = Field(0.5, ge=0, lt=1, description="confidence in the neighbours, shared among them")
    gamma: float = Field(0.2, ge=0, lt=1, description="confidence in the previous frame")
    neighbours: Literal[4, 8] = 8
    iterations: int = Field(8, ge=1, le=1000, description="EM iterations from a cold start")
    warm_iterations: int = Field(3, ge=1, le=1000, description="EM iterations with a prior surface")
    sigma_up: float = Field(0.05, gt=0, le=5, description="m, tolerance above the surface")
    sigma_up_early: float = Field(0.06, gt=0, le=5, description="m, the same in the first half of the iterations")
    sigma_down: float = Field(0.5, gt=0, le=10, description="m, tolerance below the surface")
    start: Literal["zero", "coarse"] = Field("coarse", description="first surface: flat, or a coarse lattice's")
    motion: Literal["rolling", "vehicle"] = Field("rolling", description="lattice axes: the world's or the vehicle's")

    @model_validator(mode="after")
    def _stable(self) -> StcrfConfig:
        if self.beta + self.gamma >= 1:
            raise ValueError(
                f"beta + gamma = {self.beta + self.gamma:g}: information would grow without bound, "
                f"expected a sum below 1, e.g. beta 0.5 and gamma 0.2"
            )
        return self


class PointLimits(Stage):
    """The area grid variance looks at, in its own axes."""

    x_min: float = -50.0
    x_max: float = 50.0
    y_min: float = 0.0
    y_max: float = 100.0

    @model_validator(mode="after")
    def _ordered(self) -> PointLimits:
        for axis in "xy":
            low, high = getattr(self, f"{axis}_min"), getattr(self, f"{axis}_max")
            if low >= high:
                raise ValueError(f"{axis}_min = {low:g} must be below {axis}_max = {high:g}")
        return self


class HeightThreshold(Stage):
    ground: float = Field(0.30, gt=0, description="m from the cell's mean within which a point is ground")


class VarianceConfig(Stage):
    """Grid variance; the names and defaults of the report's params.yaml."""

    pointcloud_limits: PointLimits = PointLimits()
    grid_resolution: float = Field(0.3, ge=0.01, le=100, description="m")
    min_variance_threshold: float = Field(0.05, gt=0, description="m^2")
    point_number_threshold: int = Field(2, ge=1)
    height_threshold: HeightThreshold = HeightThreshold()
    axes: Literal["right-front", "forward-left"] = Field(
        "right-front", description="axes of the points given: the report's x right, y front, or Roadbed's"
    )


class GroundConfig(Stage):
    """Which ground method, and its parameters."""

    method: Literal["stcrf", "variance"] = "stcrf"
    mounting: MountingConfig = MountingConfig()
    stcrf: StcrfConfig = StcrfConfig()
    variance: VarianceConfig = VarianceConfig()
