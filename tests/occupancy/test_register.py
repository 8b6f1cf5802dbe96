# SPDX-License-Identifier: Apache-2.0
"""Registration of connected hits: kernels against slow oracles, and what it must not take for a motion."""

import math

import numpy as np
import pytest

from roadbed.occupancy.arrays import Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.hsbof.filter import Hsbof
from roadbed.occupancy.registration.register import scan_components
from tests.occupancy import oracle
from tests.occupancy.models import filter_model, registration_model
from tests.occupancy.outlines import SHAPE, SPACING, SUBCELL, rectangle, registered, seen, velocity_at


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


def driving_away(speed=10.0):
    """Three scans of the rear of a car, which hides what is in front of it, and of a piece of its roof 2 m ahead."""
    scans = []
    for x in 2 + 0.1 * speed * np.arange(3):
        hidden = np.zeros(SHAPE, bool)
        hidden[:, int(x / SPACING) :] = True
        scans.append(seen(np.vstack([rectangle(x, 4, 0.3, 1.8), rectangle(x + 2.0, 4.6, 0.2, 0.4)]), hidden=hidden))
    return scans


def test_the_rear_of_a_car_is_not_matched_with_a_piece_of_its_roof():
    """It has come to where that piece was, and nobody saw free space there: its own place was left, and is free."""
    scans = [driving_away()[0]] * 3 + driving_away()
    found = registered(scans, registration_model(fast_span=0))
    assert velocity_at(found, 4.1, 4.0) == pytest.approx([10.0, 0.0], abs=SUBCELL / 0.2)


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


@pytest.mark.parametrize(
    ("size", "onwards", "moves"), [((1.6, 0.2), 1.2, True), ((1.6, 0.2), 2.4, False), ((0.4, 1.6), 2.4, True)]
)
def test_pieces_of_a_guard_rail_do_not_move_fast(size, onwards, moves):
    """A ring meets it for 1.6 m, in the next scan elsewhere; free space around them. A vehicle overlaps itself, or its
    front is as wide as it is."""
    found = velocity_at(registered(further_on(size, onwards)), 4.1 + onwards, 4.0)
    assert found == (pytest.approx([10 * onwards, 0.0], abs=SUBCELL / 0.1) if moves else None)


def further_on(size, onwards):
    return [seen(rectangle(4 + on, 4, *size)) for on in (0, onwards)]


def a_truck():
    """Five scans of the rear and a flank of a truck at 15 m/s."""
    return [seen(rectangle(1 + 1.5 * k, 4, 7.6, 2.4, "sw")) for k in range(5)]


def parked_cars():
    """Four scans of one, and one of the other, 6 m further on."""
    return [seen(rectangle(x, 4, 4.2, 2.4, "sw")) for x in (1, 1, 1, 1, 7)]


@pytest.mark.parametrize(("scans", "moves"), [(a_truck(), True), (parked_cars(), False)], ids=["truck", "parked cars"])
def test_what_drives_fast_overlaps_its_place_of_long_ago(scans, moves):
    found = velocity_at(registered(scans, registration_model(fast_span=0)), 7.1, 5.0)
    assert found == (pytest.approx([15.0, 0.0], abs=SUBCELL / 0.2) if moves else None)


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
