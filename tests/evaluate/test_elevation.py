# SPDX-License-Identifier: Apache-2.0
"""The surface against a reference: errors by their definitions, places by their coordinates, averages by nodes."""

from dataclasses import replace

import numpy as np
import pytest

from roadbed.core.errors import InputError
from roadbed.core.frames import GroundFrame, Mounting, Scan
from roadbed.core.geometry import Grid, Pose
from roadbed.evaluate.elevation import ReferenceElevation, SimulatedElevation, surface_at
from roadbed.evaluate.ground import ScoredFrame, ground_figures
from roadbed.evaluate.metrics import ElevationScore, Score
from roadbed.sources import open_source

LATTICE = Grid(-3.5, -1.5, 1.0, 8, 4)  # nodes at x -3.5 .. 3.5, y -1.5 .. 1.5


def ground_frame(points, offset=0.0):
    """A surface z = 0.1 x - 0.2 y + offset with a standard deviation of 0.05 m, under some points."""
    x, y = LATTICE.mesh()
    count = len(points)
    return GroundFrame(
        label=np.ones(count, np.uint8),
        ground_probability=np.ones(count, np.float32),
        height_above_ground=np.zeros(count, np.float32),
        grid=LATTICE,
        elevation=(0.1 * x - 0.2 * y + offset).astype(np.float32),
        slope=np.broadcast_to(np.float32([0.1, -0.2]), (*LATTICE.shape, 2)).copy(),
        variance=np.full(LATTICE.shape, 0.05**2, np.float32),
        T_grid_sensor=Pose.identity(),
        mounting=Mounting(T_vehicle_sensor=Pose.identity(), estimated=False),
        scan=Scan(np.asarray(points, np.float32)),
    )


def test_errors_follow_their_definitions():
    truth = np.zeros((1, 5))
    estimate = np.array([[0.1, -0.3, 0.2, np.nan, 9.0]])
    mask = np.array([[True, True, True, True, False]])
    score = ElevationScore.of(estimate, np.full((1, 5), 0.15**2), truth, mask)
    assert score.nodes == 3
    assert score.rmse_m == pytest.approx(np.sqrt((0.01 + 0.09 + 0.04) / 3))
    assert score.median_m == pytest.approx(0.2)
    assert score.within_1_sigma == pytest.approx(1 / 3)
    assert score.within_2_sigma == pytest.approx(1.0)


def test_a_surface_between_its_nodes_is_their_planes():
    frame = ground_frame([[0, 0, 0]])
    x, y = np.array([0.2, -3.9, 4.4]), np.array([0.9, -1.1, 0.0])
    height, variance = surface_at(frame, x, y)
    np.testing.assert_allclose(height[:2], 0.1 * x[:2] - 0.2 * y[:2], atol=1e-6)
    assert np.isnan(height[2])
    assert np.isnan(variance[2])


def test_a_surface_does_not_jump_between_two_planes():
    """Half way between a level node and one 0.4 m higher; beside an unknown node the known ones go on."""
    frame = ground_frame([[0, 0, 0]])
    frame.slope[:], frame.elevation[:] = 0, 0
    frame.elevation[:, 4], frame.elevation[:, 6] = 0.4, np.nan
    x, y = np.array([-0.01, 0.01, -0.25, 1.9, 2.1]), np.zeros(5)
    np.testing.assert_allclose(surface_at(frame, x, y)[0], [0.196, 0.204, 0.1, 0.0, np.nan], atol=1e-6)


def reference(folder, cells, spacing=0.5):
    """Places (column, row) -> height on a grid whose first node lies at (-1, -0.5)."""
    heights = np.zeros((4, 6))
    for (column, row), height in cells.items():
        heights[row, column] = height
    np.save(folder / "000000.npy", heights)
    return ReferenceElevation(folder, -1.0, -0.5, spacing)


def seen(x, y, z, count=5):
    return [[x + 0.01 * k, y, z] for k in range(count)]


def test_a_reference_lies_where_its_origin_and_spacing_say(tmp_path):
    """The node in column 3, row 1 lies at (0.5, 0), where the surface is 0.05 m high."""
    scorer = reference(tmp_path, {(3, 1): 0.10})
    score = scorer(0, ground_frame(seen(0.5, 0.0, 0.05)))
    assert score.nodes == 1
    assert score.rmse_m == pytest.approx(0.05, abs=1e-6)
    assert scorer(1, ground_frame(seen(0.5, 0.0, 0.05))) is None


def test_only_points_that_the_scan_supports_are_scored(tmp_path):
    scorer = reference(tmp_path, {(3, 1): 0.10, (1, 2): 0.1, (4, 3): 0.1})
    points = seen(0.5, 0.0, 0.05) + seen(-0.5, 0.5, 0.1, count=4) + seen(1.0, 1.0, 0.4)
    score = scorer(0, ground_frame(points))
    assert score.nodes == 1  # the second has too few points, those of the third lie 0.3 m over it


def test_what_is_no_reference_is_named(tmp_path):
    with pytest.raises(InputError, match=r"expected \.npy files with true elevation"):
        ReferenceElevation(tmp_path, 0, 0)(0, ground_frame([[0, 0, 0]]))
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(InputError, match=r"expected an array \[y\]\[x\], found shape \(3,\)"):
        ReferenceElevation(tmp_path, 0, 0)(0, ground_frame([[0, 0, 0]]))


def test_simulated_truth_counts_within_a_circle_round_the_sensor():
    source = open_source("sim:city?sensor=vlp16&frames=1")
    frame = replace(ground_frame([[0, 0, 0]]), T_grid_sensor=Pose.from_euler(-3.5, 0.5, 0.0))
    x, y = LATTICE.mesh()
    score = SimulatedElevation(source, 1.1)(0, frame)
    assert score.nodes == (np.hypot(x + 3.5, y - 0.5) <= 1.1).sum() == 4


def test_averages_over_frames_count_scores_equally_and_surfaces_by_their_nodes():
    scores = (Score(90, 80, 85, 70), None, Score(70, 60, 65, 50))
    surfaces = (ElevationScore(30, 0.1, 0.05, 0.7, 0.9), ElevationScore(0, *[float("nan")] * 4),
                ElevationScore(10, 0.3, 0.25, 0.5, 0.7))  # fmt: skip
    frames = [ScoredFrame(*values) for values in zip("abc", scores, surfaces, (1.0, 9.0, 2.0))]
    out = ground_figures(frames)
    assert (out["precision"], out["recall"], out["f1"], out["iou"]) == (80, 70, 75, 60)
    assert out["elevation_rmse_m"] == pytest.approx(np.sqrt((30 * 0.01 + 10 * 0.09) / 40))
    assert out["elevation_median_m"] == pytest.approx((30 * 0.05 + 10 * 0.25) / 40)
    assert out["elevation_within_1_sigma"] == pytest.approx((30 * 0.7 + 10 * 0.5) / 40)
    assert out["elevation_within_2_sigma"] == pytest.approx((30 * 0.9 + 10 * 0.7) / 40)
    assert (out["elevation_nodes"], out["median_ms"], out["frames"]) == (40, 2.0, 3)
    first, second, _ = (frame.row() for frame in frames)
    assert first == {"frame": "a", "ms": 1, "precision": 90, "recall": 80, "f1": 85, "iou": 70,
                     "elevation_rmse_m": 0.1, "elevation_median_m": 0.05}  # fmt: skip
    assert second == {"frame": "b", "ms": 9}
