# SPDX-License-Identifier: Apache-2.0
"""The scorers of occupancy: perfect frames score perfectly, known faults are counted as what they are."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import roadbed
from roadbed.core.errors import InputError
from roadbed.core.frames import OccupancyFrame
from roadbed.core.geometry import Grid, Pose
from roadbed.evaluate.masks import Masks
from roadbed.evaluate.occupancy import evaluate_occupancy, mean_over_seeds
from roadbed.evaluate.occupancy_boxes import Annotation, BoxScorer
from roadbed.evaluate.occupancy_truth import TruthScorer
from roadbed.evaluate.tracking import inside

LATTICE = Grid.centred(40.0, 20.0, 0.2)


def footprint(x, y, length=4.0, width=2.0):
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * [length / 2, width / 2]
    return corners + np.array([x, y])


def frame(time, movers=(), standing=(), ghosts=(), T_world_grid=None):
    """An exact frame: movers (footprint, velocity said), standing footprints, ghost cells."""
    x, y = LATTICE.mesh()
    static, dynamic = np.zeros(LATTICE.shape, np.float32), np.zeros(LATTICE.shape, np.float32)
    velocity = np.full((*LATTICE.shape, 2), np.nan, np.float32)
    moving = np.zeros(LATTICE.shape, bool)
    for corners, said in movers:
        here = inside(corners, x, y)
        dynamic[here] = 0.95
        velocity[here] = said
        moving |= here
    for corners in standing:
        static[inside(corners, x, y)] = 0.95
    for row, column in ghosts:
        moving[row, column] = True
    occupied = static + dynamic
    covariance = np.full((*LATTICE.shape, 3), np.nan, np.float32)
    covariance[moving] = (0.1, 0, 0.1)
    return OccupancyFrame(
        grid=LATTICE, time=time, static=static, dynamic=dynamic, free=1 - occupied,
        velocity=velocity, velocity_covariance=covariance, moving=moving,
        observation=np.where(occupied > 0.5, 0.9, 0.1).astype(np.float32), observedness=np.ones_like(occupied),
        T_world_grid=T_world_grid,
    )  # fmt: skip


def run(said=5.0, ghosts=(), masks=None, frames=40, parked=1, seen=lambda k: True):
    """A car at 5 m/s of which a speed, or a function of the frame's number, is `said`; hidden where not `seen`."""
    scorer = BoxScorer(masks)
    for k in range(frames):
        time = 0.1 * k
        car = footprint(-12 + 5 * time, 0.0)
        van = footprint(10, 6) + 0.1 * np.sin([k, 3 * k])  # annotated with jitter, yet standing
        boxes = [Annotation("car", "Car", car), Annotation("van", "Van", van)]
        speed = said(k) if callable(said) else said
        shown = frame(time, [(car, (speed, 0.0))] if speed is not None else [], [van] * parked, ghosts)
        x, y = LATTICE.mesh()
        shown.observation[inside(car, x, y)] = 0.9 if seen(k) else 0.5
        scorer.add(shown, boxes)
    return scorer.result()


@pytest.mark.parametrize(("velocity", "false"), [((5.0, 0.0), 0.0), ((0.0, 0.0), 2.0)])
def test_cells_of_a_mover_at_the_rim_of_the_grid_are_not_false(velocity, false):
    """It is not scored, for it is partly beyond; what moves there without a reason still counts."""
    scorer = BoxScorer()
    for k in range(20):
        leaving = Annotation("truck", "truck", footprint(19.9, 0.0), np.array(velocity))
        row, column = (int(v) for v in divmod(LATTICE.index(19.5, 0.0), LATTICE.columns))
        scorer.add(frame(0.1 * k, ghosts=[(row, column), (row + 1, column)]), [], [leaving])
    out = scorer.result()
    assert out["false_moving_cells"] == false
    assert out["movers"] == []


