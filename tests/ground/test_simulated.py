# SPDX-License-Identifier: Apache-2.0
"""The ground against simulated truth: figure 8 of the paper, and low obstacles on smooth road."""

from dataclasses import replace

import numpy as np
import pytest

import roadbed
from roadbed import Config, GroundFilter


@pytest.fixture(scope="module")
def parking():
    """Scans of a car park beside a lower road, with the true elevation."""
    source = roadbed.open("sim:parking?frames=40")
    return [(source[i], source.truth(i)) for i in range(10, 40, 4)]


def rightly_known(parking, config, with_poses):
    """Share of the nodes within 30 m whose reported elevation is right to 5 cm, over the last frames; and the rmse."""
    ground = GroundFilter(config)
    shares, errors = [], []
    for k, (scan, truth) in enumerate(parking):
        frame = ground(scan if with_poses else replace(scan, T_world_sensor=None))
        if k < len(parking) - 3:
            continue
        x, y = frame.grid.mesh()
        place = frame.T_grid_sensor.translation
        near = np.hypot(x - place[0], y - place[1]) < 30
        off = np.abs(frame.elevation - truth.elevation(frame.grid, frame.T_grid_sensor))
        shares.append((off[near] < 0.05).mean())
        errors.append(off[near & np.isfinite(off)])
    return np.mean(shares), float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))


def test_figure_8_the_past_fills_what_is_hidden_now(parking):
    remembered, rmse = rightly_known(parking, Config(), with_poses=True)
    alone, _ = rightly_known(parking, Config(), with_poses=False)
    assert remembered > alone + 0.03
    assert rmse < 0.05


def test_low_obstacles_on_smooth_road_stay_obstacles():
    source = roadbed.open("sim:lowobstacles?frames=40&mounting=unknown")
    ground = GroundFilter()
    found = total = 0
    for index in (0, 20, 39):
        scan, truth = source[index], source.truth(index)
        place = truth.points_world
        height = place[:, 2] - truth.terrain.height(place[:, 0], place[:, 1])
        near = np.hypot(scan.points[:, 0], scan.points[:, 1]) < 25
        raised = (truth.object_id > 0) & (height > 0.15) & near
        labels = ground(replace(scan, T_world_sensor=None)).is_ground
        found += (~labels[raised]).sum()
        total += raised.sum()
    assert total > 200
    assert found / total >= 0.95
