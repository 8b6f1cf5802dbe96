# SPDX-License-Identifier: Apache-2.0
"""A part of a source is a source: its scans, truth and boxes are those of the whole one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roadbed
from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.sources import Source
from roadbed.sources.source import part_of


class Numbered(Source):
    """Scan k holds one point at x = k; `reads` says which were read, and how."""

    def __init__(self, count=10):
        super().__init__("numbered")
        self.count, self.reads = count, []

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.reads.append(index)
        return Scan(np.array([[range(self.count)[index], 0, 0]]))

    def __iter__(self):
        for index in range(self.count):
            self.reads.append("in one go")
            yield Scan(np.array([[index, 0, 0]]))

    def objects(self, index):
        return (index,)


def places(source):
    return [int(scan.points[0, 0]) for scan in source]


@pytest.mark.parametrize(
    ("start", "stride", "count", "expected"),
    [
        (0, 1, None, range(10)),
        (3, 1, None, range(3, 10)),
        (1, 4, None, (1, 5, 9)),
        (1, 4, 2, (1, 5)),
        (0, 1, 99, range(10)),
    ],
)
def test_iteration_and_indexing_agree(start, stride, count, expected):
    part = part_of(Numbered(), start, stride, count)
    assert places(part) == [int(part[k].points[0, 0]) for k in range(len(part))] == list(expected)
    assert int(part[-1].points[0, 0]) == list(expected)[-1]
    assert [part.objects(k) for k in range(len(part))] == [(number,) for number in expected]


def test_only_what_is_asked_for_is_read():
    whole = Numbered()
    assert places(part_of(whole, 0, 1, 2)) == [0, 1]
    assert whole.reads == ["in one go", "in one go"]
    whole.reads.clear()
    assert places(part_of(whole, 8)) == [8, 9]
    assert whole.reads == [8, 9]


def test_a_source_without_truth_has_none_in_part_either():
    part = part_of(Numbered(), 2)
    assert hasattr(part, "objects")
    assert not hasattr(part, "truth")


def test_truth_belongs_to_its_scan():
    whole = roadbed.open("sim:parking?sensor=vlp16&frames=4")
    part = part_of(whole, 1, 2)
    assert part.truth(1).time == part[1].time == whole[3].time
    np.testing.assert_array_equal(part.truth(1).is_ground, whole.truth(3).is_ground)


def test_a_mounting_replaces_the_sources_own():
    mounting = Pose.from_euler(1, 2, 3, pitch=0.1)
    part = part_of(roadbed.open("sim:parking?sensor=vlp16&frames=2"), T_vehicle_sensor=mounting)
    assert all(scan.T_vehicle_sensor is mounting for scan in part)
    rig = part_of(roadbed.open("sim:parking?sensor=lux4&frames=2"), T_vehicle_sensor=mounting)
    with pytest.raises(InputError, match="found a rig of 4 sensors, expected one"):
        rig[0]


def test_a_start_beyond_the_end_is_one_line():
    with pytest.raises(InputError, match="start 10: found 10 scans, expected more than 10"):
        part_of(Numbered(), 10)


def test_a_live_source_has_no_parts():
    class Live(Source):
        pass

    with pytest.raises(InputError, match="found a live source, expected a recording"):
        part_of(Live("live"), 1)


@given(st.integers(-12, 12) | st.none(), st.integers(-12, 12) | st.none(), st.sampled_from([None, 1, 2, 3, -1, -2]))
def test_slices_are_sources(start, stop, step):
    chosen = list(range(10))[start:stop:step]
    part = Numbered()[start:stop:step]
    assert isinstance(part, Source)
    assert len(part) == len(chosen)
    assert places(part) == chosen
    assert places(part[1:]) == chosen[1:]


def test_a_slice_of_a_drive_runs_and_keeps_its_truth():
    drive = roadbed.open("sim:parking?sensor=vlp16&frames=4")
    part = drive[1:3]
    assert [scan.time for scan in part] == [drive[1].time, drive[2].time]
    np.testing.assert_array_equal(part.truth(1).is_ground, drive.truth(2).is_ground)
