# SPDX-License-Identifier: Apache-2.0
"""A small 3D renderer: points, lines and surfaces in perspective, with a depth buffer, without a display."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.core.geometry import Float64
from roadbed.kernels.jit import njit
from roadbed.kernels.numeric import max, min
from roadbed.outputs.images.palette import rgb

_NEAREST = 0.3  # m; nearer points are not drawn


@dataclass(frozen=True)
class Camera:
    """Looks from `eye` to `target`, z up; `field_of_view` is horizontal, degrees."""

    eye: tuple[float, float, float]
    target: tuple[float, float, float]
    field_of_view: float = 50.0

    @property
    def axes(self) -> Float64:
        """Right, down and forward as rows."""
        forward = np.subtract(self.target, self.eye, dtype=np.float64)
        forward /= np.linalg.norm(forward)
        right = np.cross(forward, (0.0, 0.0, 1.0))
        right /= np.linalg.norm(right)
        return np.stack([right, np.cross(forward, right), forward])

    def focal(self, width: int) -> float:
        """Focal length in pixels of an image `width` pixels wide."""
        return float(width / 2 / np.tan(np.radians(self.field_of_view) / 2))


class Canvas:
    """An image with a depth buffer, drawn at twice the size, then halved."""

    def __init__(self, width: int, height: int, camera: Camera, background: str = "#FFFFFF") -> None:
        self._colour = np.empty((2 * height, 2 * width, 3), np.uint8)
        self._colour[:] = rgb(background)
        self._depth = np.full((2 * height, 2 * width), np.inf, np.float32)
        self._view = (camera.axes, np.array(camera.eye, np.float64), camera.focal(2 * width))

    def points(
        self, points: ArrayLike, colours: ArrayLike, size: float = 0.05, largest: int = 6, nearer: float = 0.0
    ) -> None:
        """(N, 3) points as squares `size` metres wide; `colours` is (3,) or (N, 3). `nearer` wins ties, in metres."""
        points = np.array(points, np.float64, order="C").reshape(-1, 3)
        _draw_points(self._colour, self._depth, *self._view, points, _each(colours, points), size, largest, nearer)

    def lines(self, segments: ArrayLike, colour: ArrayLike, size: float = 0.03, nearer: float = 0.05) -> None:
        """(M, 2, 3) segments, `size` metres wide; `colour` is (3,) or (M, 3)."""
        segments = np.array(segments, np.float64, order="C").reshape(-1, 2, 3)
        _draw_lines(self._colour, self._depth, *self._view, segments, _each(colour, segments), size, 6, nearer)

    def image(self) -> NDArray[np.uint8]:
        """(height, width, 3), smoothed by averaging two by two pixels."""
        wide = self._colour.astype(np.uint16)
        rows = wide[0::2] + wide[1::2]
        return ((rows[:, 0::2] + rows[:, 1::2] + 2) // 4).astype(np.uint8)


def _each(colours: ArrayLike, things: NDArray[np.float64]) -> NDArray[np.uint8]:
    """One colour per thing, in a new array: Numba would compile kernels again for a read-only view of `colours`."""
    each = np.empty((len(things), 3), np.uint8)
    each[:] = np.asarray(colours, np.uint8)
    return each


@njit(cache=True)
def _stamp(colour, depth, column, row, here, wide, r, g, b):
    """A square of `wide` pixels around (column, row), where nothing nearer is."""
    left = int(np.floor(column - wide / 2 + 0.5))
    top = int(np.floor(row - wide / 2 + 0.5))
    for v in range(max(top, 0), min(top + wide, depth.shape[0])):
        for u in range(max(left, 0), min(left + wide, depth.shape[1])):
            if here < depth[v, u]:
                depth[v, u] = here
                colour[v, u, 0] = r
                colour[v, u, 1] = g
                colour[v, u, 2] = b


@njit(cache=True)
def _to_screen(axes, eye, focal, shape, x, y, z):
    """Column, row and depth of a point."""
    dx, dy, dz = x - eye[0], y - eye[1], z - eye[2]
    right = axes[0, 0] * dx + axes[0, 1] * dy + axes[0, 2] * dz
    down = axes[1, 0] * dx + axes[1, 1] * dy + axes[1, 2] * dz
    depth = axes[2, 0] * dx + axes[2, 1] * dy + axes[2, 2] * dz
    safe = max(depth, 1e-6)
    return shape[1] / 2 + focal * right / safe, shape[0] / 2 + focal * down / safe, depth


@njit(cache=True)
def _pixels(size, focal, depth, largest):
    return min(max(int(focal * size / depth + 0.5), 2), largest)


@njit(cache=True)
def _draw_points(colour, depth, axes, eye, focal, points, colours, size, largest, nearer):
    height, width = depth.shape
    for i in range(len(points)):
        column, row, away = _to_screen(axes, eye, focal, depth.shape, points[i, 0], points[i, 1], points[i, 2])
        # Written so that NaN coordinates are left out too.
        if away > _NEAREST and -99 < column < width + 99 and -99 < row < height + 99:
            wide = _pixels(size, focal, away, largest)
            here = np.float32(away - nearer)
            _stamp(colour, depth, column, row, here, wide, colours[i, 0], colours[i, 1], colours[i, 2])


@njit(cache=True)
def _draw_lines(colour, depth, axes, eye, focal, segments, colours, size, largest, nearer):
    height, width = depth.shape
    for i in range(len(segments)):
        start, end = segments[i, 0], segments[i, 1]
        c0, r0, d0 = _to_screen(axes, eye, focal, depth.shape, start[0], start[1], start[2])
        c1, r1, d1 = _to_screen(axes, eye, focal, depth.shape, end[0], end[1], end[2])
        if not (d0 > _NEAREST and d1 > _NEAREST):
            continue
        steps = int(min(max(max(abs(c1 - c0), abs(r1 - r0)), 1.0), 4000.0)) + 1
        for step in range(steps + 1):
            # Along the screen depth is not linear, its inverse is.
            t = step / steps
            away = 1 / ((1 - t) / d0 + t / d1)
            column, row = c0 + t * (c1 - c0), r0 + t * (r1 - r0)
            if -99 < column < width + 99 and -99 < row < height + 99:
                wide = _pixels(size, focal, away, largest)
                here = np.float32(away - nearer)
                _stamp(colour, depth, column, row, here, wide, colours[i, 0], colours[i, 1], colours[i, 2])
