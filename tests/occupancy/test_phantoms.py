# SPDX-License-Identifier: Apache-2.0
"""Static objects of which the sensor always sees the same part, wherever it drives, do not move with it."""

import numpy as np
import pytest

from roadbed import GroundFilter
from roadbed.config import Config
from roadbed.occupancy import OccupancyFilter
from roadbed.occupancy.hsbof.model import CellRules
from roadbed.sources import open_source
from tests.devices import DRIVERS, backend
from tests.occupancy.scenes import flat_ground, scan_at, sweep

STEP, SPEED, FRAMES = 0.1, 20.0, 16


def met_by_rings(x, slopes):
    """Where rings of a sensor at x meet a wall at y = 4; the first alone meets a guard rail 0.5 to 0.75 m high."""
    along = np.arange(7.0, 9.3, 0.1)
    away = np.hypot(along, 4.0)
    return np.vstack([np.column_stack([along + x, np.full(len(along), 4.0), 1.7 - s * away]) for s in slopes])


def test_the_part_of_a_rail_that_one_ring_meets_does_not_move():
    """Beams pass beneath the rail before and behind that part, so free space seems to follow it at the ego speed."""
    filter_ = OccupancyFilter(Config.parse({"occupancy": {"grid": {"length": 40.0, "width": 20.0}}}))
    for k in range(FRAMES):
        x = SPEED * STEP * k
        points = sweep() + np.array([x, 0, 0])
        scan = scan_at(np.vstack([points, met_by_rings(x, (0.118,))]), STEP * k, x=x)
        frame = filter_(scan, flat_ground(scan))
        assert not frame.moving.any()


def test_a_wall_of_the_same_shape_moves():
    """Its returns are above each other: such a shape at the ego speed is an object that drives along."""
    filter_ = OccupancyFilter(Config.parse({"occupancy": {"grid": {"length": 40.0, "width": 20.0}}}))
    for k in range(FRAMES):
        x = SPEED * STEP * k
        points = sweep() + np.array([x, 0, 0])
        scan = scan_at(np.vstack([points, met_by_rings(x, (0.118, 0.083, 0.048))]), STEP * k, x=x)
        frame = filter_(scan, flat_ground(scan))
    assert frame.moving.any()
    assert np.nanmedian(frame.velocity[frame.moving][:, 0]) == pytest.approx(SPEED, rel=0.1)


@pytest.mark.parametrize("name", DRIVERS)
@pytest.mark.parametrize(("sensor", "layered"), [("lux4", False), ("vlp16", True)])
def test_only_sensors_with_layers_enough_need_surfaces_of_several(sensor, layered, name, monkeypatch):
    (scan,) = open_source(f"sim:city?sensor={sensor}&frames=1")
    told, made = [], CellRules.of
    filter_ = OccupancyFilter(backend=backend(name))
    monkeypatch.setattr(CellRules, "of", lambda *given: told.append(given[3]) or made(*given))
    filter_(scan, GroundFilter()(scan))
    assert told[-1] is layered
