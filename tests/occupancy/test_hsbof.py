# SPDX-License-Identifier: Apache-2.0
"""The filter's steps against float64 oracles, and the invariants that hold whatever is observed."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadbed.config.occupancy import FilterConfig
from roadbed.occupancy.fuse import FusedGrid
from roadbed.occupancy.hsbof import GridMotion, Hsbof
from tests.occupancy import oracle
from tests.occupancy.scenes import grid_of_boxes

SHAPE = (12, 16)
SMALL = FilterConfig(particles=400)
unit = st.floats(0, 1)


def fused(p, seen, surface=0):
    shape = np.shape(p)
    return FusedGrid(
        np.asarray(p, np.float32), np.broadcast_to(np.float32(seen), shape).copy(), np.full(shape, surface, np.uint16)
    )


def place(filter_, cell, particles, age=5):
    """Put particles (vx, vy, mass) in the middle of a cell."""
    row, column = cell
    p = filter_.particles
    for vx, vy, mass in particles:
        i = p.count
        p.x[i], p.y[i] = (column + 0.5) * filter_.resolution, (row + 0.5) * filter_.resolution
        p.vx[i], p.vy[i], p.mass[i], p.age[i] = vx, vy, mass, age
        p.count += 1


def masses(filter_):
    return np.stack([filter_.static, filter_.dynamic, filter_.free, filter_.unknown]).astype(np.float64)


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(unit, unit, unit, unit).filter(lambda m: sum(m) > 0.1),
    st.floats(0.05, 0.95),
    st.sampled_from([0.0, 0.3, 0.95]),
    st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.01, 0.6)), max_size=4),
    st.sampled_from(["odds", "static-first", "normalise"]),
    st.sampled_from([0.04, 0.1, 0.25]),
)
def test_one_cell_agrees_with_the_oracle(weights, p_z, seen, particles, compose, dt):
    config = FilterConfig(
        particles=400, compose=compose, acceleration=0, diffusion=0, maturity={"enabled": False}, surface=False
    )
    filter_ = Hsbof((3, 3), 4.0, config)  # cells so large that nothing leaves its own
    s, d, e, _ = np.array(weights) / sum(weights)
    filter_.static[1, 1], filter_.dynamic[1, 1], filter_.free[1, 1] = s, d, e
    place(filter_, (1, 1), particles)
    p = np.full((3, 3), 0.5)
    p[1, 1] = p_z
    # Step by step up to the resampling, whose rounding the oracle does not know.
    filter_.frame += 1
    filter_._propagate_particles(dt, GridMotion())
    filter_._reorder_particles()
    filter_._propagate_priors(GridMotion())
    filter_._update_measurement(fused(p, seen), dt)
    values, new_masses, born = oracle.cell_update((s, d, e), float(np.float32(p_z)), seen, particles, config, dt=dt)
    ours = (filter_.static[1, 1], filter_.dynamic[1, 1], filter_.free[1, 1], filter_.unknown[1, 1])
    np.testing.assert_allclose(ours, values, atol=3e-6)
    np.testing.assert_allclose(filter_._sorted.mass[: len(particles)], new_masses, atol=3e-6)
    assert filter_._birth[1, 1] == pytest.approx(born, abs=3e-6)


def test_maturity_turns_births_into_static_mass():
    config = FilterConfig(particles=400, surface=False)
    filter_ = Hsbof((5, 5), 0.2, config)
    filter_.free[:] = 0.9
    filter_.maturity[2, 4] = 10.0
    p = np.full((5, 5), 0.05)
    p[2, 2], p[0, 0] = 0.9, 0.9
    filter_.step(fused(p, 0.95), 0.1)
    for cell, mature in (((2, 2), 1.0), ((0, 0), 0.0)):
        values, _, born = oracle.cell_update((0.0, 0.0, 0.9), 0.9, 0.95, [], config, mature)
        assert filter_.static[cell] == pytest.approx(values[0], abs=1e-5)
        assert filter_._birth[cell] == pytest.approx(born, abs=1e-5)
    assert filter_._birth[2, 2] < 0.01 * filter_._birth[0, 0]


def test_maturity_grows_where_static_is_seen_and_decays_where_free():
    filter_ = Hsbof((1, 3), 0.2, FilterConfig(particles=400))
    filter_.static[0] = (0.9, 0.9, 0.9)
    filter_.maturity[0] = (1.0, 1.0, 1.0)
    filter_.step(fused([[0.9, 0.1, 0.5]], [[0.9, 0.9, 0.0]]), 0.1)
    assert filter_.maturity[0] == pytest.approx([1.1, 0.8, 1.0])


def test_velocity_moments_agree_with_the_oracle():
    config = FilterConfig(particles=400, acceleration=0, diffusion=0, moving={"untested": 1.0})
    filter_ = Hsbof((3, 3), 4.0, config)
    rng = np.random.default_rng(2)
    particles = [
        (float(a), float(b), 0.1, int(age)) for (a, b), age in zip(rng.normal(2, 1, (6, 2)), (5, 9, 3, 2, 7, 0))
    ]
    for vx, vy, mass, age in particles:
        place(filter_, (1, 1), [(vx, vy, mass)], age)
    filter_.dynamic[1, 1] = 0.6
    p = np.full((3, 3), 0.5)
    p[1, 1] = 0.9
    filter_.step(fused(p, 0.9), 0.02)
    updated = oracle.cell_update((0, 0.6, 0), 0.9, 0.9, [v[:3] for v in particles], filter_.config, dt=0.02)[1]
    mean, covariance = oracle.moments([(*v[:2], m, v[3]) for v, m in zip(particles, updated)], 3)
    np.testing.assert_allclose(filter_.velocity[1, 1], mean, rtol=1e-4)
    xx, xy, yy = filter_.velocity_covariance[1, 1]
    np.testing.assert_allclose([[xx, xy], [xy, yy]], covariance, rtol=1e-3, atol=1e-4)
    assert np.isnan(filter_.velocity[0, 0]).all()


def test_particles_whose_motion_was_tested_count_more_than_those_inside():
    filter_ = Hsbof((1, 8), 1.0, FilterConfig(particles=400, acceleration=0, diffusion=0))
    # A body over cells 2-4 moves on to 3-5: one particle arrives where it was free, one stays inside.
    filter_.free[0] = (0.9, 0.9, 0, 0, 0, 0.9, 0.9, 0.9)
    filter_.dynamic[0, 2:5] = 0.9
    place(filter_, (0, 4), [(10.0, 0.0, 0.9)])
    place(filter_, (0, 3), [(0.5, 0.0, 0.9)])
    place(filter_, (0, 2), [(10.0, 0.0, 0.9)])
    p = np.array([[0.05, 0.05, 0.05, 0.9, 0.9, 0.9, 0.05, 0.05]])
    filter_.step(fused(p, 0.95), 0.1)
    order = np.argsort(filter_._sorted.cell[:3], kind="stable")
    cells, tested = filter_._sorted.cell[:3][order], filter_._sorted.tested[:3][order]
    assert list(cells) == [3, 3, 5]
    assert sorted(tested[:2]) == [0, 1]
    assert tested[2] == 1
    # In cell 3 the tested particle outweighs its equal that was not, and the cell admits its doubt.
    assert filter_.velocity[0, 3, 0] > 9
    assert filter_.velocity_covariance[0, 3, 0] > 1.5 * filter_.velocity_covariance[0, 5, 0]


def test_particles_follow_their_velocity_and_the_grids_motion():
    config = FilterConfig(particles=400, acceleration=0, diffusion=0)
    filter_ = Hsbof(SHAPE, 0.5, config)
    place(filter_, (6, 4), [(5.0, -2.5, 0.5)])
    angle = 0.3
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    shift = np.array([0.4, 0.2])
    before = np.array([filter_.particles.x[0], filter_.particles.y[0]], float)
    filter_._propagate_particles(0.2, GridMotion(rotation, shift, None))
    expected = rotation.T @ (before + 0.2 * np.array([5.0, -2.5]) - shift)
    got = np.array([filter_.particles.x[0], filter_.particles.y[0]])
    np.testing.assert_allclose(got, expected, atol=1e-5)
    np.testing.assert_allclose([filter_.particles.vx[0], filter_.particles.vy[0]], rotation.T @ [5.0, -2.5], atol=1e-5)


def test_process_noise_grows_with_time_and_not_with_the_number_of_steps():
    spreads = []
    for steps in (1, 8):
        filter_ = Hsbof((4, 4), 100.0, FilterConfig(particles=20_000))
        place(filter_, (2, 2), [(0.0, 0.0, 1e-4)] * 20_000)
        for _ in range(steps):
            filter_.frame += 1
            filter_._propagate_particles(0.4 / steps, GridMotion())
        spreads.append(filter_.particles.vx[:20_000].std())
    expected = filter_.config.acceleration * 0.1 * math.sqrt(0.4 / 0.1)
    assert spreads == pytest.approx([expected, expected], rel=0.03)


def test_reordering_sorts_by_cell_and_keeps_the_order_within():
    filter_ = Hsbof(SHAPE, 0.5, SMALL)
    rng = np.random.default_rng(0)
    cells = rng.integers(-1, SHAPE[0] * SHAPE[1], 300)
    p = filter_.particles
    p.count = 300
    p.cell[:300] = cells
    p.x[:300] = np.arange(300)
    filter_._reorder_particles()
    inside = np.flatnonzero(cells >= 0)
    expected = inside[np.argsort(cells[inside], kind="stable")]
    np.testing.assert_array_equal(filter_._sorted.x[: len(expected)], expected)
    np.testing.assert_array_equal(np.diff(filter_._start), np.bincount(cells[inside], minlength=SHAPE[0] * SHAPE[1]))


def test_resampling_is_proportional_and_normalised_per_cell():
    filter_ = Hsbof(SHAPE, 0.5, FilterConfig(particles=3000))
    for _ in range(4):
        filter_.step(grid_of_boxes(SHAPE, 0.5, [(4, 3, 1, 1), (1.25, 1.25, 0.5, 0.5)]), 0.1)
    p = filter_.particles
    assert p.count == 3000
    per_cell = np.bincount(p.cell[: p.count], weights=p.mass[: p.count], minlength=filter_.dynamic.size)
    np.testing.assert_allclose(per_cell, filter_.dynamic.ravel(), atol=1e-5)
    share = np.bincount(p.cell[: p.count], minlength=filter_.dynamic.size) / p.count
    np.testing.assert_allclose(share, filter_.dynamic.ravel() / filter_.dynamic.sum(), atol=2 / p.count + 0.01)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.lists(st.sampled_from(["box", "random", "nothing", "shift"]), min_size=1, max_size=12)
)
def test_masses_stay_a_distribution_whatever_happens(seed, events):
    rng = np.random.default_rng(seed)
    filter_ = Hsbof(SHAPE, 0.5, SMALL, seed % 7)
    for event in events:
        motion = GridMotion()
        if event == "box":
            observation = grid_of_boxes(SHAPE, 0.5, [(rng.uniform(0, 8), rng.uniform(0, 6), 1.0, 1.0)])
        elif event == "random":
            observation = fused(rng.uniform(0.05, 0.95, SHAPE), 0.0)
            observation.observedness[:] = rng.uniform(0, 1, SHAPE)
        else:
            observation = fused(np.full(SHAPE, 0.5), 0.0)
        if event == "shift":
            cells = tuple(int(v) for v in rng.integers(-20, 20, 2))
            motion = GridMotion(shift=np.array(cells) * 0.5, cells=cells)
        filter_.step(observation, float(rng.choice([0.0, 0.05, 0.1, 0.9])), motion)
        m = masses(filter_)
        assert np.isfinite(m).all()
        assert m.min() >= 0
        assert m.max() <= 1
        np.testing.assert_allclose(m.sum(axis=0), 1, atol=1e-5)
        p = filter_.particles
        assert np.isfinite(p.mass[: p.count]).all()
        per_cell = np.bincount(p.cell[: p.count], weights=p.mass[: p.count], minlength=filter_.dynamic.size)
        np.testing.assert_allclose(per_cell, filter_.dynamic.ravel(), atol=1e-4)


def test_seeing_nothing_at_once_changes_nothing():
    filter_ = Hsbof(SHAPE, 0.5, SMALL.with_changes(survival=1.0, unobserved_survival=1.0, dynamic_to_static=0.0))
    filter_.static[3, 3], filter_.free[5, 5] = 0.7, 0.8
    before = masses(filter_)
    filter_.step(fused(np.full(SHAPE, 0.5), 0.0), 0.0)
    np.testing.assert_allclose(masses(filter_), before, atol=1e-7)


def test_without_dynamics_it_is_a_binary_bayes_grid():
    none = {"static": 0.25, "dynamic": 0.0}
    config = SMALL.with_changes(
        unknown_hit=none, unknown_free=none, empty_to_dynamic=0.0, static_to_dynamic=0.0, empty_to_static=0.0,
        maturity={"enabled": False},
    )  # fmt: skip
    filter_ = Hsbof((1, 1), 0.5, config)
    expected = 0.25
    filter_.static[0, 0], filter_.free[0, 0] = 0.25, 0.75
    for p_z in (0.8, 0.3, 0.7, 0.6, 0.2):
        filter_.step(fused([[p_z]], 1.0), 0.1)
        odds = expected / (1 - expected) * p_z / (1 - p_z)
        expected = odds / (1 + odds)
        assert filter_.static[0, 0] == pytest.approx(expected, abs=1e-5)
    assert filter_.dynamic[0, 0] == 0
    assert filter_.particles.count == 0


def test_rolling_keeps_a_static_world_in_place():
    still_world = {"static": 0.25, "dynamic": 0.0}
    config = SMALL.with_changes(unknown_hit=still_world, empty_to_dynamic=0.0, static_to_dynamic=0.0)
    filter_ = Hsbof((40, 40), 0.5, config)
    for _ in range(15):
        filter_.step(grid_of_boxes((40, 40), 0.5, [(10, 10, 3, 1)]), 0.1)
    still = filter_.static.copy()
    for step in range(1, 6):
        motion = GridMotion(shift=np.array([0.5, -0.5]), cells=(1, -1))
        filter_.step(fused(np.full((40, 40), 0.5), 1e-6), 0.1, motion)
        np.testing.assert_allclose(
            filter_.static[10:30, 10:30], still[10 - step : 30 - step, 10 + step : 30 + step], atol=1e-5
        )


def test_interpolating_follows_a_turn():
    filter_ = Hsbof((60, 60), 0.5, SMALL)
    for _ in range(15):
        filter_.step(grid_of_boxes((60, 60), 0.5, [(20, 15, 2, 2)]), 0.1)
    angle = math.pi / 8
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    middle = np.array([15.0, 15.0])
    motion = GridMotion(rotation, middle - rotation @ middle, None)
    filter_.step(fused(np.full((60, 60), 0.5), 1e-6), 0.1, motion)
    expected = rotation.T @ (np.array([20.0, 15.0]) - middle) + middle
    row, column = np.unravel_index(filter_.static.argmax(), filter_.static.shape)
    assert (column + 0.5) * 0.5 == pytest.approx(expected[0], abs=1.0)
    assert (row + 0.5) * 0.5 == pytest.approx(expected[1], abs=1.0)
    assert filter_.static.sum() == pytest.approx(16, rel=0.15)


def crossing(seed=0, frames=22, particles=6000, speed=(6.0, 0.0), config=None):
    """A car crosses beside a standing wall; returns the filter and the car's last place."""
    shape, resolution = (60, 120), 0.25
    filter_ = Hsbof(shape, resolution, config or FilterConfig(particles=particles), seed)
    x, y = 4.0, 7.0
    for _ in range(frames):
        x, y = x + 0.1 * speed[0], y + 0.1 * speed[1]
        filter_.step(grid_of_boxes(shape, resolution, [(x, y, 4.0, 1.75), (15, 12.0, 20, 0.5)]), 0.1)
    return filter_, (x, y)