@pytest.mark.parametrize(("speed", "false"), [(20.0, 0.0), (0.0, 2 * 3 / 5)])
def test_cells_of_a_mover_that_is_in_sight_for_a_moment_are_not_false(speed, false):
    """Three frames are too few to score it by; from its velocity, where that is known, it moves all the same."""
    scorer = BoxScorer()
    for k in range(20):
        passing = Annotation("car", "car", footprint(10 + 0.1 * k * speed / 20, 0.0), np.array([speed, 0.0]))
        row, column = (int(v) for v in divmod(LATTICE.index(10.5, 0.0), LATTICE.columns))
        there = k >= 17
        scorer.add(frame(0.1 * k, ghosts=[(row, column), (row + 1, column)] * there), [passing] * there)
    out = scorer.result()
    assert out["false_moving_cells"] == pytest.approx(false)
    assert out["movers"] == []


def test_a_perfect_mover():
    out = run()
    (car,) = out["movers"]
    assert car["id"] == "car"
    assert car["true_speed"] == pytest.approx(5.0, abs=1e-6)
    assert car["error_percent"] == pytest.approx(0.0, abs=1e-4)
    assert car["within_10_percent"] == 100
    assert car["settled_after_s"] == 0
    assert car["dynamic_share_percent"] == pytest.approx(100)
    assert [row["id"] for row in out["standing"]] == ["van"]
    assert out["static_dynamic_share_percent"] == 0
    assert out["false_moving_cells"] == 0


def test_on_a_grid_that_moves_with_the_vehicle_displacement_is_that_in_the_world():
    """The vehicle drives and turns: parked cars shift in its grid and stand, a car ahead at its speed moves."""
    scorer = BoxScorer()
    for k in range(40):
        time = 0.1 * k
        yaw = 0.2 * time
        T_world_grid = Pose.from_euler(4.0 * time, 0.0, 0.0, yaw=yaw)
        T_grid_world = T_world_grid.inverse()

        def seen(corners, T_grid_world=T_grid_world):
            return (T_grid_world @ np.column_stack([corners, np.zeros(4)]))[:, :2]

        parked, car = seen(footprint(12.0, 4.0)), seen(footprint(5.0 + 4.0 * time, 0.0))
        velocity = 4.0 * np.array([np.cos(yaw), -np.sin(yaw)])
        shown = frame(time, [(car, velocity)], [parked], T_world_grid=T_world_grid)
        scorer.add(shown, [Annotation("car", "Car", car), Annotation("parked", "Car", parked)])
    out = scorer.result()
    assert [row["id"] for row in out["standing"]] == ["parked"]
    (row,) = out["movers"]
    assert row["id"] == "car"
    assert row["true_speed"] == pytest.approx(4.0, rel=1e-3)
    assert row["error_percent"] == pytest.approx(0.0, abs=0.1)
    assert row["heading_error_deg"] == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize("frames", [5, 10, 31, 40])
@pytest.mark.parametrize(("speed", "moves"), [(0.49, False), (0.51, True)])
def test_what_is_slower_than_half_a_metre_per_second_is_no_mover_however_long_it_is_seen(frames, speed, moves):
    scorer = BoxScorer()
    for k in range(frames):
        person = footprint(0.1 * speed * k, 0.0, 0.6, 0.6)
        scorer.add(frame(0.1 * k, standing=[person]), [Annotation("person", "Pedestrian", person)])
    assert len(scorer.result()["movers"]) == moves


def test_a_wrong_speed_and_ghosts_are_counted():
    out = run(said=4.0, ghosts=[(5, 5), (90, 20), (90, 21)])
    (car,) = out["movers"]
    assert car["error_percent"] == pytest.approx(20)
    assert car["bias_percent"] == pytest.approx(-20)
    assert car["within_10_percent"] == 0
    assert car["settled_after_s"] is None
    assert out["false_moving_cells"] == 3


