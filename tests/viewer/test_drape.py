# SPDX-License-Identifier: Apache-2.0
"""Draped pictures are valid binary glTF whose vertices lie on the surface."""

import json
import struct
from io import BytesIO

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from roadbed.core.geometry import Grid
from roadbed.viewer.drape import draped_glb
from roadbed.viewer.scene import coarser


def parsed(glb):
    magic, version, length = struct.unpack_from("<III", glb)
    assert (magic, version, length) == (0x46546C67, 2, len(glb))
    json_length, kind = struct.unpack_from("<II", glb, 12)
    assert kind == 0x4E4F534A
    content = json.loads(glb[20 : 20 + json_length])
    body = glb[28 + json_length :]
    assert len(body) == content["buffers"][0]["byteLength"]

    def array(view, kind):
        start = content["bufferViews"][view]["byteOffset"]
        return np.frombuffer(body[start : start + content["bufferViews"][view]["byteLength"]], kind)

    image = Image.open(BytesIO(array(3, np.uint8).tobytes()))
    return array(0, np.float32).reshape(-1, 3), array(1, np.float32).reshape(-1, 2), array(2, np.uint32), image


def test_vertices_lie_on_the_surface_and_holes_stay_open():
    grid = Grid(-2.0, 10.0, 0.5, 6, 5)
    x, y = grid.mesh()
    height = 0.1 * x - 0.2 * y
    height[0, 0] = np.nan
    origin = np.array([1.0, 2.0, 3.0])
    points, texture, indices, image = parsed(draped_glb(grid, height, np.zeros((10, 12, 4), np.uint8), origin, 0.5))
    points = points + origin
    assert np.allclose(points[:, 2], 0.1 * points[:, 0] - 0.2 * points[:, 1] + 0.5, atol=1e-5)
    assert len(indices) == 3 * 2 * (5 * 4 - 1)
    assert indices.max() == len(points) - 1
    assert len(points) == 29
    # A node lies in the middle of its square of the picture.
    assert np.allclose(texture[:, 0] * 6 - 0.5, (points[:, 0] - grid.x0) / 0.5, atol=1e-5)
    assert np.allclose(texture[:, 1] * 5 - 0.5, (points[:, 1] - grid.y0) / 0.5, atol=1e-5)
    assert image.size == (12, 10)


def test_nothing_known_gives_nothing_to_draw():
    grid = Grid(0.0, 0.0, 1.0, 4, 4)
    assert draped_glb(grid, np.full((4, 4), np.nan), np.zeros((4, 4, 4), np.uint8), np.zeros(3)) == b""


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 9))
def test_larger_squares_cover_the_same_ground(columns, rows, step):
    grid = Grid(3.0, -7.0, 0.2, columns, rows)
    mesh, step = coarser(grid, step)
    left, right, bottom, top = mesh.extent
    assert np.allclose((left, bottom), (grid.extent[0], grid.extent[2]))
    assert grid.extent[1] - right < mesh.spacing
    assert grid.extent[3] - top < mesh.spacing
