# SPDX-License-Identifier: Apache-2.0
"""Parameters of the occupancy stages: observation grid, fusion, particle filter, objects."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from roadbed.config.base import Stage

Probability = Annotated[float, Field(ge=0, le=1)]


class GridConfig(Stage):
    """The occupancy grid around the vehicle."""

    renamed: ClassVar[dict[str, str]] = {"resolution": "spacing"}

    length: float = Field(80.0, gt=0, le=2000, description="m along x")
    width: float = Field(80.0, gt=0, le=2000, description="m along y")
    spacing: float = Field(0.2, ge=0.02, le=5, description="m between cells")
    ahead: float = Field(0.0, ge=-1000, le=1000, description="m from the vehicle forward to the grid's centre")
    motion: Literal["rolling", "vehicle"] = Field(
        "rolling", description="grid axes: the world's, shifted by whole cells, or the vehicle's, interpolated"
    )


class ObservationConfig(Stage):
    """From one sensor's points over the estimated ground to the probability that a cell is occupied."""

    renamed: ClassVar[dict[str, str]] = {"clearance": "vehicle.clearance", "sparse_beneath": "beneath"}

    azimuth_step: float = Field(0.4, ge=0.05, le=10, description="degrees per ray of the polar table")
    min_range: float = Field(1.0, ge=0, le=50, description="m; nearer returns are the sensor's own housing")
    range_margin: float = Field(0.06, ge=0, le=5, description="m a beam must pass a cell before its end to count")
    obstacle_height: float = Field(0.2, gt=0, le=5, description="m, tau_up: a return this high is half an obstacle")
    obstacle_height_sigma: float = Field(0.05, gt=0, le=2, description="m, softness of that height")
    low_outlier: float = Field(1.0, gt=0, le=50, description="m below ground from which a return is ignored")
    underside: float = Field(1.3, ge=0, le=10, description="m; beams may pass beneath obstacles that start lower")
    underside_reach: float = Field(3.0, ge=0, le=50, description="m behind such an obstacle where they prove little")
    beneath: Probability = Field(0.0, description="weight of beams that passed beneath something; 0: they free nothing")
    sparse: float = Field(8.0, ge=0, le=1e4, description="returns per ray under which a sensor is sparse; 0: none is")
    sparse_hit: float = Field(0.9, ge=0.5, lt=1, description="P(return | occupied) for sparse ones; 1 - it if empty")
    face: float = Field(0.12, ge=0, le=5, description="m of height in one place that are a face to sparse ones; 0: off")
    sure_height: float = Field(0.3, ge=0, le=10, description="m, a_0: every obstacle is at least this high")
    height_spread: float = Field(0.5, gt=0, le=10, description="m, h_0: how obstacle heights scatter above that")
    detection: Probability = Field(0.9, description="p_d: an obstacle in a beam's way stops it")
    ground_detection: Probability = Field(0.95, description="p_d in a cell whose ground was seen")
    hit: float = Field(0.8, gt=0.5, lt=1, description="P(return | occupied)")
    false_alarm: float = Field(0.2, gt=0, lt=0.5, description="P(return | empty)")
    hits: float = Field(3.0, gt=0, le=100, description="returns after which a cell's evidence saturates")
    mixed_free: Probability = Field(0.3, description="kappa: weight of passing beams in cells with obstacle returns")
    clip: float = Field(0.05, gt=0, lt=0.5, description="probabilities stay within [clip, 1 - clip]")
    ground_sigma: float = Field(0.25, gt=0, le=10, description="m; a ground less certain than this is unknown")
    unknown_ground: Probability = Field(0.5, description="weight of passing beams over unknown ground")


class FusionConfig(Stage):
    """How the sensors' grids become one."""

    rule: Literal["linear", "independent", "logarithmic", "dempster"] = Field(
        "linear", description="linear opinion pool; log-odds sum; logarithmic pool; Dempster-Shafer"
    )
    reliability: dict[str, Probability] = Field({}, description="per sensor name; 1 where not given")
    age_constant: float = Field(0.2, gt=0, le=60, description="s after which an old grid counts 1/e")
    forget: float = Field(1.0, gt=0, le=600, description="s after which a silent sensor's grid is dropped")


