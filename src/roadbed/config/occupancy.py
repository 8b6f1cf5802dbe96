# SPDX-License-Identifier: Apache-2.0
"""Parameters of the occupancy stages: observation grid, fusion, particle filter, objects.

A value that no user should set is a named constant in the `model.py` of its stage; a rule is switched off by its name.
"""

from typing import Annotated, Literal

from pydantic import Field

from roadbed.config.base import Stage

Probability = Annotated[float, Field(ge=0, le=1)]

OccupancyRule = Literal[
    # observation
    "obstacle_heights",  # a beam that passes high over a cell counts less
    "underpass",  # a beam that passed beneath an obstacle frees nothing
    "mixed_cells",  # beams that pass a cell with returns count less
    "unknown_ground",  # beams over unknown ground count less, but for sparse sensors
    "sparse_sensors",  # sensors with few returns per azimuth: neighbouring rays, vertical faces
    "vertical_faces",  # of these, returns above each other are an obstacle even where the ground estimate climbed it
    "whole_cells",  # a cell is free only where the neighbouring rays passed it, too
    "layered_surfaces",  # returns of one layer are no surface: nothing is born there, and nothing is registered
    "hanging_returns",  # nor are returns far beneath which beams passed: tree crowns
    # masses of a cell
    "exclusive_masses",  # static and arriving dynamic mass exclude each other; without: they are normalised
    "births_in_hit_cells",  # mass is born, or starts to move, in hit cells alone
    "unseen_stays_unknown",  # unknown mass is resolved by evidence; without: in every step
    "vacated_is_free",  # dynamic mass that moved out of a visible cell leaves it free
    "unknown_by_evidence",  # unknown mass is split by whether the cell was hit; without: 1/4 static, 1/4 dynamic
    "unseen_is_static",  # hit unknown mass is static unless tested particles arrive
    "births_beside_movers",  # more mass is born next to moving cells
    "free_space_decay",  # free mass of unseen cells decays
    "maturity",  # hits next to cells that have long been static are static
    # particles
    "surface_weights",  # particles of a cell are weighted by where in it beams returned
    "unobserved_decay",  # particles die sooner where nothing is seen
    "steady_slow_particles",  # slow particles accelerate less
    "traffic_births",  # some newborn particles take the ego vehicle's velocity, or its opposite
    "neighbour_births",  # most take the velocity of a moving neighbour
    # registration of successive scans
    "registration",  # components of hits are registered against an older scan
    "fast_registration",  # and against a young one, for fast objects
    "refined_registration",  # and against one between, for objects that speed up
    "confirmed_registration",  # where that one must confirm the motion
    "second_registration",  # and what is not found otherwise, against that one
    "static_background",  # what is beside a wall is registered without it
    "starting_objects",  # long static components may start to move
    "small_components",  # small components need less evidence
    "registered_births",  # newborn particles take the registered velocity
    "registered_weights",  # particles are weighted by the registered velocity
    "registered_motion",  # cells move as their registered component does, if it is large or particles agree
    "registered_release",  # static mass of a registered component becomes dynamic
    # moving cells
    "tested_particles",  # particles count more for velocities if free space confirmed their motion
    "free_time_tests",  # free space that was seen free for a while
    "moving_share",  # enough of the hit cells around one must move alike
    # objects
    "join_bodies",  # parts of one body are one object
    "vehicle_size",  # vehicles seen from one side have at least a usual size
    "velocity_lag",  # velocities of cells are late
]


class GridConfig(Stage):
    """The occupancy grid around the vehicle."""

    length: float = Field(80.0, gt=0, le=2000, description="m along x")
    width: float = Field(80.0, gt=0, le=2000, description="m along y")
    spacing: float = Field(0.2, ge=0.02, le=5, description="m between cells")
    ahead: float = Field(0.0, ge=-1000, le=1000, description="m from the vehicle forward to the grid's centre")
    motion: Literal["rolling", "vehicle"] = Field(
        "rolling", description="grid axes: the world's, shifted by whole cells, or the vehicle's, interpolated"
    )


class ObservationConfig(Stage):
    """From one sensor's points over the estimated ground to the probability that a cell is occupied."""

    azimuth_step: float = Field(0.4, ge=0.05, le=10, description="degrees per ray of the polar table")
    min_range: float = Field(1.0, ge=0, le=50, description="m; nearer returns are the sensor's own housing")
    obstacle_height: float = Field(0.2, gt=0, le=5, description="m, tau_up: a return this high is half an obstacle")


class FusionConfig(Stage):
    """How the sensors' grids become one."""

    rule: Literal["linear", "independent", "logarithmic", "dempster"] = Field(
        "linear", description="linear opinion pool; log-odds sum; logarithmic pool; Dempster-Shafer"
    )
    reliability: dict[str, Probability] = Field({}, description="per sensor name; 1 where not given")
    age_constant: float = Field(0.2, gt=0, le=60, description="s after which an old grid counts 1/e")
    forget: float = Field(1.0, gt=0, le=600, description="s after which a silent sensor's grid is dropped")


class MovingConfig(Stage):
    """When a cell counts as moving."""

    speed: float = Field(0.5, ge=0, le=50, description="m/s, at least")
    mahalanobis: float = Field(2.0, ge=0, le=100, description="of the velocity from zero, squared, at least")


class FilterConfig(Stage):
    """The hybrid sampling Bayesian occupancy filter."""

    particles: int = Field(20_000, ge=100, le=50_000_000, description="number of particles, which carry moving mass")
    empty_to_static: Probability = Field(0.001, description="e_ES in hit cells, per 0.1 s")
    acceleration: float = Field(6.0, ge=0, le=100, description="m/s^2, q_a: random acceleration of particles, at most")
    birth_speed: float = Field(10.0, gt=0, le=100, description="m/s, newborn particles are hardly ever faster")
    static_memory: float = Field(5.0, gt=0, le=1e6, description="s, tau_S: forgetting of unseen static mass")
    free_memory: float = Field(2.0, gt=0, le=1e6, description="s, tau_E: forgetting of unseen free mass")
    max_gap: float = Field(1.0, gt=0, le=60, description="s without data after which moving mass is forgotten")
    moving: MovingConfig = MovingConfig()


class ObjectsConfig(Stage):
    """Moving cells grouped into objects."""

    min_cells: int = Field(3, ge=1, le=10_000, description="moving cells of a new object, at least")
    keep: float = Field(1.5, ge=0, le=60, description="s an object is remembered without being seen")
    body_length: float = Field(8.0, gt=0, le=50, description="m; parts that make up more are several bodies")
    body_width: float = Field(2.6, gt=0, le=20, description="m across")
    vehicle_length: float = Field(4.3, gt=0, le=50, description="m, at least, of a vehicle seen from one end")
    vehicle_width: float = Field(1.8, gt=0, le=20, description="m, at least, of one seen from one side")


class OccupancyConfig(Stage):
    """Observation grid, fusion and the occupancy filter."""

    without: tuple[OccupancyRule, ...] = Field((), description="rules that are switched off")
    grid: GridConfig = GridConfig()
    observation: ObservationConfig = ObservationConfig()
    fusion: FusionConfig = FusionConfig()
    filter: FilterConfig = FilterConfig()
    objects: ObjectsConfig = ObjectsConfig()
