# SPDX-License-Identifier: Apache-2.0
"""The scatter of the odometry's poses is a part of the reported variance."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roadbed
from roadbed import Config, GroundFilter, Pose
from roadbed.ground.engine import Misalignment
from roadbed.ground.stcrf.model import POSE_MEMORY
from roadbed.ground.stcrf.motion.grid_pose import GridPose, uncorrected
from roadbed.ground.stcrf.motion.pose_noise import PoseNoise
from roadbed.simulate.motion import Odometry
from tests.devices import BACKENDS, DRIVERS, backend
from tests.ground import engines
from tests.simulated import simulated

SIZE = 40  # m, as in other tests: they share the programs for accelerators
SCATTER = 0.02**2, 0.004**2, 0.001**2
NUMBER = st.floats(-0.2, 0.2)


def misalignment(lift, slope_x, slope_y):
    return Misalignment(lift, slope_x, slope_y, share=1.0, fits=True)


@given(st.lists(st.tuples(NUMBER, NUMBER, NUMBER), min_size=1, max_size=POSE_MEMORY))
def test_the_scatter_of_the_first_scans_is_their_variance(left):
    noise = PoseNoise()
    for numbers in left:
        noise.add(misalignment(*numbers))
    np.testing.assert_allclose(noise.variance, np.var(left, axis=0), rtol=1e-9, atol=1e-12)
    noise.reset()
    assert noise.variance == (0, 0, 0)


def test_what_leans_the_same_way_in_every_scan_is_no_noise_and_old_scans_are_forgotten():
    noise, random = PoseNoise(), np.random.default_rng(0)
    for _ in range(300):
        noise.add(misalignment(0.02, *random.normal(0.003, (0.0, 0.002))))
    lift, slope_x, slope_y = noise.variance
    assert lift < 1e-20
    assert slope_x < 1e-20
    assert 0.3 < slope_y / 0.002**2 < 3
    for _ in range(100):
        noise.add(misalignment(0, 0, 0))
    assert noise.variance[2] < 1e-3 * slope_y


@given(NUMBER, NUMBER, NUMBER)
def test_what_is_corrected_and_what_is_left_are_the_whole_misalignment(lift, slope_x, slope_y):
    found, at = misalignment(lift, slope_x, slope_y), Pose.from_euler(3.0, 4.0, 2.0)
    corrected = GridPose(Config().ground.stcrf, 0.0, at, Pose.identity(), None).corrected(found).T_lattice_sensor
    left = uncorrected(found)
    assert at.xyz[2] - corrected.xyz[2] + left.lift == pytest.approx(lift, abs=1e-9)
    up = corrected.rotation[:, 0], corrected.rotation[:, 1]  # where x and y point after the turn
    turned = -up[0][2] / up[0][0], -up[1][2] / up[1][1]
    np.testing.assert_allclose(np.add(turned, (left.slope_x, left.slope_y)), (slope_x, slope_y), atol=0.01)


@pytest.mark.parametrize("name", BACKENDS)
def test_scatter_adds_to_the_variance_of_a_frame_with_a_prior(name):
    """At the sensor as that of its height; farther away the slopes count by the squared distance."""
    config = Config().with_changes(ground={"stcrf": {"length": SIZE, "width": SIZE}})
    x, y = (a.ravel() for a in np.meshgrid(np.arange(-12, 12, 0.2), np.arange(-12, 12, 0.2)))
    engine = engines.engine(name, config)
    scan = engines.given(config, np.column_stack([x, y, 0.1 * np.sin(0.9 * x)]), pose=Pose.from_euler(3.0, -2.0))
    scan = replace(scan, rise=10.0)

    def variance(**changes):
        found = engine.frame(replace(scan, **changes))
        return np.where(np.isfinite(found.elevation), found.variance, np.nan).astype(np.float64)

    first = variance(pose_variance=SCATTER)
    engine.keep()
    plain, scattered = variance(warm=True), variance(warm=True, pose_variance=SCATTER)
    without = engine.frame(replace(scan, warm=True, pose_variance=SCATTER)).surface_variance
    np.testing.assert_allclose(np.where(np.isfinite(plain), without, np.nan), plain, rtol=1e-5)
    np.testing.assert_allclose(variance(), first, rtol=1e-5)  # without a prior the poses say nothing
    middle = np.arange(SIZE) + 0.5 - SIZE / 2
    along, across = np.meshgrid(middle - 3.0, middle + 2.0)
    expected = plain + SCATTER[0] + along**2 * SCATTER[1] + across**2 * SCATTER[2]
    limit = config.ground.stcrf.known_sigma**2
    assert np.count_nonzero(np.isfinite(plain)) > 400
    np.testing.assert_allclose(scattered, np.minimum(expected, limit), rtol=1e-4)


@pytest.mark.parametrize("name", DRIVERS)
@pytest.mark.parametrize(("noise", "degrees"), [(0.0, 0.0), (0.01, 0.1), (0.05, 0.5)])
def test_two_sigma_hold_most_of_the_surface_whatever_the_odometry(name, noise, degrees):
    """Without the scatter they held 99, 83 and 78 % of it."""
    scans = simulated("sim:highway?sensor=vlp16&seed=921", 30)
    source = roadbed.open("sim:highway?sensor=vlp16&seed=921&frames=30")
    poses = Odometry(noise=noise, angle_noise=np.radians(degrees)).measure([s.T_world_sensor for s in scans], seed=921)
    ground, inside, nodes = GroundFilter(Config(), backend(name)), 0, 0
    for k, (scan, pose) in enumerate(zip(scans, poses)):
        frame = ground(scan.at(pose))
        if k % 10 < 9:
            continue
        x, y = frame.grid.mesh()
        near = np.hypot(x - frame.T_grid_sensor.translation[0], y - frame.T_grid_sensor.translation[1]) < 40
        error = np.abs(frame.elevation - source.truth(k).elevation(frame.grid, frame.T_grid_sensor))
        known = near & np.isfinite(error)
        inside += np.count_nonzero(error[known] < 2 * np.sqrt(frame.variance[known]))
        nodes += np.count_nonzero(known)
    assert nodes > 3000
    assert inside > 0.95 * nodes


@pytest.mark.parametrize("name", DRIVERS)
def test_the_occupancy_does_not_change_with_the_scatter(name, monkeypatch):
    """All heights of a scan are wrong together, so that its points are no less certain above its own surface."""
    scans = simulated("sim:highway?sensor=vlp16&seed=921", 30)[:5]
    noise = Odometry(noise=0.05, angle_noise=np.radians(0.5))
    poses = noise.measure([scan.T_world_sensor for scan in scans], seed=921)

    def last():
        with roadbed.Pipeline(Config(), backend(name)) as pipeline:
            return [pipeline(scan.at(pose)) for scan, pose in zip(scans, poses)][-1]

    scattered = last()
    monkeypatch.setattr(PoseNoise, "variance", (0.0, 0.0, 0.0))
    plain = last()
    known = np.isfinite(plain.ground.elevation)
    assert np.median(scattered.ground.variance[known] / plain.ground.variance[known]) > 1.5
    same = np.isclose(scattered.ground.surface_variance, plain.ground.variance, rtol=1e-3)
    assert np.mean(same[known]) > 0.98  # what moves is not ground, and a few particles are born in other cells
    for layer in ("static", "dynamic", "free") if name == "cpu" else ():
        np.testing.assert_allclose(
            getattr(scattered.occupancy, layer), getattr(plain.occupancy, layer), atol=1e-4, err_msg=layer
        )
