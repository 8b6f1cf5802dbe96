# SPDX-License-Identifier: Apache-2.0
"""Traversability: each property alone brings the score down, and is named as the reason."""

import numpy as np
import pytest

from roadbed import GroundFilter, Scan
from roadbed.config import Config, TraversabilityConfig
from roadbed.core.errors import ConfigError
from roadbed.core.traversability import Reason, TraversabilityLimits, traversability
from roadbed.outputs.npz import frame_arrays
from roadbed.outputs.ros_messages.layers import elevation_layers

SIZE = 9
MIDDLE = (4, 4)


def level():
    return np.zeros((SIZE, SIZE)), np.zeros((SIZE, SIZE, 2)), np.full((SIZE, SIZE), 1e-4)


def of(elevation, slope, variance, **limits):
    return traversability(elevation, slope, variance, 1.0, TraversabilityConfig(**limits).limits)


def test_level_ground_is_free_and_unknown_ground_is_unknown():
    elevation, slope, variance = level()
    elevation[0, 0] = slope[0, 0] = np.nan
    found = of(elevation, slope, variance)
    assert np.isnan(found.score[0, 0])
    assert found.reason[0, 0] == Reason.UNKNOWN
    assert np.nanmin(found.score) == 1.0
    assert found.reason[MIDDLE] == Reason.NONE


@pytest.mark.parametrize("steepness", [0.1, 0.3, 0.6])
def test_a_slope_counts_in_any_direction_and_is_neither_step_nor_rough(steepness):
    _, slope, variance = level()
    x, y = np.meshgrid(np.arange(SIZE), np.arange(SIZE))
    slope[:] = steepness * np.array([0.6, -0.8])
    found = of(slope[0, 0, 0] * x + slope[0, 0, 1] * y, slope, variance)
    assert found.score[MIDDLE] == pytest.approx(np.clip((0.5 - steepness) / 0.35, 0, 1), abs=1e-6)
    assert found.reason[MIDDLE] == (Reason.SLOPE if steepness > 0.15 else Reason.NONE)


def test_a_kerb_is_a_step_on_both_sides():
    elevation, slope, variance = level()
    elevation[:, 5:] = 0.15
    found = of(elevation, slope, variance, roughness_free=0.5, roughness_most=1.0)
    assert found.score[4, 4] == found.score[4, 5] == pytest.approx(0.5)
    assert found.reason[4, 4] == Reason.STEP
    assert found.score[4, 2] == 1.0


def test_waves_are_rough_though_their_planes_meet():
    elevation, slope, variance = level()
    elevation[::2] = 0.12
    found = of(elevation, slope, variance, step_free=1.0, step_most=2.0)
    assert found.score[MIDDLE] < 1
    assert found.reason[MIDDLE] == Reason.ROUGHNESS


def test_what_is_hardly_known_is_not_free():
    elevation, slope, variance = level()
    variance[MIDDLE] = 0.175**2
    found = of(elevation, slope, variance)
    assert found.score[MIDDLE] == pytest.approx(0.5, abs=1e-6)
    assert found.reason[MIDDLE] == Reason.VARIANCE


def test_limits_in_the_wrong_order_are_refused():
    with pytest.raises(ConfigError, match=r"step_free = 0\.3 must be below step_most = 0\.25"):
        Config.parse({"traversability": {"step_free": 0.3}})


@pytest.mark.parametrize("method", ["stcrf", "variance"])
def test_what_is_written_follows_the_limits_of_the_configuration(method):
    strict = {"sigma_free": 0.0, "sigma_most": 1e-6}  # nothing is known that well
    random = np.random.default_rng(0)
    road = np.column_stack([random.uniform(-15, 15, (20_000, 2)), random.normal(-1.7, 0.01, 20_000)])
    ground = GroundFilter(Config.parse({"ground": {"method": method}, "traversability": strict}))
    for frame in (ground(road), *ground.batch([Scan(road)])):
        assert np.nanmedian(frame_arrays(frame)["traversability"]) == 0
        assert np.nanmedian(elevation_layers(frame)["traversability"]) == 0
        assert np.nanmedian(frame.traversability(TraversabilityLimits()).score) == 1
