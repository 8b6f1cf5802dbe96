# SPDX-License-Identifier: Apache-2.0
"""Configurations by name, as what they change of the default."""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    # The paper's table I and parameters, without any addition of ours.
    "paper": {
        "ground": {
            "opacity": {"enabled": False},
            "stcrf": {
                "length": 120.0,
                "width": 80.0,
                "iterations": 10,
                "warm_iterations": 10,
                "sigma_up_early": 0.05,
                "start": "zero",
                "slope_limit": 100.0,
                "points_per_node": 0,
                "footprint": False,
                "seen_only": False,
                "reach": 10,
                "walls": {"enabled": False},
            },
            "time": {"motion": "vehicle", "alignment": False},
            "labels": {
                "threshold": 0.20,
                "smooth": False,
                "pillars": False,
                "pillars_around": False,
                "foot_by_ratio": False,
                "foot_by_support": False,
                "clear": False,
                "vote": False,
            },
        },
        # Rakotovao et al. 2015: a grid in front of the vehicle that turns with it, and a filter without our rules.
        "occupancy": {
            "grid": {"length": 50.0, "width": 30.0, "spacing": 0.1, "ahead": 25.0, "motion": "vehicle"},
            "filter": {
                "particles": 19_000,
                "compose": "normalise",
                "empty_to_static": 0.005,
                "acceleration": 2.0,
                "unobserved_survival": 1.0,
                "surface": False,
                "unknown_hit": {"static": 0.25, "dynamic": 0.25},
                "maturity": {"enabled": False},
                "birth": {"traffic": 0.0, "fast": 0.0, "seeded": 0.0},
                "moving": {"mahalanobis": 5.99, "old_share": 0.0, "age": 0, "untested": 1.0, "neighbours": 0},
            },
        },
    },
}
