# SPDX-License-Identifier: Apache-2.0
"""A surface that knows what it does not know: rough ground is less certain than the points on it would say."""

from dataclasses import replace

import numpy as np
import pytest

import roadbed
from roadbed import Config, GroundFilter, Label
from roadbed.evaluate.elevation import SimulatedElevation
from roadbed.evaluate.ground import evaluate_ground
from roadbed.ground.stcrf.model import COARSE_HEIGHT_WEIGHT, SLOPE_WEIGHT
from tests.devices import BACKENDS
from tests.ground import engines

pytestmark = pytest.mark.long(20)

SIZE = 40  # m, as in other tests: they share the programs for accelerators
STCRF = Config().ground.stcrf


def frame(name, points, *without):
    """Ground of an engine over points, seen once, from above."""
    config = Config().with_changes(ground={"stcrf": {"length": SIZE, "width": SIZE}, "without": without})
    engine = engines.engine(name, config)
    return engine, engine.frame(replace(engines.given(config, points), rise=10.0))


def humps():
    """Ground with humps of some decimetres, seen everywhere."""
    x, y = (a.ravel() for a in np.meshgrid(np.arange(-12, 12, 0.2), np.arange(-12, 12, 0.2)))
    return np.column_stack([x, y, 0.15 * np.sin(0.9 * x) * np.cos(0.7 * y)])


def around(layer):
    """The 3 x 3 values around each node, with the steps to them; beyond the edge comes the other side."""
    steps = [(rows, columns) for rows in (-1, 0, 1) for columns in (-1, 0, 1)]
    return [(rows, columns, np.roll(layer, (rows, columns), (0, 1))) for rows, columns in steps]


def bumps(height, slope):
    """Mean squared difference from the planes of the eight neighbours, where all of them are known."""
    heights, slopes = around(height), around(slope)
    return sum((h + s @ (columns, rows) - height) ** 2 for (rows, columns, h), (*_, s) in zip(heights, slopes)) / 8


def matrices(information):
    """P + P0 and X of each node, from nine layers."""
    p00, p01, p02, p11, p12, p22, *x = information.astype(np.float64)
    p00, p11, p22 = p00 + COARSE_HEIGHT_WEIGHT, p11 + SLOPE_WEIGHT, p22 + SLOPE_WEIGHT
    rows = (p00, p01, p02), (p01, p11, p12), (p02, p12, p22)
    return np.stack([np.stack(row, -1) for row in rows], -2), np.stack(x, -1)


def reweighted_plane(engine):
    """The reported planes and the inverse of their P + P0, from the EM's result and data term, in float64."""
    fine = engine._fine
    inside = np.s_[1:-1, :, 1 : fine.shape.columns + 1]
    everything, own = (a[inside].transpose(1, 0, 2).astype(np.float64) for a in (fine.posterior, fine.data))
    expected = fine.expected[inside].transpose(0, 2, 1)
    precision, right = matrices(own + (everything - own) / (1 + own[0]))
    right = right + expected * (COARSE_HEIGHT_WEIGHT, SLOPE_WEIGHT, SLOPE_WEIGHT)
    inverse = np.linalg.inv(precision)
    return np.einsum("...ij,...j", inverse, right), inverse


@pytest.fixture(scope="module")
def oracle():
    """What the rules read as give for the humps: planes (rows, columns, 3) and variance; elsewhere not a number."""
    engine, plain = frame("cpu", humps(), "neighbour_disagreement")
    planes, inverse = reweighted_plane(engine)
    smooth = engine._fine.mean[1:-1, :, 1 : engine._fine.shape.columns + 1].astype(np.float64)
    smooth += np.where(np.isnan(plain.elevation), np.nan, 0.0)[:, None]
    own = bumps(smooth[:, 0], smooth[:, 1:].transpose(0, 2, 1))
    uneven = sum(bump for *_, bump in around(own)) / 9
    rests_on_slope = SLOPE_WEIGHT**2 * (inverse[..., 0, 1] ** 2 + inverse[..., 0, 2] ** 2)
    told = inverse[..., 0, 0] * (0.0015**2 + 6 * uneven) + 0.5 * own + 0.25**2 * rests_on_slope
    return planes, own, np.minimum(told, STCRF.known_sigma**2)


@pytest.mark.parametrize("name", BACKENDS)
def test_points_fix_the_ground_as_well_as_it_is_even_around_them(name, oracle):
    planes, own, variance = oracle
    (_, plain), (_, told) = frame(name, humps(), "neighbour_disagreement"), frame(name, humps())
    inside = np.isfinite(variance) & np.isfinite(told.elevation)
    assert inside.sum() > 250
    assert np.sqrt(own[inside].max()) > 0.03
    np.testing.assert_allclose(told.variance[inside], variance[inside], rtol=0.02)
    np.testing.assert_allclose(told.elevation[inside], planes[inside][:, 0], atol=2e-4)
    np.testing.assert_allclose(told.slope[inside], planes[inside][:, 1:], atol=2e-3)
    np.testing.assert_array_equal(told.label, plain.label)


