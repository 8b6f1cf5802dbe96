# SPDX-License-Identifier: Apache-2.0
"""Grid variance against a plain NumPy reading of the report."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadbed import Config, DeviceError, GroundFilter, Label
from roadbed.config.ground import VarianceConfig
from tests.devices import ACCELERATORS, BACKENDS, backend


def oracle(points, config):
    """Ground flag per point, and per cell: count, mean, variance, ground."""
    limits, resolution = config.pointcloud_limits, config.spacing
    columns = math.ceil((limits.x_max - limits.x_min) / config.spacing)
    rows = math.ceil((limits.y_max - limits.y_min) / config.spacing)
    x, y, z = points.T
    inside = (x >= limits.x_min) & (x < limits.x_max) & (y >= limits.y_min) & (y < limits.y_max)
    column = np.floor((x - np.float32(limits.x_min)).astype(np.float64) / resolution)
    row = np.floor((y - np.float32(limits.y_min)).astype(np.float64) / resolution)
    cell = np.where(inside, row * columns + column, -1).astype(int)
    heights = {c: z[cell == c].astype(np.float64) for c in set(cell[cell >= 0].tolist())}
    variance = {c: h.var() for c, h in heights.items() if len(h) >= config.point_number_threshold}

    def is_ground(c):
        if c in variance:
            return variance[c] < config.min_variance_threshold
        r, k = divmod(c, columns)
        patch = [
            variance[a * columns + b]
            for a in range(max(r - 1, 0), min(r + 2, rows))
            for b in range(max(k - 1, 0), min(k + 2, columns))
            if a * columns + b in variance
        ]
        return bool(patch) and np.mean(patch) < config.min_variance_threshold

    ground = {c: is_ground(c) for c in heights}
    flags = [
        c >= 0 and ground[c] and abs(np.float32(h) - np.float32(heights[c].mean())) < config.height_threshold.ground
        for c, h in zip(cell.tolist(), z)
    ]
    return np.array(flags, bool), heights, ground, columns


def scene(seed, n):
    random = np.random.default_rng(seed)
    points = random.uniform([-6, -1, 0], [6, 6, 0.05], (n, 3))
    points[: n // 3, 2] += random.uniform(0, 1.5, n // 3)
    return points.astype(np.float32)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(0, 400), st.integers(1, 5), st.sampled_from([0.3, 0.5, 1.0]))
def test_equals_the_report(seed, n, fewest, resolution):
    config = VarianceConfig.parse(
        {
            "pointcloud_limits": {"x_min": -5, "x_max": 5, "y_min": 0, "y_max": 5},
            "spacing": resolution,
            "point_number_threshold": fewest,
        }
    )
    points = scene(seed, n)
    ground = GroundFilter(Config.parse({"ground": {"method": "variance", "variance": config.model_dump()}}))
    frame = ground(points)
    flags, heights, ground_cells, columns = oracle(points, config)
    assert (frame.is_ground == flags).all()
    cells = frame.cells
    assert cells.count.sum() == sum(len(h) for h in heights.values())
    for c, h in heights.items():
        at = divmod(c, columns)
        assert cells.count[at] == len(h)
        assert cells.mean[at] == pytest.approx(h.mean(), abs=1e-6)
        assert cells.variance[at] == pytest.approx(h.var(), abs=1e-6)
        assert cells.lowest[at] == h.min()
        assert cells.highest[at] == h.max()
        assert cells.ground[at] == ground_cells[c]


def test_default_grid_is_the_reports():
    ground = GroundFilter(Config.loads("grid_resolution: 0.3\nheight_threshold:\n  ground: 0.30\n"))
    frame = ground(np.array([[0.0, 10.0, -1.0], [0.1, 10.1, -1.0]], np.float32))
    assert frame.grid.shape == (334, 334)
    assert (frame.label == Label.GROUND).all()


@pytest.mark.parametrize("name", ACCELERATORS)
@pytest.mark.parametrize(("resolution", "fewest"), [(0.3, 2), (1.0, 4)])
def test_devices_equal_the_report(name, resolution, fewest):
    config = VarianceConfig.parse(
        {
            "pointcloud_limits": {"x_min": -5, "x_max": 5, "y_min": 0, "y_max": 5},
            "spacing": resolution,
            "point_number_threshold": fewest,
        }
    )
    ground = GroundFilter(
        Config.parse({"ground": {"method": "variance", "variance": config.model_dump()}}), backend(name)
    )
    for seed in range(4):
        points = scene(seed, 400)
        frame = ground(points)
        flags, heights, ground_cells, columns = oracle(points, config)
        np.testing.assert_array_equal(frame.is_ground, flags)
        for c, h in heights.items():
            at = divmod(c, columns)
            assert frame.cells.variance[at] == pytest.approx(h.var(), abs=1e-6)
            assert frame.cells.ground[at] == ground_cells[c]


@pytest.mark.parametrize("name", BACKENDS)
def test_a_point_that_rounding_puts_on_the_far_border_belongs_to_the_last_cell(name):
    """-1e-8 lies inside, but in single precision 10 - 1e-8 is 10, where the twenty-first cell would begin."""
    limits = {"x_min": -10, "x_max": 0, "y_min": -10, "y_max": 0}
    config = Config.parse({"ground": {"method": "variance", "variance": {"pointcloud_limits": limits, "spacing": 0.5}}})
    points = np.array([[-1e-8, -9.75, 1.0], [-0.1, -9.75, 1.0], [-9.75, -1e-8, 1.0]], np.float32)
    count = GroundFilter(config, backend(name))(points).cells.count
    assert count[0, -1] == 2
    assert count[-1, 0] == 1
    assert count.sum() == 3


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(("level", "spread"), [(0.3, 1e-3), (-1.7, 0.1), (90.0, 3.0), (-800.0, 40.0), (0.0, 9999.0)])
@pytest.mark.parametrize("n", [2, 7, 32, 5000])
def test_integer_sums_are_as_good_as_double_precision(name, level, spread, n):
    """In a cell of any height: the mean within two units of 2^-24 m, the variance within 3e-7 of itself."""
    random = np.random.default_rng(n)
    heights = (level + random.uniform(-spread, spread, n)).astype(np.float32)
    points = np.column_stack([np.full(n, 0.1), np.full(n, 0.1), heights]).astype(np.float32)
    cells = GroundFilter(Config.parse({"ground": {"method": "variance"}}), backend(name))(points).cells
    at = np.unravel_index(cells.count.argmax(), cells.count.shape)
    exact = heights.astype(np.float64)
    assert cells.count[at] == n
    assert cells.mean[at] == pytest.approx(exact.mean(), rel=6e-8, abs=2.0**-23)
    assert cells.variance[at] == pytest.approx(exact.var(), rel=3e-7, abs=1e-10)


def test_points_that_do_not_fit_on_a_device_are_refused_before_memory_is_taken(monkeypatch):
    device = backend("opencl")
    monkeypatch.setattr(device, "device", replace(device.device, memory=2**20))
    ground = GroundFilter(Config.parse({"ground": {"method": "variance"}}), device)
    with pytest.raises(DeviceError, match="100000 points need 5 MiB, more than fit in its 1 MiB"):
        ground(np.zeros((100_000, 3), np.float32))


def test_sparse_cell_without_filled_neighbours_is_not_ground():
    ground = GroundFilter(Config.loads("point_number_threshold: 2"))
    frame = ground(np.array([[0.0, 10.0, -1.0], [30.0, 30.0, -1.0]], np.float32))
    assert (frame.label == Label.OBSTACLE).all()


def test_the_whole_surroundings_are_looked_at_by_default_and_axes_do_not_matter():
    points = scene(3, 2000) * np.float32([10, 10, 1]) + np.float32([0.05, -30.05, 0])
    turned = np.column_stack([-points[:, 1], points[:, 0], points[:, 2]]).astype(np.float32)
    config = Config.parse({"ground": {"method": "variance"}})
    frame, other = GroundFilter(config)(points), GroundFilter(config)(turned)
    assert not (frame.label == Label.UNKNOWN).any()
    assert (frame.label != other.label).mean() < 0.02  # points next to the edges of cells


@pytest.mark.parametrize("name", BACKENDS)
def test_a_scan_is_segmented_as_if_it_were_the_first(name):
    """Only what the last scan has written is cleared, and what a caller holds of it stays."""
    config = Config.parse({"ground": {"method": "variance"}})
    rng, used = np.random.default_rng(3), GroundFilter(config, backend(name))
    held = []
    for _ in range(4):
        middle, count = rng.uniform(-50, 50, 2), int(rng.integers(9_000, 20_000))  # enough to wake all threads
        points = np.column_stack([rng.normal(middle, 15, (count, 2)), rng.normal(0, 0.1, count)]).astype(np.float32)
        held.append((used(points), GroundFilter(config, backend(name))(points)))
    for frame, alone in held:
        np.testing.assert_array_equal(frame.label, alone.label)
        for layer in ("count", "mean", "variance", "lowest", "highest", "ground", "elevation"):
            np.testing.assert_array_equal(getattr(frame.cells, layer), getattr(alone.cells, layer))
        np.testing.assert_array_equal(frame.elevation, alone.cells.elevation)
        assert frame.cells.count.sum() == (frame.label != Label.UNKNOWN).sum()
