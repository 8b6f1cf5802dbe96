# SPDX-License-Identifier: Apache-2.0
"""The plane through the lowest returns: what pulls it up, what pulls it down, and what is ignored."""

import numpy as np
import pytest

from roadbed import GroundFilter, Pose
from roadbed.ground.mounting.mounting_cpu import fit_plane, lowest_returns

GRID = np.arange(-14.5, 15, 1.0)
X, Y = (v.ravel() for v in np.meshgrid(GRID, GRID))


def fitted(z):
    """Height of the level plane found in one return per cell."""
    return fit_plane(X, Y, z, np.ones_like(X), 0.3, 4.0, 0.27, 150)[0]


def shares(seed, *parts):
    """One height per cell, drawn from (share, height)."""
    share, height = zip(*parts)
    return np.random.default_rng(seed).choice(height, X.size, p=share)


def test_what_lies_below_counts_more_than_what_lies_above():
    """As much 13 cm above the road as below it: the road is rather the lower, as things stand on it."""
    height = fitted(shares(0, (0.5, -1.8), (0.25, -1.67), (0.25, -1.93)))
    assert 1.805 < height < 1.85


def test_ground_below_a_plane_speaks_against_it():
    """More cells show a hedge's flat top than the road under it."""
    assert fitted(shares(1, (0.55, -1.0), (0.45, -2.0))) == pytest.approx(2.0, abs=0.02)


def test_a_lone_return_far_below_its_cell_is_not_its_ground():
    random = np.random.default_rng(2)
    road = np.column_stack([np.repeat(X, 3), np.repeat(Y, 3), random.normal(-1.8, 0.01, 3 * X.size)])
    ghosts = np.column_stack([X, Y, np.full(X.size, -2.8)])[random.random(X.size) < 0.7]
    points = np.concatenate([road, ghosts]).astype(np.float32)
    side = 30
    out = np.empty((3, side * side))
    one = np.float32(1)
    count, _ = lowest_returns(points, 1, one, np.float32(15), one, out)
    assert count > 600
    assert out[2, :count].min() > -1.9


@pytest.mark.parametrize(("share", "lowest"), [(0.4, -1.8), (0.04, -2.6)], ids=["strays", "holes"])
def test_pairs_of_returns_below_the_road_are_not_its_ground_if_many_cells_have_them(share, lowest):
    """Nor is a ditch beyond the radius, next to the cells at the edge; few cells with lower returns are holes."""
    random = np.random.default_rng(4)
    strays = random.random(X.size) < share
    road = np.column_stack([np.repeat(X, 20), np.repeat(Y, 20), random.normal(-1.8, 0.01, 20 * X.size)])
    below = np.column_stack([np.repeat(X[strays], 2), np.repeat(Y[strays], 2), np.full(2 * strays.sum(), -2.6)])
    ditch = np.column_stack([random.uniform(-14, 14, 8000), random.uniform(15.5, 20, 8000), np.full(8000, -2.2)])
    points = np.concatenate([road, below, ditch]).astype(np.float32)
    out, one = np.empty((3, 30 * 30)), np.float32(1)
    count, _ = lowest_returns(points, 1, one, np.float32(15), one, out)
    assert count > 600
    assert out[2, :count].min() == pytest.approx(lowest, abs=0.1)


def test_the_height_is_measured_along_the_roads_normal():
    mounted = Pose.from_euler(z=3.5, pitch=np.radians(13))
    random = np.random.default_rng(3)
    road = np.column_stack([random.uniform(-20, 20, (8000, 2)), np.zeros(8000)])
    frame = GroundFilter()((mounted.inverse() @ road).astype(np.float32))
    assert frame.mounting.height == pytest.approx(3.5, abs=0.02)
    # The vehicle's origin is the foot of that normal: where it is along the road cannot be seen.
    assert frame.mounting.T_vehicle_sensor.translation[:2].tolist() == [0.0, 0.0]
