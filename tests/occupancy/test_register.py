# SPDX-License-Identifier: Apache-2.0
"""Registration of connected hits: kernels against slow oracles, and what it must not take for a motion."""

from __future__ import annotations

import math

import numpy as np
import pytest

from roadbed.occupancy.arrays import Cells, Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.hsbof.filter import Hsbof
from roadbed.occupancy.registration.register import Registration, scan_components
from tests.occupancy import oracle
from tests.occupancy.models import filter_model, registration_model

SHAPE, SPACING = (60, 80), 0.2
SUBCELL = SPACING / 4


def seen(points, shape=SHAPE, spacing=SPACING, hidden=None):
    """An observation with returns at places (N, 2) in metres; the rest is free, except where it is hidden."""
    surface = np.zeros(shape, np.uint16)
    fine = np.floor(np.asarray(points) / (spacing / 4)).astype(int)
    for x, y in fine:
        if 0 <= y < 4 * shape[0] and 0 <= x < 4 * shape[1]:
            surface[y // 4, x // 4] |= 1 << (4 * (y % 4) + x % 4)
    probability = np.where(surface > 0, 0.9, 0.1).astype(np.float32)
    observedness = np.full(shape, 0.9, np.float32)
    if hidden is not None:
        probability[hidden & (surface == 0)] = 0.5
        observedness[hidden & (surface == 0)] = 0
    return Observation(probability, observedness, surface)


def rectangle(x, y, length, width, sides="nesw", step=0.05):
    """Returns along the sides of a box with its lower left corner at (x, y)."""
    along, across = np.arange(0, length, step), np.arange(0, width, step)
    lines = {
        "s": (along, 0 * along), "n": (along, 0 * along + width),
        "w": (0 * across, across), "e": (0 * across + length, across),
    }  # fmt: skip
    return np.vstack([np.column_stack(lines[side]) for side in sides]) + np.array([x, y])


def velocity_at(found, x, y):
    """What was registered in the cell at a place."""
    component = found.label[int(y / SPACING), int(x / SPACING)]
    return None if component < 0 or np.isnan(found.velocity[component, 0]) else found.velocity[component]


def registered(bitmaps, config=None, dt=0.1, motion=None, maturity=None):
    registration = Registration(Cells(*SHAPE, SPACING), config or registration_model())
    for bitmap in bitmaps:
        found = registration(bitmap, dt, motion or GridMotion(), maturity)
    return found


def test_components_are_those_of_a_flood_fill():
    rng = np.random.default_rng(1)
    for share in (0.05, 0.3, 0.45, 1.0):
        surface = (rng.random((23, 31)) < share).astype(np.uint16) * rng.integers(1, 2**16, (23, 31), np.uint16)
        hits = scan_components(Observation(np.full((23, 31), 0.9, np.float32), np.ones((23, 31), np.float32), surface))
        expected = oracle.components(surface > 0)
        np.testing.assert_array_equal(hits.label, expected)
        for k in range(len(hits.start) - 1):
            cells = hits.cells[hits.start[k] : hits.start[k + 1]]
            np.testing.assert_array_equal(cells, np.flatnonzero(expected.ravel() == k))


@pytest.mark.parametrize("roll", [0, 3])
def test_the_background_is_what_has_long_been_static_in_large_components(roll):
    """Random hits of which some components are too long, some have too many cells; on a grid that rolled by columns."""
    rng, large, kept = np.random.default_rng(roll), 0, 0
    config = registration_model(extent=2.0, most_cells=25)
    for share in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3):
        cells = rng.random(SHAPE) < share
        maturity = np.where(rng.random(SHAPE) < 0.1, rng.uniform(0, 2, SHAPE), 0).astype(np.float32)
        scan = Observation(np.full(SHAPE, 0.9, np.float32), np.ones(SHAPE, np.float32), cells.astype(np.uint16))
        found = registered([scan], config, motion=GridMotion.rolled(roll, 0, SPACING), maturity=maturity)
        here = np.zeros(SHAPE, np.float32)
        here[:, : SHAPE[1] - roll] = maturity[:, roll:]
        background = oracle.background(cells, here, config, SPACING)
        expected = oracle.components(cells & ~background)
        expected[background] = expected.max() + 1
        np.testing.assert_array_equal(found.label, expected)
        assert len(found.velocity) == len(found.cells) == expected[~background].max() + 2
        assert found.cells[-1] == 0
        large, kept = large + np.count_nonzero(background), kept + np.count_nonzero(cells & ~background)
    assert min(large, kept) > 200


