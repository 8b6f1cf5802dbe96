# SPDX-License-Identifier: Apache-2.0
"""The filter's steps against float64 oracles, and the invariants that hold whatever is observed."""

import math

import numba
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.hsbof.filter import Hsbof
from roadbed.occupancy.hsbof.particles_cpu import reorder
from roadbed.occupancy.model import HIT
from roadbed.occupancy.registration.register import Registration
from tests.occupancy import oracle
from tests.occupancy.engines import ENGINES, hsbof
from tests.occupancy.models import NO_CHANCE, NO_MATURITY, NO_SURFACE, filter_model
from tests.occupancy.scenes import copies_of, crowd, grid_of_boxes, nothing_seen, place, seen_as

SHAPE = (12, 16)
SMALL = filter_model()
unit = st.floats(0, 1)


@pytest.fixture(scope="module", params=ENGINES)
def Filter(request):
    return hsbof(request.param)


def unknown(filter_):
    m = filter_.masses
    return np.maximum(1 - m.static - m.dynamic - m.free, 0, dtype=np.float32)


def masses(filter_):
    static, dynamic, free = filter_.masses[:3]
    return np.stack([static, dynamic, free, unknown(filter_)]).astype(np.float64)


def occupied(filter_):
    return filter_.masses.static + filter_.masses.dynamic + np.float32(0.5) * unknown(filter_)


@settings(max_examples=60, deadline=None)
@example((0.625, 0.0, 2**-24, 0.0), 0.5, 0.3, [], 0.04, {})
@given(
    st.tuples(unit, unit, unit, unit).filter(lambda m: sum(m) > 0.1),
    st.floats(0.05, 0.95),
    st.sampled_from([0.0, 0.3, 0.95]),
    st.lists(st.tuples(st.floats(-3, 3, width=32), st.floats(-3, 3, width=32), st.floats(0.01, 0.6)), max_size=4),
    st.sampled_from([0.04, 0.1, 0.25]),
    st.fixed_dictionaries(
        {}, optional={n: st.booleans() for n in ("exclusive", "hits_only", "keep_unknown", "vacated", "surface_births")}
    ),
)
def test_one_cell_agrees_with_the_oracle(Filter, weights, p_z, seen, particles, dt, switches):
    count = 4000
    config = filter_model(count, **NO_MATURITY, **NO_SURFACE, **NO_CHANCE, **switches)
    filter_ = Filter((3, 3), 4.0, config)  # cells so large that nothing leaves its own
    # As the filter keeps them: what is left unknown is their difference from 1, and may be no more than the rounding.
    s, d, e = map(float, (np.array(weights[:3]) / sum(weights)).astype(np.float32))
    for layer, mass in zip(filter_.masses, (s, d, e)):
        layer[1, 1] = mass
    place(filter_, (1, 1), particles)
    p = np.full((3, 3), 0.5)
    p[1, 1] = p_z
    filter_.step(seen_as(p, seen), dt)
    p_z = float(np.float32(p_z))
    mature = float(config.surface_births and p_z > HIT)  # nothing seen has a surface
    values, new_masses, born = oracle.cell_update((s, d, e), p_z, seen, particles, config, mature, dt)
    np.testing.assert_allclose(masses(filter_)[:, 1, 1], values, atol=3e-6)
    # Every mass is drawn as often as it asks for, give or take one.
    drawn, total = crowd(filter_), sum(new_masses) + born
    if total > 1e-6:
        assert len(drawn.x) == count
        assert np.count_nonzero(~copies_of(drawn, particles)) == pytest.approx(count * born / total, abs=1.1)
        for velocity in {(vx, vy) for vx, vy, _ in particles}:
            alike = [m for (vx, vy, _), m in zip(particles, new_masses) if (vx, vy) == velocity]
            assert np.count_nonzero(copies_of(drawn, [velocity])) == pytest.approx(
                count * sum(alike) / total, abs=1.1 * len(alike)
            )