class UnknownSplit(Stage):
    """What looked-at unknown mass becomes; the rest of 1 becomes free."""

    static: Probability
    dynamic: Probability

    @model_validator(mode="after")
    def _at_most_one(self) -> UnknownSplit:
        if self.static + self.dynamic > 1:
            raise ValueError(f"static + dynamic = {self.static + self.dynamic:g}, expected at most 1")
        return self


class MaturityConfig(Stage):
    """A hit beside something that has been static for a while is that thing, not a mover."""

    enabled: bool = True
    begin: float = Field(0.5, ge=0, le=60, description="s of static life at which the rule starts")
    full: float = Field(1.0, gt=0, le=60, description="s of static life from which it holds fully")
    radius: float = Field(0.6, ge=0, le=5, description="m around a cell that are looked at")
    static_rate: Probability = Field(0.2, description="e_ES beside mature cells, per 0.1 s")
    decay: Probability = Field(0.8, description="what remains of a maturity each time the cell is seen free")
    free_time: float = Field(2.0, ge=0, le=60, description="s seen free until only `free_radius` counts; 0: never")
    free_radius: float = Field(0.4, ge=0, le=5, description="m looked at around a cell that was free for so long")
    free_decay: Probability = Field(0.7, description="what remains of that time when the cell is hit, per 0.1 s")

    @model_validator(mode="after")
    def _ordered(self) -> MaturityConfig:
        if self.begin >= self.full:
            raise ValueError(f"begin = {self.begin:g} must be below full = {self.full:g}")
        return self


class BirthConfig(Stage):
    """Where new particles get their velocities from."""

    share: float = Field(0.1, gt=0, lt=1, description="of the particles born per step")
    speed: float = Field(10.0, gt=0, le=150, description="m/s, radius of the disc of velocities")
    traffic: Probability = Field(0.05, description="chance to take the own vehicle's velocity, or its opposite")
    traffic_spread: float = Field(5.0, ge=0, le=50, description="m/s added to that velocity")
    fast: Probability = Field(0.05, description="chance of a velocity from a wider disc")
    fast_speed: float = Field(40.0, gt=0, le=150, description="m/s, radius of the wider disc")
    seeded: Probability = Field(0.9, description="chance to take a moving neighbour's velocity")
    seed_radius: float = Field(0.6, gt=0, le=10, description="m in which such a neighbour is sought")
    seed_spread: float = Field(1.0, ge=0, le=20, description="m/s added to its velocity")


class MovingConfig(Stage):
    """When a cell counts as moving."""

    occupancy: Probability = Field(0.6, description="at least")
    dynamic_share: Probability = Field(0.5, description="dynamic / (static + dynamic), at least")
    speed: float = Field(0.5, ge=0, le=50, description="m/s, at least")
    mahalanobis: float = Field(2.0, ge=0, le=100, description="of the velocity from zero, squared, at least")
    old_share: Probability = Field(0.5, description="of the dynamic mass carried by particles old enough")
    neighbours: int = Field(2, ge=0, le=24, description="cells within two cells that move alike, at least")
    alike: Probability = Field(0.3, description="of the cells hit within two cells that move alike, at least")
    untested: Probability = Field(0.02, description="weight of particles whose motion was not tested lately, against 1")
    test_memory: float = Field(0.3, gt=0, le=60, description="s in which a test fades")
    test_free: float = Field(0.1, ge=0, le=60, description="s that a place seen free was so to test a motion; 0: off")
    age: int = Field(3, ge=0, le=1000, description="resamplings a particle must survive to count for velocities")


