# SPDX-License-Identifier: Apache-2.0
"""A small 3D renderer in NumPy: points, lines and surfaces in perspective, with a depth buffer, without a display."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from roadbed.frames import Float64


@dataclass(frozen=True)
class Camera:
    """Looks from `eye` to `target`, z up; `field_of_view` is horizontal, degrees."""

    eye: tuple[float, float, float]
    target: tuple[float, float, float]
    field_of_view: float = 50.0

    def project(self, points: Float64, width: int, height: int) -> tuple[Float64, Float64, Float64]:
        """(N, 3) -> column, row (pixels) and depth (m, positive in front)."""
        forward = np.subtract(self.target, self.eye, dtype=np.float64)
        forward /= np.linalg.norm(forward)
        right = np.cross(forward, (0.0, 0.0, 1.0))
        right /= np.linalg.norm(right)
        axes = np.stack([right, np.cross(forward, right), forward])
        x, y, depth = axes @ (np.asarray(points, np.float64) - self.eye).T
        focal = width / 2 / np.tan(np.radians(self.field_of_view) / 2)
        safe = np.maximum(depth, 1e-6)
        return width / 2 + focal * x / safe, height / 2 + focal * y / safe, depth


class Canvas:
    """An image that things are drawn into; what is nearer hides what is farther. Drawn at twice the size, then halved."""

    def __init__(self, width: int, height: int, camera: Camera, background: str = "#FFFFFF") -> None:
        from roadbed.outputs.pictures.palette import rgb

        self.camera = camera
        self.width, self.height = 2 * width, 2 * height
        self._colour = np.empty((self.height, self.width, 3), np.uint8)
        self._colour[:] = rgb(background)
        self._depth = np.full((self.height, self.width), np.inf, np.float32)

    def points(
        self, points: ArrayLike, colours: NDArray[np.uint8], size: float = 0.05, largest: int = 6, nearer: float = 0.0
    ) -> None:
        """(N, 3) points as squares `size` metres wide; `colours` is (3,) or (N, 3). `nearer` wins ties, in metres."""
        points = np.asarray(points, np.float64).reshape(-1, 3)
        colours = np.ascontiguousarray(np.broadcast_to(colours, (len(points), 3)), np.uint8)
        column, row, depth = self.camera.project(points, self.width, self.height)
        focal = self.width / 2 / np.tan(np.radians(self.camera.field_of_view) / 2)
        pixels = np.clip(np.round(focal * size / np.maximum(depth, 0.3)), 2, largest).astype(np.int64)
        _splat(self._colour, self._depth, column, row, depth, pixels, colours, nearer)

    def lines(self, segments: ArrayLike, colour: ArrayLike, size: float = 0.03, nearer: float = 0.05) -> None:
        """(M, 2, 3) segments, each drawn as a row of points dense enough on the screen."""
        segments = np.asarray(segments, np.float64).reshape(-1, 2, 3)
        segments = segments[np.isfinite(segments).all((1, 2))]
        if not len(segments):
            return
        ends = [self.camera.project(segments[:, end], self.width, self.height) for end in (0, 1)]
        in_front = (ends[0][2] > 0.3) & (ends[1][2] > 0.3)
        reach = np.maximum(np.abs(ends[0][0] - ends[1][0]), np.abs(ends[0][1] - ends[1][1]))
        steps = np.where(in_front, np.clip(reach, 2, 2000), 0).astype(int)
        which = np.repeat(np.arange(len(segments)), steps)
        first = np.repeat(np.cumsum(steps) - steps, steps)
        along = (np.arange(len(which)) - first) / np.maximum(steps[which] - 1, 1)
        points = segments[which, 0] * (1 - along)[:, None] + segments[which, 1] * along[:, None]
        colours = np.broadcast_to(np.asarray(colour, np.uint8), (len(segments), 3))[which]
        self.points(points, colours, size=size, largest=6, nearer=nearer)

    def image(self) -> NDArray[np.uint8]:
        """(height, width, 3), smoothed by averaging two by two pixels."""
        full = self._colour.reshape(self.height // 2, 2, self.width // 2, 2, 3)
        return full.mean((1, 3)).round().astype(np.uint8)


@njit(cache=True)
def _splat(colour, depth, column, row, point_depth, pixels, point_colour, nearer):  # type: ignore[no-untyped-def]
    """Draw every point as a square of `pixels`, nearest wins."""
    height, width = depth.shape
    for i in range(len(column)):
        # Written so that NaN coordinates are left out too.
        if not (point_depth[i] > 0.3 and abs(column[i]) < 4.0 * width and abs(row[i]) < 4.0 * height):
            continue
        here = np.float32(point_depth[i] - nearer)
        left = int(np.floor(column[i] - pixels[i] / 2 + 0.5))
        top = int(np.floor(row[i] - pixels[i] / 2 + 0.5))
        for v in range(max(top, 0), min(top + pixels[i], height)):
            for u in range(max(left, 0), min(left + pixels[i], width)):
                if here < depth[v, u]:
                    depth[v, u] = here
                    for channel in range(3):
                        colour[v, u, channel] = point_colour[i, channel]
