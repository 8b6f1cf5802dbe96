# SPDX-License-Identifier: Apache-2.0
"""What may begin an object, and what only continues one: few cells, and cells inside of an object that was found."""

import numpy as np
import pytest

from tests.occupancy.models import tracker as make_tracker
from tests.occupancy.test_objects import cluster, clusters_in, objects_of

PERSON = (0.01, 0.59, 0.01, 0.59, 1.2, 0.0)  # nine cells that walk
FEW = (0.21, 0.59, 0.21, 0.39, 1.4, 0.1)  # two of them a little later


@pytest.mark.parametrize(
    ("frames", "speed", "found"),
    [(3, 1.4, True), (1, 1.4, False), (3, -1.4, False), (0, 1.4, False)],
    ids=["they continue a person", "seen once", "that walks the other way", "they are no person"],
)
def test_few_cells_continue_an_object_and_begin_none(frames, speed, found):
    tracker = make_tracker()
    for k in range(frames):
        (person,) = objects_of(tracker, [cell.item() for cell in clusters_in([PERSON])], 0.1 * k)
    few = clusters_in([(*FEW[:4], speed, 0.1)], known=tracker.known, time=0.1 * frames)
    assert [part["cells"] for part in few] == ([2] if found else [])
    if found:
        (again,) = objects_of(tracker, [part.item() for part in few], 0.1 * frames)
        assert again.id == person.id
        assert np.linalg.norm(again.velocity - person.velocity) < 0.05  # two cells say little
        assert np.trace(again.velocity_covariance) > np.trace(person.velocity_covariance)


def test_few_cells_that_continue_nothing_are_no_object():
    tracker = make_tracker()
    assert objects_of(tracker, [cluster(0, 0, 1, 0, cells=2)], 0.0) == ()
    assert len(objects_of(tracker, [cluster(0, 0, 1, 0, cells=3)], 0.1)) == 1


def test_few_cells_join_no_body():
    """A single cell ahead of a car that moves as it does, such as one on a fence, does not make the car longer."""
    (car,) = clusters_in([(-4, 0, 0, 1.8, 5.0, 0.0), (2.01, 2.25, 0.81, 1.05, 5.0, 0.0)])
    assert car["length"] == pytest.approx(4.0, abs=0.01)


@pytest.mark.parametrize(("aside", "objects"), [(0.3, 1), (1.2, 2)], ids=["in its box", "beside it"])
def test_nothing_begins_inside_of_an_object_that_was_found(aside, objects):
    """A part of a car that reads 3 m/s slower is no second car; a person beside it is somebody."""
    tracker = make_tracker()
    for k in range(3):
        (car,) = objects_of(tracker, [cluster(0.8 * k, 0, 8, 0)], 0.1 * k)
    found = objects_of(tracker, [cluster(2.4, 0, 8, 0), cluster(2.9, aside, 4, 0.5, cells=6)], 0.3)
    assert len(found) == objects
    assert found[0].id == car.id


def test_the_speed_of_a_car_is_kept_while_its_flank_alone_is_seen():
    """Its end leaves the view, so the visible part, and the cells, seem to be slower; nobody is sure of that."""
    tracker = make_tracker()
    for k in range(10):
        objects_of(tracker, [(40, 0, 4, 1.2 * k, 0, 0.0, 4.3, 1.0, 30, 0, 0.01, 0.0, 0.01)], 0.04 * k)
    for k in range(10, 25):
        flank = (25, 0, 4, 1.1 * k, 0.4, 0.0, 4.0 - 0.1 * (k - 10), 0.2, 27, 0, 0.03, 0.0, 0.02)
        (car,) = objects_of(tracker, [flank], 0.04 * k)
    assert abs(car.velocity[0] - 30) < 2 * np.sqrt(car.velocity_covariance[0, 0])
    assert car.velocity[0] > 29
