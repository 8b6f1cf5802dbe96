# SPDX-License-Identifier: Apache-2.0
"""What goes through the renderer's tone mapping comes out as the palette has it."""

import numpy as np
import pytest

from roadbed.outputs.images import palette
from roadbed.viewer.drape import BRIGHTNESS, before_tone_mapping


def on_the_screen(texel):
    """What three.js does with a texel of an unlit material: sRGB to light, ACESFilmicToneMapping, light to sRGB."""
    value = texel / 255
    light = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4) * BRIGHTNESS / 0.6
    into = np.array([[0.59719, 0.35458, 0.04823], [0.07600, 0.90834, 0.01566], [0.02840, 0.13383, 0.83777]])
    out = np.array([[1.60475, -0.53108, -0.07367], [-0.10208, 1.10813, -0.00605], [-0.00327, -0.07276, 1.07602]])
    x = into @ light
    y = (x * (x + 0.0245786) - 0.000090537) / (x * (0.983729 * x + 0.4329510) + 0.238081)
    mapped = np.clip(out @ y, 0, 1)
    return 255 * np.where(mapped <= 0.0031308, 12.92 * mapped, 1.055 * mapped ** (1 / 2.4) - 0.055)


@pytest.mark.parametrize(
    ("name", "within"),
    [("STATIC", 2), ("UNSEEN", 2), ("SURFACE", 10), ("FREE", 11), ("MOVING", 33)],  # the curve has no pure orange
)
def test_a_colour_of_the_palette_comes_out_again(name, within):
    wanted = palette.rgb(getattr(palette, name))
    assert np.abs(on_the_screen(before_tone_mapping(wanted)) - wanted).max() < within


def test_an_image_is_done_colour_by_colour():
    picture = np.random.default_rng(0).integers(0, 256, (7, 5, 3), dtype=np.uint8)
    texels = before_tone_mapping(picture)
    assert texels.shape == picture.shape
    assert (texels[3, 2] == before_tone_mapping(picture[3, 2])).all()
