# SPDX-License-Identifier: Apache-2.0
"""Rays against closed forms and against slow searches."""

import math
from typing import Any

import numpy as np
import pytest

from roadbed.core.geometry import Pose
from roadbed.kernels.jit import njit
from roadbed.simulate import ground_ray
from roadbed.simulate import solids as parts
from roadbed.simulate.caster import GROUND, CastScene, cast_sweep
from roadbed.simulate.layers import Bend, Crown, Kerb, Plane
from roadbed.simulate.motion import Fixed
from roadbed.simulate.objects import Part, SceneObject, ball, box, column
from roadbed.simulate.scenes import build_scene
from roadbed.simulate.sensors import Mount, Sensor
from roadbed.simulate.solids import NO_SOLIDS, Movements, build_grid, join, placed
from roadbed.simulate.terrain import Terrain


# Only kernels call what is tested here.
@njit(cache=True)
def meet_ground(field: Any, bounds: Any, origin: Any, ray: Any, limit: Any) -> Any:
    return ground_ray.meet_ground(field, bounds, origin, ray, limit)


@njit(cache=True)
def meet_solids(solids: Any, movements: Any, grid: Any, origin: Any, ray: Any, lag: Any, limit: Any, draw: Any) -> Any:
    return parts.meet_solids(solids, movements, grid, origin, ray, lag, limit, draw)


@njit(cache=True)
def ray_interval_of(
    solids: Any, movements: Any, part: Any, lag: Any, ox: Any, oy: Any, oz: Any, ux: Any, uy: Any, uz: Any
) -> Any:
    return parts.ray_interval_of(solids, movements, part, lag, ox, oy, oz, ux, uy, uz)


NO_MOVEMENT = Movements(np.zeros((1, 3)), np.zeros((1, 3)), np.zeros(1))


def rays(count: int, seed: int, elevation: tuple[float, float] = (-1.2, 0.3)) -> np.ndarray:
    rng = np.random.default_rng(seed)
    azimuth, up = rng.uniform(-np.pi, np.pi, count), rng.uniform(*elevation, count)
    return np.column_stack([np.cos(up) * np.cos(azimuth), np.cos(up) * np.sin(azimuth), np.sin(up)])


@pytest.mark.parametrize("plane", [Plane(0.0), Plane(-1.3), Plane(0.4, 0.12, -0.08), Plane(0.0, -0.3, 0.2)])
def test_plane(plane: Plane) -> None:
    terrain = Terrain((plane,))
    bounds = terrain.bounds(-200.0, 200.0, -200.0, 200.0)
    origin = np.array([1.3, -2.1, 3.0])
    for ray in rays(400, 0):
        closing = plane.slope_x * ray[0] + plane.slope_y * ray[1] - ray[2]
        gap = origin[2] - (plane.level + plane.slope_x * origin[0] + plane.slope_y * origin[1])
        expected = gap / closing if closing > 0 else math.inf
        found = meet_ground(terrain.compiled, bounds, origin, ray, 100.0)
        if expected < 99.9:
            assert found == pytest.approx(expected, abs=1e-3)  # 1e-5 m in height, more along a grazing ray
            assert origin[2] + found * ray[2] == pytest.approx(
                float(terrain.height(*(origin + found * ray)[:2])), abs=2e-5
            )
        elif expected > 100.1:
            assert found == math.inf


@pytest.mark.parametrize("scene", ["city", "mountain", "offroad", "parking"])
def test_ground_is_met_first_where_a_fine_search_finds_it(scene: str) -> None:
    terrain = build_scene(scene).terrain
    bounds = terrain.bounds(-60.0, 60.0, -60.0, 60.0)
    origin = np.array([0.3, 0.2, float(terrain.height(0.3, 0.2)) + 1.73])
    distance = np.arange(0.5, 50.0, 0.004)
    for ray in rays(150, 4, (-0.4, 0.05)):
        path = origin + distance[:, None] * ray
        under = np.flatnonzero(path[:, 2] < terrain.height(path[:, 0], path[:, 1]))
        found = meet_ground(terrain.compiled, bounds, origin, ray, 50.0)
        if under.size:
            assert found <= distance[under[0]] + 2e-3
            if found < distance[under[0]] - 0.01:  # a crest thinner than the search's step
                place = origin + found * ray
                assert place[2] == pytest.approx(float(terrain.height(place[0], place[1])), abs=1e-4)
        elif found < math.inf:  # a crest thinner than the search's step
            place = origin + found * ray
            assert place[2] == pytest.approx(float(terrain.height(place[0], place[1])), abs=1e-4)


