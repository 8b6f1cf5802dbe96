# SPDX-License-Identifier: Apache-2.0
"""Groups of moving cells: their box, their velocity, and identities that survive a while unseen."""

from itertools import pairwise

import numpy as np
import pytest

from roadbed.config.occupancy import OccupancyConfig
from roadbed.core.geometry import Grid, Pose
from roadbed.core.tracked_objects import NO_TRACKS, TrackedObject
from roadbed.occupancy.objects.arrays import CLUSTER, MovingLayers
from roadbed.occupancy.objects.clusters_cpu import components, mean_velocity
from roadbed.occupancy.objects.lshape_cpu import fit_box
from roadbed.occupancy.objects.model import ClusterRule
from roadbed.occupancy.objects.tracker import ClusterFinder
from tests.occupancy.models import tracker as make_tracker

LATTICE = Grid.centred(20.0, 20.0, 0.2)


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


def clusters_in(blocks, gap=None, returns=None, known=NO_TRACKS, time=0.0):
    """What is found in such blocks; without `returns` (surface, p_z, movable) the cells themselves are the points."""
    grid, moving, velocity, covariance = grids(blocks)
    nothing = np.zeros(grid.shape, np.float32)
    surface, seen, movable = returns or (nothing.astype(np.uint16), nothing, nothing)
    layers = MovingLayers.of(velocity, covariance, surface, seen, movable, nothing)
    rule = ClusterRule.of(OccupancyConfig(), grid.spacing)
    rule = rule if gap is None else rule._replace(body_gap=gap)
    return ClusterFinder(grid.shape, rule)(grid, moving, layers, known, time)


def test_separate_blocks_are_separate_objects_with_their_boxes():
    clusters = clusters_in([(0, 4, 0, 2, 3.0, 0.0), (-5, -4, -6, -3, 0.0, -2.0), (8, 8.2, 8, 8.2, 1, 1)])
    assert len(clusters) == 2
    car, other = sorted(clusters, key=lambda c: -c["cells"])
    assert (car["x"], car["y"]) == pytest.approx((2.0, 1.0), abs=0.11)
    assert (car["length"], car["width"]) == pytest.approx((4.0, 2.0), abs=0.01)
    assert (other["length"], other["width"]) == pytest.approx((3.0, 1.0), abs=0.01)
    assert (other["vx"], other["vy"]) == pytest.approx((0.0, -2.0), abs=1e-6)


def test_mean_velocity_trusts_cells_where_they_know():
    # One cell knows vx well and vy badly, the other the reverse.
    velocity = np.array([[4.0, 9.0], [-5.0, 1.0]], np.float32)
    covariance = np.array([[0.01, 0.0, 50.0], [50.0, 0.0, 0.01]], np.float32)
    *mean, xx, xy, yy = mean_velocity(velocity, covariance, np.arange(2))
    assert mean == pytest.approx([4.0, 1.0], abs=0.05)
    assert np.linalg.eigvalsh([[xx, xy], [xy, yy]]).min() > 0
    *equal, _, _, _ = mean_velocity(velocity, np.tile(np.array([1.0, 0.2, 1.0], np.float32), (2, 1)), np.arange(2))
    assert equal == pytest.approx(velocity.mean(axis=0))


def cluster(x, y, vx, vy, cells=20):
    return (cells, 0, 4, x, y, np.arctan2(vy, vx), 2.0, 1.0, vx, vy, 0.05, 0.0, 0.05)


def objects_of(tracker, clusters, time, *viewpoint):
    return tuple(TrackedObject.of(track) for track in tracker.update(np.array(clusters, CLUSTER), time, *viewpoint))


def test_ids_survive_crossing_paths_and_short_absence():
    tracker = make_tracker()
    first = objects_of(tracker, [cluster(0, 0, 5, 0), cluster(0, 6, 5, -6)], 0.0)
    names = {round(item.velocity[1]): item.id for item in first}
    for k in range(1, 11):
        time = 0.1 * k
        seen = [cluster(5 * time, 0, 5, 0)]
        if k not in (4, 5, 6):
            seen.append(cluster(5 * time, 6 - 6 * time, 5, -6))
        now = objects_of(tracker, seen, time)
        for item in now:
            assert names[round(item.velocity[1])] == item.id
    assert now[0].age == pytest.approx(1.0)


