# SPDX-License-Identifier: Apache-2.0
"""The surface as triangles, tile by tile, in a PLY file."""

import shutil
import tempfile
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from roadbed import __version__
from roadbed.core.errors import OutputError
from roadbed.io.atomic import atomic_write
from roadbed.mapping.reader import MapReader
from roadbed.outputs.maps.geotiff import Georeference

_VERTEX = np.dtype([("position", "<f8", 3), ("normal", "<f4", 3)])
_FACE = np.dtype([("corners", "u1"), ("vertices", "<i4", 3)])


def grid_triangles(known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(M, 3) flat node indices: two triangles for each square of a grid whose four corners are known."""
    index = np.arange(known.size).reshape(known.shape)
    whole = known[:-1, :-1] & known[:-1, 1:] & known[1:, :-1] & known[1:, 1:]
    a, b, c, d = (part[whole] for part in (index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]))
    return np.concatenate([np.stack([a, b, d], -1), np.stack([a, d, c], -1)])


def write_ply(path: Path, stored: MapReader, georeference: Georeference) -> None:
    """Binary PLY with coordinates in double precision, as they may count from far away.

    The triangles of a tile reach to the first nodes of the tiles beyond, so that no gap is left.
    """
    offset = np.array([georeference.easting, georeference.northing, georeference.height])
    vertices, faces = 0, 0
    with atomic_write(path) as file, _scratch(path) as body, _scratch(path) as tail:
        for key in stored.ground.keys:
            planes, grid = stored.planes(key, border=1), stored.grid(key)
            z, slope_x, slope_y = (layer[1:, 1:] for layer in (planes.elevation, planes.slope_x, planes.slope_y))
            used, corner = np.unique(grid_triangles(np.isfinite(z)), return_inverse=True)
            row, column = np.divmod(used, z.shape[1])
            table = np.empty(len(used), _VERTEX)
            table["position"] = offset + np.stack(
                [grid.x0 + column * stored.spacing, grid.y0 + row * stored.spacing, z.ravel()[used]], axis=1
            )
            normals = np.stack([-slope_x.ravel()[used], -slope_y.ravel()[used], np.ones(len(used))], axis=1)
            table["normal"] = normals / np.linalg.norm(normals, axis=1, keepdims=True)
            body.write(table.tobytes())
            triangles = np.empty(corner.size // 3, _FACE)
            triangles["corners"], triangles["vertices"] = 3, corner.reshape(-1, 3) + vertices
            tail.write(triangles.tobytes())
            vertices, faces = vertices + len(table), faces + len(triangles)
        if vertices > 2**31 - 1:
            raise OutputError(f"{path}: a mesh of {vertices} vertices, expected at most {2**31 - 1}: crop the map")
        names = [f"double {axis}" for axis in "xyz"] + [f"float n{axis}" for axis in "xyz"]
        header = [
            "ply",
            "format binary_little_endian 1.0",
            f"comment roadbed {__version__}",
            f"element vertex {vertices}",
            *(f"property {name}" for name in names),
            f"element face {faces}",
            "property list uchar int vertex_indices",
            "end_header",
        ]
        file.write(("\n".join(header) + "\n").encode())
        for part in (body, tail):
            part.seek(0)
            shutil.copyfileobj(part, file, 1 << 20)


def _scratch(path: Path) -> IO[bytes]:
    """A temporary file on the disk of the result, removed when it is closed."""
    return tempfile.TemporaryFile(dir=path.parent)
