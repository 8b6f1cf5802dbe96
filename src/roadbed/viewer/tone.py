# SPDX-License-Identifier: Apache-2.0
"""The page's renderer maps tones like film (ACES); textures are made so that the palette comes out of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Stephen Hill's fit of the ACES curve, as in three.js: matrix, curve, matrix, after an exposure of 1 / 0.6.
_INTO = np.array([[0.59719, 0.35458, 0.04823], [0.07600, 0.90834, 0.01566], [0.02840, 0.13383, 0.83777]])
_OUT_OF = np.array([[1.60475, -0.53108, -0.07367], [-0.10208, 1.10813, -0.00605], [-0.00327, -0.07276, 1.07602]])
_EXPOSURE = 1 / 0.6
_WHITEST = 245  # the curve reaches white nowhere; what is nearer needs so much light that it drowns its neighbours
BRIGHTNESS = 2.6  # the light that needs; textures hold values up to 1 and are multiplied by it


def before_tone_mapping(colours: ArrayLike) -> NDArray[np.uint8]:
    """The texels (..., 3) that look like `colours` (bytes) on the screen, once multiplied by BRIGHTNESS."""
    colours = np.asarray(colours, np.uint32)
    # A grid has a hundred thousand cells of few colours.
    distinct, which = np.unique(colours[..., 0] << 16 | colours[..., 1] << 8 | colours[..., 2], return_inverse=True)
    wanted = _linear(np.minimum(np.stack([distinct >> 16, distinct >> 8 & 255, distinct & 255], -1), _WHITEST))
    light = _before_curve(wanted @ np.linalg.inv(_OUT_OF).T) @ np.linalg.inv(_INTO).T / _EXPOSURE
    texels = np.rint(_encoded(np.clip(light / BRIGHTNESS, 0, 1))).astype(np.uint8)
    return texels[which].reshape(colours.shape)


def _before_curve(y: NDArray) -> NDArray:
    """The positive solution x of y = (x (x + 0.0245786) - 0.000090537) / (x (0.983729 x + 0.4329510) + 0.238081)."""
    a, b, c = 1 - 0.983729 * y, 0.0245786 - 0.4329510 * y, -0.000090537 - 0.238081 * y
    return (-b + np.sqrt(np.maximum(b * b - 4 * a * c, 0))) / (2 * a)


def _linear(colours: NDArray) -> NDArray:
    """sRGB bytes as light from 0 to 1."""
    value = colours / 255.0
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def _encoded(light: NDArray) -> NDArray:
    """Light from 0 to 1 as sRGB, 0 to 255."""
    return 255 * np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