@pytest.mark.parametrize(("p_z", "comes"), [(0.05, []), (0.9, []), (0.9, [(10.0, 0.0, 0.2)])])
def test_a_cell_that_is_hit_again_while_little_comes_was_not_left(Filter, p_z, comes):
    """The end of a fence, where a shadow gives it free, is no mover that went on; a cell that is seen free was left."""
    config = filter_model(**NO_CHANCE)
    filter_ = Filter((3, 3), 1.0, config)
    place(filter_, (1, 1), [(10.0, 0.0, 0.9)])
    place(filter_, (1, 0), comes)
    filter_.masses.dynamic[1, 1] = 0.9
    filter_.step(seen_as(np.where(np.eye(9)[4].reshape(3, 3) > 0, p_z, 0.5), 0.95), 0.1)
    mature = float(config.surface_births and p_z > HIT)  # nothing seen has a surface
    static, dynamic, free, unknown = values = oracle.cell_update((0, 0.9, 0), p_z, 0.95, comes, config, mature)[0]
    np.testing.assert_allclose(masses(filter_)[:, 1, 1], values, atol=3e-6)
    assert free > 0.9 if p_z < HIT else static > dynamic and unknown > 0.02


@pytest.mark.parametrize(("count", "one_particle"), [(6, 0.0), (6, 1.0), (1, 1.0)])
def test_velocity_moments_agree_with_the_oracle(Filter, count, one_particle):
    config = filter_model(moving={"untested": 1.0, "one_particle": one_particle}, **NO_CHANCE)
    filter_ = Filter((3, 3), 4.0, config)
    particles = [(float(a), float(b), 0.1) for a, b in np.random.default_rng(2).normal(2, 1, (count, 2))]
    place(filter_, (1, 1), particles)
    filter_.masses.dynamic[1, 1] = 0.1 * count
    p = np.full((3, 3), 0.5)
    p[1, 1] = 0.9
    filter_.step(seen_as(p, 0.9), 0.02)
    updated = oracle.cell_update((0, 0.1 * count, 0), 0.9, 0.9, particles, config, dt=0.02)[1]
    mean, covariance = oracle.moments([(*v[:2], m) for v, m in zip(particles, updated)], one_particle)
    np.testing.assert_allclose(filter_.velocities.mean[1, 1], mean, rtol=1e-4)
    xx, xy, yy = filter_.velocities.covariance[1, 1]
    np.testing.assert_allclose([[xx, xy], [xy, yy]], covariance, rtol=1e-3, atol=1e-4)
    assert np.isnan(filter_.velocities.mean[0, 0]).all()


@pytest.mark.parametrize(("test_free", "seconds", "arrives"), [(0.1, 0.5, 1), (0.1, 0.05, 0), (0.0, 0.0, 1)])
def test_particles_whose_motion_was_tested_count_more_than_those_inside(Filter, test_free, seconds, arrives):
    """Onto what was mostly free, or where that is asked, onto what was seen to be free for so many seconds."""
    filter_ = Filter((1, 8), 1.0, filter_model(test_free=test_free, **NO_CHANCE))
    # A body over cells 2-4 moves on to 3-5: one particle arrives where it was free, one stays inside.
    filter_.masses.free[0] = (0.9, 0.9, 0, 0, 0, 0.9, 0.9, 0.9)
    filter_.masses.known_free[0, 5] = seconds
    filter_.masses.dynamic[0, 2:5] = 0.9
    place(filter_, (0, 4), [(10.0, 0.0, 0.9)])
    place(filter_, (0, 3), [(0.5, 0.0, 0.9)])
    place(filter_, (0, 2), [(10.0, 0.0, 0.9)])
    p = np.array([[0.05, 0.05, 0.05, 0.9, 0.9, 0.9, 0.05, 0.05]])
    filter_.step(seen_as(p, 0.95), 0.1)
    old = crowd(filter_)
    kept = copies_of(old, [(10.0, 0.0), (0.5, 0.0)])
    old = type(old)(*(values[kept] for values in old))
    for cell, speed, tested in ((3, 0.5, 0), (3, 10, 1), (5, 10, arrives)):
        chosen = (old.cell == cell) & (np.abs(old.vx - speed) < 0.1)
        assert chosen.any()
        assert (old.tested[chosen] == tested).all()
    # In cell 3 the tested particle outweighs its equal that was not, and the cell admits its doubt.
    assert filter_.velocities.mean[0, 3, 0] > 9
    if arrives:
        assert filter_.velocities.covariance[0, 3, 0] > 1.5 * filter_.velocities.covariance[0, 5, 0]


