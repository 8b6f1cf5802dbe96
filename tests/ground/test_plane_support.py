# SPDX-License-Identifier: Apache-2.0
"""What a scan says of a plane: its returns, and columns and sectors that support or contradict the plane."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadbed.core.geometry import Pose
from roadbed.ground.mounting.level_surfaces import is_one_sided, plane_support, sampled_returns, why_not_ground
from roadbed.ground.mounting.plane_support_cpu import returns_of

MISSING = [[0, 0, 0], [1e30, 0, 0], [0, 0, -1e30], [0, 0, 1e-30], [np.nan, 1, 1], [1, np.nan, 1], [1, 1, np.inf]]


@given(st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_missing_returns_are_left_out_wherever_they_are(count, seed):
    random = np.random.default_rng(seed)
    scan = random.normal(0, 20, (count, 3)).astype(np.float32)
    missing, places = random.permutation(np.float32(MISSING)), random.integers(0, count + 1, len(MISSING))
    assert np.array_equal(returns_of(np.insert(scan, places, missing, axis=0), 1000).T, scan)


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.9])
def test_enough_returns_are_sampled_however_many_are_missing(missing):
    random = np.random.default_rng(1)
    scan = random.normal(0, 20, (9000, 3)).astype(np.float32)
    scan[random.random(9000) < missing] = 0
    sampled, returns = returns_of(scan, 500).T, scan[scan[:, 0] != 0]
    assert 500 <= len(sampled) < 1500
    assert set(map(tuple, sampled)) <= set(map(tuple, returns))


@given(st.integers(0, 2**32 - 1))
def test_columns_and_sectors_are_those_of_numpy(seed):
    random = np.random.default_rng(seed)
    pose = Pose.from_euler(z=1.5, pitch=random.uniform(-0.3, 0.3), roll=random.uniform(-0.3, 0.3))
    points = (random.normal(0, 1, (400, 3)) * [7, 7, 0.6] - [0, 0, 1.5]).astype(np.float32)
    x, y, z = (points.astype(np.float64) @ pose.rotation.T + pose.translation).T
    near = x * x + y * y < 15**2
    number = np.floor((x + 15) / 0.25) * 1000 + np.floor((y + 15) / 0.25)
    on = set(number[near & (abs(z) < 0.1)])
    above = set(number[near & (z > 0.15) & (z < 0.6)])
    sectors = np.floor((np.arctan2(y, x) % (2 * np.pi)) / (np.pi / 8))[near & (abs(z) < 0.1)].astype(int)
    found = plane_support(points.T.copy(), pose)
    assert found[:3] == (len(on), len(on & above), len(set(number[near & (z < -0.2)])))
    assert found.sectors == sum(1 << sector for sector in set(sectors.tolist()))


@pytest.mark.parametrize(("sectors", "one_sided"), [((5,), True), ((0, 7), True), ((14, 3), True), ((0, 5, 11), False)])
def test_a_plane_seen_within_half_a_turn_is_one_sided(sectors, one_sided):
    angle = (np.array(sectors) + 0.5) * np.pi / 8
    points = np.stack([5 * np.cos(angle), 5 * np.sin(angle), np.zeros(len(angle))]).astype(np.float32)
    assert is_one_sided(plane_support(points, Pose.identity())) == one_sided


def test_a_plane_under_structures_or_above_returns_is_hardly_the_ground():
    x, y = np.meshgrid(np.arange(-5, 5, 0.25), np.arange(-5, 5, 0.25))

    def why(*heights: float) -> str:
        layers = [np.stack([x.ravel() + 0.1, y.ravel() + 0.1, np.full(x.size, z)], axis=1) for z in heights]
        points = np.concatenate(layers).astype(np.float32)
        return why_not_ground(plane_support(sampled_returns(points), Pose.identity()))

    assert why(0) == why(0, -0.15) == ""
    assert "structures" in why(0, 0.3)
    assert "below" in why(0, -0.5)
