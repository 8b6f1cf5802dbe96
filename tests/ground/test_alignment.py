# SPDX-License-Identifier: Apache-2.0
"""A scan's pose corrected against the prior surface: by how much, and which way."""

import numpy as np
import pytest

from roadbed import Config, GroundFilter, Pose
from roadbed.ground.stcrf.model import ALIGNMENT_DEAD_LIFT, ALIGNMENT_DEAD_TILT, FRAME
from roadbed.ground.stcrf.motion import grid_pose
from roadbed.simulate.motion import Odometry
from tests.devices import DRIVERS, accelerator, backend
from tests.ground.test_drive import scan_at
from tests.simulated import simulated

pytestmark = pytest.mark.long(30)


def after_three_good_scans(name):
    ground = GroundFilter(backend=backend(name))
    for k in range(3):
        ground(scan_at(0.0, k, 0.1 * k))
    return ground


@pytest.mark.parametrize("name", DRIVERS)
@pytest.mark.parametrize("lift", [0.2, -0.15])
def test_the_trusted_share_of_a_wrong_height_beyond_the_dead_zone_is_corrected(name, lift, monkeypatch):
    scan = scan_at(0.0, 3, 0.3)
    true = scan.T_world_sensor.translation[2]
    for trust in (1.0, 0.6):
        monkeypatch.setattr(grid_pose.model, "ALIGNMENT_TRUST", trust)
        frame = after_three_good_scans(name)(scan.at(Pose.from_euler(z=lift) @ scan.T_world_sensor))
        left = frame.T_grid_sensor.translation[2] - true
        assert left == pytest.approx((1 - trust) * lift + np.copysign(trust * ALIGNMENT_DEAD_LIFT, lift), abs=0.012)


@pytest.mark.parametrize("name", DRIVERS)
@pytest.mark.parametrize("wrong", [{"pitch": 0.02}, {"roll": -0.02}], ids=["pitch", "roll"])
def test_the_trusted_share_of_a_wrong_tilt_beyond_the_dead_zone_is_corrected(name, wrong, monkeypatch):
    scan = scan_at(0.0, 3, 0.3)
    (axis, angle), up = next(iter(wrong.items())), scan.T_world_sensor
    for trust in (1.0, 0.6):
        monkeypatch.setattr(grid_pose.model, "ALIGNMENT_TRUST", trust)
        frame = after_three_good_scans(name)(scan.at(up @ Pose.from_euler(**wrong)))
        left = getattr(frame.T_grid_sensor, axis) - getattr(up, axis)
        assert left == pytest.approx((1 - trust) * angle + np.copysign(trust * ALIGNMENT_DEAD_TILT, angle), abs=0.002)


def tilt_errors(ground, scans, poses):
    """Roll and pitch (scans, 2) of the poses in use against the true poses, degrees."""
    errors = []
    for scan, pose in zip(scans, poses):
        frame = ground(scan.at(pose))
        turn = scan.T_world_sensor.inverse() @ frame.T_world_grid @ frame.T_grid_sensor
        errors.append(np.degrees([turn.roll, turn.pitch]))
    return np.array(errors)


@pytest.mark.parametrize("name", DRIVERS)
def test_exact_poses_are_not_changed_on_a_mountain_road(name):
    """Each scan is aligned with a surface of scans aligned before: small biased fits must not add up to a drift."""
    scans = simulated("sim:mountain?sensor=vlp16&seed=311", 15)
    errors = tilt_errors(GroundFilter(Config(), backend(name)), scans, [scan.T_world_sensor for scan in scans])
    assert np.abs(errors).max() < 0.03