class RegistrationConfig(Stage):
    """Connected hits are laid over an older scan: where a shift explains both, they move by it."""

    enabled: bool = True
    span: float = Field(0.4, gt=0, le=5, description="s, age of the scan they are laid over, at least")
    speed: float = Field(12.0, gt=0, le=150, description="m/s, shifts are sought up to it")
    fewest_cells: int = Field(3, ge=1, le=10_000, description="hit cells that are registered")
    most_cells: int = Field(500, ge=1, le=100_000)
    extent: float = Field(8.0, gt=0, le=100, description="m; what is longer is no single mover")
    points: int = Field(80, ge=5, le=10_000, description="hit subcells compared, about")
    same: float = Field(0.25, ge=-1, le=1, description="agreement without a shift above which nothing moved")
    good: float = Field(0.75, ge=0, le=1, description="agreement that a shift must reach")
    gain: float = Field(0.5, ge=0, le=2, description="by which it must exceed the one without a shift")
    small: float = Field(1.0, ge=0, le=100, description="m; what is no longer has no side along which it could slide")
    small_same: float = Field(0.45, ge=-1, le=1, description="`same` of such things")
    small_gain: float = Field(0.4, ge=0, le=2, description="`gain` of such things")
    standing_time: float = Field(1.0, ge=0, le=60, description="s of static life from which something stands; 0: off")
    standing_freed: Probability = Field(0.08, description="of its points that free space contradicts, to have started")
    standing_same: float = Field(0.65, ge=-1, le=1, description="`same` of what stands and is not small")
    standing_gain: float = Field(0.3, ge=0, le=2, description="`gain` of what stands and is not small")
    slack: float = Field(0.1, ge=0, le=2, description="by which a smaller shift may be worse and still be meant")
    least: float = Field(0.3, ge=0, le=10, description="m, smallest shift that is a motion")
    fast_span: float = Field(0.08, ge=0, le=5, description="s, `span` for what is fast; 0: it is not sought")
    fast_speed: float = Field(60.0, gt=0, le=150, description="m/s, `speed` for what is fast")
    fast_least: float = Field(10.0, ge=0, le=150, description="m/s, the slowest that is fast")
    fast_extent: float = Field(1.4, ge=0, le=100, description="m; what is smaller is no vehicle, and not fast")
    refined_span: float = Field(0.2, ge=0, le=5, description="s, age of the scan velocities are refined over; 0: off")
    refined_speed: float = Field(1.5, ge=0, le=150, description="m/s, the slowest that is refined")
    refined_reach: float = Field(0.25, ge=0, le=5, description="m around the shift expected there that are tried")
    refined_slack: float = Field(0.05, ge=0, le=2, description="by which shifts may be worse than the best to be meant")
    confirmed: float = Field(0.4, ge=0, le=2, description="by which it must agree better with motion than rest; 0: off")
    static_rate: Probability = Field(0.4, description="static mass that starts to move, per 0.1 s")
    share: Probability = Field(0.7, description="of the newborn particles that take the registered velocity")
    spread: float = Field(0.5, ge=0, le=20, description="m/s added to it")
    trusted: int = Field(2, ge=0, le=1000, description="resamplings such newborns are spared; see `moving.age`")
    sigma: float = Field(0.7, gt=0, le=20, description="m/s, particles further from it lose weight")
    floor: Probability = Field(0.1, description="weight of a particle far from it, against 1 on it")


