# SPDX-License-Identifier: Apache-2.0
"""CLEAR MOT: each kind of mistake is counted as what it is."""

import numpy as np
import pytest

from roadbed.core.tracked_objects import TrackedObject
from roadbed.evaluate.tracking import TrackingFrame, tracking_figures


def box(x, y, length=4.0, width=2.0):
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * [length / 2, width / 2]
    return corners + np.array([x, y])


def obj(number, x, y, extent=(4.0, 2.0)):
    return TrackedObject(
        id=number,
        position=np.array([x, y]),
        extent=np.array(extent),
        heading=0.0,
        velocity=np.array([5.0, 0.0]),
        velocity_covariance=np.eye(2),
        cells=9,
        age=1.0,
    )


def frames(said, hidden=()):
    """A car that drives past a van that stands; `said(k)` lists the objects of frame k."""
    out = []
    for k in range(30):
        there = {"car": box(0.5 * k, 0.0)}
        visible = {} if k in hidden else there
        out.append(TrackingFrame(0.1 * k, said(k), {**visible, "van": box(8, 6)}, {} if visible else there))
    return tracking_figures(out, ["car"])


def test_a_perfect_track():
    out = frames(lambda k: [obj(1, 0.5 * k, 0.0)])
    assert out["mota_percent"] == 100
    assert out["motp_m"] == pytest.approx(0)
    assert out["id_switches"] == out["fragments"] == out["split_percent"] == 0
    assert out["extent_within_25_percent"] == 100
    assert out["mover_frames"] == 30


def test_each_mistake_counts_once():
    # Missed in three frames, found again under another number: a fragment, a switch, three misses.
    out = frames(lambda k: [] if k in (10, 11, 12) else [obj(1 if k < 10 else 2, 0.5 * k, 0.0)])
    assert (out["missed_mover_frames"], out["fragments"], out["id_switches"]) == (3, 1, 1)
    assert out["mota_percent"] == pytest.approx(100 * (1 - 4 / 30))
    # What stands taken for a mover is false; so is the second half of a car, which is split.
    out = frames(lambda k: [obj(1, 0.5 * k - 1, 0.0), obj(2, 0.5 * k + 1.5, 0.0), obj(3, 8, 6)])
    assert out["false_objects"] == 60
    assert out["split_percent"] == 100
    assert out["extent_within_25_percent"] == 100
    assert frames(lambda k: [obj(1, 0.5 * k, 0.0, (2.0, 2.0))])["extent_within_25_percent"] == 0
    # In its first second the extent of an object is not scored.
    growing = frames(lambda k: [obj(1, 0.5 * k, 0.0, (2.0, 2.0) if k < 10 else (4.0, 2.0))])
    assert growing["extent_within_25_percent"] == 100


def test_a_mover_that_cannot_be_seen_is_neither_missed_nor_false():
    out = frames(lambda k: [obj(1, 0.5 * k, 0.0)] if k != 11 else [], hidden=(10, 11, 12))
    assert out["mover_frames"] == 27
    assert out["mota_percent"] == 100
    assert out["fragments"] == 0


def test_nothing_to_find():
    assert tracking_figures([], [])["mota_percent"] is None
