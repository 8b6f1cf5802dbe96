# SPDX-License-Identifier: Apache-2.0
"""The image and YAML that Nav2's map server loads."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray

from roadbed.io.atomic import atomic_write, write_file
from roadbed.mapping.reader import MapReader
from roadbed.mapping.tiles import CELLS
from roadbed.outputs.maps.geotiff import Georeference

_OCCUPIED, _FREE = 0.65, 0.25  # probabilities, Nav2's defaults
_BLACK, _GREY, _WHITE = 0, 205, 254  # occupied, unknown, free


def write_nav2_map(image: Path, description: Path, stored: MapReader, georeference: Georeference) -> None:
    """The static world: black occupied, white free, grey unknown. The description names the image."""
    assert stored.layers is not None
    cell = stored.layers.cell
    (first_row, last_row), (first, last) = stored.cells.block
    with atomic_write(image) as file:
        file.write(f"P5\n{CELLS * (last - first + 1)} {CELLS * (last_row - first_row + 1)}\n255\n".encode())
        for strip in _strips(stored, range(last_row, first_row - 1, -1), range(first, last + 1)):
            file.write(strip.tobytes())
    meta = {
        "image": image.name,
        "mode": "trinary",
        "resolution": cell,
        "origin": [first * CELLS * cell + georeference.easting, first_row * CELLS * cell + georeference.northing, 0.0],
        "negate": 0,
        "occupied_thresh": _OCCUPIED,
        "free_thresh": _FREE,
    }
    write_file(description, yaml.safe_dump(meta, sort_keys=False))


def _strips(stored: MapReader, rows: range, columns: range) -> Iterator[NDArray[np.uint8]]:
    for row in rows:
        strip = np.full((CELLS, CELLS * len(columns)), _GREY, np.uint8)
        for number, column in enumerate(columns):
            tile = stored.cells.get((row, column))
            if tile is not None:
                probability = tile.probability[::-1]
                part = strip[:, number * CELLS : (number + 1) * CELLS]
                part[probability > _OCCUPIED] = _BLACK
                part[probability < _FREE] = _WHITE
        yield strip