def test_a_crest_is_reported_as_high_as_its_points():
    """Neighbours bend crests and hollows flat; where these were seen, their own points say how high they are."""
    engine, found = frame("cpu", humps())
    wave = np.arange(SIZE) + 0.5 - SIZE / 2
    true = 0.15 * np.sin(0.9 * wave) * np.cos(0.7 * wave)[:, None]
    seen = np.hypot(*np.meshgrid(wave, wave)) < 10
    heights = found.elevation, engine._fine.mean[1:-1, 0, 1 : SIZE + 1]
    reported, smooth = (np.sqrt(np.mean((height - true)[seen] ** 2)) for height in heights)
    assert reported < 0.6 * smooth


@pytest.mark.parametrize("name", BACKENDS)
def test_across_a_slanting_line_of_points_both_slopes_are_in_doubt(name):
    """On level ground nothing disagrees: what is left is what the points fix, and the slope that they do not tell."""
    along = np.arange(-10, 10, 0.05)
    line = np.column_stack([along, 0.6 * along + 0.35, np.zeros(along.size)])
    engine, _ = frame("cpu", line)
    inverse = reweighted_plane(engine)[1]
    rests_on_slope = SLOPE_WEIGHT**2 * (inverse[..., 0, 1] ** 2 + inverse[..., 0, 2] ** 2)
    expected = np.minimum(inverse[..., 0, 0] * 0.0015**2 + 0.25**2 * rests_on_slope, STCRF.known_sigma**2)
    _, found = frame(name, line)
    known = np.isfinite(found.elevation) & (engine._fine.data[1:-1, 0, 1 : SIZE + 1] > 1)
    assert known.sum() > 15
    np.testing.assert_allclose(found.variance[known], expected[known], rtol=0.02)


@pytest.mark.parametrize("name", BACKENDS)
def test_what_lies_beside_a_single_ring_is_as_uncertain_as_its_slope(name):
    """One line of points at the edge of its nodes says nothing about the ground across it; a whole patch does."""
    x = np.arange(-12, 12, 0.05)
    line = np.column_stack([x, np.full(x.size, 0.95), np.zeros(x.size)])
    patch = np.concatenate([line + np.array([0, across, 0]) for across in np.arange(-2.9, 3.0, 0.2)])
    _, ring = frame(name, line)
    _, whole = frame(name, patch)
    row, columns = SIZE // 2, slice(SIZE // 2 - 8, SIZE // 2 + 8)
    assert np.sqrt(np.median(ring.variance[row, columns])) > 0.02
    assert np.sqrt(np.median(whole.variance[row, columns])) < 0.003


@pytest.mark.parametrize("name", BACKENDS)
def test_a_gap_is_filled_where_the_planes_around_it_agree(name):
    """Between a road and the land below it nobody knows where the edge is; on a level road a gap is nothing."""
    x, y = (a.ravel() for a in np.meshgrid(np.arange(-12, 12, 0.1), np.arange(-12, 12, 0.1)))
    for drop, known in ((0.0, True), (0.5, False)):
        points = np.column_stack([x, y, np.where(x > 4.5, -drop, 0.0)])[np.floor(x) != 4]
        _, found = frame(name, points)
        assert np.isfinite(found.elevation[SIZE // 2 - 6, SIZE // 2 + 4]) == known


@pytest.mark.parametrize("place", ["offroad?sensor=vlp16", "city?sensor=vlp16", "mountain?sensor=lux4"])
def test_two_sigma_hold_most_of_the_true_surface(place):
    """Rough or flat, sparse or not: exact would be 95 %; what a crown hides is not known to anybody."""
    source = roadbed.open(f"sim:{place}&frames=4")
    out = evaluate_ground(source, Config(), elevation=SimulatedElevation(source, 40.0))
    assert 0.88 < out["elevation_within_2_sigma"] < 0.99
    assert out["elevation_nodes"] > 300


def test_nodes_without_points_are_as_uncertain_as_they_are_wrong():
    """Nodes filled in between seen ones: about 95 % are within two sigma."""
    outside, nodes = 0, 0
    for seed in (50, 51, 52):
        source = roadbed.open(f"sim:offroad?sensor=hdl32e&seed={seed}&frames=1")
        frame = GroundFilter()(source[0])
        node = frame.grid.index(*frame.points_grid[frame.label == Label.GROUND, :2].T)
        empty = np.bincount(node[node >= 0], minlength=frame.grid.size).reshape(frame.grid.shape) == 0
        x, y = frame.grid.mesh()
        near = np.hypot(x - frame.T_grid_sensor.translation[0], y - frame.T_grid_sensor.translation[1]) < 40
        error = np.abs(frame.elevation - source.truth(0).elevation(frame.grid, frame.T_grid_sensor))
        filled = empty & near & np.isfinite(error)
        nodes += np.count_nonzero(filled)
        outside += np.count_nonzero(error[filled] > 2 * np.sqrt(frame.variance[filled]))
    assert nodes > 500
    assert outside < 0.07 * nodes
