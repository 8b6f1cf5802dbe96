# SPDX-License-Identifier: Apache-2.0
"""Rules of the filter that a paper does not have: what is mature, and how steadily slow things move."""

import numpy as np
import pytest

from tests.occupancy import oracle
from tests.occupancy.engines import ENGINES, hsbof
from tests.occupancy.models import NO_CHANCE, NO_SURFACE, filter_model
from tests.occupancy.scenes import crowd, grid_of_boxes, nothing_seen, place, seen_as


@pytest.fixture(scope="module", params=ENGINES)
def Filter(request):
    return hsbof(request.param)


def test_maturity_turns_births_into_static_mass(Filter):
    model = filter_model(**NO_SURFACE)
    filter_ = Filter((5, 5), 0.2, model)
    filter_.masses.free[:] = 0.9
    filter_.masses.maturity[2, 4] = 10.0
    p = np.full((5, 5), 0.05)
    p[2, 2], p[0, 0] = 0.9, 0.9
    filter_.step(seen_as(p, 0.95), 0.1)
    for cell, mature in (((2, 2), 1.0), ((0, 0), 0.0)):
        values, _, _ = oracle.cell_update((0.0, 0.0, 0.9), 0.9, 0.95, [], model, mature)
        assert filter_.masses.static[cell] == pytest.approx(values[0], abs=1e-5)
    _, _, born = oracle.cell_update((0.0, 0.0, 0.9), 0.9, 0.95, [], model)
    assert filter_.masses.dynamic[0, 0] == pytest.approx(born, abs=1e-5)
    assert filter_.masses.dynamic[2, 2] < 0.01 * born


def test_maturity_grows_where_static_is_seen_and_decays_where_free(Filter):
    """The time in which a cell was known to be free does the opposite."""
    filter_ = Filter((1, 3), 0.2, filter_model())
    filter_.masses.known_free[0] = (1.0, 1.0, 1.0)
    filter_.masses.static[0] = (0.9, 0.9, 0.9)
    filter_.masses.maturity[0] = (1.0, 1.0, 1.0)
    filter_.step(seen_as([[0.9, 0.1, 0.5]], [[0.9, 0.9, 0.0]]), 0.1)
    assert filter_.masses.maturity[0] == pytest.approx([1.1, 0.8, 1.0])
    assert filter_.masses.known_free[0] == pytest.approx([0.7, 1.1, 1.0])


def test_beside_what_has_stood_for_long_a_hit_is_static(Filter):
    """A new return 0.6 m beside a wall, and one 0.8 m beside it, which is newborn."""
    model = filter_model(**NO_SURFACE)
    for column, mature in ((3, 1.0), (2, 0.0)):
        filter_ = Filter((7, 7), 0.2, model)
        filter_.masses.free[:] = 0.9
        filter_.masses.maturity[:, 6] = 10.0
        p = np.full((7, 7), 0.05)
        p[3, column] = 0.9
        filter_.step(seen_as(p, 0.95), 0.1)
        values, _, _ = oracle.cell_update((0.0, 0.0, 0.9), 0.9, 0.95, [], model, mature)
        assert filter_.masses.static[3, column] == pytest.approx(values[0], abs=1e-5)
        assert filter_.masses.dynamic[3, column] == pytest.approx(values[1], abs=1e-5)


@pytest.mark.parametrize(("share", "tested"), [(0.0, 0.0), (0.3, 0.0), (0.3, 0.4), (0.3, 1.0)])
def test_what_was_not_tested_shares_a_cell_where_nobody_looked_with_what_may_stand_there(Filter, share, tested):
    """Particles stay in a cell that is hit for the first time, and in one that is known to be empty.

    Half of them were tested, the others never; a test that is half forgotten still counts."""
    model = filter_model(**NO_SURFACE, **NO_CHANCE, claimed=share)
    filter_, particles = Filter((3, 9), 2.0, model), [(5.0, 0.0, 0.25), (5.0, 0.0, 0.25)]
    filter_.masses.free[1, 6] = 0.9
    for column in (2, 6):
        place(filter_, (1, column), particles)
        filter_.masses.dynamic[1, column] = 0.0
    memory = np.exp(-0.1 / model.test_memory)
    filter_.particles.arrays.tested[:4] = np.array([tested, 0.0, tested, 0.0])
    p = np.full((3, 9), 0.05)
    p[1, 2] = p[1, 6] = 0.9
    filter_.step(seen_as(p, 0.95), 0.1)
    counted = min(2 * memory * tested, 1.0) / 2
    for column, free in ((2, 0.0), (6, 0.9)):
        values, _, _ = oracle.cell_update((0.0, 0.0, free), 0.9, 0.95, particles, model, tested=counted)
        assert filter_.masses.static[1, column] == pytest.approx(values[0], abs=1e-5)
        assert filter_.masses.dynamic[1, column] == pytest.approx(values[1], abs=1e-5)


