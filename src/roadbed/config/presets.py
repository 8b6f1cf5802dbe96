# SPDX-License-Identifier: Apache-2.0
"""Configurations by name: the values that differ from the default."""

from __future__ import annotations

from typing import Any, get_args

from roadbed.config.ground import GroundRule
from roadbed.config.occupancy import OccupancyRule

_OBJECT_RULES = ("join_bodies", "vehicle_size", "velocity_lag")  # the paper stops before objects

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
        # Rakotovao et al. 2015: a grid in front of the vehicle that turns with it.
        "occupancy": {
            "without": [rule for rule in get_args(OccupancyRule) if rule not in _OBJECT_RULES],
            "fusion": {"forget": 1e-3},  # a sensor counts only when it reports
            "grid": {"length": 50.0, "width": 30.0, "spacing": 0.1, "ahead": 25.0, "motion": "vehicle"},
            "filter": {
                "particles": 19_000,
                "static_memory": 1e6,
                "free_memory": 1e6,
                "max_gap": 60.0,
                "empty_to_static": 0.005,
                "acceleration": 2.0,
                "moving": {"mahalanobis": 5.99},
            },
        },
    },
}