def test_no_place_is_left_out():
    """Not even the one on which the own vehicle stands."""
    for row, column in ((0, 0), (20, 100), (20, 150)):
        assert run(ghosts=[(row, column)])["false_moving_cells"] == 1


def test_a_frame_in_which_a_mover_was_missed_is_one_that_is_not_within_10_percent():
    out = run(said=lambda k: None if k % 4 == 0 else 5.0)
    (car,) = out["movers"]
    assert car["frames"] == 25  # from 1.5 s on
    assert car["missed_frames"] == 6
    assert car["within_10_percent"] == pytest.approx(100 * 19 / 25)
    assert car["error_percent"] == pytest.approx(0.0, abs=1e-4)


def test_a_mover_at_rest_is_not_missed():
    """A car stands for 2 s, drives at 4 m/s and is found while it drives; its track is judged in those frames alone."""
    scorer = BoxScorer()
    for k in range(40):
        speed, x = (4.0, 0.4 * (k - 19)) if k >= 20 else (0.0, 0.0)
        car, velocity = footprint(x, 0.0), np.array([speed, 0.0])
        shown = frame(0.1 * k, [(car, velocity)] if speed else [], [] if speed else [car])
        scorer.add(shown, [Annotation("car", "Car", car, velocity)])
    out = scorer.result()
    (row,) = out["movers"]
    assert (row["visible_frames"], row["frames_at_rest"], row["missed_percent"]) == (20, 20, 0)
    assert out["mover_frames"] == 20


def test_frames_with_hardly_a_hit_are_counted_as_unseen():
    (car,) = run(seen=lambda k: k < 30)["movers"]
    assert (car["frames"], car["unseen_frames"], car["missed_frames"]) == (15, 10, 0)


def test_a_speed_has_settled_from_where_nine_of_ten_frames_are_within_10_percent():
    """Wrong until 2 s, then right but for one frame in `often`."""
    for often, settled in ((11, 2.0), (5, None)):
        (car,) = run(said=lambda k, often=often: 8.0 if k < 20 or k % often == 4 else 5.0)["movers"]
        assert car["settled_after_s"] == (settled if settled is None else pytest.approx(settled))


def test_masks_hide_what_is_not_annotated(tmp_path):
    file = tmp_path / "masks.json"
    x, y = LATTICE.x[20], LATTICE.y[90]
    file.write_text(json.dumps({"rectangles": [[x - 1, x + 1, y - 1, y + 1]], "strips": [[-19, -9, -18.9, -9, 0.5]]}))
    out = run(ghosts=[(5, 5), (90, 20), (90, 21), (10, 150)], masks=Masks.load(file))
    assert out["false_moving_cells"] == 1


def test_masks_find_what_passes_through_a_place():
    masks = Masks([], [], [((0.0, 10.0, -2.0, 2.0), 1.0)])
    ground_x, ground_y = np.meshgrid(np.arange(0.1, 10, 0.2), np.arange(-1.9, 2, 0.2))
    for k in range(30):
        x = np.concatenate([ground_x.ravel(), [0.1 + 0.2 * k, 9.1]])
        y = np.concatenate([ground_y.ravel(), [0.1, 0.1]])
        height = np.concatenate([np.zeros(ground_x.size), [1.0, 1.0]])  # a passer, and a post at 9.1
        masks.update(x, y, height)
    places_x, places_y = np.array([2.1, 9.1, 5.0]), np.array([0.1, 0.1, 0.1])
    assert masks.covers(10, places_x, places_y).tolist() == [True, False, False]
    assert masks.covers(24, places_x, places_y).tolist() == [False, False, True]


@pytest.mark.parametrize("text", ["{", "[]", '{"passers": [{}]}', '{"strips": [[1, 2]]}', '{"rectangles": [["a"]]}'])
def test_broken_masks_are_explained(tmp_path, text):
    file = tmp_path / "masks.json"
    file.write_text(text)
    with pytest.raises(InputError, match=r"masks\.json: expected"):
        Masks.load(file)


