# SPDX-License-Identifier: Apache-2.0
"""The rolling lattice: axes fixed to the world, moved by whole nodes with the vehicle, so that nothing is resampled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roadbed.frames import Float32, Lattice


def aligned(lattice: Lattice, x: float, y: float) -> Lattice:
    """A lattice of the same size around (x, y), with nodes at (k + 1/2) spacing of the world, in every drive alike."""
    spacing = lattice.spacing
    first_column = np.floor(x / spacing) - lattice.columns // 2
    first_row = np.floor(y / spacing) - lattice.rows // 2
    return Lattice(
        float((first_column + 0.5) * spacing),
        float((first_row + 0.5) * spacing),
        spacing,
        lattice.columns,
        lattice.rows,
    )


def steps_to(old: Lattice, new: Lattice) -> tuple[int, int]:
    """Columns and rows from one aligned lattice to another."""
    return round((new.x0 - old.x0) / old.spacing), round((new.y0 - old.y0) / old.spacing)


def outside(lattice: Lattice, columns: int, rows: int) -> NDArray[np.bool_]:
    """Which nodes (rows, columns) of a lattice are not covered once it has moved by so many columns and rows."""
    height, width = lattice.shape
    mask = np.ones(lattice.shape, np.bool_)
    mask[max(0, rows) : max(0, height + min(0, rows)), max(0, columns) : max(0, width + min(0, columns))] = False
    return mask


def shift(layers: Float32, out: Float32, width: int, columns: int, rows: int) -> None:
    """Move padded layers (rows + 2, k, stride) so that node (r, c) takes what was at (r + rows, c + columns).

    `width` is the number of columns that are nodes. Nodes that enter are empty: undefined, as the paper asks.
    """
    out[:] = 0
    height = layers.shape[0] - 2
    if abs(rows) >= height or abs(columns) >= width:
        return
    to_rows, from_rows = _overlap(height, rows)
    to_columns, from_columns = _overlap(width, columns)
    out[to_rows, :, to_columns] = layers[from_rows, :, from_columns]


def _overlap(size: int, step: int) -> tuple[slice, slice]:
    """Slices, border counted, of where a row of `size` nodes goes to and comes from."""
    return slice(1 + max(0, -step), 1 + size - max(0, step)), slice(1 + max(0, step), 1 + size - max(0, -step))


def lower(information: Float32, by: float) -> None:
    """Count heights from a base that lies `by` metres higher: X - P (by, 0, 0), in place on (rows, 9, columns)."""
    for x, p in ((6, 0), (7, 1), (8, 2)):
        information[:, x] -= np.float32(by) * information[:, p]