def test_a_car_is_dynamic_with_its_speed_and_a_wall_is_static():
    filter_, (x, y) = crossing()
    rows, columns = np.mgrid[0:60, 0:120]
    car = (np.abs((columns + 0.5) * 0.25 - x) < 2) & (np.abs((rows + 0.5) * 0.25 - y) < 0.875)
    wall = rows == 48
    share = filter_.dynamic[car].sum() / (filter_.dynamic + filter_.static)[car].sum()
    assert share > 0.8
    moving = car & filter_.moving
    assert moving.sum() > 20
    velocity = filter_.velocity[moving].mean(axis=0)
    assert np.linalg.norm(velocity - [6.0, 0.0]) < 0.15 * 6
    assert filter_.dynamic[wall].sum() / (filter_.dynamic + filter_.static)[wall].sum() < 0.05
    assert not (filter_.moving & ~car & (np.abs(rows - 27.5) > 8)).any()


def test_a_seed_repeats_and_another_changes_little():
    first, again, other = (crossing(seed)[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.occupancy, again.occupancy)
    np.testing.assert_array_equal(first.particles.x, again.particles.x)
    assert not np.array_equal(first.particles.x, other.particles.x)
    difference = abs(float(first.occupancy.mean()) - float(other.occupancy.mean())) / float(first.occupancy.mean())
    assert difference < 0.005


def test_any_number_of_threads_gives_the_same_result():
    available = numba.config.NUMBA_NUM_THREADS
    if available < 2:
        pytest.skip("one thread only: NUMBA_NUM_THREADS=1")
    results = []
    for threads in (1, available):
        numba.set_num_threads(threads)
        filter_, _ = crossing(frames=8)
        results.append((filter_.occupancy, filter_.particles.x.copy(), filter_.velocity.copy()))
    numba.set_num_threads(available)
    for one, many in zip(*results):
        np.testing.assert_array_equal(one, many)


def test_masses_sum_to_one_after_many_steps():
    filter_ = Hsbof((20, 20), 0.5, FilterConfig(particles=500))
    for step in range(1000):
        x = 5 + 4 * math.sin(step / 7)
        filter_.step(grid_of_boxes((20, 20), 0.5, [(x, 5, 1, 1), (8, 8, 1, 1)]), 0.1)
    np.testing.assert_allclose(masses(filter_).sum(axis=0), 1, atol=1e-5)


def test_every_step_is_timed_in_the_papers_order():
    filter_, _ = crossing(frames=2)
    assert list(filter_.timings) == [
        "propagate_particles", "reorder_particles", "propagate_priors", "update_measurement",
        "estimate_velocities", "give_birth", "resample", "normalise",
    ]  # fmt: skip