def test_particles_follow_their_velocity_and_the_grids_motion(Filter):
    filter_ = Filter(SHAPE, 0.5, filter_model(**NO_CHANCE))
    place(filter_, (6, 4), [(5.0, -2.5, 0.5)])
    before = np.array([2.25, 3.25])
    angle = 0.3
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    shift = np.array([0.4, 0.2])
    filter_.step(nothing_seen(SHAPE), 0.2, GridMotion(rotation, shift, None))
    there = crowd(filter_)
    expected = rotation.T @ (before + 0.2 * np.array([5.0, -2.5]) - shift)
    for found, wanted in ((there.x, expected[0]), (there.y, expected[1])):
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    velocity = rotation.T @ [5.0, -2.5]
    np.testing.assert_allclose(there.vx, velocity[0], atol=1e-5)
    np.testing.assert_allclose(there.vy, velocity[1], atol=1e-5)


def test_process_noise_grows_with_time_and_not_with_the_number_of_steps(Filter):
    config = filter_model(20_000, dynamic_to_static=0.0, acceleration_at_rest=6.0)
    spreads = []
    for steps in (1, 8):
        filter_ = Filter((4, 4), 100.0, config)
        place(filter_, (2, 2), [(0.0, 0.0, 1e-5)] * config.particles)
        for _ in range(steps):
            filter_.step(nothing_seen((4, 4)), 0.4 / steps)
        spreads.append(crowd(filter_).vx.std())
    expected = config.acceleration * 0.1 * math.sqrt(0.4 / 0.1)
    assert spreads == pytest.approx([expected, expected], rel=0.03)


def test_reordering_sorts_by_cell_and_keeps_the_order_within():
    cells = np.random.default_rng(0).integers(-1, 192, 300).astype(np.int32)
    start, order = np.zeros(193, np.int32), np.zeros(300, np.int32)
    count = reorder(300, cells, start, order)
    inside = np.flatnonzero(cells >= 0)
    np.testing.assert_array_equal(order[:count], inside[np.argsort(cells[inside], kind="stable")])
    np.testing.assert_array_equal(np.diff(start), np.bincount(cells[inside], minlength=192))


def test_resampling_is_proportional_and_normalised_per_cell(Filter):
    filter_ = Filter(SHAPE, 0.5, filter_model(3000))
    for _ in range(4):
        filter_.step(grid_of_boxes(SHAPE, 0.5, [(4, 3, 1, 1), (1.25, 1.25, 0.5, 0.5)]), 0.1)
    p, dynamic = crowd(filter_), filter_.masses.dynamic.ravel()
    assert len(p.x) == 3000
    assert (np.diff(p.cell) >= 0).all()
    per_cell = np.bincount(p.cell, weights=p.mass, minlength=dynamic.size)
    np.testing.assert_allclose(per_cell, dynamic, atol=1e-5)
    share = np.bincount(p.cell, minlength=dynamic.size) / 3000
    np.testing.assert_allclose(share, dynamic / dynamic.sum(), atol=2 / 3000 + 0.01)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.lists(st.sampled_from(["box", "random", "nothing", "shift"]), min_size=1, max_size=12)
)
def test_masses_stay_a_distribution_whatever_happens(Filter, seed, events):
    rng = np.random.default_rng(seed)
    filter_ = Filter(SHAPE, 0.5, SMALL, seed % 7)
    for event in events:
        motion = GridMotion()
        if event == "box":
            observation = grid_of_boxes(SHAPE, 0.5, [(rng.uniform(0, 8), rng.uniform(0, 6), 1.0, 1.0)])
        elif event == "random":
            observation = seen_as(rng.uniform(0.05, 0.95, SHAPE), 0.0)
            observation.observedness[:] = rng.uniform(0, 1, SHAPE)
        else:
            observation = nothing_seen(SHAPE)
        if event == "shift":
            motion = GridMotion.rolled(*(int(v) for v in rng.integers(-20, 20, 2)), 0.5)
        filter_.step(observation, float(rng.choice([0.0, 0.05, 0.1, 0.9])), motion)
        m = masses(filter_)
        assert np.isfinite(m).all()
        assert m.min() >= 0
        assert m.max() <= 1
        np.testing.assert_allclose(m.sum(axis=0), 1, atol=1e-5)
        p = crowd(filter_)
        assert np.isfinite(p.mass).all()
        per_cell = np.bincount(p.cell, weights=p.mass, minlength=m[1].size)
        np.testing.assert_allclose(per_cell, m[1].ravel(), atol=1e-4)


