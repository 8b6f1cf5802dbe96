# SPDX-License-Identifier: Apache-2.0
"""The vehicle in a frame, as an outline and as points, and the height of the surface anywhere."""

import numpy as np

from roadbed.core.frames import GroundFrame
from roadbed.core.geometry import Float32, Float64, Grid

LENGTH, WIDTH, HEIGHT = 4.4, 1.8, 1.5  # m, a passenger car, for scale


def outline(ground: GroundFrame) -> Float64:
    """Corners of the vehicle from above, with a pointed nose, (5, 2) m in the grid frame."""
    front, back, side = LENGTH / 2, -LENGTH / 2, WIDTH / 2
    corners = [(back, side), (front - 0.9, side), (front, 0), (front - 0.9, -side), (back, -side)]
    points = np.array([(x, y, 0.0) for x, y in corners])
    return (ground.T_grid_vehicle @ points)[:, :2]


def solid(ground: GroundFrame, spacing: float = 0.08) -> tuple[Float64, Float64]:
    """The vehicle as a cloud of points on its body and cabin, (N, 3) m in the grid frame, and their shade (N,)."""
    body = _box((LENGTH, WIDTH, 0.55 * HEIGHT), (0, 0, 0.15), spacing)
    cabin = _box((0.5 * LENGTH, 0.85 * WIDTH, 0.4 * HEIGHT), (-0.35, 0, 0.15 + 0.55 * HEIGHT), spacing)
    points = np.concatenate([body[0], cabin[0]])
    return ground.T_grid_vehicle @ points, np.concatenate([body[1], 0.75 * cabin[1]])


def _box(size: tuple[float, float, float], base: tuple[float, float, float], spacing: float) -> tuple[Float64, Float64]:
    """Points on the top and sides of a box on `base`, and the shade of each face."""
    points, shades = [], []
    for axis, shade in ((0, 0.8), (1, 0.6), (2, 1.0)):
        u, v = [other for other in range(3) if other != axis]
        grid = np.meshgrid(*(np.linspace(-0.5, 0.5, max(2, round(size[k] / spacing))) for k in (u, v)))
        for side in (0.5,) if axis == 2 else (-0.5, 0.5):
            face = np.empty((grid[0].size, 3))
            face[:, u], face[:, v], face[:, axis] = grid[0].ravel(), grid[1].ravel(), side
            points.append((face + np.array([0, 0, 0.5])) * size + base)
            shades.append(np.full(len(face), shade))
    return np.concatenate(points), np.concatenate(shades)


def height_at(grid: Grid, elevation: Float32, x: Float64, y: Float64) -> Float64:
    """Elevation at (x, y) by bilinear interpolation; NaN outside the grid and where a corner is unknown."""
    u = (np.asarray(x, np.float64) - grid.x0) / grid.spacing
    v = (np.asarray(y, np.float64) - grid.y0) / grid.spacing
    column = np.clip(np.floor(u), 0, grid.columns - 2).astype(int)
    row = np.clip(np.floor(v), 0, grid.rows - 2).astype(int)
    # Half a square beyond the outermost nodes still belongs to the grid.
    inside = (u >= -0.5) & (u <= grid.columns - 0.5) & (v >= -0.5) & (v <= grid.rows - 0.5)
    a, b = np.clip(u - column, 0, 1), np.clip(v - row, 0, 1)
    near = elevation[row, column] * (1 - a) + elevation[row, column + 1] * a
    far = elevation[row + 1, column] * (1 - a) + elevation[row + 1, column + 1] * a
    return np.where(inside, near * (1 - b) + far * b, np.nan)


def surface_height(ground: GroundFrame, x: Float64, y: Float64) -> Float64:
    """Elevation at (x, y) of the grid frame, m; the height of the road under the vehicle where it is unknown."""
    z = height_at(ground.grid, ground.elevation, x, y)
    return np.where(np.isfinite(z), z, ground.T_grid_vehicle.translation[2])
