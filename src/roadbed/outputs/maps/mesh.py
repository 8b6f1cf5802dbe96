# SPDX-License-Identifier: Apache-2.0
"""The surface as triangles, tile by tile, in a PLY file."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from roadbed import __version__
from roadbed.core.errors import OutputError
from roadbed.core.geometry import Float32, Float64
from roadbed.io.atomic import atomic_write
from roadbed.mapping.reader import MapReader
from roadbed.outputs.maps.georeference import Georeference


@dataclass(frozen=True, eq=False)
class TileMesh:
    """Triangles between the nodes of a tile and the first ones of the tiles beyond, so that no gap is left."""

    origin: Float64  # (3,) m
    vertices: Float32  # (N, 3) m from the origin
    normals: Float32  # (N, 3)
    triangles: NDArray[np.uint16]  # (M, 3)


def grid_triangles(known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(M, 3) flat node indices: two triangles for each square of a grid whose four corners are known."""
    index = np.arange(known.size).reshape(known.shape)
    whole = known[:-1, :-1] & known[:-1, 1:] & known[1:, :-1] & known[1:, 1:]
    a, b, c, d = (part[whole] for part in (index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]))
    return np.concatenate([np.stack([a, b, d], -1), np.stack([a, d, c], -1)])


def tile_meshes(stored: MapReader) -> Iterator[TileMesh]:
    for key in stored.keys:
        planes = stored.planes(key, border=1)
        z, slope_x, slope_y = (layer[1:, 1:] for layer in (planes.elevation, planes.slope_x, planes.slope_y))
        triangles, side = grid_triangles(np.isfinite(z)), z.shape[1]
        if not len(triangles):
            continue
        used, renumbered = np.unique(triangles, return_inverse=True)
        grid = stored.grid(key)
        origin = np.array([grid.x0, grid.y0, np.nanmean(z)])
        x, y = used % side * stored.spacing, used // side * stored.spacing
        vertices = np.stack([x, y, z.ravel()[used] - origin[2]], 1)
        normals = np.stack([-slope_x.ravel()[used], -slope_y.ravel()[used], np.ones(len(used))], axis=1)
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        yield TileMesh(
            origin,
            vertices.astype(np.float32),
            normals.astype(np.float32),
            renumbered.reshape(-1, 3).astype(np.uint16),
        )


def write_ply(path: Path, stored: MapReader, georeference: Georeference) -> None:
    """Binary PLY with coordinates in double precision, as they may count from far away."""
    offset = np.array([georeference.easting, georeference.northing, georeference.height])
    vertex = np.dtype([("position", "<f8", 3), ("normal", "<f4", 3)])
    face = np.dtype([("corners", "u1"), ("vertices", "<i4", 3)])
    vertices, faces = 0, 0
    with atomic_write(path) as file, _scratch(path) as body, _scratch(path) as tail:
        for mesh in tile_meshes(stored):
            table = np.empty(len(mesh.vertices), vertex)
            table["position"], table["normal"] = mesh.vertices + (mesh.origin + offset), mesh.normals
            body.write(table.tobytes())
            corners = np.empty(len(mesh.triangles), face)
            corners["corners"], corners["vertices"] = 3, mesh.triangles.astype(np.int64) + vertices
            tail.write(corners.tobytes())
            vertices, faces = vertices + len(table), faces + len(corners)
        if vertices > 2**31 - 1:
            raise OutputError(f"{path}: a mesh of {vertices} vertices, expected at most {2**31 - 1}: crop the map")
        names = [f"double {axis}" for axis in "xyz"] + [f"float n{axis}" for axis in "xyz"]
        header = [
            "ply",
            "format binary_little_endian 1.0",
            f"comment roadbed {__version__}",
            f"element vertex {vertices}",
        ]
        header += [f"property {name}" for name in names]
        header += [f"element face {faces}", "property list uchar int vertex_indices", "end_header"]
        file.write(("\n".join(header) + "\n").encode())
        _append(file, body)
        _append(file, tail)


def _scratch(path: Path) -> IO[bytes]:
    """A temporary file on the disk of the result, removed when it is closed."""
    return tempfile.TemporaryFile(dir=path.parent)


def _append(file: IO[bytes], part: IO[bytes]) -> None:
    part.seek(0)
    shutil.copyfileobj(part, file, 1 << 20)
