# SPDX-License-Identifier: Apache-2.0
"""Fusion: the textbook vectors, and sensors that come, go and disagree."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.occupancy_steps import stacked
from roadbed.config.occupancy import FusionConfig
from roadbed.occupancy.arrays import Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.fusion.fuse import Fusion, fuse

SHAPE, SPACING = (3, 4), 0.5
probabilities = st.floats(0.05, 0.95)


def pooled(values, seen, rule="linear", **options):
    p, observedness = fuse(np.array(values)[:, None], np.array(seen)[:, None], rule=rule, **options)
    return float(p[0]), float(observedness[0])


@pytest.mark.parametrize(
    ("rule", "values", "seen", "expected"),
    [
        ("linear", (0.9, 0.9), (1, 1), 0.90),
        ("independent", (0.9, 0.9), (1, 1), 0.988),
        ("linear", (0.9, 0.1), (1, 1), 0.5),
        ("independent", (0.9, 0.1), (1, 1), 0.5),
        ("logarithmic", (0.9, 0.1), (1, 1), 0.5),
        ("linear", (0.1, 0.5), (1, 0), 0.1),
        ("linear", (0.7, 0.7, 0.7), (1, 1, 1), 0.7),
        ("independent", (0.7, 0.7, 0.7), (1, 1, 1), 0.927),
        ("logarithmic", (0.9, 0.9), (1, 1), 0.9),
        ("dempster", (0.9, 0.5), (1, 0), 0.9),
        ("dempster", (0.9, 0.9), (1, 1), 0.988),
    ],
)
def test_vectors(rule, values, seen, expected):
    assert pooled(values, seen, rule)[0] == pytest.approx(expected, abs=1e-3)


def test_dempster_divides_by_what_does_not_conflict():
    """Two sensors that are neither equally sure nor equally reliable: Dempster's rule by hand."""
    (o1, f1, u1), (o2, f2, u2) = (0.72, 0.08, 0.2), (0.18, 0.42, 0.4)  # p .9, seen .8; p .3, seen .6
    conflict = o1 * f2 + f1 * o2
    occupied, unknown = o1 * o2 + o1 * u2 + u1 * o2, u1 * u2
    expected = (occupied + 0.5 * unknown) / (1 - conflict)
    assert conflict > 0.3
    assert pooled((0.9, 0.3), (0.8, 0.6), "dempster")[0] == pytest.approx(expected, abs=1e-6)
    assert pooled((0.3, 0.9), (0.6, 0.8), "dempster")[0] == pytest.approx(expected, abs=1e-6)


def test_full_conflict_becomes_ignorance_instead_of_being_divided_away():
    (o1, f1), (o2, f2) = (0.999, 0.001), (0.02, 0.98)
    conflict = o1 * f2 + f1 * o2
    assert conflict > 0.9
    found = pooled((o1, o2), (1, 1), "dempster")[0]
    assert found == pytest.approx(o1 * o2 + 0.5 * conflict, abs=1e-6)
    assert found < 0.6 < o1 * o2 / (1 - conflict)


@given(st.lists(st.tuples(probabilities, st.floats(0, 1)), min_size=1, max_size=6))
def test_linear_pool_is_never_surer_than_its_members_and_ignores_the_order(members):
    values, seen = zip(*members)
    p, observedness = pooled(values, seen)
    told = [v for v, s in members if s > 0] or [0.5]
    assert min(*told, 0.5) - 1e-6 <= p <= max(*told, 0.5) + 1e-6
    assert max(seen) - 1e-6 <= observedness <= 1
    assert pooled(values[::-1], seen[::-1]) == pytest.approx((p, observedness), abs=1e-6)


@given(probabilities, st.floats(0.05, 1), st.sampled_from(["linear", "independent", "logarithmic", "dempster"]))
def test_a_blind_sensor_never_counts(value, seen, rule):
    alone = pooled((value,), (seen,), rule)
    assert pooled((value, 0.95), (seen, 0.0), rule) == pytest.approx(alone, abs=1e-6)