def test_objects_are_followed_from_axes_that_drive_and_turn():
    """A fast vehicle whose own axes the positions are given in passes something slow: one object all the while."""
    tracker = make_tracker(lag=0.0)
    T_world_before = Pose.identity()
    for k in range(10):
        T_world_now = Pose.from_euler(4.0 * k, 0.1 * k * k, yaw=0.06 * k)
        tracker.move(T_world_before.inverse() @ T_world_now)
        T_world_before = T_world_now
        x, y, _ = T_world_now.inverse() @ np.array([20.0 + 0.5 * k, 5.0, 0.0])
        velocity = T_world_now.rotation[:2, :2].T @ [5.0, 0.0]
        (found,) = objects_of(tracker, [cluster(x, y, *velocity)], 0.1 * k)
        assert found.id == 1
        np.testing.assert_allclose(found.velocity, velocity, atol=1e-6)


def test_a_new_object_gets_a_new_id_and_old_ones_never_return():
    tracker = make_tracker(keep=0.3)
    a = objects_of(tracker, [cluster(0, 0, 1, 0)], 0.0)[0].id
    b = objects_of(tracker, [cluster(1.0, 0, 1, 0)], 1.0)[0].id
    tracker.reset()
    c = objects_of(tracker, [cluster(1.0, 0, 1, 0)], 1.1)[0].id
    assert len({a, b, c}) == 3


@pytest.mark.parametrize("seed", range(4))
def test_cells_belong_together_that_reach_each_other_and_no_others(seed):
    """Against every pair of cells, also where one row ends and the next one begins."""
    reach, cells = 2, np.random.default_rng(seed).random((15, 12)) < (0.1, 0.2, 0.3, 0.4)[seed]
    cells[:, 4:-4] = False
    rows, columns = np.nonzero(cells)
    group = np.arange(len(rows))
    for _ in rows:
        for k in range(len(rows)):
            near = np.maximum(np.abs(rows - rows[k]), np.abs(columns - columns[k])) <= reach
            group[k] = group[near].min()
    start, members = components(np.flatnonzero(cells), columns, cells.shape[1], reach)
    found = {tuple(members[a:b]) for a, b in pairwise(start) if b > a}
    assert found == {tuple(np.flatnonzero(group == name)) for name in set(group)}
    assert len(found) > 1


def test_no_moving_cells_no_objects():
    assert len(clusters_in([])) == 0


def sides(x, y, heading, length=4.4, width=1.8, seen="ls"):
    """Returns from two sides of a car, 5 cm apart: l its left side, s its rear, and the middle of its box at (x, y)."""
    along, across = np.arange(-length / 2, length / 2, 0.05), np.arange(-width / 2, width / 2, 0.05)
    lines = {"l": np.column_stack([along, np.full(len(along), width / 2)]),
             "s": np.column_stack([np.full(len(across), -length / 2), across])}  # fmt: skip
    turn = np.array([[np.cos(heading), np.sin(heading)], [-np.sin(heading), np.cos(heading)]])
    return np.vstack([lines[side] for side in seen]) @ turn + (x, y)


def closeness(points, heading):
    """The criterion of the fit, written down once more, slowly."""
    axes = np.array([[np.cos(heading), -np.sin(heading)], [np.sin(heading), np.cos(heading)]])
    uv = points @ axes
    distance = np.minimum(uv - uv.min(axis=0), uv.max(axis=0) - uv).min(axis=1)
    return (1 / np.maximum(distance, 0.05)).sum()