def beside_a_wall(length=10.0, speed=1.5):
    """Five scans of a person that walks so close to a wall that both are one component, and the wall's static life."""
    wall = rectangle(1, 4.0, length, 0.1, "s")
    scans = [seen(np.vstack([rectangle(4 + 0.1 * k * speed, 4.25, 0.4, 0.4), wall])) for k in range(5)]
    return scans, 2.0 * (seen(wall).surface > 0).astype(np.float32)


@pytest.mark.parametrize(
    ("length", "changes", "found"),
    [
        (10.0, {}, True),
        (10.0, {"background_time": 2.5}, False),
        (10.0, {"background_time": math.inf}, False),
        (6.0, {}, False),
    ],
)
def test_a_person_beside_a_wall_is_found(length, changes, found):
    """Once the wall has stood for a second. What is short may be a parked car, which is registered as a whole."""
    scans, maturity = beside_a_wall(length)
    now = registered(scans, registration_model(fast_span=0, **changes), maturity=maturity)
    expected = pytest.approx([1.5, 0.0], abs=SUBCELL / 0.2)
    assert velocity_at(now, 4.85, 4.67) == (expected if found else None)
    assert velocity_at(now, 2.0, 4.0) is None


def test_what_the_background_loses_is_no_partner():
    """The end of a wall that is alone in a scan, shifted against the background of the scan before."""
    scans, maturity = beside_a_wall()
    end = [seen(rectangle(4.6, 4.0, 0.6, 0.1, "s"))]
    assert velocity_at(registered(scans + end, registration_model(), maturity=maturity), 4.9, 4.0) is None


@pytest.mark.parametrize("seed", range(4))
def test_shifts_are_those_of_an_exhaustive_search(seed):
    """Random shapes that move at random, some half hidden: the same velocities as by trying every shift."""
    rng = np.random.default_rng(seed)
    config = registration_model(speed=3.0, points=40)
    before, after = [], []
    for column in range(3):
        for row in range(2):
            x, y = 1.5 + 5 * column, 1.5 + 6 * row
            shape = rectangle(x, y, *rng.uniform(0.4, 1.8, 2), sides=rng.choice(["sw", "nesw", "s", "esw"]))
            shape = shape[rng.random(len(shape)) < 0.9]
            before.append(shape)
            after.append(shape + rng.uniform(-1.4, 1.4, 2) * rng.choice([0, 1]) + rng.normal(0, 0.01, shape.shape))
    hidden = rng.random(SHAPE) < 0.2
    old, now = seen(np.vstack(before), hidden=hidden), seen(np.vstack(after), hidden=hidden)
    maturity = (2.0 * (rng.random(SHAPE) < 0.3)).astype(np.float32)
    found = registered([old, now], config, dt=0.5, maturity=maturity)
    label, expected = oracle.registration(now, old, 0.5, config, SPACING, maturity=maturity)
    np.testing.assert_array_equal(found.label, label)
    np.testing.assert_allclose(found.velocity[:-1], expected, atol=1e-5)  # without that of the background


