# SPDX-License-Identifier: Apache-2.0
"""The streaming core: nothing is lost unsaid, poses may come late, several sensors, problems, and a clean stop."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from roadbed import Config, Pose, Scan
from roadbed.live import Stream
from roadbed.live.queues import SensorQueues, WaitingScan
from tests.live.processes import wait_until

PATIENCE = 300.0  # s, a hang guard: the first scan may compile, and the machine may be busy
LONG = 60.0  # s that a pose is waited for where it surely comes


def config(**live):
    small = {"stcrf": {"length": 40.0, "width": 40.0}}
    return Config.parse({"ground": small, "live": live})


def scan(time, sensor="lidar", points=400, **more):
    rng = np.random.default_rng(3)
    xyz = rng.uniform(-15, 15, (points, 3)).astype(np.float32)
    xyz[:, 2] = 0.0
    return Scan(xyz, time=time, sensor=sensor, T_vehicle_sensor=Pose.identity(), **more)


def place(x, yaw=0.0):
    return Pose.from_euler(x, 0.0, 0.0, yaw=yaw)


class Gate:
    """Holds the stream's thread inside a callback, so that queues fill while it is known to be busy."""

    def __init__(self):
        self.entered, self.release = threading.Event(), threading.Event()

    def __call__(self, live):
        self.entered.set()
        assert self.release.wait(PATIENCE)


def test_a_full_queue_drops_the_oldest_and_counts_it():
    gate, seen = Gate(), []
    stream = Stream(config(queue=2), on_ground=gate, on_result=seen.append, occupancy=False).start()
    stream.push(scan(0.0))
    assert gate.entered.wait(PATIENCE)
    for time in (1.0, 2.0, 3.0, 4.0, 5.0):
        stream.push(scan(time), payload=f"message {time}")
    gate.release.set()
    counts = stream.stop().total
    assert [live.result.scan.time for live in seen] == [0.0, 4.0, 5.0]
    assert [live.payload for live in seen] == [None, "message 4.0", "message 5.0"]
    assert (counts.received, counts.processed, counts.dropped) == (6, 3, 3)


def test_a_fast_sensor_does_not_push_out_a_slow_one_and_time_is_kept_in_order():
    gate, seen = Gate(), []
    stream = Stream(config(queue=2), on_ground=gate, on_result=seen.append, occupancy=False).start()
    stream.push(scan(0.0, "fast"))
    assert gate.entered.wait(PATIENCE)
    stream.push(scan(0.25, "slow"))
    for time in (0.1, 0.2, 0.3):
        stream.push(scan(time, "fast"))
    gate.release.set()
    statistics = stream.stop()
    assert [live.result.scan.time for live in seen] == [0.0, 0.2, 0.25, 0.3]
    assert statistics.sensors["slow"].dropped == 0
    assert statistics.sensors["fast"].dropped == 1


def test_sensors_that_measure_at_once_take_turns_when_there_is_no_time_for_all():
    queues, served = SensorQueues(1), []
    for tick in range(6):
        for sensor in ("a", "b", "c"):
            queues.add(WaitingScan(scan(0.1 * tick, sensor, points=1), None, float(tick)))
        entry = queues.next()
        assert queues.take(entry)
        served.append((entry.scan.sensor, round(10 * entry.scan.time)))
    assert served == [("a", 0), ("b", 1), ("c", 2), ("a", 3), ("b", 4), ("c", 5)]


def test_whoever_pushes_waits_where_nothing_may_be_lost():
    seen = []
    with Stream(config(queue=1, when_full="wait"), on_result=seen.append, occupancy=False) as stream:
        for number in range(12):
            assert stream.push(scan(0.1 * number))
    assert len(seen) == 12
    assert stream.statistics().total.dropped == 0