def test_noisy_poses_are_improved_on_a_mountain_road():
    """On a hillside a turn also shifts points along the slope. Without that term each fit turns too far and the surface
    turns along: the roll drifted to 2.4 degrees."""
    scans = simulated("sim:mountain?sensor=vlp16&seed=311", 60)
    noise = Odometry(noise=0.05, angle_noise=np.radians(0.5))
    poses = noise.measure([scan.T_world_sensor for scan in scans], seed=0)
    errors = tilt_errors(GroundFilter(), scans, poses)
    unaligned = tilt_errors(GroundFilter(Config.parse({"ground": {"without": ["alignment"]}})), scans, poses)
    assert np.all(np.sqrt(np.mean(errors**2, axis=0)) < 0.7 * np.sqrt(np.mean(unaligned**2, axis=0)))
    assert np.abs(errors).max() < np.abs(unaligned).max()


@pytest.mark.parametrize("name", DRIVERS)
def test_the_trusted_share_of_a_wrong_roll_is_corrected_on_a_hillside(name, monkeypatch):
    monkeypatch.setattr(grid_pose.model, "ALIGNMENT_TRUST", 1.0)
    *before, scan = simulated("sim:mountain?sensor=vlp16&seed=311", 6)
    for roll in (0.02, -0.02):
        ground = GroundFilter(Config(), backend(name))
        tilt_errors(ground, before, [scan.T_world_sensor for scan in before])
        left, _ = tilt_errors(ground, [scan], [scan.T_world_sensor @ Pose.from_euler(roll=roll)])[0]
        assert left == pytest.approx(np.degrees(np.copysign(ALIGNMENT_DEAD_TILT, roll)), abs=0.1)


def test_the_first_vehicle_position_of_an_estimated_mounting_lies_at_zero():
    """The lattice's heights count from the road under the vehicle, not from the odometry's zero."""
    scan = scan_at(0.0, 0, 0.0)
    level = Pose.from_euler(5.0, -3.0, 101.8)
    frame = GroundFilter()(type(scan)(scan.points, time=0.0, T_world_sensor=level))
    vehicle = frame.T_grid_sensor @ frame.mounting.T_vehicle_sensor.inverse()
    np.testing.assert_allclose(vehicle.translation, [5.0, -3.0, 0.0], atol=0.2)
    assert vehicle.translation[2] == pytest.approx(0.0, abs=1e-6)
    road = frame.T_world_grid @ vehicle.translation
    assert road[2] == pytest.approx(101.8 - frame.mounting.height, abs=0.05)


@pytest.mark.parametrize("name", DRIVERS)
def test_what_stands_does_not_lift_a_sparse_scan(name):
    """Four layers see more of cars than of the road: their sides pulled this street's scans down by 0.1 m and more."""
    ground = GroundFilter(backend=backend(name))
    for scan in simulated("sim:city?sensor=lux4", 5):
        frame = ground(scan)
        placed = frame.T_world_grid @ frame.T_grid_sensor
        assert abs(placed.translation[2] - scan.T_world_sensor.translation[2]) < 0.03


@pytest.mark.parametrize("name", [name for name in DRIVERS if name != "cpu"])
def test_a_device_computes_with_the_pose_that_it_tells(name):
    """It corrects the pose itself, without asking the host; the host repeats it for the caller."""
    device, scan = accelerator(name), scan_at(0.0, 3, 0.3)
    ground = GroundFilter(backend=device)
    for k in range(3):
        ground(scan_at(0.0, k, 0.1 * k))
    frame = ground(scan.at(Pose.from_euler(z=0.2) @ scan.T_world_sensor @ Pose.from_euler(pitch=0.02, roll=-0.01)))
    assert frame.used_prior
    staging_buffer = ground._method.engine._buffers.frames
    record = device.download(getattr(staging_buffer, "device", staging_buffer), 0, FRAME.itemsize).view(FRAME)[0]
    corner = np.array([frame.grid.extent[0], frame.grid.extent[2], record["base"]])
    sensor, vehicle = frame.T_grid_sensor, frame.T_grid_vehicle
    np.testing.assert_allclose(record["rotation"].reshape(3, 3), sensor.rotation, atol=1e-7)
    np.testing.assert_allclose(record["translation"], sensor.translation - corner, atol=4e-6)
    place = [record["vehicle_x"], record["vehicle_y"], record["road"]]
    np.testing.assert_allclose(place, vehicle.translation - corner, atol=4e-6)
