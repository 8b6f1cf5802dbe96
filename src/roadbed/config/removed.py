# SPDX-License-Identifier: Apache-2.0
"""Keys of earlier configurations that no longer exist, each with the reason why it is refused."""

import re

_CONSTANTS = """
ground.mounting: radius cell trials smallest_quality first_scans
ground.opacity: direction densest layered
ground.stcrf: height_information coarse_height_information slope_information reach variance_factor
ground.stcrf.coarse: spacing cell iterations warm_iterations sigma_up climb_iterations climb_sigma_up
ground.stcrf.walls: low high
ground.time: alignment_radius alignment_trust
ground.labels: ratio_around foot foot_around support_ratio firm top
occupancy.observation: range_margin obstacle_height_sigma low_outlier underside underside_reach beneath sparse_hit face
    height_spread detection ground_detection hit false_alarm hits clip ground_sigma
occupancy.filter: empty_to_dynamic static_to_dynamic dynamic_to_static stop_speed acceleration_per_speed2 diffusion
    survival surface_sigma surface_floor
occupancy.filter.maturity: begin full radius static_rate decay free_radius free_decay
occupancy.filter.registration: span speed fewest_cells most_cells extent points same good gain small_same small_gain
    standing_freed standing_same standing_gain slack least fast_speed fast_least refined_speed refined_reach
    refined_slack spread sigma
occupancy.filter.birth: share traffic_spread fast_speed seed_radius seed_spread
occupancy.filter.moving: occupancy dynamic_share test_memory
occupancy.objects: join gate velocity_noise
"""
_DELETED = """
ground.stcrf: footprint
ground.stcrf.coarse: most_information
ground.labels: ratio support_even standing
occupancy.filter.registration: fast_extent
occupancy.filter.moving: old_share
occupancy.without: old_particles fast_extent fast_births moving_neighbours maturity_free_space particle_age
    trusted_births sparse_returns
"""
_OCCUPANCY_SWITCHES = """
occupancy.observation: sparse sure_height mixed_free unknown_ground
occupancy.filter: compose acceleration_at_rest unobserved_survival sure_memory hits_only keep_unknown vacated_is_free
    unknown_hit unknown_claim beside_moving unknown_free surface
occupancy.filter.maturity: enabled free_time
occupancy.filter.registration: enabled small standing_time fast_span refined_span confirmed static_rate
    share trusted floor
occupancy.filter.birth: traffic fast seeded
occupancy.filter.moving: neighbours alike untested test_free age
occupancy.objects: lag body_gap
"""
_GROUND_SWITCHES = {  # old key: the rule in ground.without
    "ground.opacity.enabled": "visibility",
    "ground.stcrf.start": "coarse_start",
    "ground.stcrf.coarse.pull": "pull_to_drops",
    "ground.stcrf.coarse.climb": "slope_aware_start",
    "ground.stcrf.walls.enabled": "wall_pillars",
    "ground.stcrf.sigma_up_early": "early_tolerance",
    "ground.stcrf.disagreement": "neighbour_disagreement",
    "ground.stcrf.seen_only": "seen_only",
    "ground.stcrf.islands": "small_components",
    "ground.time.alignment": "alignment",
    "ground.labels.low_outlier": "low_outliers",
}
_RENAMED = {
    "ground.stcrf.column": "ground.stcrf.pillar",
    "ground.time.longest_pause": "timeline.longest_pause",
    "ground.time.largest_speed": "timeline.largest_speed",
    "ground.time.largest_step": "timeline.largest_step",
    "ground.time.largest_turn": "timeline.largest_turn, in degrees",
    "ground.labels.clearance": "vehicle.clearance",
    "ground.variance.grid_resolution": "ground.variance.spacing",
    "ground.variance.axes": "ground.variance.pointcloud_limits, which lie along the axes of the points given",
    "occupancy.grid.resolution": "occupancy.grid.spacing",
    "occupancy.observation.clearance": "vehicle.clearance",
    "occupancy.filter.birth.speed": "occupancy.filter.birth_speed",
}
_LABEL_RULES = "smooth pillars pillars_around foot_by_ratio foot_by_support clear banks steep_banks open_ground vote"
_GROUND_SWITCHES |= {f"ground.labels.{rule}": rule for rule in _LABEL_RULES.split()}


def _keys(text: str, reason: str) -> dict[str, str]:
    """Dotted keys of a table above, each with the reason."""
    stages = re.findall(r"^([\w.]+): ([^:]*)$", text, re.MULTILINE)
    return {f"{stage}.{name}": reason for stage, names in stages for name in names.split()}


REMOVED = {
    **_keys(_CONSTANTS, "removed in 1.0: its default is a constant now"),
    **_keys(_DELETED, "removed in 1.0: the rule changed no result and was deleted"),
    **_keys(_OCCUPANCY_SWITCHES, "removed in 1.0: a rule is switched off by its name in occupancy.without"),
    **{
        key: f"removed in 1.0: write ground.without: [{rule}] to switch this rule off"
        for key, rule in _GROUND_SWITCHES.items()
    },
    **{key: f"removed in 1.0: it is called {name}" for key, name in _RENAMED.items()},
    "live.pose_memory": "removed in 1.0: it follows from live.pose_wait",
}
