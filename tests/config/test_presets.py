# SPDX-License-Identifier: Apache-2.0
"""The `paper` preset, value by value: what it changes of the default, and that no addition of ours is left on."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from roadbed import Config, GroundFilter, Pose, Scan
from roadbed.config import Stage
from roadbed.config.ground import GroundRule
from roadbed.core.errors import ConfigError

CHANGES = {
    "vehicle.clearance": 50.0,
    "vehicle.find_body": False,
    "timeline.longest_pause": 1e9,
    "timeline.new_recording": 1e9,
    "timeline.largest_speed": 1e9,
    "timeline.largest_step": 1e9,
    "timeline.largest_turn": 180.0,
    "ground.without": get_args(GroundRule),  # all of them
    "ground.mounting.estimate": False,
    "ground.stcrf.length": 120.0,  # table I: 120 x 80 m
    "ground.stcrf.width": 80.0,
    "ground.stcrf.iterations": 10,  # table I
    "ground.stcrf.warm_iterations": 10,
    "ground.stcrf.slope_limit": 100.0,
    "ground.stcrf.points_per_node": 0,
    "ground.time.motion": "vehicle",
    "ground.labels.threshold": 0.20,
    "occupancy.grid.length": 50.0,  # section 3.1: 30 x 50 m in front of the vehicle
    "occupancy.grid.width": 30.0,
    "occupancy.grid.spacing": 0.1,
    "occupancy.grid.ahead": 25.0,
    "occupancy.grid.motion": "vehicle",
    "occupancy.observation.sure_height": 10.0,
    "occupancy.observation.underside": 0.0,
    "occupancy.observation.beneath": 1.0,
    "occupancy.observation.mixed_free": 1.0,
    "occupancy.observation.unknown_ground": 1.0,
    "occupancy.observation.sparse": 0.0,
    "occupancy.fusion.forget": 1e-3,
    "occupancy.filter.particles": 19_000,
    "occupancy.filter.compose": "normalise",
    "occupancy.filter.empty_to_static": 0.005,
    "occupancy.filter.acceleration": 2.0,
    "occupancy.filter.registration.enabled": False,
    "occupancy.filter.unobserved_survival": 1.0,
    "occupancy.filter.static_memory": 1e6,
    "occupancy.filter.free_memory": 1e6,
    "occupancy.filter.sure_memory": 1e6,
    "occupancy.filter.hits_only": False,
    "occupancy.filter.keep_unknown": False,
    "occupancy.filter.vacated_is_free": False,
    "occupancy.filter.unknown_hit.static": 0.25,
    "occupancy.filter.unknown_hit.dynamic": 0.25,
    "occupancy.filter.unknown_free.dynamic": 0.25,
    "occupancy.filter.unknown_claim": 0.0,
    "occupancy.filter.beside_moving": 0.0,
    "occupancy.filter.surface": False,
    "occupancy.filter.max_gap": 60.0,
    "occupancy.filter.maturity.enabled": False,
    "occupancy.filter.birth.traffic": 0.0,
    "occupancy.filter.birth.fast": 0.0,
    "occupancy.filter.birth.seeded": 0.0,
    "occupancy.filter.moving.mahalanobis": 5.99,
    "occupancy.filter.moving.old_share": 0.0,
    "occupancy.filter.moving.neighbours": 0,
    "occupancy.filter.moving.alike": 0.0,
    "occupancy.filter.moving.untested": 1.0,
    "occupancy.filter.moving.test_free": 0.0,
    "occupancy.filter.moving.age": 0,
}


def flat(stage: Stage, name: str = "") -> dict[str, object]:
    """Every value of a configuration by its dotted name."""
    values: dict[str, object] = {}
    for key, value in stage:
        values |= flat(value, f"{name}{key}.") if isinstance(value, Stage) else {f"{name}{key}": value}
    return values


def test_the_papers_preset_changes_exactly_these_values():
    default, paper = flat(Config()), flat(Config.preset("paper"))
    assert {name: value for name, value in paper.items() if value != default[name]} == CHANGES


def test_no_addition_is_left_on():
    """Every switch is one of ours; one that is new has to be off in the preset, or named here with its reason."""
    switches = {name: value for name, value in flat(Config.preset("paper")).items() if isinstance(value, bool)}
    assert [name for name, value in switches.items() if value] == []


def test_the_default_preset_is_the_default():
    assert Config.preset("default") == Config()


def road(seed=0):
    return np.random.default_rng(seed).uniform([-20, -20, -1.81], [20, 20, -1.79], (3000, 3)).astype(np.float32)


def test_the_paper_asks_for_the_mounting():
    paper = Config.preset("paper")
    with pytest.raises(ConfigError, match=r"mounting of lidar: found none .* expected it given: --mounting X Y Z"):
        GroundFilter(paper)(road())
    with pytest.raises(ConfigError, match="mounting of lidar"):
        GroundFilter(paper.with_changes(ground={"mounting": {"height": 1.8}}))(road())
    given = paper.with_changes(ground={"mounting": {"height": 1.8, "pitch": 0.0, "roll": 0.0}})
    for frame in (
        GroundFilter(given)(road()),
        GroundFilter(paper)(Scan(road(), T_vehicle_sensor=Pose.from_euler(z=1.8))),
    ):
        assert not frame.mounting.estimated
        assert frame.is_ground.mean() > 0.9


def test_the_paper_knows_ground_and_not_ground_alone_and_joins_whatever_follows():
    """No overhangs, no outliers below the ground, no cold start after a jump."""
    ground = GroundFilter(Config.preset("paper"))
    things = np.float32([[5, 3, 4.0], [6, -2, -3.8]])
    for k, x in enumerate((0.0, 60.0)):
        pose = Pose.from_euler(x, 0, 1.8)
        points = np.concatenate([road(k), things])
        frame = ground(Scan(points, time=5.0 * k, T_world_sensor=pose, T_vehicle_sensor=Pose.from_euler(z=1.8)))
        assert frame.label[-2:].tolist() == [2, 1]
        assert frame.diagnostics == ()
    assert frame.used_prior
