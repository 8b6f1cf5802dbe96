# SPDX-License-Identifier: Apache-2.0
"""Colours of the cloud: each way shows its own channel, and labels where the scan lacks it."""

from dataclasses import replace

import numpy as np
import pytest

from roadbed.outputs.images import palette
from roadbed.viewer.colouring import coloured, colourings_of
from tests.outputs.frames_for_images import ground_frame


@pytest.fixture(scope="module")
def frame():
    ground = ground_frame(points=200)
    count = len(ground.scan)
    ring, intensity = np.arange(count, dtype=np.uint16), np.linspace(1, 0, count, dtype=np.float32)
    return replace(ground, scan=replace(ground.scan, ring=ring, intensity=intensity))


def test_each_way_shows_its_own_channel(frame):
    legends = {"probability": "probability of ground", "height above ground": "m above ground"}
    for way in colourings_of(frame.scan):
        if way not in ("label", "truth"):
            assert legends.get(way, way) in coloured(way, frame.scan, frame).key
    labels = coloured("label", frame.scan, frame)
    np.testing.assert_array_equal(labels.colours, palette.label_colours(frame.label))


@pytest.mark.parametrize("way", ["ring", "intensity", "truth"])
def test_a_channel_that_is_missing_is_replaced_by_labels(frame, way):
    scan = replace(frame.scan, ring=None, intensity=None, classes=None)
    assert way not in colourings_of(scan)
    np.testing.assert_array_equal(coloured(way, scan, frame).colours, palette.label_colours(frame.label))
