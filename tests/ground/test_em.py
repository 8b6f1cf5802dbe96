# SPDX-License-Identifier: Apache-2.0
"""The compiled EM against the float64 oracle, and the invariants of the model."""

import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadbed import Config, GroundFilter, Pose, Scan

sys.path.insert(0, str(Path(__file__).parent))
from tests.ground import oracle

SIZE = 20  # nodes to each side
CORNER = np.array([SIZE / 2, SIZE / 2, 0])


def make(**stcrf):
    """The paper's method on a small lattice."""
    config = Config.preset("paper").ground
    return config.with_changes(stcrf={"length": SIZE, "width": SIZE, "known_sigma": 100.0, **stcrf})


def level(points, **pose):
    return Scan(points.astype(np.float32), T_vehicle_sensor=Pose.identity(), **pose)


def state(ground):
    """P00 and the planes of the last frame."""
    fine = ground._stcrf.engine.fine
    inner = slice(1, SIZE + 1)
    return fine.information[fine.result][inner, :, inner], fine.mean[inner, :, inner]


def rough_scene(seed, n=1500):
    random = np.random.default_rng(seed)
    points = random.uniform(-SIZE / 2, SIZE / 2, (n, 3))
    a, b = random.uniform(-0.1, 0.1, 2)
    points[:, 2] = a * points[:, 0] + b * points[:, 1] + random.normal(0, 0.02, n)
    things = random.random(n) < 0.2
    points[things, 2] += random.uniform(0, 2, things.sum())
    return points


@pytest.mark.parametrize("neighbours", [4, 8])
def test_cold_start_equals_the_oracle(neighbours):
    points = rough_scene(1)
    ground = GroundFilter(make(neighbours=neighbours))
    ground(level(points))
    found, mean = state(ground)
    P, X, mu = oracle.em(points.astype(np.float32) + CORNER, SIZE, SIZE, neighbours=neighbours)
    expected = np.stack(
        [P[..., 0, 0], P[..., 0, 1], P[..., 0, 2], P[..., 1, 1], P[..., 1, 2], P[..., 2, 2], *np.moveaxis(X, -1, 0)], 1
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(np.moveaxis(mean, 1, -1), mu, atol=1e-4)


def test_warm_frame_equals_the_oracle():
    """A standing vehicle on the rolling lattice: the prior is the last posterior."""
    points = rough_scene(2)
    ground = GroundFilter(make().with_changes(time={"motion": "rolling"}))
    prior = None
    for k in range(3):
        ground(level(points, T_world_sensor=Pose.identity(), time=0.1 * k))
        gamma = 0.2 if k else 0.0
        P, X, mu = oracle.em(points.astype(np.float32) + CORNER, SIZE, SIZE, gamma=gamma, prior=prior)
        prior = P, X
    found, mean = state(ground)
    np.testing.assert_allclose(found[:, 0], P[..., 0, 0], rtol=1e-3)
    np.testing.assert_allclose(np.moveaxis(mean, 1, -1), mu, atol=1e-3)


def test_printed_update_diverges_and_averaging_does_not():
    """With beta summed over the neighbours, as printed, information grows geometrically: gain 0.5 x 8 per iteration."""
    points = rough_scene(3) + CORNER
    literal = [oracle.em(points, SIZE, SIZE, iterations=k, literal=True)[0][..., 0, 0].max() for k in (5, 10, 15)]
    averaged = [oracle.em(points, SIZE, SIZE, iterations=k)[0][..., 0, 0].max() for k in (5, 10, 15)]
    assert literal[1] / literal[0] > 100
    assert literal[2] / literal[1] > 100
    assert averaged[2] / averaged[1] < 1.01


@settings(max_examples=15, deadline=None)
@given(st.floats(-0.15, 0.15), st.floats(-0.15, 0.15), st.floats(-0.5, 0.1))
def test_exact_plane_in_exact_plane_out(a, b, height):
    """From a start at 0 the surface reaches every plane that is not far above it everywhere."""
    x, y = np.meshgrid(np.arange(-10, 10, 0.2) + 0.1, np.arange(-10, 10, 0.2) + 0.1)
    points = np.stack([x, y, height + a * x + b * y], axis=-1).reshape(-1, 3)
    frame = GroundFilter(make(iterations=60))(level(points))
    node_x, node_y = frame.lattice.mesh()
    np.testing.assert_allclose(frame.elevation, height + a * node_x + b * node_y, atol=2e-3)
    np.testing.assert_allclose(frame.slope[..., 0], a, atol=2e-3)
    np.testing.assert_allclose(frame.slope[..., 1], b, atol=2e-3)


def test_information_stays_bounded_and_finite_over_200_frames():
    points = rough_scene(4)
    ground = GroundFilter(make())
    column = np.floor(points[:, 0] + SIZE / 2).astype(int)
    row = np.floor(points[:, 1] + SIZE / 2).astype(int)
    most = np.bincount(row * SIZE + column).max()
    for k in range(200):
        frame = ground(level(points, T_world_sensor=Pose.identity(), time=0.1 * k))
    found, mean = state(ground)
    assert np.isfinite(found).all()
    assert np.isfinite(mean).all()
    assert found[:, 0].max() <= 3.4 * most
    assert not np.isnan(frame.ground_probability).any()


def test_information_decays_without_data():
    points = rough_scene(5)
    ground = GroundFilter(make())
    for k in range(5):
        ground(level(points, T_world_sensor=Pose.identity(), time=0.1 * k))
    middle = slice(SIZE // 2 - 3, SIZE // 2 + 3)
    before = state(ground)[0][middle, 0, middle].sum()
    nothing = np.zeros((0, 3))
    for k in range(5, 9):
        frame = ground(level(nothing, T_world_sensor=Pose.identity(), time=0.1 * k))
        after = state(ground)[0][middle, 0, middle].sum()
        assert 0.3 < after / before < 0.45
        before = after
    assert np.isfinite(frame.elevation).any()


def test_threads_do_not_change_the_result():
    points = rough_scene(6, 20000)
    many = GroundFilter()(points)
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        one = GroundFilter()(points)
    finally:
        numba.set_num_threads(threads)
    assert (many.label == one.label).all()
    np.testing.assert_array_equal(many.elevation, one.elevation)
