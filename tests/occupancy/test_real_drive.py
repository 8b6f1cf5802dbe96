# SPDX-License-Identifier: Apache-2.0
"""The whole chain on a real drive with a moving van, a cyclist and a parked van: limits that must not be lost."""

from pathlib import Path

import pytest

import roadbed
from roadbed.evaluate.occupancy import evaluate_occupancy

MASKS = Path(__file__).parent / "kitti-0005-masks.json"
VAN, CYCLIST, PARKED = "062da8c7", "c0499057", "c2066b47"


@pytest.fixture(scope="module")
def figures(real_data):
    return evaluate_occupancy(roadbed.open(real_data / "kitti-raw-0005")[:34], masks=MASKS)


def test_movers_have_their_speed(figures):
    movers = {row["id"]: row for row in figures["movers"]}
    for name, least_share in ((VAN, 80), (CYCLIST, 90)):
        row = movers[name]
        assert row["error_percent"] <= 8
        assert row["within_10_percent"] >= 80
        assert row["dynamic_share_percent"] >= least_share
        assert row["missed_frames"] == 0


def test_what_stands_is_static(figures):
    assert PARKED in {row["id"] for row in figures["standing"]}
    assert figures["static_dynamic_share_percent"] <= 1.0
    assert figures["world_dynamic_share_percent"] <= 0.5
    assert figures["false_moving_cells"] <= 3
    assert figures["false_moving_cells_first"] <= 10
