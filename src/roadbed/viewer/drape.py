# SPDX-License-Identifier: Apache-2.0
"""An image draped over a surface, as binary glTF: unlit, and bright enough for the page's tone mapping."""

import json
import struct
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.core.geometry import Float64, Grid
from roadbed.outputs.maps.mesh import grid_triangles

_NEAREST, _LINEAR = 9728, 9729  # how texels are enlarged
_FLOAT, _UINT = 5126, 5125  # types of numbers
_VERTICES, _INDICES = 34962, 34963  # what a part of the buffer is for


def draped_glb(
    grid: Grid, height: NDArray, image: NDArray[np.uint8], origin: Float64, lift: float = 0.0, blend: bool = False
) -> bytes:
    """`image` (rows, columns, RGB or RGBA; row 0 at y0) over `grid`; squares with an unknown corner stay open.

    Positions are relative to `origin`; `lift` raises the surface, in metres. With `blend` texels are smoothed and
    as see-through as their opacity, without it sharp and opaque. Colours are those of `before_tone_mapping`.
    Empty bytes where nothing is known.
    """
    x, y = grid.mesh()
    positions = np.stack([x, y, height + lift], -1).reshape(-1, 3) - origin
    triangles = grid_triangles(np.isfinite(height))
    if not len(triangles):
        return b""
    used, triangles = np.unique(triangles, return_inverse=True)
    # The image covers whole squares around the nodes, so a node lies half a square inside.
    u = (np.arange(grid.columns) + 0.5) / grid.columns
    v = (np.arange(grid.rows) + 0.5) / grid.rows
    texture = np.stack(np.meshgrid(u, v), -1).reshape(-1, 2)
    return _glb(
        positions[used].astype(np.float32),
        texture[used].astype(np.float32),
        triangles.astype(np.uint32).ravel(),
        _png(image),
        blend,
    )


def _png(image: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    buffer = BytesIO()
    Image.fromarray(image).save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


def _glb(positions: NDArray, texture: NDArray, indices: NDArray, png: bytes, blend: bool) -> bytes:
    """The file: a header, the description as JSON, and the arrays and the image one after the other."""
    body = b""
    views: list[dict[str, Any]] = []
    accessors: list[dict[str, Any]] = []
    for values, component, kind in ((positions, _FLOAT, "VEC3"), (texture, _FLOAT, "VEC2"), (indices, _UINT, "SCALAR")):
        target = _VERTICES if component == _FLOAT else _INDICES
        views.append({"buffer": 0, "byteOffset": len(body), "byteLength": values.nbytes, "target": target})
        accessors.append({"bufferView": len(accessors), "componentType": component, "count": len(values), "type": kind})
        body += values.tobytes()  # of whole words
    accessors[0] |= {"min": positions.min(axis=0).tolist(), "max": positions.max(axis=0).tolist()}
    views.append({"buffer": 0, "byteOffset": len(body), "byteLength": len(png)})
    body += png + bytes(-len(png) % 4)
    material: dict[str, Any] = {
        # glTF limits factors to 1, three.js does not; white needs more.
        "pbrMetallicRoughness": {"baseColorTexture": {"index": 0}, "baseColorFactor": [*[BRIGHTNESS] * 3, 1.0]},
        "alphaMode": "BLEND" if blend else "OPAQUE",
        "doubleSided": True,
        "extensions": {"KHR_materials_unlit": {}},
    }
    content = {
        "asset": {"version": "2.0"},
        "extensionsUsed": ["KHR_materials_unlit"],
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0, "TEXCOORD_0": 1}, "indices": 2, "material": 0}]}],
        "materials": [material],
        "textures": [{"source": 0, "sampler": 0}],
        "samplers": [{"magFilter": _LINEAR if blend else _NEAREST, "minFilter": 9987, "wrapS": 33071, "wrapT": 33071}],
        "images": [{"bufferView": 3, "mimeType": "image/png"}],
        "buffers": [{"byteLength": len(body)}],
        "bufferViews": views,
        "accessors": accessors,
    }
    text = json.dumps(content).encode()
    text += b" " * (-len(text) % 4)
    head = struct.pack("<4sIII4s", b"glTF", 2, 28 + len(text) + len(body), len(text), b"JSON")
    return head + text + struct.pack("<I4s", len(body), b"BIN\0") + body


# Stephen Hill's fit of the ACES curve, as in three.js: matrix, curve, matrix, after an exposure of 1 / 0.6.
_INTO = np.array([[0.59719, 0.35458, 0.04823], [0.07600, 0.90834, 0.01566], [0.02840, 0.13383, 0.83777]])
_OUT_OF = np.array([[1.60475, -0.53108, -0.07367], [-0.10208, 1.10813, -0.00605], [-0.00327, -0.07276, 1.07602]])
_EXPOSURE = 1 / 0.6
_WHITEST = 245  # the curve never reaches white; brighter colours would outshine their neighbours
BRIGHTNESS = 2.6  # the light that needs; textures hold values up to 1 and are multiplied by it


def before_tone_mapping(colours: ArrayLike) -> NDArray[np.uint8]:
    """The texels (..., 3) that look like `colours` (bytes) on the screen, once multiplied by BRIGHTNESS."""
    colours = np.asarray(colours, np.uint32)
    # A grid has a hundred thousand cells of few colours.
    distinct, which = np.unique(colours[..., 0] << 16 | colours[..., 1] << 8 | colours[..., 2], return_inverse=True)
    light_on_screen = _linear(np.minimum(np.stack([distinct >> 16, distinct >> 8 & 255, distinct & 255], -1), _WHITEST))
    light = _before_curve(light_on_screen @ np.linalg.inv(_OUT_OF).T) @ np.linalg.inv(_INTO).T / _EXPOSURE
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
