# SPDX-License-Identifier: Apache-2.0
"""Ground and occupancy of a few frames on the CPU: a level road, a box on it. Short enough for a second Numba."""

import numpy as np

from roadbed import Config, Pipeline, Pose, Scan

HEIGHT = 1.8  # m of the sensor over the road


def scan(number):
    """24 rings of 180 points on the road, and a box 8 m ahead, from a sensor that drives 0.7 m per frame."""
    ring, angle = np.meshgrid(np.geomspace(4, 40, 24), np.linspace(-np.pi, np.pi, 180, endpoint=False))
    road = np.stack([ring * np.cos(angle), ring * np.sin(angle), np.full_like(ring, -HEIGHT)], axis=-1).reshape(-1, 3)
    box = np.stack(np.meshgrid([8.0, 8.2], np.linspace(-1, 1, 12), np.linspace(-1.6, -0.4, 12)), axis=-1).reshape(-1, 3)
    points = np.concatenate([road, box]).astype(np.float32)
    pose = Pose.from_euler(0.7 * number, 0.0, HEIGHT)
    vehicle = Pose.from_euler(0.0, 0.0, HEIGHT)
    return Scan(points=points, time=0.1 * number, T_world_sensor=pose, T_vehicle_sensor=vehicle), len(road)


def test_road_is_ground_and_a_box_is_an_occupied_obstacle():
    pipeline = Pipeline(Config())
    for number in range(3):
        given, on_road = scan(number)
        result = pipeline(given)
    ground, occupancy = result.ground, result.occupancy
    assert ground.is_ground[:on_road].mean() > 0.97
    assert ground.is_ground[on_road:].mean() < 0.1
    np.testing.assert_allclose(ground.height_above_ground[:on_road][ground.is_ground[:on_road]], 0, atol=0.1)
    occupied = (occupancy.static + occupancy.dynamic).max()
    assert occupied > 0.5
