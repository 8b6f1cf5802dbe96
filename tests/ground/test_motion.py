# SPDX-License-Identifier: Apache-2.0
"""Lattices that move: by whole nodes, or with the vehicle; what is known stays where it is in the world."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadbed import Config, Pose
from roadbed.core.geometry import Grid
from roadbed.ground.engine import Rolled, Turned
from roadbed.ground.stcrf.arrays import Shape
from roadbed.ground.stcrf.motion.motion_cpu import shift, shift_known, transport
from roadbed.mapping.information import raise_base
from tests.devices import BACKENDS
from tests.ground import engines, oracle

steps = st.integers(-12, 12)


@given(steps, steps)
def test_shift_moves_nodes_and_empties_what_enters(columns, rows):
    layers = np.zeros((12, 2, 20), np.float32)
    layers[1:-1, :, 1:9] = np.arange(1, 161).reshape(10, 2, 8)
    known, written = np.repeat([[[1], [9]], [[3], [18]]], 10, axis=2).astype(np.int32)
    out = np.zeros_like(layers)
    out[1:-1, :, 3:18] = 7  # what an earlier frame has left there
    shift_known(0, 10, layers, known, out, written, 8, columns, rows)
    within = np.arange(20)
    for r in range(10):
        assert not out[r + 1, :, (within < written[0, r]) | (within >= written[1, r])].any()
        for c in range(8):
            inside = 0 <= r + rows < 10 and 0 <= c + columns < 8
            expected = layers[r + rows + 1, :, c + columns + 1] if inside else 0
            assert (out[r + 1, :, c + 1] == expected).all()


@given(st.integers(-7, 7), st.integers(-9, 9))
def test_with_edges_nodes_that_enter_are_like_the_nearest(columns, rows):
    layers = np.zeros((12, 2, 20), np.float32)
    layers[1:-1, :, 1:9] = np.arange(1, 161).reshape(10, 2, 8)
    out = np.full_like(layers, 7)
    for first in (0, 5):  # in ranges of rows, as threads do it
        shift(first, first + 7, layers, out, 8, columns, rows)
    for r in range(10):
        for c in range(8):
            source = np.clip(r + rows, 0, 9) + 1, np.clip(c + columns, 0, 7) + 1
            assert (out[r + 1, :, c + 1] == layers[source[0], :, source[1]]).all()
    assert not out[[0, -1]].any()
    assert not out[:, :, [0, *range(9, 20)]].any()


@given(steps, steps)
def test_outside_is_what_the_moved_lattice_does_not_cover(columns, rows):
    lattice = Grid(0.5, 0.5, 1.0, 8, 10)
    mask = lattice.outside(columns, rows)
    moved = lattice.shifted(columns, rows)
    x, y = lattice.mesh()
    assert (mask == (moved.index(x, y) < 0)).all()


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.sampled_from([0.5, 1.0, 2.0]))
def test_nodes_lie_at_the_same_places_of_the_world(x, y, spacing):
    lattice = Grid.centred(40, 20, spacing).around(x, y)
    assert abs(lattice.x0 / spacing - 0.5 - round(lattice.x0 / spacing - 0.5)) < 1e-6
    columns, rows = lattice.steps_to(lattice.around(x + 3 * spacing, y - 2 * spacing))
    assert abs(columns - 3) <= 1
    assert abs(rows + 2) <= 1


SIZE = 24  # nodes to each side
NODE = np.arange(SIZE) - SIZE / 2 + 0.5  # m in the vehicle frame
UPPER = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


def engine_with(name, P, planes):
    """An engine of the paper's method whose prior has information P (3, 3) about every node's plane (h, sx, sy)."""
    config = Config.preset("paper").with_changes(ground={"stcrf": {"length": SIZE, "width": SIZE}})
    engine = engines.engine(name, config)
    engine.prior = layers_of(np.broadcast_to(P, (SIZE, SIZE, 3, 3)), planes)
    return engine


def layers_of(P, planes):
    """Information and planes as the nine layers of a prior."""
    X = (P @ planes[..., None])[..., 0]
    return np.stack([*(P[..., i, j] for i, j in UPPER), *np.moveaxis(X, -1, 0)]).astype(np.float32)


def matrices_of(prior):
    """P (rows, columns, 3, 3) and X (rows, columns, 3) of the nine layers."""
    P = np.zeros((*prior.shape[1:], 3, 3))
    for layer, (i, j) in zip(prior, UPPER):
        P[..., i, j] = P[..., j, i] = layer
    return P, np.moveaxis(prior[6:], 0, -1).astype(np.float64)


def some_information():
    """Positive definite, and nothing about it symmetric between the axes."""
    root = np.array([[4.0, 1.0, -0.7], [0.0, 3.0, 0.8], [0.0, 0.0, 1.5]])
    return root.T @ root


@pytest.mark.parametrize("name", BACKENDS)
def test_a_surface_is_the_same_from_a_vehicle_that_drove_climbed_and_tilted(name):
    """Where a node was depends on its height, so the ground lies high and is curved."""

    def surface(x, y):
        return 6 + np.sin(x / 2) + 0.1 * y

    x, y = np.meshgrid(NODE, NODE)
    planes = np.stack([surface(x, y), 0.5 * np.cos(x / 2), np.full_like(x, 0.1)], axis=-1)
    engine = engine_with(name, np.diag([100.0, 100.0, 100.0]), planes)
    T_old_new = Pose.from_euler(1.3, -0.7, 0.9, roll=0.05, pitch=0.15, yaw=0.3)
    engine.move(Turned(T_old_new, NODE[0], NODE[0]))
    P, X = matrices_of(engine.prior)
    inner = P[..., 0, 0] > 50
    assert inner.mean() > 0.5
    height = oracle.planes(P, X, 2.5e-5, 0.06)[..., 0]
    old = T_old_new @ np.column_stack([x[inner], y[inner], height[inner]])
    assert np.abs(old[:, 2] - surface(old[:, 0], old[:, 1])).max() < 0.06


@pytest.mark.parametrize("columns", [5, 16, 21])
@pytest.mark.parametrize("tilt", [0.0, 0.04])
def test_a_lattice_of_any_width_is_seen_from_the_new_frame_node_by_node(columns, tilt):
    """Some nodes know nothing, some are carried off the lattice; rows end within a vector."""
    rng, rows, corner = np.random.default_rng(columns), 9, (-3.0, -4.0)
    root = rng.normal(0, 0.4, (rows, columns, 3, 3)) + 2 * np.eye(3)
    P, planes = root @ root.swapaxes(-1, -2), rng.normal(0, 0.2, (rows, columns, 3))
    P[rng.random((rows, columns)) < 0.4] = 0
    T_old_new = Pose.from_euler(1.7, -1.2, 0.1, roll=tilt, pitch=-tilt, yaw=0.4)
    source, out = np.zeros((2, rows + 2, 9, columns + 18), np.float32)
    source[1:-1, :, 1 : columns + 1] = layers_of(P, planes).transpose(1, 0, 2)
    mean, shape = np.zeros((rows + 2, 3, columns + 18), np.float32), Shape(rows, columns, np.float32(1))
    pose = T_old_new.rotation.astype(np.float32), T_old_new.translation.astype(np.float32)
    origin, weak = tuple(map(np.float32, corner)), (np.float32(0.01), np.float32(0.02))
    for first, last in ((0, 4), (4, rows)):
        transport(first, last, source, shape, origin, *pose, weak, out, mean)
    old = P, (P @ planes[..., None])[..., 0]
    expected_P, expected = oracle.transported(old, corner, T_old_new, *map(float, weak))
    found_P, found_X = matrices_of(out[1:-1, :, 1 : columns + 1].transpose(1, 0, 2))
    np.testing.assert_allclose(found_P, expected_P, atol=2e-4)
    np.testing.assert_allclose(mean[1:-1, :, 1 : columns + 1].transpose(0, 2, 1), expected, atol=2e-4)
    np.testing.assert_allclose(found_X, (expected_P @ expected[..., None])[..., 0], atol=1e-3)
    assert 0.25 < (found_P[..., 0, 0] > 0).mean() < 0.95
    for layers in (out, mean):
        assert not layers[[0, -1]].any()
        assert not layers[:, :, [0, *range(columns + 1, columns + 18)]].any()


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("quarters", [1, -1, 0.3])
def test_information_turns_with_the_vehicle(name, quarters):
    """mu_old = A mu_new, so P_new = A^T P_old A; between nodes, their distances tell of the slopes as well."""
    P, planes = some_information(), np.broadcast_to([0.4, 0.05, -0.02], (SIZE, SIZE, 3))
    engine = engine_with(name, P, planes)
    turn = Pose.from_euler(yaw=quarters * np.pi / 2)
    engine.move(Turned(turn, NODE[0], NODE[0]))
    A = np.eye(3)
    A[1:, 1:] = turn.rotation[:2, :2]
    x, y = (a.ravel() for a in np.meshgrid(NODE, NODE))
    u, v = (turn.rotation[:2, :2] @ [x, y] - NODE[0]) % 1
    between = np.zeros((x.size, 3, 3))
    between[:, 1, 1], between[:, 2, 2] = P[0, 0] * u * (1 - u), P[0, 0] * v * (1 - v)
    found, inner = matrices_of(engine.prior)[0].reshape(-1, 3, 3), np.hypot(x, y) < NODE[-1]
    np.testing.assert_allclose(found[inner], (A.T @ (P + between) @ A)[inner], atol=2e-3)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_higher_base_lowers_every_plane_and_keeps_its_slopes(name):
    planes = np.random.default_rng(0).uniform(-0.3, 0.3, (SIZE, SIZE, 3))
    engine = engine_with(name, some_information(), planes)
    engine.move(Rolled(3, -2, 1.25))
    P, X = matrices_of(engine.prior)
    expected = planes - [1.25, 0, 0]
    np.testing.assert_allclose(np.linalg.solve(P[2:, :-3], X[2:, :-3, :, None])[..., 0], expected[:-2, 3:], atol=1e-5)
    assert not P[:2].any()
    assert not P[:, -3:].any()


def test_raise_base_moves_heights_by_exactly_that_and_keeps_slopes():
    planes = np.random.default_rng(0).normal(size=(4, 4, 3))
    information = layers_of(np.broadcast_to(some_information(), (4, 4, 3, 3)), planes)[None]
    raise_base(information, 1.25)
    P, X = matrices_of(information[0])
    np.testing.assert_allclose(np.linalg.solve(P, X[..., None])[..., 0], planes - [1.25, 0, 0], atol=1e-5)
