# SPDX-License-Identifier: Apache-2.0
"""A surface that knows what it does not know: rough ground is less certain than the points on it would say."""

import numpy as np
import pytest

import roadbed
from roadbed import Config
from roadbed.evaluate.elevation import SimulatedElevation
from roadbed.evaluate.ground import evaluate_ground
from tests.devices import BACKENDS
from tests.ground import engines

SIZE = 30  # m


def frame(name, disagreement):
    """Ground of an engine over humps of some decimetres, seen everywhere."""
    config = Config().with_changes(ground={"stcrf": {"length": SIZE, "width": SIZE, "disagreement": disagreement}})
    x, y = (a.ravel() for a in np.meshgrid(np.arange(-12, 12, 0.2), np.arange(-12, 12, 0.2)))
    points = np.column_stack([x, y, 0.15 * np.sin(0.9 * x) * np.cos(0.7 * y)])
    return engines.engine(name, config).frame(engines.given(config, points))


def around(layer):
    """The 3 x 3 values around each node, with the steps to them; beyond the edge comes the other side."""
    steps = [(rows, columns) for rows in (-1, 0, 1) for columns in (-1, 0, 1)]
    return [(rows, columns, np.roll(layer, (rows, columns), (0, 1))) for rows, columns in steps]


def bumps(output):
    """Mean squared difference from the planes of the eight neighbours, where all of them are known."""
    height, slope = output.elevation.astype(np.float64), output.slope.astype(np.float64)
    heights, slopes = around(height), around(slope)
    return sum((h + s @ (columns, rows) - height) ** 2 for (rows, columns, h), (*_, s) in zip(heights, slopes)) / 8


@pytest.mark.parametrize("name", BACKENDS)
def test_points_fix_the_ground_as_well_as_it_is_even_around_them(name):
    plain, told = frame(name, 0.0), frame(name, 1.5)
    own = bumps(plain)
    uneven = sum(bump for *_, bump in around(own)) / 9
    inside = np.isfinite(uneven) & np.isfinite(told.elevation)
    assert inside.sum() > 250
    assert np.sqrt(own[inside].max()) > 0.03
    points = plain.variance / Config().ground.stcrf.sigma_up ** 2  # one over the effective number
    expected = np.minimum(points * (0.0015**2 + 10 * uneven) + own, Config().ground.stcrf.known_sigma ** 2)
    np.testing.assert_allclose(told.variance[inside], expected[inside], rtol=0.02)
    np.testing.assert_array_equal(told.label, plain.label)
    np.testing.assert_allclose(told.elevation[inside], plain.elevation[inside], atol=1e-6)


@pytest.mark.parametrize("place", ["offroad?sensor=vlp16", "city?sensor=vlp16", "mountain?sensor=lux4"])
def test_two_sigma_hold_most_of_the_true_surface(place):
    """Rough or flat, sparse or not: exact would be 95 %; what a crown hides is not known to anybody."""
    source = roadbed.open(f"sim:{place}&frames=4")
    out = evaluate_ground(source, Config(), elevation=SimulatedElevation(source, 40.0)).as_dict()
    assert 0.88 < out["elevation_within_2_sigma"] < 0.99
    assert out["elevation_nodes"] > 300
