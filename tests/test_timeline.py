# SPDX-License-Identifier: Apache-2.0
"""Pose jumps, pauses, late and repeated scans."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadbed.core.geometry import Pose
from roadbed.core.timeline import Link, Timeline, TimelineLimits


def at(x, **angles):
    return Pose.from_euler(x, 0, 0, **angles)


def started(**limits):
    timeline = Timeline(TimelineLimits(**limits))
    assert timeline.update(0.0, ["a"], at(0)).link is Link.FIRST
    return timeline


def test_scans_follow_each_other():
    timeline = started()
    moment = timeline.update(0.1, ["a"], at(1.5, yaw=0.1))
    assert moment.link is Link.NEXT
    assert moment.seconds == pytest.approx(0.1)
    assert moment.diagnostics == ()
    np.testing.assert_allclose(moment.T_old_new.translation, [1.5, 0, 0])
    assert moment.T_old_new.yaw == pytest.approx(0.1)


def test_without_a_pose_a_scan_stands_alone_and_leaves_no_trace():
    timeline = Timeline()
    assert timeline.update(0.0, ["a"], None).diagnostics == ()
    assert timeline.update(0.1, ["a"], at(0)).link is Link.FIRST
    alone = timeline.update(0.2, ["a"], None)
    assert alone.link is Link.ALONE
    assert "no pose" in alone.diagnostics[0]
    assert timeline.update(0.2, ["a"], at(1)).link is Link.NEXT


def test_repeated_and_late_scans_of_one_sensor_stand_aside():
    timeline = started()
    timeline.update(0.1, ["a"], at(1))
    repeated, late = timeline.update(0.1, ["a"], at(1)), timeline.update(0.05, ["a"], at(0.5))
    assert repeated.link is late.link is Link.ASIDE
    assert "repeated" in repeated.diagnostics[0]
    assert "0.050 s older" in late.diagnostics[0]
    assert timeline.update(0.2, ["a"], at(2)).seconds == pytest.approx(0.1)


def test_another_sensor_may_be_a_little_older():
    timeline = started()
    timeline.update(0.1, ["a"], at(1))
    other = timeline.update(0.08, ["b"], at(0.8))
    assert other.link is Link.NEXT
    assert other.seconds == pytest.approx(-0.02)
    assert timeline.update(0.08, ["a", "b"], at(0.8)).link is Link.ASIDE


def test_a_recording_that_starts_again_is_a_new_sequence():
    timeline = started(new_recording=1.0)
    timeline.update(50.0, ["a"], at(1))
    timeline.update(51.5, ["a"], at(2))
    again = timeline.update(0.0, ["a"], at(0))
    assert again.link is Link.FIRST
    assert "ran back by 51.5 s" in again.diagnostics[0]
    assert timeline.update(0.1, ["a"], at(1)).link is Link.NEXT


@pytest.mark.parametrize(("seconds", "link"), [(1.99, Link.NEXT), (2.01, Link.FIRST)])
def test_pauses(seconds, link):
    moment = started(longest_pause=2.0).update(seconds, ["a"], at(0.5))
    assert moment.link is link
    assert bool(moment.diagnostics) == (link is Link.FIRST)


@pytest.mark.parametrize(("metres", "link"), [(8.9, Link.NEXT), (9.1, Link.FIRST)])
def test_jumps_by_speed(metres, link):
    """A metre of slack, and 80 m/s for a tenth of a second."""
    assert started().update(0.1, ["a"], at(metres)).link is link


@pytest.mark.parametrize(("metres", "link"), [(9.9, Link.NEXT), (10.1, Link.FIRST)])
def test_jumps_without_times(metres, link):
    timeline = Timeline()
    timeline.update(None, ["a"], at(0))
    assert timeline.update(None, ["a"], at(metres)).link is link


@given(st.floats(-180, 180), st.sampled_from(["yaw", "pitch", "roll"]))
def test_turns(degrees, axis):
    link = started(largest_turn=45.0).update(0.1, ["a"], at(0, **{axis: np.radians(degrees)})).link
    if abs(abs(degrees) - 45) > 0.01:
        assert link is (Link.NEXT if abs(degrees) < 45 else Link.FIRST)


def test_reset_starts_over():
    timeline = started()
    timeline.reset()
    assert timeline.update(-100.0, ["a"], at(500)).link is Link.FIRST
