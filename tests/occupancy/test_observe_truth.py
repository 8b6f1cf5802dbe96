# SPDX-License-Identifier: Apache-2.0
"""The observation grid against the simulator's truth, which knows no polar table: what a beam passed or hit."""

import numpy as np
import pytest

from roadbed import Config, GroundFilter, OccupancyFilter
from roadbed.simulate.motion import Fixed
from roadbed.simulate.objects import SceneObject, box
from roadbed.simulate.sensors import load_rig
from roadbed.simulate.sequence import SimulatedSequence
from roadbed.simulate.terrain import Terrain
from roadbed.simulate.world import Scene
from roadbed.sources.simulator import SimulatorSource

CONFIG = Config.parse(
    {
        "ground": {"stcrf": {"length": 60, "width": 60}},
        "occupancy": {"grid": {"length": 30, "width": 30, "spacing": 0.3}, "filter": {"particles": 100}},
    }
)


def block(x: float, y: float, length: float, width: float, height: float) -> SceneObject:
    return SceneObject("obstacle", (box(0.0, 0.0, 0.0, length, width, height),), Fixed(x, y), length, width, height)


@pytest.fixture(scope="module")
def seen():
    """A frame among high blocks and low ones on a flat yard, and what is truly there."""
    objects = (block(7, 0, 1, 4, 2.5), block(-6, 3, 3, 1, 2.5), block(2, -6, 2, 2, 1.0), block(0, 9.1, 6, 0.6, 2.0))
    scene = Scene("yard", Terrain(), objects, Fixed(0.0, 0.0), 1.0)
    rig = load_rig("hdl32e").changed(range_noise=0.0, angle_noise=0.0)
    source = SimulatorSource.of(SimulatedSequence(scene, rig, 1, losses=False))
    scan, truth = source[0], source.truth(0)
    ground = GroundFilter(CONFIG)(scan)
    frame = OccupancyFilter(CONFIG)(scan, ground)
    return frame, truth, ground.T_grid_sensor


def rim(mask):
    """Cells beside the border of a set: which side they lie on is a matter of half a cell."""
    padded = np.pad(mask, 2, mode="edge")
    views = [
        padded[2 + dy : 2 + dy + mask.shape[0], 2 + dx : 2 + dx + mask.shape[1]]
        for dx in range(-2, 3)
        for dy in range(-2, 3)
    ]
    return np.any(views, axis=0) & ~np.all(views, axis=0)


def test_cells_under_which_a_low_beam_passed_are_free(seen):
    frame, truth, T_grid_sensor = seen
    there = truth.occupancy(frame.grid, T_grid_sensor, seen_below=0.3)
    free = there.visible & ~there.occupied & ~rim(there.occupied) & ~rim(there.visible)
    assert free.sum() > 2000
    assert (frame.observation[free] < 0.4).mean() > 0.995


def test_cells_in_which_beams_ended_on_something_are_occupied(seen):
    frame, truth, T_grid_sensor = seen
    ends = T_grid_sensor @ truth.T_world_sensor.inverse() @ truth.points_world[truth.object_id > 0]
    middle = (ends[:, 2] > 0.4) & (ends[:, 2] < 2.3)
    cell = frame.grid.index(ends[middle, 0], ends[middle, 1])
    hits = np.bincount(cell[cell >= 0], minlength=frame.grid.size).reshape(frame.grid.shape)
    assert (hits >= 3).sum() > 30
    assert (frame.observation[hits >= 3] > 0.6).all()


def test_shadows_say_nothing(seen):
    """Behind the high blocks no beam passes below the clearance, and none ends."""
    frame, truth, T_grid_sensor = seen
    there = truth.occupancy(frame.grid, T_grid_sensor, seen_below=2.5)
    hidden = ~there.visible & ~there.occupied & ~rim(there.visible) & ~rim(there.occupied)
    assert hidden.sum() > 100
    assert (frame.observation[hidden] == 0.5).mean() > 0.99
    assert (frame.observedness[hidden] == 0).mean() > 0.99
