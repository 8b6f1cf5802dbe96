# SPDX-License-Identifier: Apache-2.0
"""Recall by band: counted where it belongs, summed over frames, and printed for a simulated slope."""

import json

import numpy as np

from roadbed.evaluate.metrics import RANGES, Bands
from tests.cli.process import roadbed


def test_ground_is_counted_in_its_band_and_nothing_else_is():
    distance = np.array([5.0, 10.0, 15.0, 30.0, 500.0, 5.0])
    ground = np.array([1, 1, 1, 1, 1, 0], bool)
    found = np.array([1, 0, 1, 0, 1, 1], bool)
    bands = Bands.of(distance, RANGES, found, ground)
    assert bands.points.tolist() == [1, 2, 1, 0, 1]
    assert bands.found.tolist() == [1, 1, 0, 0, 1]
    twice = (bands + bands).as_dict()
    assert twice["10-20"] == {"recall": 50.0, "points": 4}
    assert twice["60+"] == {"recall": 100.0, "points": 2}
    assert "40-60" not in twice  # no ground there: no recall to name


def test_the_command_prints_recall_by_range_and_by_true_slope():
    source = "sim:offroad?sensor=vlp16&frames=1"
    out = json.loads(roadbed("evaluate", "ground", source, "--json").stdout)
    for what in ("recall_by_range", "recall_by_slope"):
        points = sum(band["points"] for band in out[what].values())
        found = sum(band["points"] * band["recall"] / 100 for band in out[what].values())
        assert abs(100 * found / points - out["recall"]) < 0.1  # one frame: the bands make up the whole
    assert len(out["recall_by_slope"]) >= 3
    assert "recall by slope" in roadbed("evaluate", "ground", source).stdout
