# SPDX-License-Identifier: Apache-2.0
"""Configurations by name: the values that differ from the default."""

from typing import Any, get_args

from roadbed.config.ground import GroundRule
from roadbed.config.occupancy import OccupancyRule

# What the occupancy paper leaves open is filled by these rules; docs/papers.md argues each.
_OPEN_IN_THE_PAPER: tuple[OccupancyRule, ...] = (
    *("obstacle_heights", "underpass", "mixed_cells", "unknown_ground"),  # the sensor model
    *("unseen_stays_unknown", "unknown_by_evidence"),  # cells that were never observed
    *("births_in_hit_cells", "vacated_is_free"),  # where dynamic mass comes from, and what it leaves
    *("traffic_births", "neighbour_births", "steady_slow_particles"),  # velocities of newborn particles, their noise
    "moving_share",  # which cells move
    *("join_bodies", "vehicle_size", "velocity_lag"),  # objects
)

PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    # The papers' methods and parameters without Roadbed's rules; docs/papers.md lists what the papers leave open and
    # what was chosen. A limit without a switch is set to a value that is never reached.
    "paper": {
        "vehicle": {"clearance": 50.0, "find_body": False},  # no overhangs
        "timeline": {  # no cold starts
            "longest_pause": 1e9,
            "new_recording": 1e9,
            "largest_speed": 1e9,
            "largest_step": 1e9,
            "largest_turn": 180.0,
        },
        # Rummelhard et al. 2017: table I; alpha, beta, gamma and the sigmas of section IV.C are the defaults.
        "ground": {
            "without": list(get_args(GroundRule)),
            "mounting": {"estimate": False},
            "stcrf": {
                "length": 120.0,
                "width": 80.0,
                "iterations": 10,
                "warm_iterations": 10,
                "slope_limit": 100.0,
                "points_per_node": 0,
            },
            "time": {"motion": "vehicle"},
            "labels": {"threshold": 0.20},
        },
        # Rakotovao et al. 2015: a grid in front of the vehicle that turns with it, and masses that are normalised.
        "occupancy": {
            "without": [rule for rule in get_args(OccupancyRule) if rule not in _OPEN_IN_THE_PAPER],
            "fusion": {"forget": 1e-3},  # a sensor counts only when it reports
            "grid": {"length": 50.0, "width": 30.0, "spacing": 0.1, "ahead": 25.0, "motion": "vehicle"},
            "filter": {
                "particles": 19_000,
                "static_memory": 1e6,
                "free_memory": 1e6,
                "max_gap": 60.0,
                "empty_to_static": 0.005,
                "acceleration": 4.0,
                "birth_speed": 20.0,
            },
        },
    },
    # For boards of one slow core: fewer and larger cells, fewer particles. The ground is the default's.
    "small": {"occupancy": {"grid": {"length": 60.0, "width": 60.0, "spacing": 0.25}, "filter": {"particles": 10_000}}},
}