def test_a_kerb_is_met_at_its_face() -> None:
    terrain = Terrain((Kerb(5.0, 0.15, face=0.04),))
    bounds = terrain.bounds(-30.0, 30.0, -30.0, 30.0)
    origin = np.array([0.0, 0.0, 0.075])  # half way up, level
    found = meet_ground(terrain.compiled, bounds, origin, np.array([0.0, 1.0, 0.0]), 50.0)
    assert found == pytest.approx(5.02, abs=1e-3)


SHAPES = {
    "box": box(0.0, 0.0, 0.5, 2.0, 1.0, 1.5),
    "turned box": Part(0, (0.2, 0.1, 1.0), (1.0, 0.4, 0.3), pitch=0.5, roll=-0.8),
    "column": column(0.0, 0.0, 0.2, 0.6, 2.0),
    "lying cylinder": Part(1, (0.0, 0.0, 1.0), (0.5, 0.5, 0.9), roll=math.pi / 2),
    "ball": ball(0.0, 0.0, 1.0, 1.2, 0.7, 0.5),
}


def inside(part: Part, points: np.ndarray) -> np.ndarray:
    local = Pose.from_euler(*part.centre, pitch=part.pitch, roll=part.roll).inverse() @ points
    scaled = np.abs(local) / part.half
    if part.shape == 0:
        return (scaled <= 1).all(axis=1)
    if part.shape == 1:
        return (np.hypot(scaled[:, 0], scaled[:, 1]) <= 1) & (scaled[:, 2] <= 1)
    return np.linalg.norm(scaled, axis=1) <= 1


@pytest.mark.parametrize("name", SHAPES)
def test_solid_is_entered_and_left_where_a_fine_search_finds_it(name: str) -> None:
    part = SHAPES[name]
    yaw = Pose.from_euler(3.0, -2.0, 0.4, yaw=0.7)
    obj = SceneObject("obstacle", (part,), Fixed(0.0, 0.0), 1.0, 1.0, 1.0)
    solids = placed(obj.solids, yaw.rotation, yaw.translation, 0)
    centre = solids.centre[0]
    rng = np.random.default_rng(5)
    distance = np.arange(0.0, 20.0, 0.002)
    hits = 0
    for _ in range(60):
        origin = centre + 8.0 * rays(1, int(rng.integers(1e9)), (-1.5, 1.5))[0]
        ray = centre + rng.uniform(-1.2, 1.2, 3) - origin
        ray /= np.linalg.norm(ray)
        within = distance[inside(part, yaw.inverse() @ (origin + distance[:, None] * ray))]
        enter, leave = ray_interval_of(solids, NO_MOVEMENT, 0, 0.0, *origin, *ray)
        if within.size > 3:
            hits += 1
            assert enter == pytest.approx(within[0], abs=0.003)
            assert leave == pytest.approx(within[-1], abs=0.003)
        elif within.size == 0:
            assert leave - enter < 0.01
    assert hits > 15


def test_known_distances() -> None:
    """A wall face at x = 10 and a pole of radius 0.1 at (0, 6), seen along the axes."""
    parts = (box(10.5, 0.0, 0.0, 1.0, 4.0, 3.0), column(0.0, 6.0, 0.0, 0.1, 3.0))
    obj = SceneObject("obstacle", parts, Fixed(0.0, 0.0), 1.0, 1.0, 1.0)
    solids = placed(obj.solids, np.eye(3), np.zeros(3), 0)
    terrain = Terrain((Plane(0.0),))
    sensor = Sensor(elevations=(0.0, -10.0), columns=4, range_noise=0.0, range_min=0.1, mount=Mount(z=1.5))
    grid, bounds = build_grid(solids, NO_MOVEMENT, 0.0, 0.0, 60.0, 0.0), terrain.bounds(-60.0, 60.0, -60.0, 60.0)
    scene = CastScene(terrain.compiled, bounds, solids, NO_MOVEMENT, grid)
    at_rest = np.zeros(3)
    sweep = cast_sweep(sensor, Pose.from_euler(z=1.5), at_rest, at_rest, scene, key=np.uint64(1), losses=False)
    # Azimuths 180, 90, 0, -90 degrees.
    by_beam = {(int(c), int(r)): (p, part) for c, r, p, part in zip(sweep.column, sweep.ring, sweep.points, sweep.part)}
    np.testing.assert_allclose(by_beam[2, 0][0], [10.0, 0.0, 0.0], atol=1e-5)
    np.testing.assert_allclose(by_beam[1, 0][0], [0.0, 5.9, 0.0], atol=1e-5)
    assert by_beam[2, 0][1] == 0
    assert by_beam[1, 0][1] == 1
    assert (0, 0) not in by_beam  # the sky
    down = 1.5 / math.tan(math.radians(10.0))
    np.testing.assert_allclose(by_beam[0, 1][0], [-down, 0.0, -1.5], atol=1e-3)
    assert by_beam[0, 1][1] == GROUND