@pytest.mark.parametrize("seed", [0, 3])
def test_what_is_not_found_in_the_old_scan_is_sought_in_a_younger_one(seed):
    """Boxes that cross the grid, walk and stand: as by trying every shift over both scans, the old one first.

    What is found in the old one is laid over one between."""
    rng = np.random.default_rng(seed)
    config = registration_model(points=30, speed=4.0, fast_speed=24.0, fast_least=5.0)
    shapes = [rectangle(0, 0, *rng.uniform(1.2, 2.4, 2), sides=sides) for sides in ("sw", "nesw", "esw", "ne")]
    velocities = rng.permutation([[0, 0], [1.5, 1.0], [9.0, 2.0], [-8.0, -3.0]])
    middle = np.array([[4, 3], [11, 3], [4, 8], [11, 8]])
    scans = [
        seen(np.vstack([shape + place + (0.1 * k - 0.3) * v for shape, place, v in zip(shapes, middle, velocities)]))
        for k in range(5)
    ]
    found = registered(scans, config)
    label, old = oracle.registration(scans[-1], scans[0], 0.4, config, SPACING)
    _, young = oracle.registration(scans[-1], scans[-2], 0.1, config, SPACING, fast=True)
    between = oracle.refined(scans[-1], scans[-3], 0.2, config, SPACING, old)
    np.testing.assert_array_equal(found.label, label)
    np.testing.assert_allclose(found.velocity[:-1], np.where(np.isnan(old), young, between), atol=1e-5)
    assert np.isfinite(old[:, 0]).any()
    assert (np.isnan(old) & np.isfinite(young)).any()


@pytest.mark.parametrize(
    ("speed", "changes", "expected"),
    [(15, {}, True), (30, {}, True), (6, {}, False), (15, {"fast_span": 0}, False)],
)
def test_a_fast_car_is_found_in_its_second_scan(speed, changes, expected):
    """Its rear and a flank. In 0.4 s it leaves its place; what is slow has to wait for that long."""
    scans = [seen(rectangle(2 + 0.1 * k * speed, 4, 4.3, 1.8, "sw")) for k in range(2)]
    found = velocity_at(registered(scans, registration_model(**changes)), 2.1 + 0.1 * speed, 4.0)
    assert found == (pytest.approx([speed, 0.0], abs=SUBCELL / 0.1) if expected else None)


@pytest.mark.parametrize(("size", "speed", "hidden"), [(0.4, 1.8, False), (0.4, 1.8, True), (1.8, 7.0, False)])
def test_what_moved_further_than_its_length_is_found_beside_what_stands(size, speed, hidden):
    """A person whose surroundings nobody sees, and the rear of a car, 0.6 m from a wall: matched with what left its
    place, and not with the wall."""
    wall = rectangle(1, 4.8 + size, 10, 0.1, "s")
    around = np.full(SHAPE, hidden)
    scans = [seen(np.vstack([rectangle(4 + 0.1 * k * speed, 4, 0.3, size), wall]), hidden=around) for k in range(5)]
    found = registered(scans, registration_model(fast_span=0))
    assert velocity_at(found, 4.1 + 0.4 * speed, 4.0) == pytest.approx([speed, 0.0], abs=SUBCELL / 0.4)
    assert velocity_at(found, 4.0, 4.8 + size) is None
    if size > 1:  # at first against the first scan, as soon as that is 0.2 s old
        assert velocity_at(registered(scans[:2], registration_model(fast_span=0)), 4.1 + 0.1 * speed, 4.0) is None
        found = velocity_at(registered(scans[:3], registration_model(fast_span=0)), 4.1 + 0.2 * speed, 4.0)
        assert found == pytest.approx([speed, 0.0], abs=SUBCELL / 0.2)


@pytest.mark.parametrize(("pieces", "moves"), [((7.2, 8.0, 8.8), False), ((8.0,), True), ((15.1,), False)])
def test_returns_of_a_wall_at_grazing_incidence_do_not_move(pieces, moves):
    """Pieces of it, 0.4 m further in the next scan: each lies between two older ones. A single piece moves, but not at
    the rim of the grid, beyond which there may be more."""
    hidden = np.ones(SHAPE, bool)
    scans = [seen(np.vstack([rectangle(x + on, 4, 0.3, 0.3) for x in pieces]), hidden=hidden) for on in (0, 0.4)]
    found = registered(scans, registration_model(fast_span=0), dt=0.4)
    for x in pieces:
        velocity = velocity_at(found, x + 0.41, 4.1)
        assert velocity == (pytest.approx([1.0, 0.0], abs=SUBCELL / 0.4) if moves else None)


