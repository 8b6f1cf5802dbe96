# SPDX-License-Identifier: Apache-2.0
"""Parameters of the ground stage: mounting, the spatio-temporal CRF, time, labels, and grid variance."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from roadbed.config.base import Stage


class MountingConfig(Stage):
    """The sensor over the road. What is not given is estimated from the first scans and tracked."""

    estimate: bool = Field(True, description="find what is not given; off: it has to be given")
    height: float | None = Field(None, gt=-5, lt=30, description="m over the road; None: estimate")
    pitch: float | None = Field(None, ge=-90, le=90, description="degrees, positive lowers the view; None: estimate")
    roll: float | None = Field(None, ge=-90, le=90, description="degrees; None: estimate")
    radius: float = Field(15.0, gt=2, le=100, description="m, the ground around the sensor that is looked at")
    cell: float = Field(1.0, gt=0.1, le=5, description="m, one lowest return per cell")
    trials: int = Field(150, ge=10, le=10000, description="planes tried")
    smallest_quality: float = Field(0.25, ge=0, le=1, description="below it the estimate is not used")
    first_scans: int = Field(5, ge=1, le=1000, description="scans of a drive whose median is kept")

    @property
    def is_given(self) -> bool:
        return None not in (self.height, self.pitch, self.roll)


class CoarseConfig(Stage):
    """The coarse start: a first surface from the lowest returns on wide nodes (an addition to the paper)."""

    spacing: float = Field(3.0, ge=0.2, le=50, description="m between coarse nodes; a whole number of fine ones")
    cell: float = Field(0.5, ge=0.05, le=10, description="m, one lowest return per cell enters")
    iterations: int = Field(12, ge=1, le=1000)
    warm_iterations: int = Field(5, ge=1, le=1000, description="iterations from the last frame's surface")
    sigma_up: float = Field(0.07, gt=0, le=5, description="m")
    pull: float = Field(
        0.05, ge=0, le=1, description="weight that returns far below the surface keep, so that it finds a drop; 0: none"
    )
    climb: bool = Field(
        True, description="a second start that climbs slopes up to the limit, taken where it explains clearly more"
    )
    climb_iterations: int = Field(6, ge=1, le=1000)
    climb_sigma_up: float = Field(0.15, gt=0, le=5, description="m, sigma_up of that start: hillsides are uneven")


class WallConfig(Stage):
    """Pillars with a vertical structure do not shape the surface (an addition to the paper)."""

    enabled: bool = True
    low: float = Field(0.25, ge=0, le=5, description="m above the pillar's lowest return")
    high: float = Field(1.0, gt=0, le=10, description="m above the pillar's lowest return")


class OpacityConfig(Stage):
    """The ground is opaque (an addition to the paper): what a beam passed beneath, or what stands, is not ground.

    Asked of scans that are not dense, which measures itself: few returns per sensor and direction.
    """

    enabled: bool = True
    direction: float = Field(0.55, ge=0.05, le=10, description="degrees, returns within it are held against each other")
    densest: int = Field(20, ge=1, le=1000, description="mean returns per direction up to which a scan is sparse")
    layered: int = Field(
        120, ge=1, le=1000, description="mean returns per direction up to which its beams are far apart"
    )


class StcrfConfig(Stage):
    """Ground as a spatio-temporal conditional random field (Rummelhard et al. 2017)."""

    renamed: ClassVar[dict[str, str]] = {"column": "pillar"}

    length: float = Field(160.0, gt=0, le=2000, description="m along x")
    width: float = Field(160.0, gt=0, le=2000, description="m along y")
    spacing: float = Field(1.0, ge=0.1, le=10, description="m between nodes")
    alpha: float = Field(1.0, gt=0, description="confidence in a measurement")
    beta: float = Field(0.5, ge=0, lt=1, description="confidence in the neighbours, shared among them")
    gamma: float = Field(0.2, ge=0, lt=1, description="confidence in the previous frame")
    neighbours: Literal[4, 8] = 8
    iterations: int = Field(6, ge=1, le=1000, description="EM iterations from a cold start")
    warm_iterations: int = Field(3, ge=1, le=1000, description="EM iterations with a prior surface")
    sigma_up: float = Field(0.05, gt=0, le=5, description="m, tolerance above the surface")
    sigma_up_early: float = Field(0.06, gt=0, le=5, description="m, the same in the first half of the iterations")
    sigma_down: float = Field(0.5, gt=0, le=10, description="m, tolerance below the surface")
    height_information: float = Field(
        2.5e-5, gt=0, le=1, description="weight of the expected height without data, effective points"
    )
    coarse_height_information: float = Field(
        2e-4, gt=0, le=1, description="the same where the coarse start gives the expected height"
    )
    slope_information: float = Field(0.06, gt=0, le=100, description="weight of the expected slope")
    slope_limit: float = Field(
        0.8, gt=0, le=100, description="steepest hillside that the start climbs, and slope used in the E-step"
    )
    start: Literal["zero", "coarse"] = Field("coarse", description="first surface: flat, or a coarse lattice's")
    coarse: CoarseConfig = CoarseConfig()
    walls: WallConfig = WallConfig()
    pillar: float = Field(0.2, ge=0.02, le=10, description="m, side of a pillar: the fine columns inside a node")
    points_per_node: int = Field(128, ge=0, description="at most this many shape a node's surface; 0: all")
    reach: int = Field(3, ge=0, le=1000, description="nodes beyond the data to extrapolate to")
    variance_factor: float = Field(1.0, gt=0, description="doubt about a node over the variance of independent points")
    disagreement: float = Field(
        1.5,
        ge=0,
        description="doubt added per squared difference from the planes of seen neighbours, which tells the variance "
        "too; 0: variance of independent points",
    )
    seen_only: bool = Field(True, description="keep and report ground that was seen, not what neighbours suggest")
    islands: int = Field(
        60, ge=0, description="connected nodes that a surface needs to be reported, or 3 % of all: no crowns; 0: all"
    )
    known_sigma: float = Field(0.25, gt=0, description="m, surface with a larger standard deviation is unknown")

    @model_validator(mode="after")
    def _stable(self) -> StcrfConfig:
        if self.beta + self.gamma >= 1:
            raise ValueError(
                f"beta + gamma = {self.beta + self.gamma:g}: information would grow without bound, "
                f"expected a sum below 1, e.g. beta 0.5 and gamma 0.2"
            )
        if self.spacing / self.pillar > 100:
            raise ValueError(f"pillar = {self.pillar:g}: expected at least a hundredth of spacing = {self.spacing:g}")
        return self


class TimeConfig(Stage):
    """How a drive is carried from scan to scan."""

    renamed: ClassVar[dict[str, str]] = {
        "longest_pause": "timeline.longest_pause",
        "largest_speed": "timeline.largest_speed",
        "largest_step": "timeline.largest_step",
        "largest_turn": "timeline.largest_turn, in degrees",
    }

    motion: Literal["rolling", "vehicle"] = Field("rolling", description="lattice axes: the world's or the vehicle's")
    alignment: bool = Field(True, description="fit each scan to the prior surface before it is used")
    alignment_radius: float = Field(30.0, gt=1, le=500, description="m")
    alignment_trust: float = Field(
        0.95, gt=0, le=1, description="share of the fit that is used; below 1 the poses keep the map from drifting"
    )
    map_tiles_in_memory: int = Field(64, ge=4, description="64 x 64-node tiles of the long-term map kept in memory")


class LabelConfig(Stage):
    """From heights over the surface to labels. Each switch is an addition to the paper."""

    renamed: ClassVar[dict[str, str]] = {
        "clearance": "vehicle.clearance",
        "columns": "pillars",
        "columns_around": "pillars_around",
    }

    threshold: float = Field(0.25, gt=0, le=5, description="m above the surface that still is ground")
    low_outlier: float = Field(1.0, gt=0, le=100, description="m below the surface: noise")
    smooth: bool = Field(True, description="safety: a low threshold where the road is smooth all around")
    smooth_threshold: float = Field(0.12, gt=0, le=5, description="m, that threshold")
    pillars: bool = Field(True, description="feet of walls: not ground where a connected structure stands above")
    pillars_around: bool = Field(True, description="the same with the 3 x 3 pillars around")
    ratio_around: int = Field(3, ge=0, le=100, description="returns in that structure per return at its foot")
    foot: float = Field(0.06, ge=0, le=5, description="m, below it a pillar's structure does not matter")
    foot_around: float = Field(0.10, ge=0, le=5, description="m, the same for the 3 x 3 columns")
    foot_by_ratio: bool = Field(True, description="feet of structures with hardly any ground seen around")
    support_ratio: float = Field(8.0, ge=0, description="effective points below which that rule applies")
    clear: bool = Field(True, description="higher thresholds where nothing stands: grass, banks")
    clear_threshold: float = Field(0.40, gt=0, le=5, description="m, where nothing stands")
    highest: float = Field(0.65, gt=0, le=10, description="m, on open uneven ground")
    banks: bool = Field(True, description="firm ground up to the clear threshold even where returns lie above it")
    firm: float = Field(10.0, ge=0, description="effective points from which ground is firm")
    open_ground: bool = Field(True, description="uneven regions without walls: up to the highest threshold")
    top: float = Field(1.00, gt=0, le=10, description="m, end of the band in which a structure must continue")
    vote: bool = Field(True, description="neighbours at equal height over the surface are labelled alike")

    @model_validator(mode="after")
    def _ordered(self) -> LabelConfig:
        names = ("foot", "threshold", "clear_threshold", "highest", "top")
        limits = [getattr(self, name) for name in names]
        if limits != sorted(limits):
            found = ", ".join(f"{name} {value:g}" for name, value in zip(names, limits))
            raise ValueError(f"heights must not decrease from one to the next: {found}")
        return self


class PointLimits(Stage):
    """The area grid variance looks at, along the axes of the points given; by default all around the vehicle."""

    x_min: float = -80.0
    x_max: float = 80.0
    y_min: float = -80.0
    y_max: float = 80.0

    @model_validator(mode="after")
    def _ordered(self) -> PointLimits:
        for axis in "xy":
            low, high = getattr(self, f"{axis}_min"), getattr(self, f"{axis}_max")
            if low >= high:
                raise ValueError(f"{axis}_min = {low:g} must be below {axis}_max = {high:g}")
        return self


class HeightThreshold(Stage):
    ground: float = Field(0.30, gt=0, description="m from the cell's mean within which a point is ground")


class VarianceThresholds(Stage):
    """What makes a cell and its points ground; the report's names and defaults."""

    min_variance_threshold: float = Field(0.05, gt=0, description="m^2, cells that vary less are ground")
    point_number_threshold: int = Field(2, ge=1, description="points a cell needs to be judged")
    height_threshold: HeightThreshold = HeightThreshold()


class VarianceConfig(VarianceThresholds):
    """Grid variance around the vehicle."""

    renamed: ClassVar[dict[str, str]] = {
        "grid_resolution": "spacing",
        "axes": "pointcloud_limits, which lie along the axes of the points given",
    }

    pointcloud_limits: PointLimits = PointLimits()
    spacing: float = Field(0.3, ge=0.01, le=100, description="m between cells")


class GroundConfig(Stage):
    """Which ground method, and its parameters."""

    method: Literal["stcrf", "variance"] = "stcrf"
    mounting: MountingConfig = MountingConfig()
    opacity: OpacityConfig = OpacityConfig()
    stcrf: StcrfConfig = StcrfConfig()
    time: TimeConfig = TimeConfig()
    labels: LabelConfig = LabelConfig()
    variance: VarianceConfig = VarianceConfig()
