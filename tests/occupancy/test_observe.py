# SPDX-License-Identifier: Apache-2.0
"""The sensor model: agrees with a beam-by-beam oracle, and says no more than the beams do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadbed.config.occupancy import ObservationConfig
from roadbed.frames import Scan
from roadbed.geometry import Lattice, Pose
from roadbed.occupancy.observe import observe
from tests.occupancy import oracle
from tests.occupancy.scenes import box_points, flat_ground, scan_at, sweep

LATTICE = Lattice.centred(24.0, 24.0, 0.4)


def grid_of(points_world, config=None, lattice=LATTICE, **ground):
    scan = scan_at(points_world, 0.0)
    return observe(scan, flat_ground(scan, **ground), lattice, config)[0]


def at(layer, x, y, lattice=LATTICE):
    return float(layer.ravel()[lattice.index(x, y)])


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-11, 11), st.floats(-11, 11), st.floats(-1.5, 4.0)), min_size=1, max_size=60),
    st.sampled_from([0.02, 0.15]),
)
def test_agrees_with_a_beam_by_beam_oracle(points, sigma):
    points = np.round(np.array(points), 2) + 0.0031  # off the bins' borders, where float32 decides
    config = ObservationConfig(azimuth_step=2.0, underside=0.0)
    lattice = Lattice.centred(16.0, 16.0, 0.8)
    scan = scan_at(points, 0.0)
    ground = flat_ground(scan, sigma=sigma)
    ours = observe(scan, ground, lattice, config)[0]
    moved = ground.T_lattice_sensor @ scan.points.astype(np.float64)
    heights = ground.height_above_ground.astype(np.float64)
    p, seen = oracle.observation(moved, heights, (0.0, 0.0, 1.7), lattice, config, sigma=sigma)
    np.testing.assert_allclose(ours.probability, p, atol=2e-4)
    np.testing.assert_allclose(ours.observedness, seen, atol=2e-4)


def test_ground_is_free_obstacle_is_occupied_and_its_shadow_is_unknown():
    wall = np.vstack([box_points(6.0, y, height=1.9) for y in np.arange(-1, 1.1, 0.4)])
    ground = sweep()
    behind = (ground[:, 0] > 6.2) & (np.abs(ground[:, 1]) < ground[:, 0] / 5)
    grid = grid_of(np.vstack([ground[~behind], wall]))
    assert at(grid.probability, 4, 0) < 0.1
    assert at(grid.probability, 6, 0) > 0.9
    assert at(grid.probability, 8.6, 0) == 0.5
    assert at(grid.observedness, 8.6, 0) == 0


def test_a_beam_overhead_does_not_claim_free_space():
    # Far returns at sensor height: their beams run 1.7 m above everything between.
    fan = np.column_stack([np.full(50, 11.0), np.linspace(-1, 1, 50), np.full(50, 1.7)])
    high = grid_of(fan)
    assert 0.45 < at(high.probability, 5, 0.1) <= 0.5
    low = grid_of(fan * [1, 1, 0])
    assert at(low.probability, 10, 0.1) < 0.2
    assert at(low.probability, 3, 0.1) > 0.4


def test_overhangs_are_no_obstacles_and_do_not_hide_the_ground():
    roof = box_points(6.0, 0.0, 2.0, 2.0, 3.6)
    roof[:, 2] = 3.0
    grid = grid_of(np.vstack([sweep(), roof]))
    assert at(grid.probability, 6, 0) < 0.1


def test_sloped_ground_is_not_an_obstacle():
    points = sweep()
    points[:, 2] = 0.12 * points[:, 0]
    scan = scan_at(points, 0.0)
    ground = flat_ground(scan)
    x, _ = ground.lattice.mesh()
    exact = (points[:, 2] - 0.12 * points[:, 0]).astype(np.float32)
    sloped = replace(
        ground,
        height_above_ground=exact,
        elevation=(0.12 * x).astype(np.float32),
        slope=np.broadcast_to(np.float32([0.12, 0]), (*x.shape, 2)).copy(),
    )
    grid = observe(scan, sloped, LATTICE)[0]
    assert (grid.probability > 0.5).sum() == 0
    assert (grid.probability < 0.2).mean() > 0.8


def test_uncertain_ground_weakens_both_kinds_of_evidence():
    low_thing = sweep([box_points(6.0, 0.0, height=0.36)])
    one_return = np.array([[6.0, 0.1, 0.3]])
    sure, unsure = grid_of(one_return, sigma=0.01), grid_of(one_return, sigma=0.2)
    assert 0.5 < at(unsure.probability, 6, 0.1) < at(sure.probability, 6, 0.1) - 0.05
    unknown = grid_of(low_thing[(low_thing[:, 0] > 8)], sigma=0.3)
    known = grid_of(low_thing[(low_thing[:, 0] > 8)], sigma=0.01)
    assert at(unknown.observedness, 7.4, 0) < at(known.observedness, 7.4, 0)


def test_points_that_are_nothing_change_nothing():
    scan = scan_at(sweep([box_points(6.0, 0.0)]), 0.0)
    ground = flat_ground(scan)
    rubbish = np.float32([[np.nan, 0, 0], [np.inf, 1, 1], [0.2, 0.1, 0.5], [4.0, 0.0, -3.0]])
    dirty_scan = replace(scan, points=np.vstack([scan.points, rubbish]))
    heights = np.float32([0.5, 0.5, 0.5, -1.3])
    dirty_ground = replace(ground, height_above_ground=np.concatenate([ground.height_above_ground, heights]))
    clean, dirty = observe(scan, ground, LATTICE)[0], observe(dirty_scan, dirty_ground, LATTICE)[0]
    np.testing.assert_array_equal(clean.probability, dirty.probability)
    np.testing.assert_array_equal(clean.surface, dirty.surface)


def test_where_no_ground_is_known_the_vehicles_plane_stands_in():
    scan = scan_at(np.array([[6.0, 0.1, 1.0], [8.0, 0.1, 0.05]]), 0.0)
    ground = flat_ground(scan)
    nothing = np.full_like(ground.height_above_ground, np.nan)
    unknown = replace(ground, height_above_ground=nothing, elevation=np.full_like(ground.elevation, np.nan))
    grid = observe(scan, unknown, LATTICE)[0]
    assert at(grid.probability, 6, 0.1) > 0.7
    assert at(grid.probability, 8, 0.1) <= 0.5


def test_beams_under_a_car_do_not_free_the_space_it_fills():
    body = np.vstack([box_points(6.0, y, 0.3, 0.4, 1.4) for y in np.arange(-0.8, 0.9, 0.4)])
    body[:, 2] += 0.1  # the lowest returns are 0.4 m up: there is room beneath
    wary = ObservationConfig(beneath=0.0)
    seen_beneath, in_the_open = grid_of(sweep([body]), wary), grid_of(sweep(), wary)
    assert at(in_the_open.probability, 7, 0.1) < 0.1
    assert at(seen_beneath.probability, 7, 0.1) == 0.5
    assert at(seen_beneath.probability, 4, 0.1) < 0.1
    assert at(seen_beneath.probability, 11.8, 0.1) < 0.1


def test_every_sensor_of_a_rig_gets_its_own_grid_from_its_own_place():
    ahead = Scan(sweep(reach=12.0).astype(np.float32) - [0, 0, 1.7], time=0.0, T_world_sensor=Pose.from_euler(z=1.7),
                 T_vehicle_sensor=Pose.from_euler(z=1.7), sensor="a")  # fmt: skip
    behind = Scan(ahead.points, 0.0, Pose.from_euler(-8.0, z=1.7), Pose.from_euler(-8.0, z=1.7), "b")
    merged = Scan.merged([ahead, behind])
    a, b = observe(merged, flat_ground(merged), LATTICE)
    assert (a.sensor, b.sensor) == ("a", "b")
    assert at(a.observedness, 10, 0) > 0.5 > at(b.observedness, 10, 0)
    alone = observe(ahead, flat_ground(ahead), LATTICE)[0]
    np.testing.assert_allclose(a.probability, alone.probability, atol=1e-3)


def test_nothing_seen_says_nothing():
    empty = grid_of(np.zeros((0, 3)))
    assert (empty.probability == 0.5).all()
    assert (empty.observedness == 0).all()
    assert (empty.surface == 0).all()


def test_surface_bits_lie_where_the_points_are():
    grid = grid_of(np.array([[6.05, 0.05, 1.0]]))
    cell = LATTICE.index(6.05, 0.05)
    bits = int(grid.surface.ravel()[cell])
    corner_x, corner_y = LATTICE.x[cell % 60] - 0.2, LATTICE.y[cell // 60] - 0.2
    column, row = int((6.05 - corner_x) / 0.1), int((0.05 - corner_y) / 0.1)
    assert bits == 1 << (4 * row + column)


@pytest.mark.parametrize("yaw", [0.0, 0.7])
def test_a_turned_grid_sees_the_same_world(yaw):
    scan = scan_at(sweep([box_points(6.0, 0.0)]), 0.0)
    turned = observe(scan, flat_ground(scan), LATTICE, None, Pose.from_euler(yaw=yaw))[0]
    x, y = 6.0 * np.cos(-yaw), 6.0 * np.sin(-yaw)
    assert at(turned.probability, x, y) > 0.9
    assert at(turned.probability, x * 0.6, y * 0.6) < 0.1
