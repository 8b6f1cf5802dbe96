# SPDX-License-Identifier: Apache-2.0
"""Only the active columns are computed: they cover what was seen, and what lay there before leaves no trace."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadbed import Config
from roadbed.ground.engine import Rolled
from roadbed.ground.stcrf import cpu
from roadbed.ground.stcrf.arrays import ActiveNodes, Field
from roadbed.ground.stcrf.cpu import StcrfCpu
from roadbed.ground.stcrf.model import COARSE_KNOWS
from roadbed.ground.stcrf.points.active_columns_cpu import VECTOR, clear_outside, find_active_columns
from roadbed.ground.stcrf.start.start_cpu import blend_coarse
from tests.ground import engines


def active_nodes(nodes):
    """The list of some nodes of a lattice, (rows, columns) of truth values."""
    ends = np.concatenate([[0], np.cumsum(nodes.sum(axis=1))])
    return ActiveNodes(np.flatnonzero(nodes).astype(np.int32), ends.astype(np.int32))


@given(st.integers(1, 40), st.integers(1, 70), st.integers(0, 5), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_spans_cover_the_points_and_stay_inside_the_buffers(rows, columns, reach, seed, share):
    field = Field(rows, columns, 1.0, 4, VECTOR)
    active_columns = field.active_columns
    seen = np.random.default_rng(seed).random((rows, columns)) < share
    find_active_columns(active_nodes(seen), field.prior, False, field.shape, reach, active_columns)
    stride = field.data.shape[2]
    # Sums along x also read the node after the last of a span.
    assert max(active_columns.hi.max(), active_columns.wide_hi.max()) + 1 <= stride
    for row, column in np.argwhere(seen):
        assert active_columns.lo[row] <= column + 1 < active_columns.hi[row]
        assert (active_columns.wide_lo[row : row + 3] <= active_columns.lo[row]).all()
        assert (active_columns.wide_hi[row : row + 3] >= active_columns.hi[row]).all()


@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 3), st.integers(0, 2**32 - 1), st.booleans())
def test_spans_are_those_of_the_points_and_the_prior_together(rows, columns, reach, seed, use_prior):
    field, rng = Field(rows, columns, 1.0, 4, VECTOR), np.random.default_rng(seed)
    seen, known = rng.random((2, rows, columns)) < rng.random(2)[:, None, None] ** 4
    field.prior[1:-1, 0, 1 : columns + 1] = known
    find_active_columns(active_nodes(seen), field.prior, use_prior, field.shape, reach, field.active_columns)
    both = Field(rows, columns, 1.0, 4, VECTOR)
    find_active_columns(
        active_nodes(seen | (known & use_prior)), both.prior, False, both.shape, reach, both.active_columns
    )
    for found, expected in zip(field.active_columns, both.active_columns):
        np.testing.assert_array_equal(found, expected)


def test_what_an_earlier_frame_wrote_outside_of_this_ones_spans_is_cleared():
    field, rng = Field(30, 40, 1.0, 4, VECTOR), np.random.default_rng(4)
    for share in (0.02, 0.002, 0.0, 0.01):
        find_active_columns(
            active_nodes(rng.random((30, 40)) < share), field.prior, False, field.shape, 2, field.active_columns
        )
        clear_outside(field.information, field.written, field.active_columns)
        inside = np.zeros(field.data.shape[::2], bool)
        for row, (lo, hi) in enumerate(zip(field.active_columns.lo, field.active_columns.hi)):
            inside[row + 1, lo:hi] = True
        assert not field.information.transpose(0, 2, 1, 3)[:, :, ~inside].any()
        for buffer in field.information:
            buffer.transpose(1, 0, 2)[:, inside] = 1  # as a frame does


def scene(rng, reach, count):
    """Uneven ground, boxes on it and a wall, within so many m."""
    points = rng.uniform(-reach, reach, (count, 3))
    points[:, 2] = 0.1 * np.sin(points[:, 0]) + rng.normal(0, 0.02, count)
    high = np.floor(points[:, 0] / 3) % 4 == 0
    points[high, 2] += rng.uniform(0, 2, high.sum())
    return points


def test_a_frame_is_the_same_whatever_was_computed_before():
    config, rng = Config().with_changes(ground={"stcrf": {"length": 50.0, "width": 38.0}}), np.random.default_rng(5)
    used = StcrfCpu(config)
    for reach, count in ((24, 9000), (6, 300), (18, 4000), (2, 40)):
        given = engines.given(config, scene(rng, reach, count))
        found, fresh = used.frame(given), StcrfCpu(config).frame(given)
        for name in ("label", "ground_probability", "height_above_ground", "elevation", "slope", "variance"):
            np.testing.assert_array_equal(getattr(found, name), getattr(fresh, name), err_msg=name)
        used.keep()


def test_what_is_kept_and_moved_lies_between_its_ends_and_nothing_beside_them():
    config, rng = Config().with_changes(ground={"stcrf": {"length": 50.0, "width": 38.0}}), np.random.default_rng(6)
    engine = StcrfCpu(config)
    fine = engine._fine
    for reach, count, columns, rows in ((24, 9000, 3, -2), (6, 300, -9, 5), (18, 4000, 60, 0), (12, 900, 0, 7)):
        engine.frame(engines.given(config, scene(rng, reach, count)))
        engine.keep()
        assert engine.prior[0].any()
        before = engine.prior.copy()
        engine.move(Rolled(columns, rows, 0.0))
        for r in range(fine.shape.rows):
            for c in range(fine.shape.columns):
                inside = 0 <= r + rows < fine.shape.rows and 0 <= c + columns < fine.shape.columns
                expected = before[:, r + rows, c + columns] if inside else 0
                assert (engine.prior[:, r, c] == expected).all()
        for held, ends in ((fine.prior, fine.prior_ends), (fine.data, fine.data_ends)):
            column = np.arange(held.shape[2])
            for row, lo, hi in zip(held[1:-1], *ends):
                assert not row[:, (column < lo) | (column >= hi)].any()


def blended(wide, ratio, before):
    """The result of `blend_coarse`, node by node in float64."""
    rows, columns = before.shape[0] - 2, wide.shape.columns * ratio
    expected = before.astype(np.float64)
    for row in range(rows):
        for column in range(columns):
            v, u = (row + 0.5) / ratio - 0.5, (column + 0.5) / ratio - 0.5
            weights, planes = 0.0, np.zeros(3)
            for j in (int(np.floor(v)), int(np.floor(v)) + 1):
                for i in (int(np.floor(u)), int(np.floor(u)) + 1):
                    share = (1 - abs(v - j)) * (1 - abs(u - i))
                    y, x = np.clip(j, 0, wide.shape.rows - 1), np.clip(i, 0, wide.shape.columns - 1)
                    h, sx, sy = wide.mean[y + 1, :, x + 1].astype(np.float64)
                    weight = share * wide.information[0, y + 1, 0, x + 1]
                    weights += weight
                    planes += weight * np.array([h + ((u - x) * sx + (v - y) * sy) * wide.shape.spacing, sx, sy])
            if weights > COARSE_KNOWS:
                expected[row + 1, :, column + 1] = planes / weights
    return expected


@pytest.mark.parametrize("ratio", [1, 2, 3, 5, 11])
def test_inside_and_outside_of_spans_fine_nodes_expect_what_the_wide_ones_around_know(ratio):
    rng = np.random.default_rng(ratio)
    wide, fine = Field(7, 9, ratio * 0.5, 4, VECTOR), Field(7 * ratio, 9 * ratio, 0.5, 4, VECTOR)
    seen = np.zeros((7, 9), bool)
    seen[2:4, 3] = seen[5, 7] = True
    find_active_columns(active_nodes(seen), wide.prior, False, wide.shape, 1, wide.active_columns)
    for row, (lo, hi) in enumerate(zip(wide.active_columns.lo, wide.active_columns.hi)):
        wide.information[0, row + 1, 0, lo : min(hi, 10)] = rng.uniform(0.01, 5, max(min(hi, 10) - lo, 0))
    wide.mean[:] = rng.normal(0, 1, wide.mean.shape)
    points = np.zeros((7 * ratio, 9 * ratio), bool)
    points[3 * ratio :, 4 * ratio] = True
    find_active_columns(active_nodes(points), fine.prior, False, fine.shape, 1, fine.active_columns)
    before = rng.normal(0, 1, fine.mean.shape).astype(np.float32)
    given = (wide.information[0], wide.mean, wide.active_columns, wide.shape), ratio, 9 * ratio, fine.active_columns
    inside, outside = before.copy(), before.copy()
    for first in (0, 3 * ratio):  # in ranges of rows, as threads do it
        blend_coarse(first, first + 4 * ratio, *given, True, before, inside)
        blend_coarse(first, first + 4 * ratio, *given, False, outside, outside)
    expected, told = blended(wide, ratio, before), 0
    for row, (lo, hi) in enumerate(
        zip(fine.active_columns.lo, np.maximum(fine.active_columns.lo, fine.active_columns.hi))
    ):
        column = np.arange(1, 9 * ratio + 1)
        within = (column >= lo) & (column < hi)
        for found, where in ((inside, within), (outside, ~within)):
            at = column[where]
            np.testing.assert_allclose(found[row + 1, :, at], expected[row + 1, :, at], rtol=1e-4, atol=1e-4)
        assert (inside[row + 1, :, column[~within]] == before[row + 1, :, column[~within]]).all()
        told += (expected[row + 1, 0, column[~within]] != before[row + 1, 0, column[~within]]).sum()
    assert told > 5  # also outside


def test_one_thread_alone_finds_what_all_find_together(monkeypatch):
    config, rng = Config().with_changes(ground={"stcrf": {"length": 50.0, "width": 38.0}}), np.random.default_rng(7)
    scans = [engines.given(config, scene(rng, 20, 3000)) for _ in range(3)]
    found = []
    for points in (0, 10**6):
        monkeypatch.setattr(cpu, "_POINTS", points)
        engine, frames = StcrfCpu(config), []
        for number, one in enumerate(scans):
            frames.append(engine.frame(replace(one, warm=number > 0)))
            engine.keep()
            engine.move(Rolled(2, -1, 0.0))
        found.append(frames)
    for one, other in zip(*found):
        for name in ("label", "ground_probability", "height_above_ground", "elevation", "slope", "variance"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