@pytest.mark.parametrize(("onwards", "moves"), [(1.2, True), (2.4, False)])
def test_pieces_of_a_guard_rail_do_not_move_fast(onwards, moves):
    """A ring meets it for 1.6 m, in the next scan elsewhere; free space around them. A vehicle overlaps itself."""
    scans = [seen(rectangle(4 + on, 4, 1.6, 0.2)) for on in (0, onwards)]
    found = velocity_at(registered(scans), 4.1 + onwards, 4.0)
    assert found == (pytest.approx([10 * onwards, 0.0], abs=SUBCELL / 0.1) if moves else None)


def test_velocities_are_refined_as_by_trying_every_shift():
    """Things of random shapes that speed up or slow down, partly hidden; what slows down, or stays slow, keeps the mean
    of the longer time."""
    config = registration_model(
        points=40, refined_speed=1.2, refined_slack=0.03, good=0.5, gain=0.3, fast_span=0, confirmed=0.8
    )
    places, gains = np.array([[3, 3], [10, 3], [3, 8], [10, 8]]), np.array([1.5, -1.0, 1.5, -1.0])[:, None]
    faster = kept = forgotten = 0
    for seed in range(12):
        rng, scans = np.random.default_rng(seed), []
        shapes = [rectangle(0, 0, *rng.uniform(0.6, 2.0, 2), sides=sides) for sides in ("sw", "nesw", "esw", "nw")]
        ways, hidden = rng.uniform(-1, 1, (4, 2)), rng.random(SHAPE) < 0.1
        speeds = rng.uniform(0.8, 3.0, 4)[:, None] / np.hypot(*ways.T)[:, None]
        for k in range(5):
            driven = (0.1 * k + gains * (0.1 * k) ** 2) * speeds * ways
            scans.append(seen(np.vstack([s + p + d for s, p, d in zip(shapes, places, driven)]), hidden=hidden))
        found = registered(scans, config).velocity[:-1]
        _, coarse = oracle.registration(scans[-1], scans[0], 0.4, config, SPACING)
        expected = oracle.refined(scans[-1], scans[2], 0.2, config, SPACING, coarse)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        asked, change = np.hypot(*coarse.T) >= 1.2, np.abs(found - coarse).max(axis=1)
        faster += np.count_nonzero(change > 0.2)
        kept += np.count_nonzero(asked & (change == 0))
        forgotten += np.count_nonzero(asked & np.isnan(change))
    assert min(faster, kept, forgotten) >= 2


def changing_speed(gain, y):
    """Places of a car at 4 m/s, its rear and a flank, in five scans up to now, while its speed changes."""
    return [rectangle(6 + 4.0 * t + 0.5 * gain * t * t, y, 4.2, 1.8, "sw") for t in np.arange(-0.4, 0.01, 0.1)]


@pytest.mark.parametrize(
    ("gain", "refined", "late"), [(6, True, 0.1), (6, False, 0.2), (-6, True, 0.2), (-6, False, 0.2)]
)
def test_what_speeds_up_is_late_by_half_the_shorter_time_between_scans(gain, refined, late):
    """What slows down is late by half the longer one, with and without the younger scan."""
    scans = [seen(places) for places in changing_speed(gain, 4)]
    found = velocity_at(registered(scans, registration_model(refined=refined)), 6.1, 4.0)
    assert found == pytest.approx([4.0 - gain * late, 0.0], abs=SUBCELL / (2 * late))


@pytest.mark.parametrize(("width", "late"), [(1.8, 0.1), (0.6, 0.2)])
def test_what_starts_is_late_by_half_the_shorter_time_unless_it_is_small(width, late):
    """The rear of a car, and a person, who gain 2 m/s^2 and are slower than what must be confirmed."""
    places = [rectangle(4 + t * t, 4, 0.6, width, "swn") for t in np.arange(0.2, 0.61, 0.1)]
    found = velocity_at(registered([seen(p) for p in places], registration_model(second=False)), 4.46, 4.0)
    assert found == pytest.approx([1.2 - 2 * late, 0.0], abs=SUBCELL / (2 * late) / 2 + 0.01)


def appearing(scans=3):
    """Five scans of a car at 5 m/s that comes into view: nothing but unseen space was in its way before."""
    nothing = seen(np.empty((0, 2)), hidden=np.ones(SHAPE, np.bool_))
    return [nothing] * (5 - scans) + [seen(rectangle(4 + 0.5 * k, 4, 4.2, 1.8, "sw")) for k in range(5 - scans, 5)]


