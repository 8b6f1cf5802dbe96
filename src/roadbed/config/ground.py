# SPDX-License-Identifier: Apache-2.0
"""Parameters of the ground stage. Values that belong to a rule are constants next to its code."""

from typing import Literal, Self

from pydantic import Field, model_validator

from roadbed.config.base import Stage

# Additions to the papers' methods, each of which can be switched off by its name.
GroundRule = Literal[
    # The first surface.
    "coarse_start",  # a first surface from the lowest returns on 3 m nodes; without it: level at the road
    "pull_to_drops",  # returns far below that surface keep a little weight, so that it finds a drop
    "slope_aware_start",  # a second first surface that follows slopes up to the limit
    # Points that shape the surface.
    "visibility",  # points that a beam passed beneath, or that rise steeply, are not ground (sparse scans, low sensors)
    "isolated_returns",  # returns alone below the ground (reflections, multipath) do not shape the surface
    "wall_pillars",  # pillars with a vertical structure do not shape the surface
    "early_tolerance",  # a larger tolerance above the surface in the first half of the iterations
    "alignment",  # fit each scan to the prior surface before it is used
    # The reported surface.
    "seen_only",  # keep and report ground that was seen, not what neighbours suggest
    "small_components",  # a reported surface needs 60 connected nodes, or 3 % of all
    "neighbour_disagreement",  # variance from the differences between neighbouring planes
    # Labels.
    "smooth",  # a low threshold where the road is smooth all around: keeps low obstacles
    "pillars",  # a point is not ground where a connected structure rises in its pillar
    "pillars_around",  # the same with the 3 x 3 pillars around
    "foot_by_ratio",  # feet of structures with hardly any ground seen around
    "foot_by_support",  # feet of structures where the region is even but the ground at the point was hardly seen
    "clear",  # higher thresholds where nothing rises above: grass, banks
    "banks",  # firm ground up to the clear threshold even where returns lie above it
    "steep_banks",  # firm ground up to the highest threshold on an unbroken slope
    "open_ground",  # uneven regions without walls: up to the highest threshold
    "vote",  # neighbours at equal height over the surface get the same label
    "low_outliers",  # points 1 m below the surface are labelled as noise
]


class MountingConfig(Stage):
    """Pose of the sensor over the road. Values that are not given are estimated from the first scans and tracked."""

    estimate: bool = Field(True, description="estimate what is not given; off: it has to be given")
    height: float | None = Field(None, gt=-5, lt=30, description="m over the road; None: estimate")
    pitch: float | None = Field(None, ge=-90, le=90, description="degrees, positive lowers the view; None: estimate")
    roll: float | None = Field(None, ge=-90, le=90, description="degrees; None: estimate")

    @property
    def tilt(self) -> tuple[float | None, float | None]:
        """Pitch and roll in degrees, None where it is estimated; 0 where it is neither given nor estimated."""
        unknown = None if self.estimate else 0.0
        return unknown if self.pitch is None else self.pitch, unknown if self.roll is None else self.roll

    @property
    def is_given(self) -> bool:
        return self.height is not None and None not in self.tilt


