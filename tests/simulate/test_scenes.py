# SPDX-License-Identifier: Apache-2.0
"""Every scene runs, its truth agrees with its points, and nobody drives through anything."""

from __future__ import annotations

import numpy as np
import pytest

import roadbed
from roadbed.simulate.scenes import SCENES


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
