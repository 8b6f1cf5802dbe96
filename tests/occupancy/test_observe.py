# SPDX-License-Identifier: Apache-2.0
"""The sensor model: agrees with a beam-by-beam oracle, and says no more than the beams do."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from roadbed.config import Config
from roadbed.core.frames import Scan
from roadbed.core.geometry import Grid, Pose
from roadbed.occupancy.arrays import Observation
from roadbed.occupancy.engine import OccupancyInput
from roadbed.occupancy.model import CLEAR
from roadbed.occupancy.observation import model
from roadbed.occupancy.observation.model import SensorModel
from roadbed.occupancy.observation.observe import Observer
from tests.occupancy import oracle
from tests.occupancy.drives import SMALL, looked_at, segmented
from tests.occupancy.engines import ENGINES, engine, frame_of
from tests.occupancy.scenes import box_points, flat_ground, scan_at, sweep

LATTICE = Grid.centred(24.0, 24.0, 0.4)


@pytest.fixture(scope="module", params=ENGINES)
def observed(request):
    """What an engine's first frame says of a scan: `observation` and `observedness`."""

    def run(scan, ground, grid=LATTICE, T_ground_grid=None, vehicle=None, **changes):
        size = {"length": grid.columns * grid.spacing, "width": grid.rows * grid.spacing}
        occupancy = {"grid": {**size, "spacing": grid.spacing}, "filter": {"particles": 100}, **changes}
        config = Config.parse({"occupancy": occupancy, "vehicle": vehicle or {}})
        return frame_of(engine(request.param, config), OccupancyInput.of(scan, ground, grid, T_ground_grid))

    return run


@pytest.fixture
def grid_of(observed):
    def run(points_world, **ground):
        scan = scan_at(points_world, 0.0)
        return observed(scan, flat_ground(scan, **ground))

    return run


def sensor_grids(scan, ground, config=None):
    """Each sensor's own grid, before they are fused."""
    reports = Observer(config or Config())(OccupancyInput.of(scan, ground, LATTICE))
    return [Observation(*layers) for layers in zip(*reports[1:])]


def at(layer, x, y, grid=LATTICE):
    return float(layer.ravel()[grid.index(x, y)])


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-11, 11), st.floats(-11, 11), st.floats(-1.5, 4.0)), min_size=1, max_size=60),
    st.sampled_from([0.02, 0.15]),
    st.sampled_from([(16.0, 16.0), (80.0, 3.2)]),  # the second with many cells in a row, few of which are reached
    st.sampled_from([["underpass"], ["underpass", "sparse_sensors"]]),  # so few points make a sparse sensor
)
def test_agrees_with_a_beam_by_beam_oracle(observed, points, sigma, size, without):
    points = np.round(np.array(points), 2) + 0.0031  # off the bins' borders, where float32 decides
    rays = np.degrees(np.arctan2(points[:, 1], points[:, 0])) / 2.0
    assume(np.abs(rays - np.round(rays)).min() > 1e-4)
    changes = {"observation": {"azimuth_step": 2.0}, "without": without}
    grid = Grid.centred(*size, 0.8)
    scan = scan_at(points, 0.0)
    ground = flat_ground(scan, sigma=sigma)
    ours = observed(scan, ground, grid, **changes)
    sensor = SensorModel.of(Config.parse({"occupancy": changes}), grid.spacing, 50.0, len(points))
    moved = ground.T_grid_sensor @ scan.points.astype(np.float64)
    heights = ground.height_above_ground.astype(np.float64)
    p, seen = oracle.observation(moved, heights, (0.0, 0.0, 1.7), grid, sensor, sigma=sigma)
    np.testing.assert_allclose(ours.observation, p, atol=3e-4)
    np.testing.assert_allclose(ours.observedness, seen, atol=2e-4)


def test_ground_is_free_obstacle_is_occupied_and_its_shadow_is_unknown(grid_of):
    wall = np.vstack([box_points(6.0, y, height=1.9) for y in np.arange(-1, 1.1, 0.4)])
    ground = sweep()
    behind = (ground[:, 0] > 6.2) & (np.abs(ground[:, 1]) < ground[:, 0] / 5)
    grid = grid_of(np.vstack([ground[~behind], wall]))
    assert at(grid.observation, 4, 0) < 0.1
    assert at(grid.observation, 6, 0) > 0.9
    assert at(grid.observation, 8.6, 0) == 0.5
    assert at(grid.observedness, 8.6, 0) == 0


