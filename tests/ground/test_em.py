# SPDX-License-Identifier: Apache-2.0
"""Every engine's EM against the float64 oracle, and the invariants of the model."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadbed import Config, GroundFilter, Pose, Scan
from roadbed.ground.stcrf.model import HEIGHT_WEIGHT, SLOPE_WEIGHT
from tests.devices import BACKENDS
from tests.ground import engines, oracle

pytestmark = pytest.mark.long(25)

SIZE = 20  # nodes to each side
CORNER = np.array([SIZE / 2, SIZE / 2, 0])


def paper(**stcrf):
    """The paper's method on a small lattice."""
    return Config.preset("paper").with_changes(
        ground={"stcrf": {"length": SIZE, "width": SIZE, "known_sigma": 100.0, **stcrf}}
    )


def optimised(name, config):
    """The engine on programs that most tests of this file share, and some run for hundreds of frames."""
    return engines.engine(name, config, optimise=True)


def rough_scene(seed, n=1500):
    random = np.random.default_rng(seed)
    points = random.uniform(-SIZE / 2, SIZE / 2, (n, 3))
    a, b = random.uniform(-0.1, 0.1, 2)
    points[:, 2] = a * points[:, 0] + b * points[:, 1] + random.normal(0, 0.02, n)
    things = random.random(n) < 0.2
    points[things, 2] += random.uniform(0, 2, things.sum())
    return points.astype(np.float32)


def as_layers(P, X):
    """(rows, columns, 3, 3) and (rows, columns, 3) as the engines' nine layers."""
    upper = [P[..., i, j] for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))]
    return np.stack([*upper, *np.moveaxis(X, -1, 0)])


def posterior(engine):
    """What the last frame knows, (9, rows, columns): it becomes the prior."""
    engine.keep()
    return engine.prior


def assert_close(found, expected, share):
    for layer, (a, b) in enumerate(zip(found, expected)):
        np.testing.assert_allclose(a, b, rtol=share, atol=share * np.abs(b).max(), err_msg=f"layer {layer}")


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("neighbours", [4, 8])
def test_cold_start_equals_the_oracle(name, neighbours):
    points, config = rough_scene(1), paper(neighbours=neighbours)
    engine = engines.engine(name, config)
    output = engine.frame(engines.given(config, points))
    P, X, mu = oracle.em(points + CORNER, SIZE, SIZE, neighbours=neighbours)
    np.testing.assert_allclose(output.elevation, mu[..., 0], atol=2e-4)
    np.testing.assert_allclose(output.slope, mu[..., 1:], atol=2e-4)
    assert_close(posterior(engine), as_layers(P, X), 2e-4)


@pytest.mark.parametrize("name", BACKENDS)
def test_the_largest_slope_is_that_of_the_expectation_alone(name):
    """Heights over the surface are taken from a plane no steeper than the limit; the estimate itself is not limited."""
    points, config = rough_scene(1), paper(slope_limit=0.01)
    points[:, 2] += 0.05 * points[:, 0] - 0.04 * points[:, 1]
    engine = engines.engine(name, config)
    output = engine.frame(engines.given(config, points))
    P, X, limited = oracle.em(points + CORNER, SIZE, SIZE, slope_limit=0.01)
    free, _, _ = oracle.em(points + CORNER, SIZE, SIZE)
    np.testing.assert_allclose(output.elevation, limited[..., 0], atol=5e-4)
    assert_close(posterior(engine), as_layers(P, X), 5e-4)
    assert np.abs(output.slope).max() > 0.05
    # Points far from their node's middle seem to lie off the surface: they count less than on a plane without a limit.
    assert P[..., 0, 0].sum() < 0.98 * free[..., 0, 0].sum()


@pytest.mark.parametrize("name", BACKENDS)
def test_few_iterations_are_enough_only_where_the_prior_knows_the_ground(name):
    points = rough_scene(9)
    right = points[points[:, 0] > 1]
    config, patient = paper(iterations=12, warm_iterations=1), paper(iterations=12, warm_iterations=12)
    engine, other = optimised(name, config), optimised(name, patient)
    for each in (engine, other):
        each.frame(engines.given(config, points[points[:, 0] < -1]))
        each.keep()
    unknown, expected = (each.frame(engines.given(config, right, warm=True)) for each in (engine, other))
    np.testing.assert_allclose(unknown.elevation, expected.elevation, atol=1e-5)
    for each in (engine, other):
        each.keep()
    known, expected = (each.frame(engines.given(config, right, warm=True)) for each in (engine, other))
    assert np.abs(known.elevation - expected.elevation).max() > 1e-3


@pytest.mark.parametrize("name", BACKENDS)
def test_warm_frames_equal_the_oracle(name):
    """A standing vehicle: the prior is the last posterior."""
    points, config = rough_scene(2), paper()
    engine = optimised(name, config)
    prior = None
    for k in range(3):
        output = engine.frame(engines.given(config, points, warm=k > 0))
        engine.keep()
        P, X, mu = oracle.em(points + CORNER, SIZE, SIZE, gamma=0.2 if k else 0.0, prior=prior)
        prior = P, X
    np.testing.assert_allclose(output.elevation, mu[..., 0], atol=1e-3)
    np.testing.assert_allclose(output.slope, mu[..., 1:], atol=1e-3)
    np.testing.assert_allclose(engine.prior[0], P[..., 0, 0], rtol=1e-3)