def test_a_pose_that_comes_after_its_scan_is_waited_for_and_interpolated():
    with Stream(config(pose_wait=LONG), occupancy=False) as stream:
        results = stream.results()
        stream.set_mounting("lidar", Pose.from_euler(1.0, 0.0, 2.0))
        stream.push_pose(10.0, place(0.0))
        stream.push(scan(10.05))
        stream.push_pose(10.1, place(4.0, yaw=0.2))
        found = next(results)
    expected = place(2.0, yaw=0.1) @ Pose.from_euler(1.0, 0.0, 2.0)
    np.testing.assert_allclose(found.result.scan.T_world_sensor.matrix, expected.matrix, atol=1e-9)
    assert found.diagnostics == ()


def test_a_scan_whose_pose_never_comes_goes_on_without_it_and_says_so():
    with Stream(config(pose_wait=0.05), occupancy=False) as stream:
        results = stream.results()
        stream.push_pose(1.0, place(0.0))
        stream.push(scan(5.0))
        found = next(results)
    assert found.result.scan.T_world_sensor is None
    assert "the newest pose is 4.000 s older than the scan" in found.diagnostics[0]
    assert stream.statistics().total.without_pose == 1
    assert found.latency["waited"] >= 0.05


def test_scans_wait_for_the_first_pose_only_where_poses_are_expected():
    with Stream(config(pose_wait=LONG), occupancy=False) as stream:
        results = stream.results()
        stream.push(scan(1.0))
        assert next(results).diagnostics == ()
        stream.expect_poses()
        stream.push(scan(2.0))
        stream.push_pose(1.9, place(1.0))
        stream.push_pose(2.1, place(3.0))
        assert next(results).result.scan.T_world_sensor.translation[0] == pytest.approx(2.0)


def test_a_mounting_that_comes_after_its_scan_is_waited_for():
    mounted = Pose.from_euler(1.0, 0.0, 2.0)
    with Stream(config(pose_wait=LONG), occupancy=False) as stream:
        results = stream.results()
        stream.expect_mountings()
        for time, x in ((0.9, 0.0), (1.1, 2.0)):
            stream.push_pose(time, place(x))
        stream.push(scan(1.0))
        stream.set_mounting("lidar", mounted, over_road=True)
        found = next(results)
        stream.set_mounting("lidar", mounted)
        stream.push(scan(1.05))
        assert next(results).result.scan.T_vehicle_sensor is not mounted  # as the scan itself says
    assert found.diagnostics == ()
    assert found.result.scan.T_vehicle_sensor is mounted
    np.testing.assert_allclose(found.result.scan.T_world_sensor.matrix, (place(1.0) @ mounted).matrix, atol=1e-9)


def test_a_mounting_that_never_comes_delays_the_first_scan_only():
    patience = 4.0  # s: longer than a busy machine takes to begin
    with Stream(config(pose_wait=patience), occupancy=False) as stream:
        results = stream.results()
        stream.expect_mountings()
        stream.push_pose(0.9, place(0.0))
        stream.push_pose(1.2, place(0.0))
        stream.push(scan(1.0))
        first = next(results)
        stream.push(scan(1.1))
        second = next(results)
    assert first.diagnostics == second.diagnostics == ("pose: the mounting of 'lidar' is unknown",)
    assert first.result.scan.T_world_sensor is None
    assert first.latency["waited"] >= patience > second.latency["waited"]
    assert stream.statistics().total.without_pose == 2


def test_time_that_jumps_back_starts_anew():
    problems = []
    with Stream(config(pose_wait=LONG), on_problem=problems.append, occupancy=False) as stream:
        results = stream.results()
        for start in (100.0, 3.0):
            for k in range(3):
                stream.push_pose(start + 0.1 * k - 0.05, place(0.1 * k))
                stream.push_pose(start + 0.1 * k + 0.05, place(0.1 * k + 0.1))
                stream.push(scan(start + 0.1 * k))
                found = next(results)
                assert found.result.scan.T_world_sensor is not None
                assert found.result.ground.used_prior == (k > 0)
    assert "poses: time ran back by 97.3 s" in problems[0]
    assert stream.statistics().total.processed == 6