@pytest.mark.parametrize(("moved", "rate", "dt"), [(3, 0.4, 0.1), (3, 0.4, 0.04), (2, 0.4, 0.1), (3, 0.0, 0.1)])
def test_what_is_hit_beside_cells_that_moved_is_born_moving(Filter, moved, rate, dt):
    """So many cells two columns aside were dynamic: of one that was free, one nobody saw, and one that is mature.

    What moved has left: no particle arrives anywhere."""
    model = filter_model(**NO_SURFACE, beside=rate)
    filter_ = Filter((24, 5), 0.2, model)
    p = np.full((24, 5), 0.05)
    for row, free, age in ((3, 0.9, 0.0), (11, 0.0, 0.0), (19, 0.9, 10.0)):
        filter_.masses.free[row, 2] = free
        filter_.masses.maturity[row, 2] = age
        filter_.masses.dynamic[row - 1 : row - 1 + moved, 4] = 0.8
        p[row, 2] = 0.9
    filter_.step(seen_as(p, 0.95), dt)
    for row, free, mature in ((3, 0.9, 0.0), (11, 0.0, 0.0), (19, 0.9, 1.0)):
        beside = moved >= 3 and rate > 0
        values, _, _ = oracle.cell_update((0.0, 0.0, free), 0.9, 0.95, [], model, mature, dt, beside=beside)
        assert filter_.masses.static[row, 2] == pytest.approx(values[0], abs=1e-5)
        assert filter_.masses.dynamic[row, 2] == pytest.approx(values[1], abs=1e-5)


@pytest.mark.parametrize("upright", [False, True])
@pytest.mark.parametrize(
    ("others", "alike", "moves"), [(0, 0.4, True), (3, 0.4, True), (9, 0.4, False), (9, 0.0, True)]
)
def test_of_the_cells_hit_around_one_enough_must_move_with_it(Filter, others, alike, moves, upright):
    """Three cells move alike, beside so many that are hit and stand: of a bank a few cells may seem to move."""
    moving = {"alike": alike, "untested": 1.0}
    model = filter_model(**NO_SURFACE, **NO_CHANCE, moving=moving)
    filter_ = Filter((9, 7) if upright else (7, 9), 2.0, model)
    p = np.full((7, 9), 0.05)
    p[2, 2:7] = np.where(np.arange(5) < others, 0.9, 0.05)
    p[4, 2:6] = np.where(np.arange(5, 9) < others, 0.9, 0.05)
    p[3, 3:6] = 0.9
    three = [(column, 3) if upright else (3, column) for column in (3, 4, 5)]
    for cell in three:
        place(filter_, cell, [(2.0, 0.5, 0.4), (2.1, 0.5, 0.4)])
        filter_.masses.dynamic[cell] = 0.8
    filter_.step(seen_as(np.ascontiguousarray(p.T) if upright else p, 0.95), 0.1)
    assert [bool(filter_.moving[cell]) for cell in three] == [moves] * 3
    assert filter_.moving.any() == moves


def test_what_is_slow_changes_its_velocity_less(Filter):
    model = filter_model(20_000, dynamic_to_static=0.0)
    for speed, expected in ((0.0, 2.0), (2.0, 4.0), (20.0, 6.0)):
        filter_ = Filter((4, 4), 100.0, model)
        place(filter_, (2, 2), [(speed, 0.0, 1e-5)] * model.particles)
        filter_.step(nothing_seen((4, 4)), 0.1)
        assert crowd(filter_).vy.std() == pytest.approx(0.1 * expected, rel=0.03)


@pytest.mark.parametrize(("size", "whole"), [(1.6, True), (0.6, False)], ids=["large", "small"])
def test_a_registered_component_moves_with_its_velocity(Filter, size, whole):
    """All of it if it has 40 cells; of a smaller one only cells whose particles agree, of which there are four."""
    for rule, registered in (({}, True), ({"agreement": -1.0, "trusted_cells": 10_000}, False)):
        filter_ = Filter((30, 60), 0.2, filter_model(4, moving=rule))
        for k in range(3):  # the first scan is 0.2 s old then
            filter_.step(grid_of_boxes((30, 60), 0.2, [(3.0 + 0.4 * k, 3.0, size, size)]), 0.1)
        velocity = filter_.velocities.mean[filter_.moving]
        if registered and whole:
            assert len(velocity) >= 40
            np.testing.assert_allclose(velocity, np.tile([4.0, 0.0], (len(velocity), 1)), atol=0.3)
            assert np.ptp(velocity, axis=0).max() == 0
        else:
            assert len(velocity) <= 4


def test_a_cell_that_moves_as_registered_needs_no_neighbours(Filter):
    """With a share that no neighbours reach, only cells that took the velocity of their component move."""
    for agreement, moves in ((0.25, True), (-1.0, False)):
        filter_ = Filter((30, 60), 0.2, filter_model(4000, moving={"alike": 2.0, "agreement": agreement}))
        for k in range(4):
            filter_.step(grid_of_boxes((30, 60), 0.2, [(3.0 + 0.4 * k, 3.0, 0.6, 0.6)]), 0.1)
        assert filter_.velocities.moving.any()
        assert filter_.moving.any() == moves
