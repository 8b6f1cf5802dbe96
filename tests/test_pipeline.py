# SPDX-License-Identifier: Apache-2.0
"""The chain in order, with either ground method, with and without odometry, from scans and from plain arrays."""

from dataclasses import replace

import numpy as np
import pytest

import roadbed
from tests.devices import ACCELERATORS, BACKENDS, accelerator
from tests.simulated import simulated


@pytest.mark.parametrize("method", ["stcrf", "variance"])
def test_each_scan_gives_ground_and_occupancy_and_closing_is_safe(method):
    config = roadbed.Config.parse({"ground": {"method": method}})
    pipeline = roadbed.Pipeline(config)
    results = list(pipeline.run(roadbed.open("sim:parking?sensor=vlp16&frames=3")))
    pipeline.close()
    assert len(results) == 3
    for result in results:
        assert len(result.ground.label) == len(result.scan)
        total = sum(getattr(result.occupancy, name) for name in ("static", "dynamic", "free", "unknown"))
        np.testing.assert_allclose(total, 1, atol=1e-4)
        assert set(result.timings) == {"ground", "occupancy"}


def test_scans_without_odometry_stand_alone():
    pipeline = roadbed.Pipeline()
    first, *_, last = pipeline.run(roadbed.open("sim:parking?sensor=vlp16&frames=3&odometry=none"))
    assert not first.ground.used_prior
    assert not last.ground.used_prior
    assert not last.occupancy.moving.any()


class Places(list):
    """Scans of unrelated places."""

    sequential = False


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize("name", ACCELERATORS)
def test_unrelated_scans_are_labelled_several_at_a_time_and_like_each_alone(name):
    """One of them has a pose, and one a mounting that cannot be found, which is said of it alone."""
    sequence = simulated("sim:parking?sensor=vlp16", 6)
    unplaced = [replace(scan, T_world_sensor=None, T_vehicle_sensor=None) for scan in sequence]
    nothing = roadbed.Scan(np.full((50, 3), 7, np.float32))
    places = Places([*unplaced[:3], sequence[3], nothing, *unplaced[4:]])
    pipeline, alone = roadbed.Pipeline(backend=accelerator(name), occupancy=False), roadbed.Pipeline(occupancy=False)
    before = pipeline.backend.traffic.graphs
    results = list(pipeline.run(places))
    assert [result.scan for result in results] == places
    assert pipeline.backend.traffic.graphs - before <= 2  # the scan with a pose; the others went through slots beside
    assert [bool(result.diagnostics) for result in results] == [scan is nothing for scan in places]
    for result, scan in zip(results, places):
        alone.reset()
        expected = alone(scan)
        assert (result.ground.label != expected.ground.label).mean() < 1e-3
        assert result.diagnostics == expected.diagnostics
        assert result.ground.mounting.T_vehicle_sensor.distance_to(expected.ground.mounting.T_vehicle_sensor) < 1e-9


def test_reset_forgets_the_sequence():
    scans = simulated("sim:parking?sensor=vlp16", 3)
    pipeline = roadbed.Pipeline(occupancy=False)
    fresh = pipeline(scans[0])
    assert pipeline(scans[1]).ground.used_prior
    pipeline.reset()
    again = pipeline(scans[0])
    assert not again.ground.used_prior
    assert again.occupancy is None
    np.testing.assert_array_equal(again.ground.label, fresh.ground.label)


def test_a_run_takes_arrays_and_refuses_the_name_of_a_source():
    points = np.random.default_rng(0).uniform(-20, 20, (500, 3))
    with roadbed.Pipeline(occupancy=False) as pipeline:
        assert [len(result.ground.label) for result in pipeline.run([points, points[:9]])] == [500, 9]
        with pytest.raises(roadbed.InputError, match=r"found the name of a source, expected its scans: roadbed\.open"):
            next(pipeline.run("sim:city"))


def test_an_array_of_points_is_a_scan():
    (scan,) = simulated("sim:parking?sensor=vlp16", 1)
    alone = roadbed.Pipeline()(scan.points)
    np.testing.assert_array_equal(alone.ground.label, roadbed.GroundFilter()(scan.points).label)
    assert alone.occupancy.T_world_grid is None
    pose = scan.T_world_sensor.matrix
    placed = roadbed.Pipeline()(scan.points.astype(float).tolist(), pose, 3.5)
    assert placed.occupancy.time == 3.5
    assert placed.occupancy.T_world_grid is not None


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize("name", ACCELERATORS)
def test_the_whole_chain_runs_on_the_given_backend(name):
    device = accelerator(name)
    scans = simulated("sim:parking?sensor=vlp16", 3)
    pipelines = [roadbed.Pipeline(backend=device)]
    if name != "opencl-lanes":  # a configuration cannot ask for it
        pipelines.append(roadbed.Pipeline(roadbed.Config(backend=device.device.backend)))
    for pipeline in pipelines:
        assert pipeline.ground.backend is pipeline.backend
        assert pipeline.backend.device.backend == device.device.backend
        assert pipeline.occupancy.backend is pipeline.backend
        assert isinstance([pipeline(scan) for scan in scans][-1], roadbed.Result)


@pytest.mark.parametrize("name", [name for name in BACKENDS if name in ("cpu", "cuda")])
def test_points_may_lie_where_the_backend_has_its_own(name):
    """On the host for the CPU; on the GPU where there is one."""
    if name == "cuda":
        import cupy as library
    else:
        library = np
    # The second scan lies in the middle of a cell; on the border of two the last bit of a pose would choose the grid's.
    scans = simulated("sim:parking?sensor=vlp16", 2)
    config = roadbed.Config(backend=name)
    ours, theirs = roadbed.Pipeline(config), roadbed.Pipeline(config)
    for scan in scans:
        there = ours(replace(scan, points=library.asarray(scan.points)))
        on_host = theirs(scan)
    np.testing.assert_allclose(there.occupancy.observation, on_host.occupancy.observation, atol=1e-3)


def test_what_both_stages_notice_is_said_once():
    scans = simulated("sim:parking?sensor=vlp16", 3)
    pipeline = roadbed.Pipeline()
    before = [pipeline(scan) for scan in scans][-1]
    again = pipeline(scans[-1])
    assert again.diagnostics == ("repeated scan: same sensor and time as before; not kept",)
    np.testing.assert_array_equal(again.occupancy.occupied, before.occupancy.occupied)


def test_every_public_object_is_one_short_line(moving_result):
    config = roadbed.Config.parse({"ground": {"mounting": {"height": 1.8}}})
    assert repr(config) == "Config(ground=GroundConfig(mounting=MountingConfig(height=1.8)))" == str(config)
    assert repr(roadbed.Config()) == "Config()"
    frame = moving_result.occupancy
    shown = [
        *(make(config) for make in (roadbed.GroundFilter, roadbed.OccupancyFilter, roadbed.Pipeline)),
        *(moving_result, moving_result.scan, moving_result.ground, moving_result.ground.mounting, frame),
        *(frame.grid, frame.T_world_grid, frame.objects[0], roadbed.Config(), roadbed.Label.GROUND),
        *(roadbed.open("sim:city"), roadbed.TraversabilityLimits()),
    ]
    public = {value for name in roadbed.__all__ if isinstance(value := getattr(roadbed, name), type)}
    missing = {kind for kind in public if not any(isinstance(one, kind) for one in shown)}
    assert all(issubclass(kind, Exception) for kind in missing), missing
    for one in shown:
        assert "\n" not in repr(one)
        assert " object at 0x" not in repr(one)
        assert len(repr(one)) < 450
    assert repr(shown[0]).startswith(f"GroundFilter({config!r}; ")