def test_boxes_lie_along_the_sides_that_are_seen():
    rng = np.random.default_rng(0)
    for heading in rng.uniform(-3, 3, 8):
        points = sides(3.0, -2.0, heading) + rng.normal(0, 0.01, (124, 2))
        # The velocity is off by some degrees: the sides say better how it stands.
        said = heading + np.radians(rng.uniform(-18, 18))
        x, y, length, width, found = fit_box(points, said, 0.05)
        tried = said + np.radians(np.arange(-20, 21, 2))
        assert found == pytest.approx(max(tried, key=lambda one: closeness(points, one)))
        assert abs(np.angle(np.exp(1j * (found - heading)))) < np.radians(2.5)
        assert (x, y) == pytest.approx((3.0, -2.0), abs=0.15)
        assert (length, width) == pytest.approx((4.4, 1.8), abs=0.2)


def test_front_and_rear_of_one_car_are_one_object_and_two_cars_are_two():
    car = [(-4, -3.4, 0, 1.8, 8.0, 0.0), (-2.2, 0.2, 0, 1.8, 8.3, 0.3)]  # with a gap between front and rear
    one = clusters_in(car, 1.6)
    assert len(one) == 1
    assert (one[0]["length"], one[0]["width"]) == pytest.approx((4.2, 1.8), abs=0.25)
    following = [*car, (2.0, 6.0, 0, 1.8, 8.0, 0.0)]
    assert len(clusters_in(following, 1.6)) == 2
    beside = [(-4, 0, 0, 1.8, 8.0, 0.0), (-4, 0, 2.6, 4.4, 8.0, 0.0)]
    assert len(clusters_in(beside)) == 2
    oncoming = [(-4, -3.4, 0, 1.8, 8.0, 0.0), (-2.6, 0.2, 0, 1.8, -8.0, 0.0)]
    assert len(clusters_in(oncoming)) == 2
    walkers = [(0, 0.6, 0, 0.6, 1.4, 0.0), (0, 0.6, 1.2, 1.8, 1.4, 0.0)]
    assert len(clusters_in(walkers)) == 2


def test_boxes_hold_the_returns_beside_moving_cells_but_not_those_of_a_wall():
    x, y = LATTICE.mesh()
    hit = (x > -0.2) & (x < 4.2) & (y > -0.2) & (y < 0.8)
    wall = (y < -0.2) & (y > -0.4)
    surface, seen = np.where(hit | wall, 0xFFFF, 0).astype(np.uint16), np.where(hit | wall, 0.9, 0.1)
    returns = surface, seen.astype(np.float32), (~wall).astype(np.float32)
    (found,) = clusters_in([(0, 4, 0, 0.6, 3.0, 0.0)], None, returns)
    assert (found["length"], found["width"]) == pytest.approx((4.4, 1.0), abs=0.01)


def test_returns_of_moving_cells_count_before_their_mass_is_dynamic():
    """Each cell returned from its lower quarter; so do the cells around, which are static."""
    surface, seen = np.full(LATTICE.shape, 0x000F, np.uint16), np.full(LATTICE.shape, 0.9, np.float32)
    (found,) = clusters_in([(0, 4, 0, 0.6, 3.0, 0.0)], None, (surface, seen, np.zeros_like(seen)))
    assert (found["length"], found["width"]) == pytest.approx((4.0, 0.45), abs=0.01)


def seen_part(points, velocity):
    x, y, length, width, heading = fit_box(points, np.arctan2(velocity[1], velocity[0]), 0.05)
    return (20, 0, len(points), x, y, heading, length, width, *velocity, 0.05, 0.0, 0.05)


def test_a_box_keeps_its_size_when_less_is_seen_and_lies_behind_the_near_side():
    tracker = make_tracker()
    for k in range(12):
        shown = "ls" if k < 8 else "s"  # later only the rear
        (thing,) = objects_of(
            tracker, [seen_part(sides(10 + 0.5 * k, 0, 0.0, seen=shown), (5.0, 0.0))], 0.1 * k, (0.0, 0.0)
        )
    np.testing.assert_allclose(thing.extent, [4.4, 1.8], rtol=0.12)
    np.testing.assert_allclose(thing.position, [10 + 0.5 * 11, 0.0], atol=0.3)


