# SPDX-License-Identifier: Apache-2.0
"""A scan that is prefetched while its ground is computed: the same frames, and no trace of it if it never comes."""

from dataclasses import replace

import pytest

from roadbed import Mounting, OccupancyFilter, Pipeline, Pose
from roadbed.core.errors import DeviceError, InputError
from roadbed.core.frames import SensorMount
from roadbed.occupancy.hsbof.filter_device import HsbofDevice
from roadbed.occupancy.hsbof.model import CellRules
from tests.devices import accelerator
from tests.occupancy.test_filter import CONFIG, drive, scene
from tests.occupancy.test_filter_time import same
from tests.simulated import simulated


def known_of(filter_):
    """All that decides what becomes of the next scan."""
    timeline = filter_._timeline
    when = timeline._time, dict(timeline._time_of_sensor), timeline._T_world_vehicle
    return when, dict(filter_._mounts), filter_._last


# A drive with a scan that comes twice, a late one, a gap, a long pause, and time that runs back.
TIMES = (1.8, 1.9, 1.9, 1.85, 2.0, 3.5, 3.6, 9.0, 9.1, 2.0, 2.1)


def test_frames_are_those_of_a_filter_that_prefetches_nothing():
    prefetching, plain = OccupancyFilter(CONFIG), OccupancyFilter(CONFIG)
    drive(prefetching), drive(plain)
    diagnostics = []
    for time in TIMES:
        scan, ground = scene(time)
        prefetching.prefetch(scan, ground.mounting)
        ours, theirs = prefetching(scan, ground), plain(scan, ground)
        assert ours.diagnostics == theirs.diagnostics
        assert same(ours, theirs)
        diagnostics += ours.diagnostics
    for said in ("repeated", "late", "gap of 1.5 s", "pause", "time ran back"):
        assert any(said in note for note in diagnostics), said


@pytest.mark.parametrize("time", [1.8, 1.7, 1.0, 3.5, 60.0, -60.0])
def test_a_scan_that_never_comes_leaves_no_trace(time):
    waiting, plain = OccupancyFilter(CONFIG), OccupancyFilter(CONFIG)
    drive(waiting), drive(plain)
    before = known_of(waiting)
    scan, ground = scene(time, sensor="another")
    waiting.prefetch(scan, ground.mounting)
    waiting.prefetch(replace(scan, T_world_sensor=None), ground.mounting)
    assert known_of(waiting) == before
    for k in range(2):
        ours, theirs = (filter_(*scene(1.8 + 0.1 * k)) for filter_ in (waiting, plain))
        assert ours.diagnostics == theirs.diagnostics == ()
        assert same(ours, theirs)


def test_what_was_prefetched_counts_only_while_nothing_else_has_come():
    """The filter is reset, or gets another scan, before the prefetched one."""
    for happens in (OccupancyFilter.reset, lambda filter_: filter_(*scene(1.8))):
        prefetching, plain = OccupancyFilter(CONFIG), OccupancyFilter(CONFIG)
        drive(prefetching), drive(plain)
        scan, ground = scene(3.5)
        prefetching.prefetch(scan, ground.mounting)
        happens(prefetching), happens(plain)
        ours, theirs = prefetching(scan, ground), plain(scan, ground)
        assert ours.diagnostics == theirs.diagnostics
        assert same(ours, theirs)


def test_what_is_wrong_with_a_scan_is_said_once_its_ground_is_there():
    scan = simulated("sim:city?sensor=lux4", 1)[0]
    twice = replace(scan, mounts=(scan.mounts[0], *scan.mounts[:-1]))
    pipeline, seen = Pipeline(), []
    with pytest.raises(InputError, match="one name per sensor"):
        pipeline(twice, on_ground=seen.append)
    assert len(seen) == 1
    moved = replace(scan, mounts=(SensorMount(scan.mounts[0].name, Pose.from_euler(x=9)), *scan.mounts[1:]))
    pipeline(scan)
    pipeline.occupancy.prefetch(moved, Mounting(T_vehicle_sensor=Pose.identity(), estimated=False))
    assert pipeline.occupancy._mounts == {mount.name: mount.T_vehicle_sensor for mount in scan.mounts}
    with pytest.raises(InputError, match="two places of the vehicle"):
        pipeline(moved)


def test_a_ground_that_fails_leaves_the_occupancy_as_it_was(monkeypatch):
    """The device fails after the scan was prefetched: what the filter knows stays, and the drive goes on."""
    device = accelerator("opencl")
    scans = simulated("sim:city?sensor=vlp16", 4)
    pipeline = Pipeline(backend=device)
    for scan in scans[:2]:
        pipeline(scan)
    before, expected = known_of(pipeline.occupancy), []

    def fails(_):
        expected.append(pipeline.occupancy._prepared.scan)
        raise device.error_types[0]("wait", -5, "out of resources")

    with monkeypatch.context() as patched:
        patched.setattr(type(device.event()), "wait", fails)
        with pytest.raises(DeviceError):
            pipeline(scans[2])
    assert expected == [scans[2]]
    assert known_of(pipeline.occupancy) == before
    assert pipeline(scans[3]).occupancy.diagnostics == ()


def test_a_first_scan_that_failed_may_come_again(monkeypatch):
    """It is neither a repeated scan, of which there would be no frame, nor the second of a drive."""
    filter_, plain = OccupancyFilter(CONFIG), OccupancyFilter(CONFIG)
    scan, ground = scene(1.0)
    with monkeypatch.context() as patched:
        patched.setattr(type(filter_._engine), "finish", _out_of_memory)
        with pytest.raises(DeviceError):
            filter_(scan, ground)
    for k in range(3):
        ours, theirs = (each(*scene(1.0 + 0.1 * k)) for each in (filter_, plain))
        assert ours.diagnostics == theirs.diagnostics == ()
        assert same(ours, theirs)


def _out_of_memory(*_):
    raise DeviceError("out of memory")


def test_rules_of_the_time_step_are_made_before_the_scan_is_placed(monkeypatch):
    """Once per frame, while the host would wait; the frame finds them."""
    device = accelerator("opencl")
    scans = simulated("sim:city?sensor=vlp16", 3)
    pipeline = Pipeline(backend=device)
    for scan in scans[:2]:
        pipeline(scan)
    happened = []
    event, made, described = type(device.event()), CellRules.of, HsbofDevice.describe
    wait = event.wait
    monkeypatch.setattr(event, "wait", lambda self: (happened.append("wait"), wait(self)))
    monkeypatch.setattr(CellRules, "of", lambda *arguments: (happened.append("rules"), made(*arguments))[1])
    monkeypatch.setattr(HsbofDevice, "describe", lambda *a: (happened.append("describe"), described(*a)))
    pipeline(replace(scans[2], time=scans[2].time + 0.0123))
    assert happened == ["rules", "wait", "describe"]