@pytest.mark.parametrize(("scans", "second", "found"), [(3, True, True), (3, False, False), (2, True, False)])
def test_what_came_into_view_is_found_in_the_scan_between(scans, second, found):
    """Once it has been in view for 0.2 s; against the scan of 0.4 s ago there is nothing to compare it with."""
    velocity = velocity_at(registered(appearing(scans), registration_model(second=second, fast_span=0)), 6.1, 4.0)
    assert velocity == (pytest.approx([5.0, 0.0], abs=SUBCELL / 0.2) if found else None)


def test_what_swerves_does_not_speed_up():
    """A box that is slower ahead than it was: with its way aside the last shift is the longer one, all the same."""
    path = [(0, 0), (0.3, -0.2), (0.65, -0.35), (0.9, -0.2), (1.2, 0)]
    scans = [seen(rectangle(4 + x, 4 + y, 1.0, 0.6)) for x, y in path]
    found = velocity_at(registered(scans, registration_model(refined_reach=0.5)), 5.3, 4.0)
    assert found == pytest.approx([3.0, 0.0], abs=0.01)


def behind_a_gap(between):
    """Five scans of two things alike, of which first one and then the other is seen, as if it had gone there."""
    first, halfway, second = (seen(rectangle(x, 4.0, 1.6, 0.8)) for x in (5.0, 5.4, 5.8))
    nothing = seen(np.empty((0, 2)), hidden=np.ones(SHAPE, np.bool_))
    middle = {"still": second, "hidden": nothing, "moving": halfway}[between]
    return [first, first, middle, second, second]


@pytest.mark.parametrize(
    ("between", "confirmed", "expected"),
    [("still", 0.4, False), ("hidden", 0.4, False), ("moving", 0.4, True), ("still", 0, True), ("hidden", 0, True)],
)
def test_what_did_not_move_in_between_does_not_move(between, confirmed, expected):
    config = registration_model(confirmed=confirmed, fast_span=0)
    found = velocity_at(registered(behind_a_gap(between), config), 5.9, 4.1)
    assert found == (pytest.approx([2.0, 0.0], abs=SUBCELL / 0.4) if expected else None)


def test_a_car_that_starts_is_found_while_it_still_covers_its_old_place():
    """Seen from behind: its rear and a little of its sides."""
    bitmaps = [seen(rectangle(4 + (0.1 * k) ** 2, 4, 0.6, 1.8, "swn")) for k in range(10)]
    found = velocity_at(registered(bitmaps), 4 + 0.81 + 0.1, 4.0)
    # The mean speed since 0.2 s ago: a car at 1.8 m/s that gains 2 m/s^2.
    assert found == pytest.approx([1.8 - 0.2, 0.0], abs=SUBCELL / 0.2 + 0.01)


def long_static(bitmap, columns=0):
    """Two seconds of static life wherever a scan hit something, on a grid that has moved by so many columns since."""
    return np.roll(2.0 * (bitmap.surface > 0), columns, axis=1).astype(np.float32)


def test_what_stood_is_found_as_soon_as_free_space_opens_behind_it():
    """A car of which rear and flank are seen has gone 0.5 m in 0.4 s: most of its flank is where it was. The mean over
    that time, as the scan between would say that all of it was later."""
    begin, now = seen(rectangle(4, 4, 4.2, 1.8, "sw")), seen(rectangle(4.5, 4, 4.2, 1.8, "sw"))
    scans, speed = [begin] * 4 + [now], pytest.approx([0.5 / 0.4, 0.0], abs=SUBCELL / 0.4 + 0.01)
    old = registration_model(refined=False)
    assert velocity_at(registered(scans, old, maturity=long_static(begin)), 4.6, 4.0) == speed
    assert velocity_at(registered(scans), 4.6, 4.0) is None
    off = registration_model(standing_time=0)
    assert velocity_at(registered(scans, off, maturity=long_static(begin)), 4.6, 4.0) is None
    # What it leaves and what it enters is not seen to be free: another part of it may just be hidden.
    hidden = np.zeros(SHAPE, bool)
    hidden[:, :23] = hidden[:, 41:] = True
    scans = [seen(rectangle(4 + x, 4, 4.2, 1.8, "sw"), hidden=hidden) for x in (0, 0, 0, 0, 0.5)]
    assert velocity_at(registered(scans, maturity=long_static(begin)), 4.6, 4.0) is None