def test_a_beam_overhead_does_not_claim_free_space(grid_of):
    # Far returns at sensor height: their beams run 1.7 m above everything between.
    fan = np.column_stack([np.full(50, 11.0), np.linspace(-1, 1, 50), np.full(50, 1.7)])
    high = grid_of(fan)
    assert 0.45 < at(high.observation, 5, 0.1) <= 0.5
    low = grid_of(fan * [1, 1, 0])
    assert at(low.observation, 10, 0.1) < 0.2
    assert at(low.observation, 3, 0.1) > 0.4


def test_overhangs_are_no_obstacles_and_do_not_hide_the_ground(grid_of):
    roof = box_points(6.0, 0.0, 2.0, 2.0, 3.6)
    roof[:, 2] = 3.0
    grid = grid_of(np.vstack([sweep(), roof]))
    assert at(grid.observation, 6, 0) < 0.1


def test_what_hangs_higher_than_the_vehicle_is_no_obstacle(observed):
    scan = scan_at(np.array([[6.0, 0.1, 2.2]] * 3), 0.0)
    low, high = (observed(scan, flat_ground(scan), vehicle={"clearance": c}) for c in (2.0, 3.0))
    assert at(low.observation, 6.0, 0.1) <= 0.5
    assert at(high.observation, 6.0, 0.1) > 0.9


def test_sloped_ground_is_not_an_obstacle(observed):
    points = sweep()
    points[:, 2] = 0.12 * points[:, 0]
    scan = scan_at(points, 0.0)
    ground = flat_ground(scan)
    x, _ = ground.grid.mesh()
    exact = (points[:, 2] - 0.12 * points[:, 0]).astype(np.float32)
    sloped = replace(
        ground,
        height_above_ground=exact,
        elevation=(0.12 * x).astype(np.float32),
        slope=np.broadcast_to(np.float32([0.12, 0]), (*x.shape, 2)).copy(),
    )
    grid = observed(scan, sloped)
    assert (grid.observation > 0.5).sum() == 0
    assert (grid.observation < 0.2).mean() > 0.8


def test_uncertain_ground_weakens_both_kinds_of_evidence(grid_of):
    low_thing = sweep([box_points(6.0, 0.0, height=0.36)])
    one_return = np.array([[6.0, 0.1, 0.3]])
    sure, unsure = grid_of(one_return, sigma=0.01), grid_of(one_return, sigma=0.2)
    assert 0.5 < at(unsure.observation, 6, 0.1) < at(sure.observation, 6, 0.1) - 0.05
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
    (clean,), (dirty,) = sensor_grids(scan, ground), sensor_grids(dirty_scan, dirty_ground)
    np.testing.assert_array_equal(clean.probability, dirty.probability)
    np.testing.assert_array_equal(clean.surface, dirty.surface)


def test_where_no_ground_is_known_the_vehicles_plane_stands_in(observed):
    scan = scan_at(np.array([[6.0, 0.1, 1.0], [8.0, 0.1, 0.05]]), 0.0)
    ground = flat_ground(scan)
    nothing = np.full_like(ground.height_above_ground, np.nan)
    unknown = replace(ground, height_above_ground=nothing, elevation=np.full_like(ground.elevation, np.nan))
    grid = observed(scan, unknown)
    assert at(grid.observation, 6, 0.1) > 0.7
    assert at(grid.observation, 8, 0.1) <= 0.5


@pytest.mark.parametrize("axis", [{"pitch": -0.12}, {"roll": 0.12}], ids=["along", "across"])
def test_the_plane_that_stands_in_is_as_steep_as_the_vehicle_stands(observed, axis):
    """On unknown ground: 8 m away the road is 1 m higher, and what lies on it is no obstacle."""
    pose = Pose.from_euler(z=1.7, **axis)
    x, y = (8.0, 0.1) if "pitch" in axis else (0.1, 8.0)
    road = pose.rotation @ [x, y, 0.0]
    thing = pose.rotation @ [x - 2, y, 0.8] if "pitch" in axis else pose.rotation @ [x, y - 2, 0.8]
    scan = Scan(
        (pose.inverse() @ np.array([road, thing])).astype(np.float32),
        time=0.0,
        T_world_sensor=pose,
        T_vehicle_sensor=Pose.from_euler(z=1.7),
    )
    ground = flat_ground(scan)
    nothing = np.full_like(ground.height_above_ground, np.nan)
    unknown = replace(ground, height_above_ground=nothing, elevation=np.full_like(ground.elevation, np.nan))
    grid = observed(scan, unknown)
    assert road[2] > 0.9
    assert at(grid.observation, *road[:2]) <= 0.5
    assert at(grid.observation, *thing[:2]) > 0.7