@pytest.mark.parametrize("name", BACKENDS)
def test_variance_is_that_of_the_weighted_fit(name):
    """[(P + P0)^-1]_00 in units of sigma_up^2."""
    points, config = rough_scene(7), paper()
    stcrf = config.ground.stcrf
    output = optimised(name, config).frame(engines.given(config, points))
    P, _, _ = oracle.em(points + CORNER, SIZE, SIZE)
    weak = np.diag([HEIGHT_WEIGHT, SLOPE_WEIGHT, SLOPE_WEIGHT])
    expected = stcrf.sigma_up**2 * np.linalg.inv(P + weak)[..., 0, 0]
    np.testing.assert_allclose(output.variance, expected, rtol=2e-3)


@pytest.mark.parametrize("name", BACKENDS)
def test_averaged_neighbours_converge_where_the_printed_update_diverges(name):
    """With beta summed over the neighbours, as printed, information grows geometrically: gain 0.5 x 8 per iteration."""
    points = rough_scene(3)
    printed = [
        oracle.em(points + CORNER, SIZE, SIZE, iterations=k, literal=True)[0][..., 0, 0].max() for k in (5, 10, 15)
    ]
    assert printed[1] / printed[0] > 100
    assert printed[2] / printed[1] > 100
    most = []
    for iterations in (5, 10, 15):
        config = paper(iterations=iterations)
        engine = optimised(name, config)
        engine.frame(engines.given(config, points))
        most.append(posterior(engine)[0].max())
    assert most[2] / most[1] < 1.01
    assert most[2] < printed[0]


@settings(max_examples=15)
@given(st.floats(-0.15, 0.15), st.floats(-0.15, 0.15), st.floats(-0.5, 0.1))
@pytest.mark.parametrize("name", BACKENDS)
def test_exact_plane_in_exact_plane_out(name, a, b, height):
    """From a start at 0 the surface reaches every plane that is not far above it everywhere."""
    x, y = np.meshgrid(np.arange(-10, 10, 0.2) + 0.1, np.arange(-10, 10, 0.2) + 0.1)
    points = np.stack([x, y, height + a * x + b * y], axis=-1).reshape(-1, 3)
    config = paper(iterations=60)
    output = optimised(name, config).frame(engines.given(config, points))
    node = np.arange(SIZE) - SIZE / 2 + 0.5
    np.testing.assert_allclose(output.elevation, height + a * node[None, :] + b * node[:, None], atol=2e-3)
    np.testing.assert_allclose(output.slope[..., 0], a, atol=2e-3)
    np.testing.assert_allclose(output.slope[..., 1], b, atol=2e-3)


@pytest.mark.parametrize("name", BACKENDS)
def test_information_stays_bounded_and_finite_over_200_frames(name):
    points, config = rough_scene(4), paper()
    engine = optimised(name, config)
    node = np.floor(points[:, 1] + SIZE / 2) * SIZE + np.floor(points[:, 0] + SIZE / 2)
    most = np.bincount(node.astype(int)).max()
    for k in range(200):
        output = engine.frame(engines.given(config, points, warm=k > 0))
        engine.keep()
    assert np.isfinite(engine.prior).all()
    assert engine.prior[0].max() <= 3.4 * most
    assert np.isfinite(output.elevation).all()
    assert not np.isnan(output.ground_probability).any()


@pytest.mark.parametrize("name", BACKENDS)
def test_information_decays_without_data(name):
    points, config = rough_scene(5), paper()
    engine = optimised(name, config)
    for k in range(5):
        engine.frame(engines.given(config, points, warm=k > 0))
        engine.keep()
    middle = slice(SIZE // 2 - 3, SIZE // 2 + 3)
    before = engine.prior[0, middle, middle].sum()
    for _ in range(4):
        output = engine.frame(engines.given(config, np.zeros((0, 3)), warm=True))
        engine.keep()
        after = engine.prior[0, middle, middle].sum()
        assert 0.3 < after / before < 0.45
        before = after
    assert np.isfinite(output.elevation).any()


@pytest.mark.parametrize("name", BACKENDS)
def test_a_prior_can_be_taken_out_forgotten_and_put_back(name):
    points, config = rough_scene(8), paper()
    engine = optimised(name, config)
    engine.frame(engines.given(config, points))
    kept = posterior(engine).copy()
    expected = engine.frame(engines.given(config, points[:300], warm=True))
    engine.forget()
    assert (engine.prior == 0).all()
    engine.prior = kept
    np.testing.assert_array_equal(engine.prior, kept)
    again = engine.frame(engines.given(config, points[:300], warm=True))
    np.testing.assert_allclose(again.elevation, expected.elevation, atol=1e-5)


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


def test_a_first_scan_far_larger_than_the_last_may_be_aligned():
    """Buffers grow before the scan is compared with the prior, not after."""
    random = np.random.default_rng(0)

    def scan(n, time):
        points = random.uniform([-20, -20, -1.81], [20, 20, -1.79], (n, 3)).astype(np.float32)
        pose = Pose.from_euler(z=1.8)
        return Scan(points, time=time, T_world_sensor=pose, T_vehicle_sensor=pose)

    ground = GroundFilter()
    ground(scan(1000, 0.0))
    assert ground(scan(300_000, 0.1)).used_prior