def test_a_particle_far_from_every_return_keeps_its_cells_mass(Filter):
    """The only particle of a cell lies far from its only return, and was never tested."""
    filter_ = Filter((3, 3), 4.0, filter_model(**NO_CHANCE))
    place(filter_, (1, 1), [(0.25, 0.0, 0.5)])
    filter_.particles.arrays.x[0] = filter_.particles.arrays.y[0] = 7.9
    filter_.masses.dynamic[1, 1] = 0.5
    p = np.full((3, 3), 0.5)
    p[1, 1] = 0.9
    filter_.step(seen_as(p, 0.9, surface=1), 0.1)
    assert filter_.masses.dynamic[1, 1] > 0.4
    assert np.isfinite(crowd(filter_).mass).all()
    np.testing.assert_allclose(filter_.velocities.mean[1, 1], [0.25, 0.0], atol=1e-6)


def test_seeing_nothing_at_once_changes_nothing(Filter):
    filter_ = Filter(SHAPE, 0.5, filter_model(survival=1.0, unobserved_survival=1.0, dynamic_to_static=0.0))
    filter_.masses.static[3, 3], filter_.masses.free[5, 5] = 0.7, 0.8
    before = masses(filter_)
    filter_.step(nothing_seen(SHAPE), 0.0)
    np.testing.assert_allclose(masses(filter_), before, atol=1e-7)


def test_without_dynamics_it_is_a_binary_bayes_grid(Filter):
    config = filter_model(
        hit_static=0.25, hit_dynamic=0.0, free_static=0.25, free_dynamic=0.0,
        empty_to_dynamic=0.0, static_to_dynamic=0.0, empty_to_static=0.0, **NO_MATURITY,
    )  # fmt: skip
    filter_ = Filter((1, 1), 0.5, config)
    expected = 0.25
    filter_.masses.static[0, 0], filter_.masses.free[0, 0] = 0.25, 0.75
    for p_z in (0.8, 0.3, 0.7, 0.6, 0.2):
        filter_.step(seen_as([[p_z]], 1.0), 0.1)
        odds = expected / (1 - expected) * p_z / (1 - p_z)
        expected = odds / (1 + odds)
        assert filter_.masses.static[0, 0] == pytest.approx(expected, abs=1e-5)
    assert filter_.masses.dynamic[0, 0] == 0
    assert filter_.particles.count == 0


def test_rolling_keeps_a_static_world_in_place(Filter):
    config = filter_model(hit_static=0.25, hit_dynamic=0.0, empty_to_dynamic=0.0, static_to_dynamic=0.0)
    filter_ = Filter((40, 40), 0.5, config)
    for _ in range(15):
        filter_.step(grid_of_boxes((40, 40), 0.5, [(10, 10, 3, 1)]), 0.1)
    still = filter_.masses.static.copy()
    for step in range(1, 6):
        filter_.step(seen_as(np.full((40, 40), 0.5), 1e-6), 0.1, GridMotion.rolled(1, -1, 0.5))
        np.testing.assert_allclose(
            filter_.masses.static[10:30, 10:30], still[10 - step : 30 - step, 10 + step : 30 + step], atol=1e-5
        )


def test_interpolating_follows_a_turn(Filter):
    filter_ = Filter((60, 60), 0.5, SMALL)
    for _ in range(15):
        filter_.step(grid_of_boxes((60, 60), 0.5, [(20, 15, 2, 2)]), 0.1)
    angle = math.pi / 8
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    middle = np.array([15.0, 15.0])
    motion = GridMotion(rotation, middle - rotation @ middle, None)
    filter_.step(seen_as(np.full((60, 60), 0.5), 1e-6), 0.1, motion)
    static = filter_.masses.static
    expected = rotation.T @ (np.array([20.0, 15.0]) - middle) + middle
    row, column = np.unravel_index(static.argmax(), static.shape)
    assert (column + 0.5) * 0.5 == pytest.approx(expected[0], abs=1.0)
    assert (row + 0.5) * 0.5 == pytest.approx(expected[1], abs=1.0)
    assert static.sum() == pytest.approx(16, rel=0.15)


def crossing(Filter, seed=0, frames=22):
    """A car crosses beside a standing wall; returns the filter and the car's last place."""
    shape, spacing = (60, 120), 0.25
    filter_ = Filter(shape, spacing, filter_model(6000), seed)
    x, y = 4.0, 7.0
    for _ in range(frames):
        x += 0.6
        filter_.step(grid_of_boxes(shape, spacing, [(x, y, 4.0, 1.75), (15, 12.0, 20, 0.5)]), 0.1)
    return filter_, (x, y)


