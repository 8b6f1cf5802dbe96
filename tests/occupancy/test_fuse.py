# SPDX-License-Identifier: Apache-2.0
"""Fusion: the textbook vectors, and sensors that come, go and disagree."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadbed.config.occupancy import FusionConfig
from roadbed.errors import ConfigError, InputError
from roadbed.geometry import Lattice
from roadbed.occupancy.fuse import Fusion, fuse
from roadbed.occupancy.observe import SensorGrid

LATTICE = Lattice(0.0, 0.0, 0.5, 4, 3)
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


def test_dempster_keeps_conflict_apart_from_certainty():
    # Hand-computed: o = (.72 * .28 + ...) with masses .72/.08/.2 and .08/.72/.2.
    occupied = 0.72 * 0.08 + 0.72 * 0.2 + 0.2 * 0.08
    conflict = 0.72 * 0.72 + 0.08 * 0.08
    unknown = 0.04
    expected = (occupied + 0.5 * unknown) / (1 - conflict)
    assert pooled((0.9, 0.1), (0.8, 0.8), "dempster")[0] == pytest.approx(expected, abs=1e-6)
    # Full conflict is not normalised away but becomes ignorance.
    assert pooled((0.999, 0.001), (1, 1), "dempster")[0] == pytest.approx(0.5, abs=1e-2)


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


def test_age_and_reliability_take_weight():
    fresh = pooled((0.9, 0.1), (1, 1))[0]
    aged = pooled((0.9, 0.1), (1, 1), age=(0.0, 0.4))[0]
    weight = np.exp(-2)
    assert aged == pytest.approx((0.9 + 0.1 * weight) / (1 + weight), abs=1e-6)
    assert aged > fresh
    assert pooled((0.9, 0.1), (1, 1), reliability=(1.0, 0.0))[0] == pytest.approx(0.9, abs=1e-6)


def grid(sensor, time, p=0.9, seen=0.8):
    layer = np.full(LATTICE.shape, p, np.float32)
    return SensorGrid(sensor, time, layer, np.full(LATTICE.shape, seen, np.float32), np.zeros(LATTICE.shape, np.uint16))


def test_evidence_is_used_once_and_a_silent_sensor_fades_out():
    fusion = Fusion(FusionConfig(forget=0.5))
    fusion.add([grid("a", 0.0)], LATTICE)
    first = fusion.fused(0.0, LATTICE)
    assert first.probability[0, 0] == pytest.approx(0.9)
    seen = []
    for step in range(1, 8):
        later = fusion.fused(step * 0.1, LATTICE)
        assert later.probability[0, 0] == 0.5
        seen.append(float(later.observedness[0, 0]))
    assert seen[0] == pytest.approx(0.8 * np.exp(-0.5), abs=1e-6)
    assert all(b < a or a == b == 0 for a, b in pairwise(seen))
    assert seen[-1] == 0


def test_sensors_of_different_rates_share_one_grid():
    fusion = Fusion()
    fusion.add([grid("slow", 0.0, 0.9, 0.5)], LATTICE)
    fusion.fused(0.0, LATTICE)
    fusion.add([grid("fast", 0.04, 0.1, 0.5)], LATTICE)
    fused = fusion.fused(0.04, LATTICE)
    assert fused.probability[0, 0] == pytest.approx(0.1)
    assert fused.observedness[0, 0] == pytest.approx(1 - 0.5 * (1 - 0.5 * np.exp(-0.2)), abs=1e-6)


def test_an_older_grid_follows_the_rolling_lattice():
    fusion = Fusion()
    seen = np.zeros(LATTICE.shape, np.float32)
    seen[1, 2] = 1
    fusion.add([SensorGrid("a", 0.0, seen + 0.0, seen, np.zeros(LATTICE.shape, np.uint16))], LATTICE)
    fusion.fused(0.0, LATTICE)
    moved = fusion.fused(0.1, LATTICE.shifted(1, -1)).observedness
    assert moved[2, 1] == pytest.approx(np.exp(-0.5))
    assert np.count_nonzero(moved) == 1


def test_two_sensors_of_one_name_are_refused():
    with pytest.raises(InputError, match="one grid per sensor, found sensors a, a"):
        Fusion().add([grid("a", 0.0), grid("a", 0.0)], LATTICE)


def test_wrong_shapes_and_rules_are_explained():
    with pytest.raises(ConfigError, match="expected one of linear"):
        fuse(np.zeros((1, 2)), np.zeros((1, 2)), rule="sum")
    with pytest.raises(InputError, match="expected the same"):
        fuse(np.zeros((1, 2)), np.zeros((1, 3)))
    with pytest.raises(InputError, match="one reliability"):
        fuse(np.zeros((2, 2)), np.zeros((2, 2)), reliability=[1.0])
