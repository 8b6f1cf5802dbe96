# SPDX-License-Identifier: Apache-2.0
"""Ground is seen from above: what a scan sees from below is not kept as ground for the next scans, on every engine."""

from dataclasses import replace

import numpy as np
import pytest

from roadbed import Config, Pose
from tests.devices import BACKENDS
from tests.ground import engines
from tests.ground.test_small_components import SIZE, patch

SENSOR = 1.7  # m over the road
AHEAD = slice(SIZE // 2 - 4, SIZE // 2 + 4), slice(SIZE // 2 + 15, SIZE // 2 + 21)  # rows and columns of nodes
ROAD = slice(SIZE // 2 - 4, SIZE // 2 + 4), slice(SIZE // 2 - 9, SIZE // 2 + 9)


def kept(name, height, rise=0.0, sensors=1):
    """Effective points that the prior keeps of the road, and of a surface ahead from 12 to 22 m, `height` m over the
    sensor where it begins and rising by `rise` per m: two (rows, columns) arrays."""
    config = Config().with_changes(ground={"stcrf": {"length": SIZE, "width": SIZE}})
    ahead = patch(12, 22, -5, 5, height)
    ahead[:, 2] += rise * (ahead[:, 0] - 12)
    points = np.concatenate([patch(-10, 10, -5, 5, -SENSOR), ahead])
    engine = engines.engine(name, config)
    given = engines.given(config, points, pose=Pose.from_euler(z=SENSOR))
    engine.frame(replace(given, sensors=sensors))
    engine.keep()
    return engine.prior[0][ROAD], engine.prior[0][AHEAD]


@pytest.mark.parametrize("name", BACKENDS)
def test_a_ceiling_is_not_kept_but_a_bank_and_a_roof_below_the_sensor_are(name):
    road, ceiling = kept(name, 3.0)
    assert (road > 1).all()
    assert not ceiling.any()
    for seen_from_above in (kept(name, 0.0, rise=0.3), kept(name, -1.0), kept(name, 3.0, sensors=2)):
        assert all((effective_points > 1).all() for effective_points in seen_from_above)
