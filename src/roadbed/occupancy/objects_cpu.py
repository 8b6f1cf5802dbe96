# SPDX-License-Identifier: Apache-2.0
"""Connected components over a short list of cells."""

from __future__ import annotations

import numpy as np

from roadbed.compute.kernels import njit


@njit(cache=True)
def _root(parent, i):
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(cache=True)
def label_components(rows, columns, reach):
    """Component number per cell; cells (sorted by row) at most `reach` rows and columns apart belong together."""
    count = rows.shape[0]
    parent = np.arange(count)
    for i in range(count):
        for j in range(i + 1, count):
            if rows[j] - rows[i] > reach:
                break
            if abs(columns[j] - columns[i]) <= reach:
                parent[_root(parent, j)] = _root(parent, i)
    for i in range(count):
        parent[i] = _root(parent, i)
    return parent
