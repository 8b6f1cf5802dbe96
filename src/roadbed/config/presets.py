# SPDX-License-Identifier: Apache-2.0
"""Configurations by name, as what they change of the default."""

from __future__ import annotations

from typing import Any, get_args

from roadbed.config.ground import GroundRule

PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    # The papers' methods and parameters, without any addition of ours; docs/ground.md and docs/occupancy.md list what
    # the papers leave open and was chosen. Where an addition has no switch, its limit lies where nothing reaches.
    "paper": {
        "vehicle": {"clearance": 50.0, "find_body": False},  # no overhangs
        "timeline": {  # no cold starts
            "longest_pause": 1e9,
            "new_recording": 1e9,
            "largest_speed": 1e9,
            "largest_step": 1e9,
            "largest_turn": 180.0,
        },
        # Rummelhard et al. 2017, table I.
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
        # Rakotovao et al. 2015: a grid in front of the vehicle that turns with it, and a filter without our rules.
        "occupancy": {
            # Every beam that passed a cell shows it free, however high it passed.
            "observation": {
                "sure_height": 10.0,
                "underside": 0.0,
                "beneath": 1.0,
                "mixed_free": 1.0,
                "unknown_ground": 1.0,
                "sparse": 0.0,
            },
            "fusion": {"forget": 1e-3},  # a sensor has a say only when it reports
            "grid": {"length": 50.0, "width": 30.0, "spacing": 0.1, "ahead": 25.0, "motion": "vehicle"},
            "filter": {
                "particles": 19_000,
                "compose": "normalise",
                "keep_unknown": False,
                "hits_only": False,
                "vacated_is_free": False,
                "static_memory": 1e6,
                "free_memory": 1e6,
                "sure_memory": 1e6,
                "max_gap": 60.0,
                "empty_to_static": 0.005,
                "acceleration": 2.0,
                "acceleration_at_rest": 2.0,
                "registration": {"enabled": False},
                "unobserved_survival": 1.0,
                "surface": False,
                "unknown_hit": {"static": 0.25, "dynamic": 0.25},
                "unknown_free": {"static": 0.25, "dynamic": 0.25},
                "unknown_claim": 0.0,
                "beside_moving": 0.0,
                "maturity": {"enabled": False},
                "birth": {"traffic": 0.0, "fast": 0.0, "seeded": 0.0},
                "moving": {
                    "mahalanobis": 5.99,
                    "old_share": 0.0,
                    "age": 0,
                    "untested": 1.0,
                    "test_free": 0.0,
                    "neighbours": 0,
                    "alike": 0.0,
                },
            },
        },
    },
}
