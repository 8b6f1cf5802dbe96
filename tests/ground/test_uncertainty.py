# SPDX-License-Identifier: Apache-2.0
"""A surface that knows what it does not know: rough ground is less certain than the points on it would say."""

import numpy as np
import pytest

import roadbed
from roadbed import Config
from roadbed.evaluate.elevation import SimulatedElevation
from roadbed.evaluate.ground import evaluate_ground
from tests.ground import engines

SIZE = 30  # m


def frame(factor):
    """Ground of the default engine over humps of some decimetres, seen everywhere."""
    config = Config().with_changes(ground={"stcrf": {"length": SIZE, "width": SIZE, "disagreement": factor}})
    x, y = (a.ravel() for a in np.meshgrid(np.arange(-12, 12, 0.2), np.arange(-12, 12, 0.2)))
    points = np.column_stack([x, y, 0.15 * np.sin(0.9 * x) * np.cos(0.7 * y)])
    return engines.engine("cpu", config).frame(engines.given(config, points))


def disagreement(output):
    """Mean squared difference from the planes of the eight neighbours, where all of them are known."""
    height, slope = output.elevation.astype(np.float64), output.slope.astype(np.float64)
    total = np.zeros(height.shape)
    for rows in (-1, 0, 1):
        for columns in (-1, 0, 1):
            if rows or columns:
                beside = np.roll(slope, (rows, columns), (0, 1)) @ (columns, rows)
                total += (np.roll(height, (rows, columns), (0, 1)) + beside - height) ** 2
    return total / 8


def test_what_neighbours_disagree_by_is_added_to_the_variance():
    plain, rough = frame(0.0), frame(1.5)
    expected = disagreement(plain)
    inside = np.isfinite(expected) & np.isfinite(rough.elevation)
    assert inside.sum() > 300
    assert np.sqrt(expected[inside].max()) > 0.03
    np.testing.assert_allclose((rough.variance - plain.variance)[inside], 1.5 * expected[inside], rtol=1e-3, atol=1e-7)
    np.testing.assert_array_equal(rough.label, plain.label)
    np.testing.assert_array_equal(rough.elevation[inside], plain.elevation[inside])


@pytest.mark.parametrize("place", ["offroad?sensor=vlp16", "city?sensor=vlp16", "mountain?sensor=lux4"])
def test_two_sigma_hold_most_of_the_true_surface(place):
    """Rough or flat, sparse or not: exact would be 95 %; what a crown hides is not known to anybody."""
    source = roadbed.open(f"sim:{place}&frames=4")
    out = evaluate_ground(source, Config(), elevation=SimulatedElevation(source, 40.0)).as_dict()
    assert 0.88 < out["elevation_within_2_sigma"] < 0.99
    assert out["elevation_nodes"] > 300
