# SPDX-License-Identifier: Apache-2.0
"""The matrix of faults: each on one drive, on every backend; results stay numbers, what is noticed is said, and the
drive is soon as good as without the fault."""

from functools import cache

import numpy as np
import pytest

import roadbed
from benchmarks.fault_source import KINDS, FaultSource
from benchmarks.faults import Recorded, difference, fault_rows
from roadbed.core.errors import InputError
from tests.devices import ACCELERATORS, backend

pytestmark = pytest.mark.long(28)

SMALL = roadbed.Config.parse({"occupancy": {"grid": {"length": 30, "width": 30}}})
DRIVE = "sim:city?sensor=vlp16&frames=22"
# fault: what the diagnostics say, and after how many scans at most results are as good as without it. A cold start
# costs the occupancy about a second; what was only missing is made good in a few scans.
EXPECTED = {
    "drop": (None, 4),
    "repeat": ("repeated scan", 0),
    "reorder": ("late scan", 2),
    "delay": ("late scan", 2),
    "truncate": (None, 4),
    "empty": ("scan without points", 5),
    "corrupt": (None, 1),
    "nan": (None, 1),
    "silence": ("scan without points", 5),
    "axes": ("does not fit the prior surface", 5),
    "millimetres": ("points lies over the lattice", 5),
    "jump": ("pose jump of 20", 13),
    "freeze": (None, 6),
    "lost-pose": ("no pose: this scan stands alone", 12),
    "clock-back": ("time ran back by 4.9 s", 13),
    "clock-stopped": ("repeated scan", 4),
    "clock-lost": (None, 0),
}


# What reaches the device: other points, other poses, a prior that is left. The order of scans is judged before it.
ON_A_DEVICE = ("empty", "corrupt", "axes", "jump", "lost-pose")
CASES = [("cpu", kind) for kind in KINDS] + [(ACCELERATORS[0], kind) for kind in ON_A_DEVICE]


@cache
def rows(name):
    """Every fault on one drive, on the backend of that name."""
    kinds = KINDS if name == "cpu" else ON_A_DEVICE
    options = {"first": 4, "count": 3}
    return {row["fault"]: row for row in fault_rows(DRIVE, kinds, SMALL, backend(name), options)}


def test_every_fault_has_an_expectation():
    assert set(EXPECTED) == set(KINDS)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_faults_are_survived_noticed_and_left_behind(name, kind):
    row, (note, bound) = rows(name)[kind], EXPECTED[kind]
    assert row["finite"]
    assert row["recovered"]
    assert row["recovered_after"] <= bound
    if note is None:
        assert not row["diagnostics"]
    else:
        assert any(note in found for found in row["diagnostics"]), row["diagnostics"]


def test_a_fault_that_does_harm_is_seen():
    """The comparison itself: after a jump the grids differ, after a repeated scan they do not."""
    jump, repeat = rows("cpu")["jump"], rows("cpu")["repeat"]
    assert jump["worst_occupancy"] > 0.05
    assert jump["recovered_after"] > 3
    assert (repeat["worst_label"], repeat["worst_occupancy"]) == (0, 0)


@pytest.fixture(scope="module")
def drive():
    return Recorded(list(roadbed.open("sim:parking?sensor=lux4&frames=8")))


def hit(kind, drive, **options):
    return FaultSource(f"fault:{kind}", of=drive, **({"first": 3, "count": 2} | options))


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("drop", [0, 1, 2, 5, 6, 7]),
        ("repeat", [0, 1, 2, 3, 3, 4, 4, 5, 6, 7]),
        ("reorder", [0, 1, 2, 4, 3, 5, 6, 7]),
        ("delay", [0, 1, 2, 5, 3, 6, 4, 7]),
    ],
)
def test_faults_of_the_sequence_keep_the_scans_themselves(drive, kind, numbers):
    source = hit(kind, drive)
    assert source.numbers == numbers
    assert [scan.time for scan in source] == [drive[number].time for number in numbers]


def test_faults_of_a_scan_strike_the_scans_they_are_told_to(drive):
    for kind in set(KINDS) - {"drop", "repeat", "reorder", "delay"}:
        source = hit(kind, drive)
        changed = [
            number
            for number, scan in enumerate(source)
            if len(scan) != len(drive[number])
            or not np.array_equal(scan.points, drive[number].points)
            or scan.time != drive[number].time
            or scan.T_world_sensor is not drive[number].T_world_sensor
        ]
        assert changed == [3, 4], kind


def test_what_each_fault_does(drive):
    clean = drive[3]

    def struck(kind, **options):
        return hit(kind, drive, **options)[3]

    assert len(struck("truncate", share=0.25)) == round(0.75 * len(clean))
    assert len(struck("empty")) == 0
    assert np.isnan(struck("nan", share=0.3).points[:, 0]).mean() == pytest.approx(0.3, abs=0.05)
    silent = struck("silence", sensor=2)
    assert set(silent.channels["sensor_index"]) == set(clean.channels["sensor_index"]) - {2}
    np.testing.assert_allclose(struck("axes").points[:, 2], clean.points[:, 0])
    moved = struck("jump", metres=7.0).T_world_sensor.translation - clean.T_world_sensor.translation
    np.testing.assert_allclose(moved, [0, 7, 0], atol=1e-9)
    assert struck("freeze").T_world_sensor is drive[2].T_world_sensor
    assert struck("clock-back", seconds=2.0).time == clean.time - 2
    assert struck("clock-stopped").time == drive[2].time
    np.testing.assert_array_equal(struck("corrupt").points, struck("corrupt").points)
    assert not np.array_equal(struck("corrupt", seed=1).points, struck("corrupt").points, equal_nan=True)


def test_a_location_holds_another_one():
    source = roadbed.open("fault:drop?first=2&count=1&seed=3&of=sim:parking?sensor=lux4&frames=4&seed=1")
    assert source.numbers == [0, 1, 3]
    plain = roadbed.open("sim:parking?sensor=lux4&frames=4&seed=1")
    np.testing.assert_array_equal(source[2].points, plain[3].points)
    assert len(source[1:]) == 2


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("fault:melt?of=sim:city", "fault 'melt': expected one of drop"),
        ("fault:drop", "expected of=SOURCE as the last option"),
        ("fault:drop?first=9&of=sim:parking?sensor=lux4&frames=3", "first 9: found 3 scans, expected more"),
        ("fault:drop?frames=9&of=sim:parking", "unknown option 'frames', expected one of of, first"),
        ("sim:parking?of=sim:city", "unknown option 'of'"),
    ],
)
def test_a_fault_that_cannot_be_is_one_line(location, message):
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        roadbed.open(location)


def test_results_for_the_same_scan_are_compared(drive):
    first, second = roadbed.Pipeline(SMALL).run(drive[:2])
    assert difference(first, first) == (0, 0)
    alone = roadbed.Pipeline(SMALL)(drive[1])
    assert difference(second, alone)[1] > 0.01