@pytest.mark.parametrize("axis", [0, 1])
def test_wide_nodes_with_their_slopes_say_what_narrow_ones_say(observed, axis):
    """Beams that pass over rising ground: how high they pass depends on the slope within a node."""
    fan = np.array([[11.0, t, 2.0] for t in np.linspace(-4, 4, 400)])
    points = fan if axis == 0 else fan[:, [1, 0, 2]]
    scan = scan_at(points, 0.0)

    def seen_over(grid):
        ground, along = flat_ground(scan, grid), grid.mesh()[axis]
        slope = np.zeros((*grid.shape, 2), np.float32)
        slope[..., axis] = 0.15
        heights = (points[:, 2] - 0.15 * points[:, axis]).astype(np.float32)
        elevation = (0.15 * along).astype(np.float32)
        return observed(scan, replace(ground, height_above_ground=heights, elevation=elevation, slope=slope))

    narrow, wide = seen_over(Grid.centred(40, 40, 0.4)), seen_over(Grid.centred(40, 40, 4.0))
    assert (narrow.observation < 0.45).any()
    np.testing.assert_allclose(wide.observation, narrow.observation, atol=0.03)


def test_a_single_return_counts_wherever_its_cell_is_in_memory():
    """Cells are looked at in blocks of 32; in rows of 33 cells each row begins elsewhere in a block."""
    observer = Observer(Config())
    for distance in np.arange(6.0, 6.4, 0.06):
        grid = Grid(x0=-2.0, y0=distance - 31 * 0.4, spacing=0.4, columns=33, rows=40)
        scan = scan_at(np.array([[0.0, distance, 1.0]]), 0.0)
        report = observer(OccupancyInput.of(scan, flat_ground(scan), grid))
        assert at(report.probability[0], 0.0, distance, grid) > 0.5, distance


def test_beams_under_a_car_do_not_free_the_space_it_fills(grid_of):
    body = np.vstack([box_points(6.0, y, 0.3, 0.4, 1.4) for y in np.arange(-0.8, 0.9, 0.4)])
    body[:, 2] += 0.1  # the lowest returns are 0.4 m up: there is room beneath
    seen_beneath, in_the_open = grid_of(sweep([body])), grid_of(sweep())
    assert at(in_the_open.observation, 7, 0.1) < 0.1
    assert at(seen_beneath.observation, 7, 0.1) == 0.5
    assert at(seen_beneath.observation, 4, 0.1) < 0.1
    assert at(seen_beneath.observation, 11.8, 0.1) < 0.1
    tailgate = np.column_stack([np.full(121, 6.0), np.linspace(-0.6, 0.6, 121), np.ones(121)])
    seen_beneath = grid_of(sweep([tailgate]))  # far beams pass beneath; a body may fill 3 m behind it
    assert at(seen_beneath.observation, 8.6, 0.1) == 0.5
    assert at(seen_beneath.observation, 10.2, 0.1) < 0.1


def test_ground_seen_under_a_car_does_not_free_it_and_ground_seen_over_a_kerb_is_free(grid_of):
    """The last beams that return from the ground end beneath the body, or behind something low they passed over."""
    body = np.vstack([box_points(6.0, y, 0.3, 0.4, 1.4) for y in np.arange(-0.8, 0.9, 0.4)])
    body[:, 2] += 0.1
    kerb = box_points(4.5, 0.2, 0.3, 0.6, 0.25)
    for obstacle, free in ((body, False), (kerb, True)):
        seen = grid_of(sweep([obstacle], reach=7.1))
        assert (at(seen.observation, 7.1, 0.2) < 0.1) == free


@pytest.mark.parametrize("sparse", [0.0, 1e4])
def test_low_obstacles_cover_the_neighbouring_rays_of_a_sparse_sensor(grid_of, sparse, monkeypatch):
    monkeypatch.setattr(model, "_SPARSE_RETURNS", sparse)
    x, y = 7.0, 0.2  # the middle of a cell; returns lie in the rays left and right of it
    azimuth = np.arctan2(y, x) + np.radians([-0.4, 0.4])
    posts = np.array([(6 * np.cos(a), 6 * np.sin(a), z) for a in azimuth for z in np.linspace(0.4, 1.4, 6)])
    seen = grid_of(sweep([posts]))
    assert (at(seen.observation, x, y) == 0.5) == (sparse > 0)