@pytest.mark.parametrize(
    ("life", "changes", "expected"),
    [
        (0.3, {}, True),
        (0.2, {}, False),  # less than a quarter of its cells
        (1.0, {"standing_freed": 0.3}, True),
        (1.0, {"standing_freed": 0.45}, False),  # three quarters of the points now, but not of those then and now
        (1.0, {"standing_same": 0.25}, False),
        (1.0, {"standing_gain": 0.75}, False),
    ],
)
def test_how_much_of_it_must_have_stood_and_be_contradicted(life, changes, expected):
    """The car that has gone 0.5 m, with static life in a part of its cells, and other limits."""
    begin, now = seen(rectangle(4, 4, 4.2, 1.8, "sw")), seen(rectangle(4.5, 4, 4.2, 1.8, "sw"))
    cells, maturity = np.flatnonzero(now.surface > 0), np.zeros(SHAPE, np.float32)
    maturity.flat[cells[: round(life * len(cells))]] = 2.0
    found = registered([begin] * 4 + [now], registration_model(**changes), maturity=maturity)
    assert (velocity_at(found, 4.6, 4.0) is not None) == expected


@pytest.mark.parametrize(("length", "expected"), [(0.9, False), (1.1, False), (1.3, True)])
def test_what_is_small_has_limits_of_its_own(length, expected):
    """A box over 5, 6 or 7 cells: 0.8, 1 and 1.2 m from the first to the last, of which the last is not small."""
    bitmaps = [seen(rectangle(4 + 0.1 * k, 4, length, 0.5)) for k in range(0, 12, 2)]
    found = registered(bitmaps, registration_model(small_gain=2.0))
    assert (velocity_at(found, 5.1, 4.0) is not None) == expected


def test_static_life_is_looked_up_where_the_grid_was():
    """The same on a grid that rolls by two columns per scan: static life is that of the grid one scan ago."""
    scans = [seen(rectangle(4 - 2 * SPACING * k, 4, 4.2, 1.8, "sw")) for k in range(4)]
    scans.append(seen(rectangle(4.5 - 8 * SPACING, 4, 4.2, 1.8, "sw")))
    rolls = GridMotion.rolled(2, 0, SPACING)
    found = [registered(scans, motion=rolls, maturity=long_static(scans[3], columns)) for columns in (0, 40)]
    assert velocity_at(found[0], 4.6 - 8 * SPACING, 4.0) is not None
    assert velocity_at(found[1], 4.6 - 8 * SPACING, 4.0) is None


def test_what_stands_and_what_slides_along_itself_does_not_move():
    still = registered([seen(rectangle(4, 4, 2.0, 1.0))] * 6)
    assert velocity_at(still, 4.1, 4.0) is None
    # A straight fence of which another part is seen each time says nothing about a motion along it.
    fence = registered([seen(rectangle(4 + 0.15 * k, 4, 6.0, 0.1, "s")) for k in range(6)])
    assert velocity_at(fence, 6.0, 4.0) is None
    # A wall seen 2 cm nearer each scan, as poses drift: no motion either.
    drift = registered([seen(rectangle(4, 4 - 0.02 * k, 6.0, 0.1, "s")) for k in range(8)])
    assert velocity_at(drift, 6.0, 3.87) is None


