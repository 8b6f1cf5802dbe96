# SPDX-License-Identifier: Apache-2.0
"""A click finds the point under the cursor, and reads what is known about it."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadbed.core.frames import Label
from roadbed.pipeline import Pipeline
from roadbed.viewer import Viewer
from roadbed.viewer.picking import describe, nearest_to_ray

coordinate = st.floats(-40, 40)


@given(st.lists(st.tuples(coordinate, coordinate, coordinate), min_size=1, max_size=40), st.data())
def test_a_ray_through_a_point_finds_it_or_one_in_front(places, data):
    points = np.array(places) + np.array([60.0, 0, 0])
    chosen = data.draw(st.integers(0, len(points) - 1))
    found = nearest_to_ray(points, np.zeros(3), points[chosen] * 0.1)
    assert found is not None
    direction = points[chosen] / np.linalg.norm(points[chosen])
    assert points[found] @ direction <= points[chosen] @ direction + 1e-6
    assert np.linalg.norm(np.cross(points[found], direction)) <= 0.0021 * (points[found] @ direction)


def test_what_lies_behind_the_eye_or_far_aside_is_not_found():
    assert nearest_to_ray(np.array([[-5.0, 0, 0], [5.0, 5.0, 0], [np.nan, 0, 0]]), np.zeros(3), (1, 0, 0)) is None
    assert nearest_to_ray(np.empty((0, 3)), np.zeros(3), (1, 0, 0)) is None


def test_everything_known_about_a_point_is_reported(scans):
    result = Pipeline()(scans[0])
    index = int(np.argmax(np.where(result.ground.label == Label.GROUND, result.ground.ground_probability, -1)))
    facts = describe(result, index)
    assert facts["label"] == "ground"
    assert float(facts["probability of ground"]) > 0.9
    assert facts["height above ground"].endswith(" m")
    assert {"ring", "intensity", "true class", "deviation of the ground"} <= set(facts)


@pytest.mark.usefixtures("viser")
def test_a_click_reads_the_frame_that_is_drawn(scans, short_sequence, until, monkeypatch):
    """Also while the player has yet to say that it is shown."""
    picked = []
    monkeypatch.setattr("roadbed.viewer.controls.describe", lambda result, index: picked.append(result) or {})
    with Viewer(short_sequence(), port=0, occupancy=False) as viewer:
        until(lambda: viewer.player.shown, "the first frame")
        drawn = Pipeline(occupancy=False)(scans[5])
        viewer._scene.show(drawn)
        eye = np.array([0.0, 0.0, 30.0])
        _, points = viewer._scene.drawn()
        viewer._controls._pick(SimpleNamespace(ray_origin=eye, ray_direction=points[100] - eye))
    assert [result.scan is scans[5] for result in picked] == [True]