def test_what_one_scan_does_wrong_is_reported_and_the_next_is_taken():
    problems, seen = [], []

    def fails_once(live):
        if live.result.scan.time == 2.0:
            raise ValueError("no room")

    with Stream(
        config(when_full="wait"),
        on_ground=fails_once,
        on_result=seen.append,
        on_problem=problems.append,
        occupancy=False,
    ) as stream:
        stream.refuse("lidar", "lidar: fields: expected x, y and z")
        for time in (1.0, 2.0, 3.0):
            stream.push(scan(time))
    assert [live.result.scan.time for live in seen] == [1.0, 3.0]
    assert problems == ["lidar: fields: expected x, y and z", "lidar: ValueError: no room"]
    counts = stream.statistics().total
    assert (counts.received, counts.processed, counts.refused) == (4, 2, 2)


def test_empty_scans_and_scans_of_nan_come_back():
    hollow = replace(scan(2.0), points=np.full((400, 3), np.nan, np.float32))
    with Stream(config(when_full="wait"), occupancy=False) as stream:
        results = stream.results()
        for given in (scan(1.0, points=0), hollow, scan(3.0)):
            stream.push(given)
            assert len(next(results).result.ground.label) == len(given)


def test_parameters_change_between_two_scans():
    with Stream(config(), occupancy=False) as stream:
        results = stream.results()
        stream.push(scan(1.0, T_world_sensor=place(0.0)))
        assert next(results).diagnostics == ()
        stream.change(config(queue=9).with_changes(ground={"stcrf": {"length": 20.0}}))
        stream.push(scan(1.1, T_world_sensor=place(0.1)))
        found = next(results)
        assert found.diagnostics == ("parameters changed: filters restarted",)
        assert found.result.ground.grid.columns == 20
        assert stream.config.live.queue == 2


def test_a_stopped_stream_takes_nothing_and_iteration_ends():
    stream = Stream(config(), occupancy=False).start()
    results = stream.results()
    stream.push(scan(1.0))
    stream.stop()
    assert [live.result.scan.time for live in results] == [1.0]
    assert not stream.push(scan(2.0))
    assert stream.stop().total.dropped == 1


def test_stopping_at_once_drops_what_waits():
    gate = Gate()
    stream = Stream(config(queue=5), on_ground=gate, occupancy=False).start()
    stream.push(scan(0.0))
    assert gate.entered.wait(PATIENCE)
    for time in (1.0, 2.0):
        stream.push(scan(time))
    ender = threading.Thread(target=stream.stop, kwargs={"finish": False})
    ender.start()
    wait_until(lambda: stream.statistics().total.dropped == 2)
    gate.release.set()
    ender.join(PATIENCE)
    counts = stream.statistics().total
    assert (counts.processed, counts.dropped) == (1, 2)


def test_scans_from_many_threads_are_all_counted():
    with Stream(config(queue=100, when_full="wait"), occupancy=False) as stream:
        pushers = [
            threading.Thread(target=lambda name=name: [stream.push(scan(0.1 * k, name)) for k in range(5)])
            for name in ("front", "left", "right")
        ]
        for pusher in pushers:
            pusher.start()
        for pusher in pushers:
            pusher.join(PATIENCE)
    statistics = stream.statistics()
    assert {name: counts.processed for name, counts in statistics.sensors.items()} == {
        "front": 5,
        "left": 5,
        "right": 5,
    }
    assert statistics.latency["total"][1] >= statistics.latency["ground"][0] > 0
    assert "15 scans in, 15 out, 0 dropped" in statistics.line()


def test_a_reader_that_is_too_slow_loses_the_oldest_results():
    with Stream(config(when_full="wait"), occupancy=False) as stream:
        results = stream.results(keep=2)
        for number in range(5):
            stream.push(scan(float(number)))
    assert [live.result.scan.time for live in results] == [3.0, 4.0]
    assert stream.statistics().total.processed == 5