@pytest.mark.parametrize(("begin", "end"), [(13.1, 16.0), (6.0, 8.9)], ids=["rim", "shadow"])
def test_the_end_of_what_is_cut_off_does_not_move(begin, end):
    """The same part of the grid shows another piece of a wall in each scan, while the vehicle drives at 6 m/s."""
    places = np.vstack([rectangle(begin, 4, end - begin, 0.1, "s"), rectangle(begin, 4, 0.1, 1.0, "w")])
    hidden = np.ones(SHAPE, bool)
    hidden[:, int(begin / SPACING) : int(end / SPACING)] = False
    rolls = GridMotion.rolled(3, 0, SPACING)
    wall, speed = [seen(places, hidden=hidden)] * 6, pytest.approx([6.0, 0.0], abs=SUBCELL / 0.2 + 0.01)
    assert velocity_at(registered(wall, motion=rolls), begin + 1, 4.0) is None
    assert velocity_at(registered(wall, registration_model(freed=0.0), motion=rolls), begin + 1, 4.0) == speed
    # If free space around it was seen, the same returns are a vehicle that keeps its distance.
    if end < 16:
        assert velocity_at(registered([seen(places)] * 6, motion=rolls), begin + 1, 4.0) == speed


def test_the_grids_own_motion_is_taken_out():
    """A grid that rolls by a cell per scan, and one that turns: what stands, stands; what moves, moves in its axes."""

    def walker(k):
        return rectangle(8 + 0.15 * k, 6, 0.5, 0.4)

    rolling = registered(
        [seen(np.vstack([walker(k), rectangle(4, 4, 1, 1)]) - (SPACING * k, 0)) for k in range(6)],
        motion=GridMotion.rolled(1, 0, SPACING),
    )
    assert velocity_at(rolling, 4.05 - 1.0, 4.0) is None
    assert velocity_at(rolling, 8.75 - 1.0, 6.0) == pytest.approx([1.5, 0.0], abs=SUBCELL / 0.2 + 0.01)
    turn = 0.02
    cosine, sine = math.cos(turn), math.sin(turn)
    rotation = np.array([[cosine, -sine], [sine, cosine]])  # p_old = rotation p_new
    bitmaps, to_now = [], np.eye(2)
    for k in range(6):
        places = np.vstack([walker(k), rectangle(4, 4, 1, 1)])
        bitmaps.append(seen(places @ to_now.T))
        to_now = rotation.T @ to_now
    turning = registered(bitmaps, motion=GridMotion(rotation, np.zeros(2), None))
    now = np.linalg.matrix_power(rotation.T, 5)
    place = now @ [8.75, 6.2]
    assert velocity_at(turning, *place) == pytest.approx(now @ [1.5, 0.0], abs=SUBCELL / 0.2 + 0.01)
    assert velocity_at(turning, *(now @ [4.0, 4.3])) is None


def test_any_rate_of_scans_compares_with_the_same_past():
    for rate in (5, 20, 100):
        bitmaps = [seen(rectangle(4 + 2.0 * k / rate, 4, 1.0, 0.6)) for k in range(rate)]
        found = registered(bitmaps, dt=1 / rate)
        place = 4 + 2.0 * (rate - 1) / rate + 0.5, 4.0
        assert velocity_at(found, *place) == pytest.approx([2.0, 0.0], abs=SUBCELL / 0.2 + 0.01)


def moving_share(config, frames=12):
    """A box that stood for two seconds drives off at 3 m/s^2: how much of it is dynamic after each frame."""
    filter_ = Hsbof(SHAPE, SPACING, config)
    shares = []
    for k in range(20 + frames):
        driven = 0.5 * 3.0 * (0.1 * max(k - 20, 0)) ** 2
        filter_.step(seen(rectangle(4 + driven, 4, 2.4, 1.2)), 0.1)
        rows, columns = slice(18, 28), slice(int((4 + driven) / SPACING), int((6.6 + driven) / SPACING))
        static, dynamic = (layer[rows, columns].sum() for layer in filter_.masses[:2])
        shares.append(dynamic / (static + dynamic))
    return shares[20:], filter_


def test_registration_sets_what_starts_free():
    config = filter_model(4000)
    with_it, filter_ = moving_share(config)
    without, _ = moving_share(filter_model(4000, registration={"enabled": False}))
    assert np.mean(with_it[6:]) > np.mean(without[6:]) + 0.2
    assert with_it[-1] > 0.8
    # It does 3.3 m/s; what was registered is the mean speed of the last 0.4 s.
    assert np.nanmean(filter_.velocities.mean[filter_.moving][:, 0]) == pytest.approx(2.7, abs=0.6)