def test_reliability_takes_weight():
    unreliable = pooled((0.9, 0.1), (1, 1), reliability=(1.0, 0.25))[0]
    assert unreliable == pytest.approx((0.9 + 0.1 * 0.25) / 1.25, abs=1e-6)
    assert pooled((0.9, 0.1), (1, 1), reliability=(1.0, 0.0))[0] == pytest.approx(0.9, abs=1e-6)


def report(p=0.9, seen=0.8):
    return Observation(
        np.full(SHAPE, p, np.float32), np.full(SHAPE, seen, np.float32), np.zeros(SHAPE, np.uint16)
    )  # fmt: skip


def test_evidence_is_used_once_and_a_silent_sensor_fades_out():
    fusion = Fusion(SPACING, FusionConfig(forget=0.5))
    first = fusion(0.0, stacked({"a": report()}))
    assert first.probability[0, 0] == pytest.approx(0.9)
    seen = []
    for step in range(1, 8):
        later = fusion(step * 0.1, stacked({"b": report(seen=0.0)}))
        assert later.probability[0, 0] == 0.5
        seen.append(float(later.observedness[0, 0]))
    assert seen[0] == pytest.approx(0.8 * np.exp(-0.5), abs=1e-6)
    assert all(b < a or a == b == 0 for a, b in pairwise(seen))
    assert seen[-1] == 0


def test_a_silent_sensor_is_remembered_as_far_as_it_is_relied_on():
    fusion = Fusion(SPACING, FusionConfig(reliability={"a": 0.5}))
    fusion(0.0, stacked({"a": report(seen=0.8)}))
    later = fusion(0.1, stacked({"b": report(seen=0.0)}))
    assert later.observedness[0, 0] == pytest.approx(0.5 * 0.8 * np.exp(-0.5), abs=1e-6)


def test_sensors_of_different_rates_share_one_grid():
    fusion = Fusion(SPACING)
    fusion(0.0, stacked({"slow": report(0.9, 0.5)}))
    fused = fusion(0.04, stacked({"fast": report(0.1, 0.5)}))
    assert fused.probability[0, 0] == pytest.approx(0.1)
    assert fused.observedness[0, 0] == pytest.approx(1 - 0.5 * (1 - 0.5 * np.exp(-0.2)), abs=1e-6)


def watched_at(row, column):
    seen = np.zeros(SHAPE, np.float32)
    seen[row, column] = 1
    return Observation(seen + 0, seen, np.zeros(SHAPE, np.uint16))


def test_what_was_watched_follows_a_rolling_grid():
    fusion = Fusion(SPACING)
    fusion(0.0, stacked({"a": watched_at(1, 2)}))
    fusion.move(GridMotion.rolled(1, -1, SPACING))
    moved = fusion(0.1, stacked({"b": report(seen=0.0)})).observedness
    assert moved[2, 1] == pytest.approx(np.exp(-0.5))
    assert np.count_nonzero(moved) == 1


def test_what_was_watched_follows_a_turning_grid_over_several_moves():
    fusion = Fusion(SPACING)
    fusion(0.0, stacked({"a": watched_at(1, 2)}))
    # A quarter turn about the corner in two steps, and back beside it: `p_old = rotation p_new + shift`.
    eighth = np.array([[1, -1], [1, 1]]) / np.sqrt(2)
    for _ in range(2):
        fusion.move(GridMotion(eighth, np.zeros(2), None))
    fusion.move(GridMotion(shift=np.array([0.0, -3 * SPACING]), cells=None))
    moved = fusion(0.1, stacked({"b": report(seen=0.0)})).observedness
    # The cell's middle at (2.5, 1.5) lies at (1.5, -2.5) after the quarter turn, then at (1.5, 0.5).
    assert moved[0, 1] == pytest.approx(np.exp(-0.5), abs=1e-6)
    assert moved.sum() == pytest.approx(moved[0, 1], abs=1e-6)