def test_seeds_are_averaged():
    runs = [run(5.0), run(4.0)]
    out = mean_over_seeds([{"source": "s", **r} for r in runs])
    assert out["seeds"] == 2
    (car,) = out["movers"]
    assert car["error_percent"] == pytest.approx(10)
    # One of two seeds never settled: the time is that of the other, and it is said.
    assert (car["settled_after_s"], car["settled_seeds"]) == (0, 1)


def test_a_mover_that_only_some_seeds_know_is_kept():
    known, unknown = run(5.0), run(5.0)
    unknown["movers"] = []
    out = mean_over_seeds([{"source": "s", **r} for r in (unknown, known)])
    assert [row["id"] for row in out["movers"]] == ["car"]


class _Truth:
    """A world known cell by cell: one moving and one standing block, all of it seen."""

    def __init__(self):
        x, y = LATTICE.mesh()
        self.moving = inside(footprint(-5, 0), x, y)
        self.standing = inside(footprint(8, 4), x, y)
        solid = self.moving | self.standing
        self.points_world = np.column_stack([x[solid], y[solid], np.ones(solid.sum())])
        self.object_id = np.ones(solid.sum(), np.int32)
        self.spurious = np.zeros(solid.sum(), bool)
        self.T_world_sensor = Pose.identity()

    def occupancy(self, grid, T_grid_sensor, **_):
        return SimpleNamespace(
            occupied=self.moving | self.standing, moving=self.moving, visible=np.ones(grid.shape, bool)
        )


def scored(*frames):
    scorer = TruthScorer(warm_up=0.0)
    for item in frames:
        scorer.add(item, _Truth(), Pose.identity())
    return scorer.result()


def test_exact_cells_score_perfectly():
    out = scored(frame(0.0, [(footprint(-5, 0), (5.0, 0.0))], [footprint(8, 4)]))
    assert out["occupancy_auc"] == 1
    assert out["static_iou"] == out["dynamic_iou"] == out["dynamic_iou_of_hits"] == 1
    assert out["free_space_violations_percent"] == 0
    assert out["standing_dynamic_percent"] == 0
    assert out["calibration_error"] < 0.01


def test_missing_and_confused_objects_cost():
    blind = scored(frame(0.0, [], [footprint(8, 4)]))
    assert blind["dynamic_iou"] == 0
    assert blind["free_space_violations_percent"] > 0
    assert blind["occupancy_auc"] == pytest.approx(0.75, abs=0.01)
    confused = scored(frame(0.0, [(footprint(-5, 0), (5, 0)), (footprint(8, 4), (1, 0))], []))
    assert confused["static_iou"] == 0
    assert confused["dynamic_iou"] == pytest.approx(0.5)
    assert confused["standing_dynamic_percent"] == pytest.approx(100)


def test_the_rim_of_an_object_may_be_called_free():
    """A cell that an object only touches may well be mostly free; its inside may not."""
    for shrunk, violated in ((0.3, False), (1.0, True)):
        said = frame(0.0, [(footprint(-5, 0, 4 - shrunk, 2 - shrunk), (5.0, 0.0))], [footprint(8, 4)])
        assert (scored(said)["free_space_violations_percent"] > 0) == violated


def test_a_source_without_truth_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((10, 3), np.float32))
    with pytest.raises(InputError, match="expected annotated boxes"):
        evaluate_occupancy(roadbed.open(tmp_path / "a.npy"))


def test_a_simulated_sequence_end_to_end():
    out = evaluate_occupancy(roadbed.open("sim:parking?sensor=vlp16&frames=22"))
    assert out["against"] == "simulation"
    car = next(row for row in out["movers"] if row["kind"] == "car")
    assert car["error_percent"] < 12
    assert out["occupancy_auc"] > 0.75
    assert out["free_space_violations_percent"] < 3