class FilterConfig(Stage):
    """The hybrid sampling Bayesian occupancy filter. Rates are per 0.1 s and scaled to the real time step."""

    particles: int = Field(20_000, ge=100, le=50_000_000)
    compose: Literal["odds", "static-first", "normalise"] = Field(
        "odds", description="how static and arriving dynamic mass share a cell"
    )
    empty_to_static: Probability = Field(0.001, description="e_ES in hit cells")
    empty_to_dynamic: Probability = Field(0.02, description="e_ED in hit cells: births")
    static_to_dynamic: Probability = Field(0.005, description="e_SD in hit cells: starting")
    dynamic_to_static: Probability = Field(0.3, description="e_DS of particles that stand: stopping")
    stop_speed: float = Field(0.4, gt=0, le=10, description="m/s, v_s: how slow standing is")
    acceleration: float = Field(6.0, ge=0, le=100, description="m/s^2, q_a: random acceleration of particles, at most")
    acceleration_at_rest: float = Field(2.0, ge=0, le=100, description="m/s^2, q_a of particles that stand")
    acceleration_per_speed2: float = Field(0.5, ge=0, le=100, description="1/m, growth of q_a with the speed squared")
    diffusion: float = Field(0.03, ge=0, le=5, description="m, q_x: random displacement of particles")
    survival: Probability = Field(0.99, description="p_S")
    unobserved_survival: Probability = Field(0.9, description="extra factor where nothing is seen")
    static_memory: float = Field(5.0, gt=0, le=1e6, description="s, tau_S: forgetting of unseen static mass")
    free_memory: float = Field(2.0, gt=0, le=1e6, description="s, tau_E: forgetting of unseen free mass")
    sure_memory: float = Field(0.2, gt=0, le=1e6, description="s in which unseen space is no longer surely free")
    hits_only: bool = Field(True, description="empty and static mass starts to move, or is born, in hit cells alone")
    keep_unknown: bool = Field(True, description="what is not seen stays unknown; off: it is shared out in every step")
    vacated_is_free: bool = Field(True, description="what moved out of a visible cell leaves it empty")
    unknown_hit: UnknownSplit = UnknownSplit(static=0.2, dynamic=0.05)
    unknown_claim: Probability = Field(0.3, description="of hit unknown mass, static before what is untested; 0: off")
    beside_moving: Probability = Field(0.4, description="e_ED in cells hit beside several that moved; 0: as elsewhere")
    unknown_free: UnknownSplit = UnknownSplit(static=0.25, dynamic=0.0)
    surface: bool = Field(True, description="particles of a cell are weighted by where in it beams returned")
    surface_sigma: float = Field(0.05, gt=0, le=2, description="m from the nearest return, standard deviation")
    surface_floor: Probability = Field(0.1, description="weight of a particle far from any return, against 1 on one")
    max_gap: float = Field(1.0, gt=0, le=60, description="s without data after which moving mass is forgotten")
    maturity: MaturityConfig = MaturityConfig()
    registration: RegistrationConfig = RegistrationConfig()
    birth: BirthConfig = BirthConfig()
    moving: MovingConfig = MovingConfig()


class ObjectsConfig(Stage):
    """Moving cells grouped into objects."""

    min_cells: int = Field(3, ge=1, le=10_000)
    join: float = Field(0.4, ge=0, le=10, description="m; moving cells this near belong to one object")
    gate: float = Field(2.0, gt=0, le=50, description="m around the prediction in which an object is found again")
    lag: float = Field(0.2, ge=0, le=2, description="s by which the cells' velocities are late")
    velocity_noise: float = Field(0.6, gt=0, le=10, description="m/s, common error of the cells of an object")
    keep: float = Field(1.5, ge=0, le=60, description="s an object is remembered without being seen")
    body_gap: float = Field(1.5, ge=0, le=20, description="m between parts of one body that move alike")
    body_length: float = Field(6.0, gt=0, le=50, description="m; parts that make up more are several bodies")
    body_width: float = Field(2.6, gt=0, le=20, description="m across")
    vehicle_length: float = Field(4.3, ge=0, le=50, description="m, of a vehicle seen from one end; 0: as it is seen")
    vehicle_width: float = Field(1.8, ge=0, le=20, description="m, of one seen from one side; 0: as it is seen")


class OccupancyConfig(Stage):
    """Observation grid, fusion and the occupancy filter."""

    grid: GridConfig = GridConfig()
    observation: ObservationConfig = ObservationConfig()
    fusion: FusionConfig = FusionConfig()
    filter: FilterConfig = FilterConfig()
    objects: ObjectsConfig = ObjectsConfig()
