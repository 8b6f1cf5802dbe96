# SPDX-License-Identifier: Apache-2.0
"""The height field: exact gradients, bounds that hold, and the shapes that the scenes promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadbed.core.errors import ConfigError
from roadbed.simulate.layers import Banking, Bend, Crown, Ditch, Kerb, Plane, Ramp, Shoulder, SpeedBump, Wave
from roadbed.simulate.scenes import SCENES, build_scene
from roadbed.simulate.terrain import ROAD, SIDEWALK, TERRAIN, Terrain

LAYERS = {
    "plane": Plane(1.0, 0.1, -0.2),
    "wave": Wave(0.4, 7.0, 0.5, 0.3),
    "faded wave": Wave(0.4, 7.0, 0.5, 0.3, fade=(2.0, 6.0)),
    "ramp": Ramp(-10.0, 15.0, 2.0),
    "crown": Crown(0.1, 4.0),
    "banking": Banking(2.0, 4.0),
    "shoulder": Shoulder(-1, 3.0, 9.0, -4.0),
    "ditch": Ditch(0, 6.0, 1.5, 0.6),
    "kerb": Kerb(5.0, 0.12, face=0.05, period=30.0, crossing=4.0, offset=3.0),
    "one kerb": Kerb(5.0, 0.12, face=0.05, side=1),
    "bump": SpeedBump(3.0, 0.8, 0.1),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradient_is_the_derivative_of_the_height(name: str) -> None:
    terrain = Terrain((LAYERS[name],), bends=(Bend(3.0, 60.0), Bend(1.0, 25.0, 0.5)))
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-20, 20, (2, 4000))
    step = 1e-5
    by_x = (terrain.height(x + step, y) - terrain.height(x - step, y)) / (2 * step)
    by_y = (terrain.height(x, y + step) - terrain.height(x, y - step)) / (2 * step)
    slope = terrain.slope(x, y)
    # Edges of a layer (where the second derivative jumps) are met by few samples; their first derivative may jump
    # only where a crown ends.
    close = np.isclose(slope[:, 0], by_x, atol=2e-4) & np.isclose(slope[:, 1], by_y, atol=2e-4)
    assert close.mean() > 0.998


@pytest.mark.parametrize("scene", SCENES)
def test_bounds_hold_everywhere(scene: str) -> None:
    terrain = build_scene(scene).terrain
    bounds = terrain.bounds(-40.3, 70.2, -35.1, 40.9)
    rng = np.random.default_rng(2)
    x, y = rng.uniform(-40, 70, 200_000), rng.uniform(-35, 40, 200_000)
    # Kerbs are narrow: add places around them.
    x = np.concatenate([x, x[:50_000]])
    across = terrain.from_road(x[:50_000], y[:50_000])
    y = np.concatenate([y, y[:50_000] + (5.52 - np.abs(across)) * np.sign(across)])
    inside = (y > -35) & (y < 40)
    x, y = x[inside], y[inside]
    row, column = np.floor(y).astype(int) - bounds.row_0, np.floor(x).astype(int) - bounds.column_0
    height, slope = terrain.height_and_slope(x, y)
    assert (height <= bounds.high[row, column]).all()
    assert (height >= bounds.low[row, column]).all()
    assert (np.hypot(slope[:, 0], slope[:, 1]) <= bounds.steepest[row, column]).all()


def test_mountain_road_is_steep_banked_crowned_and_falls_off_beside() -> None:
    terrain = build_scene("mountain").terrain
    x = np.arange(0.0, 900.0, 0.5)
    y, slope, curve = terrain.centreline(x)
    height = terrain.height(x, y)
    grade = np.abs(np.diff(height)) / np.hypot(np.diff(x), np.diff(y))
    assert 0.12 < grade.max() <= 0.15
    stretch = np.sqrt(1 + slope**2)
    left, right = terrain.height(x, y + 3.0 * stretch), terrain.height(x, y - 3.0 * stretch)
    assert ((left + right) / 2 < height - 0.03).all()  # the crown
    bend = np.abs(curve) > 0.012
    assert (np.sign(right - left)[bend] == np.sign(curve)[bend]).all()  # the inside of the bend is lower
    assert 0.03 < np.abs(left - right).max() / 6 < 0.08
    drop = height - terrain.height(x, y - 22.0 * stretch)
    assert np.median(drop) > 8.0


@pytest.mark.parametrize(("scene", "half_road"), [("city", 5.5), ("lowobstacles", 8.0), ("standstart", 5.5)])
def test_kerbs_rise_between_10_and_15_centimetres(scene: str, half_road: float) -> None:
    terrain = build_scene(scene).terrain
    x = np.array([15.0, 30.0])
    y, slope, _ = terrain.centreline(x)
    stretch = np.sqrt(1 + slope**2)
    for side in (1, -1):
        road = terrain.height(x, y + side * (half_road - 0.01) * stretch)
        behind = terrain.height(x, y + side * (half_road + 0.06) * stretch)
        assert ((behind - road > 0.10) & (behind - road < 0.15)).all()
        assert (terrain.semantic(x, y + side * (half_road - 0.1) * stretch) == ROAD).all()
        assert (terrain.semantic(x, y + side * (half_road + 0.1) * stretch) == SIDEWALK).all()


def test_side_streets_cut_the_kerb() -> None:
    terrain = build_scene("city").terrain
    y = float(terrain.centreline(60.0)[0])
    assert terrain.semantic(60.0, y + 12.0) == ROAD
    assert float(terrain.height(60.0, y + 12.0) - terrain.height(60.0, y + 5.0)) == pytest.approx(0.0, abs=0.03)


def test_what_lies_beside_a_road_is_terrain() -> None:
    assert build_scene("mountain").terrain.semantic(10.0, 60.0) == TERRAIN


@given(rise=st.floats(0.5, 4.0), length=st.floats(5.0, 40.0))
@settings(max_examples=30, deadline=None)
def test_a_ramp_joins_its_ends_without_a_kink(rise: float, length: float) -> None:
    terrain = Terrain((Ramp(0.0, length, rise),))
    x = np.linspace(-2.0, length + 2.0, 2000)
    height, slope = terrain.height_and_slope(x, np.zeros_like(x))
    assert height[0] == 0.0
    assert height[-1] == pytest.approx(rise)
    assert slope[:, 0].max() == pytest.approx(1.5 * rise / length, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Wave, (0.1, 0.2)),
        (Shoulder, (1, 4.0, 4.2, 1.0)),
        (Ditch, (0, 3.0, 0.0, 1.0)),
        (Kerb, (3.0, 0.12, 0.0)),
        (Ramp, (3.0, 1.0, 1.0)),
    ],
)
def test_impossible_layers_show_what_is_allowed(kind: type, values: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match=f"^{kind.__name__}.*: expected"):
        kind(*values)
