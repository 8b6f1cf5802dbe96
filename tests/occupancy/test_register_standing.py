# SPDX-License-Identifier: Apache-2.0
"""Registration beside and of what stood: people beside walls are found, and cars that start."""

import math

import numpy as np
import pytest

from roadbed.occupancy.arrays import Cells, Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.registration.register import Registration
from tests.occupancy import oracle
from tests.occupancy.models import registration_model
from tests.occupancy.outlines import SHAPE, SPACING, SUBCELL, rectangle, registered, seen, velocity_at


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


def out_of_a_shadow(speed=16.0, fresh=2.2):
    """Five scans of a guard rail of which more and more is seen, and its static life at each: none of the last part."""
    ends = [8 + 0.1 * k * speed for k in range(5)]
    scans = [seen(rectangle(1, 4.0, end - 1, 0.1, "s")) for end in ends]
    long_seen = [seen(rectangle(1, 4.0, end - fresh - 1, 0.1, "s")) for end in ends]
    return scans, [2.0 * (one.surface > 0).astype(np.float32) for one in long_seen]


@pytest.mark.parametrize(("changes", "found"), [({}, False), ({"line": 0.0}, True)])
def test_the_end_of_a_rail_that_comes_out_of_a_shadow_does_not_move(changes, found):
    registration = Registration(Cells(*SHAPE, SPACING), registration_model(**changes))
    for scan, maturity in zip(*out_of_a_shadow()):
        now = registration(scan, 0.1, GridMotion(), maturity)
    assert (velocity_at(now, 13.9, 4.0) is not None) == found


def test_what_the_background_loses_is_no_partner():
    """The end of a wall that is alone in a scan, shifted against the background of the scan before."""
    scans, maturity = beside_a_wall()
    end = [seen(rectangle(4.6, 4.0, 0.6, 0.1, "s"))]
    assert velocity_at(registered(scans + end, registration_model(), maturity=maturity), 4.9, 4.0) is None


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