class StcrfConfig(Stage):
    """Ground as a spatio-temporal conditional random field (Rummelhard et al. 2017)."""

    length: float = Field(160.0, gt=0, le=2000, description="m along x")
    width: float = Field(160.0, gt=0, le=2000, description="m along y")
    spacing: float = Field(1.0, ge=0.1, le=10, description="m between nodes")
    alpha: float = Field(1.0, gt=0, description="confidence in a measurement")
    beta: float = Field(0.5, ge=0, lt=1, description="confidence in the neighbours, shared among them")
    gamma: float = Field(0.2, ge=0, lt=1, description="confidence in the previous frame")
    neighbours: Literal[4, 8] = Field(8, description="nodes around a node that share beta")
    iterations: int = Field(6, ge=1, le=1000, description="EM iterations from a cold start")
    warm_iterations: int = Field(3, ge=1, le=1000, description="EM iterations with a prior surface")
    sigma_up: float = Field(0.05, gt=0, le=5, description="m, tolerance above the surface")
    sigma_down: float = Field(0.5, gt=0, le=10, description="m, tolerance below the surface")
    slope_limit: float = Field(
        0.8, gt=0, le=100, description="steepest slope of the slope-aware start and of planes in the E-step"
    )
    pillar: float = Field(0.2, ge=0.02, le=10, description="m, side of a pillar: the fine columns inside a node")
    points_per_node: int = Field(128, ge=0, description="at most this many shape a node's surface; 0: all")
    known_sigma: float = Field(0.25, gt=0, description="m, surface with a larger standard deviation is unknown")

    @model_validator(mode="after")
    def _stable(self) -> Self:
        if self.beta + self.gamma >= 1:
            raise ValueError(
                f"beta + gamma = {self.beta + self.gamma:g}: information would grow without bound, "
                f"expected a sum below 1, e.g. beta 0.5 and gamma 0.2"
            )
        if self.spacing / self.pillar > 100:
            raise ValueError(f"pillar = {self.pillar:g}: expected at least a hundredth of spacing = {self.spacing:g}")
        return self


class TimeConfig(Stage):
    """How the surface is carried from scan to scan."""

    motion: Literal["rolling", "vehicle"] = Field("rolling", description="grid axes: the world's or the vehicle's")
    map_tiles_in_memory: int = Field(64, ge=4, description="64 x 64-node tiles of the long-term map kept in memory")


class LabelConfig(Stage):
    """From heights over the surface to labels."""

    threshold: float = Field(0.25, ge=0.06, le=1, description="m above the surface that still is ground")
    smooth_threshold: float = Field(0.12, gt=0, le=5, description="m, where the road is smooth all around")
    clear_threshold: float = Field(0.40, gt=0, le=1, description="m, where nothing rises above")
    highest: float = Field(0.65, gt=0, le=1, description="m, on open uneven ground")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        names = ("threshold", "clear_threshold", "highest")
        limits = [getattr(self, name) for name in names]
        if limits != sorted(limits):
            found = ", ".join(f"{name} {value:g}" for name, value in zip(names, limits))
            raise ValueError(f"heights must not decrease from one to the next: {found}")
        return self


class PointLimits(Stage):
    """The area of grid variance, along the axes of the points given; by default all around the vehicle."""

    x_min: float = Field(-80.0, description="m, smallest x")
    x_max: float = Field(80.0, description="m, largest x")
    y_min: float = Field(-80.0, description="m, smallest y")
    y_max: float = Field(80.0, description="m, largest y")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for axis in "xy":
            low, high = getattr(self, f"{axis}_min"), getattr(self, f"{axis}_max")
            if low >= high:
                raise ValueError(f"{axis}_min = {low:g} must be below {axis}_max = {high:g}")
        return self


class HeightThreshold(Stage):
    """Which points of a ground cell are ground."""

    ground: float = Field(0.30, gt=0, description="m from the cell's mean within which a point is ground")


class VarianceThresholds(Stage):
    """Limits for ground cells and ground points, with the names and defaults of the report."""

    min_variance_threshold: float = Field(0.05, gt=0, description="m^2, cells that vary less are ground")
    point_number_threshold: int = Field(2, ge=1, description="points a cell needs to be classified by itself")
    height_threshold: HeightThreshold = HeightThreshold()


class VarianceConfig(VarianceThresholds):
    """Grid variance around the vehicle."""

    pointcloud_limits: PointLimits = PointLimits()
    spacing: float = Field(0.3, ge=0.01, le=100, description="m between cells")


class GroundConfig(Stage):
    """The ground method and its parameters."""

    method: Literal["stcrf", "variance"] = Field(
        "stcrf", description="a smooth surface carried from scan to scan, or cells of each scan by itself"
    )
    without: tuple[GroundRule, ...] = Field((), description="rules to switch off, by name")
    mounting: MountingConfig = MountingConfig()
    stcrf: StcrfConfig = StcrfConfig()
    time: TimeConfig = TimeConfig()
    labels: LabelConfig = LabelConfig()
    variance: VarianceConfig = VarianceConfig()

    def uses(self, rule: GroundRule) -> bool:
        return rule not in self.without