def test_a_car_is_dynamic_with_its_speed_and_a_wall_is_static(Filter):
    filter_, (x, y) = crossing(Filter)
    rows, columns = np.mgrid[0:60, 0:120]
    car = (np.abs((columns + 0.5) * 0.25 - x) < 2) & (np.abs((rows + 0.5) * 0.25 - y) < 0.875)
    wall = rows == 48
    static, dynamic = filter_.masses[:2]
    assert dynamic[car].sum() / (dynamic + static)[car].sum() > 0.8
    moving = car & filter_.moving
    assert moving.sum() > 20
    velocity = filter_.velocities.mean[moving].mean(axis=0)
    assert np.linalg.norm(velocity - [6.0, 0.0]) < 0.15 * 6
    assert dynamic[wall].sum() / (dynamic + static)[wall].sum() < 0.05
    assert not (filter_.moving & ~car & (np.abs(rows - 27.5) > 8)).any()


def test_a_seed_repeats_and_another_changes_little(Filter):
    first, again, other = (crossing(Filter, seed)[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(occupied(first), occupied(again))
    np.testing.assert_array_equal(crowd(first).x, crowd(again).x)
    assert not np.array_equal(crowd(first).x, crowd(other).x)
    # The paper's measure between its two implementations: the mean relative error of the cells, below 2 %.
    assert np.mean(np.abs(occupied(other) - occupied(first)) / occupied(first)) < 0.02


def test_forgetting_begins_again_with_the_same_numbers(Filter):
    filter_, _ = crossing(Filter, frames=5)
    shape = filter_.moving.shape
    fresh = Filter(shape, 0.25, filter_model(6000))
    filter_.forget()
    assert (unknown(filter_) == 1).all()
    for each in (filter_, fresh):
        for k in range(5):
            each.step(grid_of_boxes(shape, 0.25, [(4 + 0.6 * k, 7, 4.0, 1.75)]), 0.1)
    np.testing.assert_array_equal(masses(filter_), masses(fresh))
    np.testing.assert_array_equal(crowd(filter_).vx, crowd(fresh).vx)


def test_any_number_of_threads_gives_the_same_result():
    available = numba.config.NUMBA_NUM_THREADS
    if available < 2:
        pytest.skip("one thread only: NUMBA_NUM_THREADS=1")
    results = []
    for threads in (1, available):
        numba.set_num_threads(threads)
        filter_, _ = crossing(Hsbof, frames=8)
        results.append((occupied(filter_), crowd(filter_).x, filter_.velocities.mean))
    numba.set_num_threads(available)
    for one, many in zip(*results):
        np.testing.assert_array_equal(one, many)


def test_masses_sum_to_one_after_many_steps(Filter):
    filter_ = Filter((20, 20), 0.5, filter_model(500))
    for step in range(1000):
        x = 5 + 4 * math.sin(step / 7)
        filter_.step(grid_of_boxes((20, 20), 0.5, [(x, 5, 1, 1), (8, 8, 1, 1)]), 0.1)
    np.testing.assert_allclose(masses(filter_).sum(axis=0), 1, atol=1e-5)


def test_the_memory_that_is_announced_is_enough_for_the_arrays_and_hardly_more():
    cells, particles = 60 * 50, 20_000
    filter_ = Hsbof((60, 50), 0.2, filter_model(particles))
    own = {name: value for name, value in vars(filter_).items() if name != "_registration"}
    announced = Hsbof.bytes_needed(cells, particles) - Registration.bytes_needed(cells)
    held = sum(array.nbytes for array in arrays_in(own, set()))
    assert 0.7 * announced < held <= announced


def arrays_in(value, known):
    """Every array that a value holds, once; a view counts as what it looks at."""
    if id(value) in known:
        return
    known.add(id(value))
    if isinstance(value, np.ndarray):
        if value.base is None:
            yield value
        else:
            yield from arrays_in(value.base, known)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from arrays_in(inner, known)
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from arrays_in(inner, known)
    elif hasattr(value, "__dict__") and type(value).__module__.startswith("roadbed.occupancy"):
        yield from arrays_in(vars(value), known)


def test_every_step_is_timed_in_the_papers_order():
    filter_, _ = crossing(Hsbof, frames=2)
    assert list(filter_.timings) == [
        "propagate_particles", "reorder_particles", "propagate_priors", "register_hits", "update_measurement",
        "estimate_velocities", "give_birth", "resample", "normalise",
    ]  # fmt: skip
