# SPDX-License-Identifier: Apache-2.0
"""What the occupancy filter does with scans that are late, repeated, far apart in time or place."""

import numpy as np
import pytest

from roadbed import OccupancyFilter
from tests.occupancy.test_filter import CONFIG, drive, scene, valid

LAYERS = ("occupied", "static", "dynamic", "free", "unknown", "velocity", "velocity_covariance", "moving")


def same(one, other):
    for name in LAYERS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.grid == other.grid
    assert one.time == other.time
    assert [item.id for item in one.objects] == [item.id for item in other.objects]
    for a, b in zip(one.objects, other.objects):
        np.testing.assert_array_equal(a.velocity, b.velocity)
        np.testing.assert_array_equal(a.velocity_covariance, b.velocity_covariance)
    return True


REFUSED = {
    "repeated": ((0.1 * 17, "lidar"), "repeated scan"),
    "late": ((1.25, "lidar"), "late scan: 0.450 s older"),
    "another sensor's, older than what was seen": ((1.65, "second"), "late scan: 0.050 s older"),
}


@pytest.mark.parametrize(("what", "said"), REFUSED.values(), ids=REFUSED)
def test_a_scan_that_is_not_used_changes_nothing(what, said):
    disturbed, left_alone = OccupancyFilter(CONFIG), OccupancyFilter(CONFIG)
    before, _ = drive(disturbed), drive(left_alone)
    assert before.objects
    time, sensor = what
    for _ in range(5):
        frame = disturbed(*scene(time, sensor))
        assert said in frame.diagnostics[0]
        assert frame.observation is None
        assert same(frame, before)
    for k in range(3):
        ours, theirs = (filter_(*scene(1.8 + 0.1 * k)) for filter_ in (disturbed, left_alone))
        assert ours.diagnostics == theirs.diagnostics == ()
        assert same(ours, theirs)


def test_a_recording_that_starts_again_starts_anew():
    filter_ = OccupancyFilter(CONFIG)
    drive(filter_, first=100.0)
    frame = filter_(*scene(0.0))
    assert "time ran back by 102 s: started anew" in frame.diagnostics[0]
    assert not frame.moving.any()
    assert same(frame, OccupancyFilter(CONFIG)(*scene(0.0)))


def test_how_far_time_may_run_back_is_the_configurations():
    patient = OccupancyFilter(CONFIG.with_changes(timeline={"new_recording": 60.0}))
    drive(patient, 3, first=50.0)
    assert "late scan" in patient(*scene(0.0)).diagnostics[0]


def test_a_gap_forgets_what_moved_and_keeps_the_rest():
    filter_ = OccupancyFilter(CONFIG)
    before = drive(filter_)
    assert before.moving.any()
    frame = filter_(*scene(3.2, car=False))
    assert frame.diagnostics == ("gap of 1.5 s: what moved is forgotten",)
    assert not frame.moving.any()
    assert frame.dynamic.sum() < 0.2 * before.dynamic.sum()
    hidden = (before.static > 0.3) & (frame.observedness == 0)
    np.testing.assert_allclose(frame.static[hidden], before.static[hidden] * np.exp(-1.5 / 5), rtol=1e-4)
    assert frame.static.ravel()[frame.grid.index(5.0, -4.0)] > 0.5
    assert valid(frame)


def test_a_pause_longer_than_the_timelines_starts_cold():
    scans = [scene(0.1 * k) for k in range(18)], scene(11.7, car=False)
    short, long = (OccupancyFilter(CONFIG.with_changes(timeline={"longest_pause": s})) for s in (2.0, 30.0))
    for filter_ in (short, long):
        for item in scans[0]:
            filter_(*item)
    cold, kept = short(*scans[1]), long(*scans[1])
    assert cold.diagnostics == ("pause of 10.0 s: started cold",)
    assert same(cold, OccupancyFilter(CONFIG)(*scans[1]))
    assert kept.diagnostics == ("gap of 10 s: what moved is forgotten",)


def test_odometry_that_jumps_starts_anew():
    filter_ = OccupancyFilter(CONFIG)
    drive(filter_)
    frame = filter_(*scene(1.8, ego=500.0))
    assert "pose jump of 500.0 m" in frame.diagnostics[0]
    assert valid(frame)
    assert not frame.objects


def test_how_fast_the_vehicle_may_be_is_the_configurations():
    for speed, jumps in ((80.0, False), (5.0, True)):
        filter_ = OccupancyFilter(CONFIG.with_changes(timeline={"largest_speed": speed}))
        filter_(*scene(0.0))
        diagnostics = filter_(*scene(0.1, ego=2.0)).diagnostics
        assert any("pose jump" in note for note in diagnostics) == jumps
