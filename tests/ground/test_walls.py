# SPDX-License-Identifier: Apache-2.0
"""Returns far above each other are of a wall, which shapes no surface, where they lie above the sensor and near it."""

import numpy as np
import pytest

from roadbed import Config, Pose
from tests.devices import BACKENDS
from tests.ground import engines
from tests.ground.test_small_components import SIZE, patch

SENSOR = 0.4  # m over the road
CONFIG = Config().with_changes(ground={"stcrf": {"length": SIZE, "width": SIZE}, "without": ["seen_only"]})


def shapes_surface(name, lowest, gap, away=12, aside=-2):
    """Whether two layers of returns, `gap` m apart and the lower one `lowest` m over the sensor, make a surface."""
    layers = [patch(away, away + 2, aside, aside + 4, lowest + k * gap) for k in range(2)]
    points = np.concatenate([patch(-6, 2, -4, 4, -SENSOR), *layers])
    output = engines.engine(name, CONFIG).frame(engines.given(CONFIG, points, pose=Pose.from_euler(z=SENSOR)))
    row, column = SIZE // 2 + aside, SIZE // 2 + away
    return bool(np.isfinite(output.elevation[row : row + 4, column : column + 2]).any())


@pytest.mark.parametrize("name", BACKENDS)
def test_returns_far_above_each_other_are_a_wall_above_a_sensor_nearby(name):
    assert not shapes_surface(name, 0.2, 0.8)
    assert not shapes_surface(name, 0.2, 1.2)
    assert shapes_surface(name, 0.2, 1.7)  # what hangs over a bank
    assert shapes_surface(name, -0.3, 1.2)  # over the road
    assert shapes_surface(name, 0.2, 1.2, away=15, aside=14)  # on a hillside far ahead
