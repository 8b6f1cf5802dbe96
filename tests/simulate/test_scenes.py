# SPDX-License-Identifier: Apache-2.0
"""Every scene runs, its truth agrees with its points, and nobody drives through anything."""

import numpy as np
import pytest

import roadbed
from roadbed.core.geometry import Grid
from roadbed.simulate.cells import HeightBand, occupants
from roadbed.simulate.scenes import SCENES, build_scene
from roadbed.simulate.solids import build_grid


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("sensor", ["vlp16", "lux4"])
def test_ground_points_lie_on_the_terrain(scene: str, sensor: str) -> None:
    source = roadbed.open(f"sim:{scene}?sensor={sensor}&frames=30&noise=0")
    scan, truth = source[25], source.truth(25)
    assert len(scan) > 1000
    points_world = (truth.T_world_sensor @ scan.points.astype(np.float64))[truth.is_ground]
    terrain = truth.terrain.height(points_world[:, 0], points_world[:, 1])
    # The points are float32 in the sensor frame and lie up to 200 m away.
    np.testing.assert_allclose(points_world[:, 2], terrain, atol=2e-3)


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_stands_in_the_way(scene: str, seed: int) -> None:
    """The own vehicle's box of 4.2 x 1.8 x 2 m stays clear of every solid, all the way: bridges can be passed under."""
    world = build_scene(scene, seed)
    x, y = Grid.centred(4.2, 1.8, 0.15).mesh()
    for time in np.arange(0.0, world.duration, world.duration / 100):
        body = world.vehicle([float(time)])
        instant = world.at(float(time))
        place = np.stack([x, y, np.zeros_like(x)], -1) @ body.rotation[0].T + body.translation[0]
        grid = build_grid(instant.solids, instant.movements, *body.translation[0, :2], 10.0, 0.0)
        field = world.terrain.compiled
        band = HeightBand(place, body.rotation[0], 0.15, 0.25, 2.0)
        owner = occupants(band, field, instant.solids, instant.movements, grid)
        assert (owner < 0).all(), f"at {time} s: {world.objects[owner.max()]}"


def test_city_bridge_spans_the_road_high_above_it() -> None:
    source = roadbed.open("sim:city?sensor=vlp16&frames=125")
    scan, truth = source[100], source.truth(100)
    bridge = truth.points_world[(scan.classes & 0xFFFF) == 52]
    over_road = bridge[np.abs(truth.terrain.from_road(bridge[:, 0], bridge[:, 1])) < 5.0]
    assert len(over_road) > 50
    assert (over_road[:, 2] - truth.terrain.height(over_road[:, 0], over_road[:, 1]) > 4.3).all()


def test_low_obstacles_are_seen_isolated_and_low() -> None:
    source = roadbed.open("sim:lowobstacles?sensor=hdl64e&frames=11")
    scan, truth = source[10], source.truth(10)
    semantic = scan.classes & 0xFFFF
    assert set(np.unique(semantic)) <= {40, 48, 72, 99}
    points = truth.points_world[semantic == 99]
    height = points[:, 2] - truth.terrain.height(points[:, 0], points[:, 1])
    assert 0.19 < height.max() < 0.42
    near = np.linalg.norm(points[:, :2] - truth.T_world_sensor.translation[:2], axis=1) < 25
    assert len(np.unique(truth.object_id[semantic == 99][near])) >= 8
    assert (height[near] > 0.15).sum() > 50
    for item in truth.objects():
        assert 0.2 <= item.size[2] <= 0.4


def test_a_passing_car_hides_ground_seen_before_and_after() -> None:
    source = roadbed.open("sim:parking?sensor=vlp16&frames=60")
    grid = Grid.centred(4.0, 4.0, 0.4, 3.0, -8.0)  # on the slope down to the car park
    share = [source.truth(index).occupancy(grid).visible.mean() for index in (10, 30, 50)]
    assert share[0] > 0.6
    assert share[1] < 0.3
    assert share[2] > 0.6


def test_density_empties_and_fills_a_scene() -> None:
    empty, usual, crowded = (len(build_scene("city", 0, density).objects) for density in (0.0, 1.0, 2.0))
    assert empty < usual < crowded


@pytest.mark.parametrize("scene", ["city", "mountain", "highway", "offroad"])
def test_objects_stand_ahead_and_behind_from_the_beginning_to_the_end(scene: str) -> None:
    world = build_scene(scene)
    for time in (0.0, world.duration - 0.1):
        here = world.vehicle([time])
        places = np.array([pose.translation for pose in world.at(time).poses.values()])
        ahead = (places - here.translation[0]) @ here.rotation[0][:, 0]
        assert (ahead > 20).sum() >= 3
        assert (ahead < -20).sum() >= 3


def test_a_pedestrian_walks_beside_the_wall_in_the_city() -> None:
    truth = roadbed.open("sim:city?sensor=vlp16&frames=60").truth(40)
    people = [item for item in truth.objects() if item.kind == "pedestrian" and item.moving]
    wall = next(item for item in truth.objects() if item.kind == "wall")
    local = [wall.T_world_object.inverse() @ person.T_world_object.translation[None] for person in people]
    assert any(abs(place[0, 0]) < wall.size[0] / 2 and 0.2 < place[0, 1] < 1.5 for place in local)


def test_the_mountain_road_goes_on_for_two_kilometres_and_keeps_its_character() -> None:
    world = build_scene("mountain")
    places = world.vehicle(np.linspace(0.0, 199.9, 400).tolist()).translation
    steps = np.diff(places, axis=0)
    assert np.linalg.norm(steps, axis=1).sum() > 1990
    grade = steps[:, 2] / np.linalg.norm(steps[:, :2], axis=1)
    for half in np.split(grade[:398], 2):
        assert 0.12 < np.abs(half).max() < 0.16
    early, late = (len(world.at(time).solids.kind) for time in (40.0, 190.0))
    assert 0.5 < late / early < 2
