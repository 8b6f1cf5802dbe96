# SPDX-License-Identifier: Apache-2.0
"""Faces that a sparse sensor sees: against an oracle, and as obstacles where the ground estimate climbed on them."""

from dataclasses import replace

import numpy as np
import pytest

from roadbed.config import Config
from roadbed.core.geometry import Grid
from roadbed.occupancy.engine import GroundSurface, OccupancyInput
from roadbed.occupancy.observation.arrays import Cloud
from roadbed.occupancy.observation.model import SensorModel
from roadbed.occupancy.observation.observe import Observer, _surface
from roadbed.occupancy.observation.vertical_faces_cpu import raise_vertical_faces
from tests.occupancy.scenes import flat_ground, scan_at

SPARSE = Config()
LATTICE = Grid.centred(24.0, 24.0, 0.2)


def rear_of_a_car(x=8.0, layers=(0.35, 0.5, 0.65, 0.8)):
    """What four layers see of a car ahead, and some road behind it."""
    y = np.arange(-0.9, 0.9, 0.05)
    face = np.array([[x, b, z] for z in layers for b in y])
    road = np.array([[a, b, 0.0] for a in np.arange(9, 12, 0.5) for b in np.arange(3, 6, 0.3)])
    return np.vstack([face, road])


def climbed(scan):
    """A ground that lies on everything: no return is above it."""
    return replace(flat_ground(scan), height_above_ground=np.zeros(len(scan), np.float32))


def oracle(points, heights, origin, model, spacing):
    """Heights by the rule's text, over a plane at zero, and the places whose ground is in doubt."""
    azimuth = np.floor((np.arctan2(points[:, 1] - origin[1], points[:, 0] - origin[0]) + np.pi) / np.radians(0.4))
    distance = np.hypot(points[:, 0] - origin[0], points[:, 1] - origin[1])
    bins = np.column_stack([azimuth, np.floor(distance / spacing)])
    out, doubtful = heights.astype(np.float64), []
    for k, point in enumerate(points):
        here = points[(bins == bins[k]).all(axis=1), 2]
        tall = np.ptp(here) >= model.face and distance[k] >= model.min_range
        if tall and model.obstacle_height < point[2] < model.clearance and not heights[k] > model.obstacle_height:
            out[k] = point[2]
            doubtful.append(point[:2])
    return out, np.array(doubtful).reshape(-1, 2)


@pytest.mark.parametrize("seed", range(3))
def test_heights_and_doubt_agree_with_the_oracle(seed):
    rng = np.random.default_rng(seed)
    config = SPARSE
    points = np.column_stack([rng.uniform(-9, 9, 400), rng.uniform(-9, 9, 400), np.zeros(400)])
    columns = (
        np.repeat(points[:60], 5, axis=0) + rng.normal(0, 0.01, (300, 3)) + rng.uniform(0, 1, (300, 1)) * (0, 0, 1)
    )
    points = np.vstack([points, columns]).astype(np.float32)
    scan = scan_at(points, 0.0, height=0.0)
    heights = rng.choice([0.02, 0.1, 0.5, np.nan], len(points)).astype(np.float32)
    ground = flat_ground(scan)
    surface = _surface(GroundSurface.of(ground))
    model = SensorModel.of(config, 0.2, 17.0, len(points))
    cloud = Cloud(points, heights, np.arange(len(points)), np.eye(3), np.zeros(3), np.zeros(3))
    said, variance = heights.copy(), surface.variance.copy()
    changed = raise_vertical_faces(cloud, surface, model, 0.2, said, variance)
    expected, doubtful = oracle(points.astype(np.float64), heights, (0, 0), model, 0.2)
    assert changed == len(doubtful) > 20
    np.testing.assert_allclose(said, expected, atol=1e-6)
    grid = ground.grid
    x, y = grid.mesh()
    near = np.zeros(grid.shape, bool)
    for px, py in doubtful:
        near |= (np.abs(x - grid.x[np.abs(grid.x - px).argmin()]) < 1.5 * grid.spacing) & (
            np.abs(y - grid.y[np.abs(grid.y - py).argmin()]) < 1.5 * grid.spacing
        )
    np.testing.assert_array_equal(np.isinf(variance).reshape(grid.shape), near)


def test_a_sparse_sensor_sees_the_car_on_which_the_ground_climbed():
    scan = scan_at(rear_of_a_car(), 0.0, height=0.6)
    given = OccupancyInput.of(scan, climbed(scan), LATTICE)
    car = LATTICE.index(np.full(7, 8.05), np.linspace(-0.6, 0.6, 7))
    for without, seen in (([], True), (["vertical_faces"], False), (["sparse_sensors"], False)):
        config = SPARSE.with_changes(occupancy={"without": without})
        probability = Observer(config)(given).probability.ravel()[car]
        assert bool((probability > 0.5).all()) is seen
    # What the ground filter gave is left as it was.
    assert (given.heights == 0).all()
