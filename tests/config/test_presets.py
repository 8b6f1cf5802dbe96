# SPDX-License-Identifier: Apache-2.0
"""The `paper` preset, value by value: its changes of the default, and the rules for what the paper leaves open."""

from typing import get_args

import numpy as np
import pytest

from roadbed import Config, GroundFilter, Pose, Scan
from roadbed.config import Stage
from roadbed.config.ground import GroundRule
from roadbed.config.occupancy import OccupancyRule
from roadbed.core.errors import ConfigError
from roadbed.occupancy.hsbof.model import FilterModel
from roadbed.occupancy.observation.model import SensorModel

BEYOND_THE_PAPER = (
    *("sparse_sensors", "vertical_faces", "whole_cells", "layered_surfaces", "hanging_returns"),
    *("exclusive_masses", "unseen_is_static", "births_beside_movers", "free_space_decay"),
    *("maturity", "surface_weights", "unobserved_decay"),
    *("registration", "fast_registration", "refined_registration", "confirmed_registration", "second_registration"),
    *("small_components", "registered_births", "registered_weights"),
    *("static_background", "starting_objects", "registered_motion"),
    *("registered_release", "tested_particles", "free_time_tests"),
)
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
    "occupancy.without": tuple(rule for rule in get_args(OccupancyRule) if rule in BEYOND_THE_PAPER),
    "occupancy.grid.length": 50.0,  # sections 2.1 and 5.3: 30 x 50 m in front of the vehicle
    "occupancy.grid.width": 30.0,
    "occupancy.grid.spacing": 0.1,
    "occupancy.grid.ahead": 25.0,
    "occupancy.grid.motion": "vehicle",
    "occupancy.fusion.forget": 1e-3,
    "occupancy.filter.particles": 19_000,
    "occupancy.filter.empty_to_static": 0.005,
    "occupancy.filter.acceleration": 4.0,
    "occupancy.filter.birth_speed": 20.0,
    "occupancy.filter.static_memory": 1e6,
    "occupancy.filter.free_memory": 1e6,
    "occupancy.filter.max_gap": 60.0,
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


def test_a_rule_that_is_switched_off_has_no_effect_on_the_papers_filter():
    """What the kernels get in the paper's preset; an infinite scale, a share of 0 and a factor of 1 have no effect."""
    paper = Config.preset("paper")
    model = FilterModel.of(paper.occupancy)
    assert not any((model.exclusive, model.registration.enabled, model.surface_births))
    assert {model.maturity_begin, model.surface_sigma} == {np.inf}
    assert {model.claimed, model.beside, model.test_free, model.birth.registered} == {0.0}
    assert model.unobserved_survival == model.registered_floor == model.moving.untested == 1.0
    assert model.sure_memory == model.free_memory
    for points in (100, 100_000):  # of a sparse sensor and of a dense one
        sensor = SensorModel.of(paper, 0.1, 60.0, points)
        assert (sensor.face, sensor.neighbour_rays, sensor.log_hit_ratio) == (0.0, 0, pytest.approx(np.log(4)))
        assert (sensor.whole_cells, sensor.layers_apart, sensor.unknown_ground) == (False, 0.0, 0.5)


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
    with pytest.raises(ConfigError, match=r"mounting of lidar: found none .* expected it given: --height H"):
        GroundFilter(paper)(road())
    given = paper.with_changes(ground={"mounting": {"height": 1.8}})  # level, as pitch and roll are not given
    for frame in (
        GroundFilter(given)(road()),
        GroundFilter(paper)(Scan(road(), T_vehicle_sensor=Pose.from_euler(z=1.8))),
    ):
        assert not frame.mounting.estimated
        assert frame.is_ground.mean() > 0.9


def test_the_paper_knows_ground_and_not_ground_alone_and_joins_whatever_follows():
    """No overhangs, no outliers below the ground, no cold start after a jump."""
    ground = GroundFilter(Config.preset("paper"))
    objects = np.float32([[5, 3, 4.0], [6, -2, -3.8]])
    for k, x in enumerate((0.0, 60.0)):
        pose = Pose.from_euler(x, 0, 1.8)
        points = np.concatenate([road(k), objects])
        frame = ground(Scan(points, time=5.0 * k, T_world_sensor=pose, T_vehicle_sensor=Pose.from_euler(z=1.8)))
        assert frame.label[-2:].tolist() == [2, 1]
        assert frame.diagnostics == ()
    assert frame.used_prior