@pytest.mark.parametrize(("viewer", "metres"), [(-4.1, 0.3), (4.1, 0.45)], ids=["behind", "ahead"])
def test_the_hidden_half_of_a_car_lies_where_it_was_even_if_it_is_the_nearer_one(viewer, metres):
    tracker = make_tracker()
    for k in range(12):
        x = 5.0 + 0.5 * k
        points = sides(x, 0, 0.0, seen="ls")
        part = points if k < 8 else points[points[:, 0] < x]  # later only the rear half
        (thing,) = objects_of(tracker, [seen_part(part, (5.0, 0.0))], 0.1 * k, (x + viewer, 2.5))
    np.testing.assert_allclose(thing.position, [x, 0.0], atol=metres)


@pytest.mark.parametrize(
    ("seen", "speed", "size"),
    [("s", 8.0, (4.3, 1.8)), ("l", 8.0, (4.4, 1.8)), ("ls", 8.0, (4.4, 1.8)), ("s", 1.5, (0.05, 1.8))],
)
def test_a_vehicle_of_which_one_side_is_seen_has_its_usual_extent(seen, speed, size):
    """Pass behind that side; several people beside each other are no vehicle."""
    tracker = make_tracker()
    for k in range(8):
        x = 8 + 0.1 * speed * k
        part = seen_part(sides(x, -3.0, 0.0, seen=seen), (speed, 0.0))
        (thing,) = objects_of(tracker, [part], 0.1 * k, (0.0, 0.0))
    np.testing.assert_allclose(thing.extent, size, atol=0.1)
    rear = x - 2.2  # sides() lays the car around x
    np.testing.assert_allclose(thing.position, [rear + size[0] / 2, -3.0], atol=0.15)


@pytest.mark.parametrize(
    ("rear", "objects"), [((-6.6, -6.0), 1), ((-9.0, -8.4), 2), ((-9.6, -4.8), 2)], ids=["lorry", "trailer", "two cars"]
)
def test_the_cab_and_the_wheels_of_a_lorry_are_one_body(rear, objects):
    """Few layers pass beneath its load and see both ends, 3.5 m apart; two cars are too long for one body."""
    found = clusters_in([(-2.5, 0, 0, 2.2, 9.0, 0.0), (*rear, 0, 2.2, 9.0, 0.0)])
    assert len(found) == objects


def test_parts_of_a_known_object_stay_one_object():
    tracker = make_tracker()
    (car,) = clusters_in([(-4, 0, 0, 1.8, 5.0, 0.0)])
    (first,) = objects_of(tracker, [car.item()], 0.0)
    parts = [(-3.5, -2.9, 0, 1.8, 5.2, 0.1), (-0.1, 0.5, 0, 1.8, 4.7, 0.0)]
    assert len(clusters_in(parts, gap=1.5)) == 2  # too far from each other to be one by themselves
    (whole,) = clusters_in(parts, known=tracker.known, time=0.1, gap=1.5)
    (again,) = objects_of(tracker, [whole.item()], 0.1)
    assert again.id == first.id
    assert again.cells == 2 * 3 * 9


def test_parts_of_two_known_objects_are_put_together_each_with_its_own_points():
    tracker = make_tracker()
    cars = clusters_in([(-4, 0, y, y + 1.8, 5.0, 0.0) for y in (0, 6)])
    objects_of(tracker, [car.item() for car in cars], 0.0)
    ends = ((-3.5, -2.9, 5.2), (-0.1, 0.5, 4.7))
    parts = [(rear, front, y, y + 1.8, speed, 0.0) for y in (0, 6) for rear, front, speed in ends]
    wholes = sorted(clusters_in(parts, known=tracker.known, time=0.1, gap=1.5), key=lambda whole: whole["y"])
    assert len(wholes) == 2
    for whole, y in zip(wholes, (0.9, 6.9)):
        assert (whole["x"], whole["y"]) == pytest.approx((-1.5, y), abs=0.11)
        assert (whole["length"], whole["width"]) == pytest.approx((3.7, 1.8), abs=0.21)