def test_every_sensor_of_a_rig_gets_its_own_grid_from_its_own_place():
    ahead = Scan(sweep(reach=12.0).astype(np.float32) - [0, 0, 1.7], time=0.0, T_world_sensor=Pose.from_euler(z=1.7),
                 T_vehicle_sensor=Pose.from_euler(z=1.7), sensor="a")  # fmt: skip
    behind = Scan(
        ahead.points,
        time=0.0,
        T_world_sensor=Pose.from_euler(-8.0, z=1.7),
        T_vehicle_sensor=Pose.from_euler(-8.0, z=1.7),
        sensor="b",
    )
    merged = Scan.merged([ahead, behind])
    a, b = sensor_grids(merged, flat_ground(merged))
    assert at(a.observedness, 10, 0) > 0.5 > at(b.observedness, 10, 0)
    (alone,) = sensor_grids(ahead, flat_ground(ahead))
    np.testing.assert_allclose(a.probability, alone.probability, atol=1e-3)


def test_nothing_seen_says_nothing(grid_of):
    empty = grid_of(np.zeros((0, 3)))
    assert (empty.observation == 0.5).all()
    assert (empty.observedness == 0).all()


def test_surface_bits_lie_where_the_points_are():
    scan = scan_at(np.array([[6.05, 0.05, 1.0], [6.05, 0.05, 1.3]]), 0.0)
    (grid,) = sensor_grids(scan, flat_ground(scan))
    cell = LATTICE.index(6.05, 0.05)
    bits = int(grid.surface.ravel()[cell])
    corner_x, corner_y = LATTICE.x[cell % 60] - 0.2, LATTICE.y[cell // 60] - 0.2
    column, row = int((6.05 - corner_x) / 0.1), int((0.05 - corner_y) / 0.1)
    assert bits == 1 << (4 * row + column)


def test_returns_of_one_layer_are_no_surface():
    """A ring meets a guard rail wherever the sensor is; returns of two layers are a place of the object."""
    one, two = [(6.05, 0.05, 0.6), (6.15, 0.05, 0.61)], [(6.05, 4.05, 0.6), (6.05, 4.05, 0.75)]
    inclined = [(6.05, -4.05, 0.6), (6.65, -4.05, 0.9)]  # a bonnet and a windscreen
    scan = scan_at(np.vstack([sweep(), one, two, inclined]), 0.0)
    (grid,) = sensor_grids(scan, flat_ground(scan))
    for x, y, is_surface in ((6.05, 0.05, False), (6.05, 4.05, True), (6.05, -4.05, True), (6.65, -4.05, True)):
        assert (at(grid.surface, x, y) != 0) == is_surface


@pytest.mark.parametrize(
    ("lowest", "hides_the_ground", "is_surface"),
    [(1.7, False, False), (0.9, False, True), (1.7, True, True)],
    ids=["a crown", "a trailer", "a flank over a parked car"],
)
def test_returns_far_beneath_which_beams_pass_are_no_surface(lowest, hides_the_ground, is_surface):
    """The crown of a tree stays an obstacle, but nothing in it moves. What stands behind something else may move: no
    beam shows that it hangs."""
    heights = lowest + np.array([0.0, 0.2, 0.4])
    crown = np.array([(8.05, y, z) for y in np.arange(-1, 1.01, 0.05) for z in heights])
    ground = sweep()
    if hides_the_ground:
        ground = ground[np.abs(np.arctan2(ground[:, 1], ground[:, 0])) > 0.3]
    scan = scan_at(np.vstack([ground, crown]), 0.0)
    (grid,) = sensor_grids(scan, flat_ground(scan))
    assert at(grid.probability, 8.05, 0.05) > 0.5
    assert (at(grid.surface, 8.05, 0.05) != 0) == is_surface
    (plain,) = sensor_grids(scan, flat_ground(scan), Config.parse({"occupancy": {"without": ["hanging_returns"]}}))
    assert at(plain.surface, 8.05, 0.05) != 0


@settings(max_examples=40, deadline=None)
@given(st.floats(3.0, 7.9), st.floats(0.3, 1.25))
def test_beams_beneath_a_car_do_not_show_that_something_behind_it_hangs(away, underside):
    """A cyclist behind a parked car: the beams beneath it would have passed the car, too. They say nothing for 3 m.
    What they passed far beneath is no car: it hangs itself."""
    near, far = 12 * LATTICE.spacing, 20 * LATTICE.spacing
    beam = 1.7 - 1.7 / 9.017 * away  # height of the lowest beam that passed the cell
    above = (underside - beam) / away * 8.2  # m, as far away as the cell is
    assume(min(abs(away - near), abs(above), abs(above - 0.6)) > 0.02)
    upper = np.array([(8.05, y, z) for y in np.arange(-1, 1.01, 0.05) for z in (1.7, 1.9, 2.1)])
    parked = np.array([(away, y, z) for y in np.arange(-1, 1.01, 0.02) for z in (underside, underside + 0.2)])
    scan = scan_at(np.vstack([sweep(), upper, parked]), 0.0)
    (grid,) = sensor_grids(scan, flat_ground(scan))
    assert (at(grid.surface, 8.05, 0.05) != 0) == (near < away < far and 0 < above < 0.6)


def test_a_sparse_sensor_has_surfaces_of_one_layer():
    scan = scan_at(np.array([(6.05, 0.05, 0.6)]), 0.0)
    (grid,) = sensor_grids(scan, flat_ground(scan))
    assert at(grid.surface, 6.05, 0.05) != 0


def test_no_cell_of_a_wall_at_grazing_incidence_is_free(observed):
    """Returns are wider apart than cells, and the ray of a cell's centre may pass the wall that the next ray hits."""
    grid, wall = Grid.centred(24.0, 24.0, 0.2), 1.99
    azimuth = np.radians(np.arange(10, 60, 0.4) + 0.2)
    faces = [
        np.column_stack([wall / np.tan(azimuth), np.full(len(azimuth), wall), np.full(len(azimuth), z)])
        for z in (0.5, 1)
    ]
    points = sweep(faces)
    scan = scan_at(points[(points[:, 1] < 1.7) | (points[:, 2] > 0)], 0.0)
    seen = observed(scan, flat_ground(scan), grid)
    x = np.arange(6.1, 10.5, 0.2)
    assert max(at(seen.observation, place, 0.9, grid) for place in x) < CLEAR  # the road before it is
    assert min(at(seen.observation, place, 1.9, grid) for place in x) > CLEAR


def test_no_cell_of_a_rail_is_free_where_columns_are_further_apart_than_rays(observed):
    """A sparse sensor with a column every 0.53 degrees: every fourth ray of 0.4 degrees has no beam."""
    grid, rail, azimuth = Grid.centred(24.0, 24.0, 0.2), 1.99, np.radians(np.arange(3, 42, 0.53))
    ends = [np.minimum(reach, 0.8 * rail / np.sin(azimuth)) for reach in (3.0, 5.0, 8.0)] + [rail / np.sin(azimuth)]
    heights = np.repeat([0.0, 0.0, 0.0, 0.6], len(azimuth))
    x, y = (np.concatenate([end * axis(azimuth) for end in ends]) for axis in (np.cos, np.sin))
    points = np.column_stack([x, y, heights])
    scan = scan_at(points, 0.0)
    seen = observed(scan, flat_ground(scan), grid)
    x = np.arange(5.1, 8.5, 0.2)
    assert np.mean([at(seen.observation, place, 1.5, grid) < CLEAR for place in x]) > 0.7  # the road before it is
    assert min(at(seen.observation, place, 1.9, grid) for place in x) > CLEAR


@pytest.mark.parametrize("yaw", [0.0, 0.7])
def test_a_turned_grid_sees_the_same_world(observed, yaw):
    scan = scan_at(sweep([box_points(6.0, 0.0)]), 0.0)
    turned = observed(scan, flat_ground(scan), T_ground_grid=Pose.from_euler(yaw=yaw))
    x, y = 6.0 * np.cos(-yaw), 6.0 * np.sin(-yaw)
    assert at(turned.observation, x, y) > 0.9
    assert at(turned.observation, x * 0.6, y * 0.6) < 0.1


def test_nothing_is_left_of_the_scan_before():
    """One observer for scans from other places, of other sensors and with other numbers of points: as new ones see."""
    kept = Observer(SMALL)
    dense, sparse = segmented("vlp16", 2), segmented("lux4", 2)
    for (scan, ground), yaw in zip((dense[0], sparse[0], sparse[1], dense[1]), (0.0, 0.6, 0.7, 2.2)):
        given = looked_at(scan, ground, yaw=yaw)
        for found, expected in zip(kept(given)[1:], Observer(SMALL)(given)[1:]):
            np.testing.assert_array_equal(found, expected)
