# SPDX-License-Identifier: Apache-2.0
"""Every input point gets a label in input order, whatever the array and whatever is in it."""

import numpy as np
import pytest

from roadbed import Config, GroundFilter, Label, Pose, Scan
from roadbed.core.errors import ConfigError, InputError


def flat_road(seed=0, n=5000, height=1.8):
    """Points on a flat road under a sensor `height` m above it, with a box of 1 m at x = 10."""
    random = np.random.default_rng(seed)
    xy = random.uniform(-25, 25, (n, 2))
    z = random.normal(-height, 0.01, n)
    on_box = (np.abs(xy[:, 0] - 10) < 0.5) & (np.abs(xy[:, 1]) < 0.5)
    z[on_box] = random.uniform(-height, -height + 1, on_box.sum())
    return np.column_stack([xy, z]).astype(np.float32)


@pytest.fixture(scope="module", params=["default", "paper"])
def ground(request):
    """The paper has to be told the mounting."""
    given = {"height": 1.8, "pitch": 0.0, "roll": 0.0} if request.param == "paper" else {}
    return GroundFilter(Config.preset(request.param).with_changes(ground={"mounting": given}))


def test_flat_road_is_ground_and_flat(ground):
    points = flat_road()
    frame = ground(points)
    plain = np.hypot(points[:, 0] - 10, points[:, 1]) > 2
    assert (frame.label[plain] == Label.GROUND).mean() > 0.999
    assert abs(frame.mounting.height - 1.8) < 0.02
    known = np.isfinite(frame.elevation)
    assert known.sum() > 2000
    assert np.abs(frame.elevation[known]).max() < 0.05


def test_points_without_a_return_are_unknown_and_change_nothing_else(ground):
    points = flat_road()
    bad = np.array([[np.nan, 0, 0], [np.inf, 1, 1], [0, -np.inf, 0], [0, 0, 0], [1e30, 1e30, 1e30], [1, 1, 1e30]])
    order = np.random.default_rng(1).permutation(len(points) + len(bad))
    mixed = np.concatenate([points, bad.astype(np.float32)])[order]
    frame, clean = ground(mixed), ground(points)
    was_bad = order >= len(points)
    assert (frame.label[was_bad] == Label.UNKNOWN).all()
    assert (frame.ground_probability[was_bad] == 0).all()
    assert np.isnan(frame.height_above_ground[was_bad]).all()
    back = np.empty(len(points), np.uint8)
    back[order[~was_bad]] = frame.label[~was_bad]
    assert (back != clean.label).mean() < 1e-3  # sums run in another order


@pytest.mark.parametrize(
    "points",
    [
        np.zeros((0, 3), np.float32),
        np.array([[5.0, 1.0, -1.7]], np.float32),
        np.full((100, 3), np.nan, np.float32),
        np.tile(np.float32([5.0, 1.0, -1.7]), (100, 1)),
    ],
    ids=["none", "one", "all NaN", "one spot"],
)
def test_degenerate_scans(ground, points):
    frame = ground(points)
    assert len(frame.label) == len(frame.ground_probability) == len(frame.height_above_ground) == len(points)
    assert not np.isnan(frame.variance).any()


def test_point_count_may_change_from_scan_to_scan(ground):
    for n in (100, 20000, 3, 50000, 0, 7):
        assert len(ground(flat_road(n=n)).label) == n


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32])
def test_other_types_columns_and_strides(ground, dtype):
    wide = np.zeros((4000, 5), dtype)
    wide[:, :3] = flat_road(n=4000).astype(dtype)
    plain = ground(np.ascontiguousarray(wide[:, :3]).astype(np.float32))
    assert (ground(wide).label == plain.label).all()
    assert (ground(wide[::2]).label == ground(np.ascontiguousarray(wide[::2])).label).all()
    assert (ground(np.asfortranarray(wide[:, :3])).label == plain.label).all()


@pytest.mark.parametrize("wrong", [np.zeros((4, 2)), np.zeros(12), np.zeros((2, 3, 3)), np.array([["a", "b", "c"]])])
def test_wrong_shape_is_named(ground, wrong):
    with pytest.raises(InputError, match=r"points: expected .* \(N, 3\)"):
        ground(wrong)


def test_given_mounting_is_used(ground):
    points = flat_road()
    given = Pose(np.eye(3), np.array([0.0, 0.0, 1.8]))
    frame = ground(Scan(points, T_vehicle_sensor=given))
    assert not frame.mounting.estimated
    assert frame.T_grid_sensor.translation[2] == 1.8


def test_a_scan_alone_lies_where_its_own_mounting_says_whatever_the_last_one_said(ground):
    lower, higher = (
        Scan(flat_road(height=height), T_vehicle_sensor=Pose.from_euler(0.5, 0.0, height, pitch=pitch))
        for height, pitch in ((1.8, 0.0), (2.2, 0.01))
    )
    expected = ground(higher)
    for scan in (lower, lower, higher):
        frame = ground(scan)
    assert frame.T_grid_sensor.numbers == higher.T_vehicle_sensor.numbers
    np.testing.assert_array_equal(frame.label, expected.label)
    np.testing.assert_array_equal(frame.elevation, expected.elevation)


def test_a_scan_whose_first_labels_say_nothing_is_not_called_unusable(ground):
    points = flat_road()
    points[:200] = np.nan
    assert not ground(points).diagnostics
    assert "nothing new is known" in ground(points[:200]).diagnostics[-1]


@pytest.mark.parametrize(
    "ground",
    [
        {"stcrf": {"length": 2000, "width": 2000, "spacing": 0.1}},
        {"method": "variance", "variance": {"spacing": 0.01, "pointcloud_limits": {"x_min": -500, "y_min": -500}}},
    ],
    ids=["stcrf", "variance"],
)
def test_a_lattice_larger_than_the_memory_is_refused_in_one_line(ground):
    with pytest.raises(ConfigError, match=r"ground\.\w+: .* needs [\d.]+ GiB, found [\d.]+ GiB free") as caught:
        GroundFilter(Config.parse({"ground": ground}))
    assert "\n" not in str(caught.value)
