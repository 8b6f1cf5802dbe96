# SPDX-License-Identifier: Apache-2.0
"""Groups of moving cells: their box, their velocity, and identities that survive a while unseen."""

from __future__ import annotations

import numpy as np
import pytest

from roadbed.config.occupancy import ObjectsConfig
from roadbed.geometry import Lattice, Pose
from roadbed.occupancy.objects import Cluster, ObjectTracker, find_clusters, mean_velocity

LATTICE = Lattice.centred(20.0, 20.0, 0.2)


def grids(blocks):
    """Moving cells in blocks (x_min, x_max, y_min, y_max, vx, vy) with small covariances."""
    x, y = LATTICE.mesh()
    moving = np.zeros(LATTICE.shape, bool)
    velocity = np.full((*LATTICE.shape, 2), np.nan, np.float32)
    covariance = np.full((*LATTICE.shape, 3), np.nan, np.float32)
    for x_min, x_max, y_min, y_max, vx, vy in blocks:
        chosen = (x > x_min) & (x < x_max) & (y > y_min) & (y < y_max)
        moving |= chosen
        velocity[chosen] = (vx, vy)
        covariance[chosen] = (0.1, 0.0, 0.1)
    return LATTICE, moving, velocity, covariance


def test_separate_blocks_are_separate_objects_with_their_boxes():
    clusters = find_clusters(*grids([(0, 4, 0, 2, 3.0, 0.0), (-5, -4, -6, -3, 0.0, -2.0), (8, 8.2, 8, 8.2, 1, 1)]))
    assert len(clusters) == 2
    car, other = sorted(clusters, key=lambda c: -c.cells)
    np.testing.assert_allclose(car.position, [2.0, 1.0], atol=0.11)
    np.testing.assert_allclose(car.extent, [4.0, 2.0], atol=0.01)
    np.testing.assert_allclose(other.extent, [3.0, 1.0], atol=0.01)
    np.testing.assert_allclose(other.velocity, [0.0, -2.0], atol=1e-6)


def test_mean_velocity_trusts_cells_where_they_know():
    # One cell knows vx well and vy badly, the other the reverse.
    velocity = np.array([[4.0, 9.0], [-5.0, 1.0]])
    covariance = np.array([[0.01, 0.0, 50.0], [50.0, 0.0, 0.01]])
    mean, spread = mean_velocity(velocity, covariance)
    assert mean == pytest.approx([4.0, 1.0], abs=0.05)
    assert np.linalg.eigvalsh(spread).min() > 0
    equal, _ = mean_velocity(velocity, np.tile([1.0, 0.2, 1.0], (2, 1)))
    assert equal == pytest.approx(velocity.mean(axis=0))


def cluster(x, y, vx, vy, cells=20):
    return Cluster(np.array([x, y]), np.array([2.0, 1.0]), np.array([vx, vy]), np.eye(2) * 0.05, cells)


def test_ids_survive_crossing_paths_and_short_absence():
    tracker = ObjectTracker()
    first = tracker.update([cluster(0, 0, 5, 0), cluster(0, 6, 5, -6)], 0.0)
    names = {round(item.velocity[1]): item.id for item in first}
    for k in range(1, 11):
        time = 0.1 * k
        seen = [cluster(5 * time, 0, 5, 0)]
        if k not in (4, 5, 6):
            seen.append(cluster(5 * time, 6 - 6 * time, 5, -6))
        now = tracker.update(seen, time)
        for item in now:
            assert names[round(item.velocity[1])] == item.id
    assert now[0].age == pytest.approx(1.0)


def test_objects_are_followed_from_axes_that_drive_and_turn():
    """A fast vehicle whose own axes the positions are given in passes something slow: one object all the while."""
    tracker = ObjectTracker(ObjectsConfig(lag=0.0))
    T_world_before = Pose.identity()
    for k in range(10):
        T_world_now = Pose.from_euler(4.0 * k, 0.1 * k * k, yaw=0.06 * k)
        tracker.move(T_world_before.inverse() @ T_world_now)
        T_world_before = T_world_now
        x, y, _ = T_world_now.inverse() @ np.array([20.0 + 0.5 * k, 5.0, 0.0])
        velocity = T_world_now.rotation[:2, :2].T @ [5.0, 0.0]
        (found,) = tracker.update([cluster(x, y, *velocity)], 0.1 * k)
        assert found.id == 1
        np.testing.assert_allclose(found.velocity, velocity, atol=1e-6)


def test_a_new_object_gets_a_new_id_and_old_ones_never_return():
    tracker = ObjectTracker(ObjectsConfig(keep=0.3))
    a = tracker.update([cluster(0, 0, 1, 0)], 0.0)[0].id
    b = tracker.update([cluster(1.0, 0, 1, 0)], 1.0)[0].id
    tracker.reset()
    c = tracker.update([cluster(1.0, 0, 1, 0)], 1.1)[0].id
    assert len({a, b, c}) == 3


def test_no_moving_cells_no_objects():
    assert find_clusters(*grids([])) == []


@pytest.mark.parametrize(("metres", "found_again"), [(2.8, True), (3.3, False)])
def test_an_object_is_found_again_within_the_gate_and_half_its_length(metres, found_again):
    tracker = ObjectTracker(ObjectsConfig(gate=2.0))
    first = tracker.update([cluster(0, 0, 5, 0)], 0.0)[0].id
    later = tracker.update([cluster(0.5 + metres, 0, 5, 0)], 0.1)[0].id
    assert (later == first) == found_again


def test_what_the_cells_say_late_is_put_right():
    """An object that speeds up: its cells show the velocity of 0.2 s ago, and it has that acceleration since."""
    tracker = ObjectTracker(ObjectsConfig(lag=0.2))
    position = 0.0
    for k in range(30):
        time, speed = 0.1 * k, 2.0 + 2.0 * 0.1 * k
        position += 0.1 * speed
        late = speed - 2.0 * 0.2
        (found,) = tracker.update([cluster(position, 0, late, 0)], time)
    assert late + 0.1 < found.velocity[0] <= speed