def test_the_grid_loses_nothing() -> None:
    instant = build_scene("city").at(3.0)
    here = instant.poses[min(instant.poses)].translation * 0 + [24.0, 0.0, 2.3]
    grid = build_grid(instant.solids, instant.movements, 24.0, 0.0, 130.0, 0.0)
    hard = np.flatnonzero(np.isinf(instant.solids.density))
    for ray in rays(150, 6, (-0.3, 0.2)):
        nearest = 90.0
        for part in hard:
            enter, leave = ray_interval_of(instant.solids, instant.movements, part, 0.0, *here, *ray)
            if 0.0 <= enter < min(leave, nearest):
                nearest = enter
        # No draw is as deep as the crowns are thick, so only hard parts stop the ray.
        found, _ = meet_solids(instant.solids, instant.movements, grid, here, ray, 0.0, 90.0, 1.0 - 1e-15)
        assert found == pytest.approx(nearest, abs=1e-9)


def test_moving_objects_are_met_where_they_are_at_the_firing() -> None:
    obj = SceneObject("obstacle", (box(0.0, 0.0, 0.0, 1.0, 1.0, 2.0),), Fixed(0.0, 0.0), 1.0, 1.0, 1.0)
    solids = placed(obj.solids, np.eye(3), np.array([10.0, 0.0, 0.0]), 0)
    movements = Movements(np.array([[10.0, 0.0, 0.0]]), np.array([[20.0, 0.0, 0.0]]), np.zeros(1))
    grid = build_grid(solids, movements, 0.0, 0.0, 50.0, 0.1)
    origin, ray = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0])
    for lag in (-0.05, 0.0, 0.05):
        found, part = meet_solids(solids, movements, grid, origin, ray, lag, 50.0, 0.0)
        assert part == 0
        assert found == pytest.approx(9.5 + 20.0 * lag)


def test_turning_objects_swing_about_their_origin() -> None:
    obj = SceneObject("obstacle", (box(2.0, 0.0, 0.0, 1.0, 0.2, 2.0),), Fixed(0.0, 0.0), 1.0, 1.0, 1.0)
    solids = placed(obj.solids, np.eye(3), np.array([5.0, 0.0, 0.0]), 0)
    movements = Movements(np.array([[5.0, 0.0, 0.0]]), np.zeros((1, 3)), np.array([math.pi / 2 / 0.1]))
    grid = build_grid(solids, movements, 0.0, 0.0, 50.0, 0.1)
    # After a quarter turn the arm points to +y: a beam along y = 2 meets its side, 0.1 m before x = 5.
    origin, ray = np.array([0.0, 2.0, 1.0]), np.array([1.0, 0.0, 0.0])
    assert meet_solids(solids, movements, grid, origin, ray, 0.0, 50.0, 0.0)[1] == -1
    assert meet_solids(solids, movements, grid, origin, ray, 0.1, 50.0, 0.0)[0] == pytest.approx(4.9)


def test_loose_crowns_stop_rays_by_their_density() -> None:
    part = ball(0.0, 0.0, 0.0, 2.0, 2.0, 2.0, density=0.5)
    obj = SceneObject("tree", (part,), Fixed(0.0, 0.0), 4.0, 4.0, 4.0)
    solids = join([NO_SOLIDS, placed(obj.solids, np.eye(3), np.array([10.0, 0.0, 2.0]), 0)])
    grid = build_grid(solids, NO_MOVEMENT, 0.0, 0.0, 50.0, 0.0)
    origin, ray = np.array([0.0, 0.0, 2.0]), np.array([1.0, 0.0, 0.0])
    draws = (np.arange(1000) + 0.5) / 1000
    found = [meet_solids(solids, NO_MOVEMENT, grid, origin, ray, 0.0, 50.0, draw)[0] for draw in draws]
    stopped = np.array([distance for distance in found if distance < 50.0])
    assert len(stopped) / 1000 == pytest.approx(1 - math.exp(-0.5 * 4.0), abs=0.002)
    assert stopped.min() >= 8.0
    assert stopped.max() <= 12.0


def test_curved_road_is_met_on_its_surface() -> None:
    terrain = Terrain((Crown(0.1, 5.0), Kerb(5.0)), bends=(Bend(4.0, 80.0),))
    bounds = terrain.bounds(-60.0, 60.0, -60.0, 60.0)
    origin = np.array([0.0, 0.0, 1.7])
    for ray in rays(300, 9, (-0.6, -0.03)):
        found = meet_ground(terrain.compiled, bounds, origin, ray, 55.0)
        place = origin + found * ray
        assert place[2] == pytest.approx(float(terrain.height(place[0], place[1])), abs=2e-5)