def test_an_object_is_known_again_after_a_second_behind_something():
    tracker = make_tracker()
    for k in range(8):
        (thing,) = objects_of(tracker, [cluster(0.6 * k, 0, 6, 0)], 0.1 * k)
    assert thing.existence > 0.98
    for k in range(8, 19):
        assert objects_of(tracker, [], 0.1 * k) == ()
    (again,) = objects_of(tracker, [cluster(0.6 * 19, 0.3, 6, 0)], 1.9)
    assert again.id == thing.id
    odds = thing.existence / (1 - thing.existence)
    assert again.existence == pytest.approx(1 - 1 / (1 + 3 * odds * np.exp(-1.2 / 0.5)), rel=1e-6)


def test_what_was_seen_once_hardly_exists_and_turning_is_measured():
    tracker = make_tracker(lag=0.0)
    (once,) = objects_of(tracker, [cluster(5, 5, 1, 0)], 0.0)
    assert once.existence == pytest.approx(0.5)
    for k in range(1, 30):
        angle = 0.5 * 0.1 * k  # 0.5 rad/s
        (thing,) = objects_of(tracker, [cluster(5, 5, 6 * np.cos(angle), 6 * np.sin(angle))], 0.1 * k)
    assert thing.yaw_rate == pytest.approx(0.5, abs=0.2)
    assert np.linalg.norm(thing.acceleration) == pytest.approx(3.0, abs=1.2)


@pytest.mark.parametrize(("metres", "found_again"), [(2.8, True), (3.3, False)])
def test_an_object_is_found_again_within_the_gate_and_half_its_length(metres, found_again):
    tracker = make_tracker(gate=2.0)
    first = objects_of(tracker, [cluster(0, 0, 5, 0)], 0.0)[0].id
    later = objects_of(tracker, [cluster(0.5 + metres, 0, 5, 0)], 0.1)[0].id
    assert (later == first) == found_again


@pytest.mark.parametrize(("aside", "found_again"), [(0.0, True), (4.5, False)], ids=["its end", "the next lane"])
def test_one_end_of_a_truck_is_the_truck(aside, found_again):
    """The gate counts from the box of the track: the end of a truck is 4 m away from its middle."""
    tracker = make_tracker(gate=2.0)
    truck = (90, 0, 12, 0.0, 0.0, 0.0, 9.0, 2.4, 12.0, 0.0, 0.01, 0.0, 0.01)
    rear = (8, 0, 3, 1.2 - 4.4, aside, 0.0, 0.2, 2.4, 12.0, 0.0, 0.01, 0.0, 0.01)
    first = objects_of(tracker, [truck], 0.0)[0].id
    later = objects_of(tracker, [rear], 0.1)[0].id
    assert (later == first) == found_again


