# SPDX-License-Identifier: Apache-2.0
"""The chain in order, with either ground method, with and without odometry."""

import numpy as np
import pytest

import roadbed


@pytest.mark.parametrize("method", ["stcrf", "variance"])
def test_each_scan_gives_ground_and_occupancy_and_closing_is_safe(method):
    config = roadbed.Config.parse({"ground": {"method": method, "variance": {"axes": "forward-left"}}})
    pipeline = roadbed.Pipeline(config)
    results = list(pipeline.run(roadbed.open("sim:parking?sensor=vlp16&frames=3")))
    pipeline.close()
    assert len(results) == 3
    for result in results:
        assert len(result.ground.label) == len(result.scan)
        total = sum(getattr(result.occupancy, name) for name in ("static", "dynamic", "free", "unknown"))
        np.testing.assert_allclose(total, 1, atol=1e-4)
        assert set(result.seconds) == {"ground", "occupancy"}


def test_scans_without_odometry_stand_alone():
    pipeline = roadbed.Pipeline()
    first, *_, last = pipeline.run(roadbed.open("sim:parking?sensor=vlp16&frames=3&odometry=none"))
    assert not first.ground.used_prior
    assert not last.ground.used_prior
    assert not last.occupancy.moving.any()


def test_reset_forgets_the_drive():
    scans = list(roadbed.open("sim:parking?sensor=vlp16&frames=3"))
    pipeline = roadbed.Pipeline(occupancy=False)
    fresh = pipeline(scans[0])
    assert pipeline(scans[1]).ground.used_prior
    pipeline.reset()
    again = pipeline(scans[0])
    assert not again.ground.used_prior
    assert again.occupancy is None
    np.testing.assert_array_equal(again.ground.label, fresh.ground.label)