@pytest.mark.parametrize(
    ("length", "said", "jerk", "memory", "place", "sliding"),
    [
        (1.5, [(9, 5.0, 1.0), (60, 5.4, 0.8), (20, 6.1, 0.3)], 4.0, 1.0, None, 0.0),
        (1.7, [(9, 5.0, 1.0), (60, 5.4, 0.8), (20, 6.1, 0.3)], 4.0, 1.0, None, 0.3),
        (0.6, [(9, 5.0, 1.0), (60, 5.4, 0.8), (20, 6.1, 0.3)], 4.0, 1.0, None, 0.0),
        (0.6, [(5, 1.3, 0.1), (7, 1.5, 0.2), (4, 1.1, -0.2), (6, 1.2, 0.1)], 3.0, 0.3, 0.3, 0.0),
    ],
    ids=["vehicle", "flank", "small but fast", "person"],
)
def test_velocity_and_acceleration_are_kalmans(length, said, jerk, memory, place, sliding):
    """Against the same filter in matrices, in Joseph's form: an acceleration that fades, velocities said `lag` late,
    and the better known the more cells say them, but of a flank hardly along itself; of what may be a person the middle
    of its box, too."""
    lag, dt = 0.2, 0.15
    spread, heading = np.array([[0.05, 0.02], [0.02, 0.3]]), 0.4
    along = np.outer(axis := (np.cos(heading), np.sin(heading)), axis)
    tracker = make_tracker(lag=lag)
    pair, none = np.eye(2), np.zeros((2, 2))
    step = np.block(
        [[pair, dt * pair, dt**2 / 2 * pair], [none, pair, dt * pair], [none, none, np.exp(-dt / memory) * pair]]
    )
    wander = np.diag([0.0] * 2 + [jerk**2 * dt**3 / 3] * 2 + [jerk**2 * dt] * 2)
    covariance = np.diag([0.3**2] * 2 + [0.0] * 2 + [1.5**2] * 2)

    def error(cells, *velocity):
        return spread + pair * 0.6**2 * 20 / cells + along * (sliding * np.hypot(*velocity)) ** 2

    covariance[2:4, 2:4] = error(*said[0])
    state = np.array([0.0, 0.0, *said[0][1:], 0.0, 0.0])
    for k, (cells, *velocity) in enumerate(said):
        x, y = 0.18 * k, 0.02 * k * k
        record = (cells, 0, 4, x, y, heading, length, 0.4, *velocity, spread[0, 0], spread[0, 1], spread[1, 1])
        (found,) = objects_of(tracker, [record], dt * k)
        if k:
            state, covariance = step @ state, step @ covariance @ step.T + wander
            said_late = np.hstack([none, pair, -lag * pair]), error(cells, *velocity), velocity
            seen_here = np.hstack([pair, none, none]), pair * (place or 0.0) ** 2, (x, y)
            for model, noise, value in [said_late, seen_here] if place else [said_late]:
                gain = covariance @ model.T @ np.linalg.inv(model @ covariance @ model.T + noise)
                state, kept = state + gain @ (value - model @ state), np.eye(6) - gain @ model
                covariance = kept @ covariance @ kept.T + gain @ noise @ gain.T
        np.testing.assert_allclose([*found.velocity, *found.acceleration], state[2:], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.velocity_covariance, covariance[2:4, 2:4], rtol=1e-9)


def test_places_correct_the_velocity_that_cells_say_of_a_person():
    """Far away cells are too slow. Where the box is tells more, also from axes that drive and turn."""
    tracker, T_world_before = make_tracker(), Pose.identity()
    for k in range(30):
        T_world_now = Pose.from_euler(1.0 * k, 0.05 * k * k, yaw=0.06 * k)
        tracker.move(T_world_before.inverse() @ T_world_now)
        T_world_before = T_world_now
        x, y, _ = T_world_now.inverse() @ np.array([20.0 + 0.14 * k, 5.0, 0.0])
        turn = T_world_now.rotation[:2, :2].T
        slow = (6, 0, 4, x, y, 0.0, 0.5, 0.5, *(turn @ [1.15, 0.0]), 0.02, 0.0, 0.02)
        (person,) = objects_of(tracker, [slow], 0.1 * k)
    assert person.id == 1
    np.testing.assert_allclose(turn.T @ person.velocity, [1.4, 0.0], atol=0.12)


@pytest.mark.parametrize(("speed", "found_again"), [(1.1, False), (6.0, True)])
def test_what_moves_otherwise_is_another_object(speed, found_again):
    """A person who steps out where a vehicle is expected, which has not been seen for a second."""
    tracker = make_tracker()
    for k in range(4):
        (first,) = objects_of(tracker, [cluster(0.7 * k, 0, 7, 0)], 0.1 * k)
    (later,) = objects_of(tracker, [cluster(0.7 * 15, 0.5, speed, 0)], 1.5)
    assert (later.id == first.id) == found_again


def test_what_the_cells_say_late_is_put_right():
    """An object that speeds up: its cells show the velocity of 0.2 s ago, and it has that acceleration since."""
    tracker = make_tracker(lag=0.2)
    position = 0.0
    for k in range(30):
        time, speed = 0.1 * k, 2.0 + 2.0 * 0.1 * k
        position += 0.1 * speed
        late = speed - 2.0 * 0.2
        (found,) = objects_of(tracker, [cluster(position, 0, late, 0)], time)
    assert late + 0.1 < found.velocity[0] <= speed
