# SPDX-License-Identifier: Apache-2.0
"""8-connected components of cells on a grid, numbered by their first cell."""

from roadbed.kernels.jit import inlined, merged
from roadbed.kernels.numeric import max, min


@inlined()
def root_of(parent, cell):
    """The root of a cell's tree, with path halving."""
    while parent[cell] != cell:
        parent[cell] = parent[parent[cell]]
        cell = parent[cell]
    return cell


@merged()
def label_components(inside, label):
    """Write the component of each cell `inside`, else -1; both (rows, columns). Returns the number of components."""
    rows, columns = inside.shape
    parent = label.reshape(-1)  # first the parent, never a later cell; at the end the component
    for row in range(rows):
        for column in range(columns):
            cell = row * columns + column
            if not inside[row, column]:
                parent[cell] = -1
                continue
            parent[cell] = cell
            for k in range(4):  # west, and the three to the south: the cells before this one
                r, c = row - (k > 0), column - 1 + max(k - 1, 0)
                if r < 0 or c < 0 or c >= columns or not inside[r, c]:
                    continue
                one, other = root_of(parent, cell), root_of(parent, r * columns + c)
                parent[max(one, other)] = min(one, other)
    count = 0
    for cell in range(parent.shape[0]):
        if parent[cell] == cell:
            parent[cell] = count
            count += 1
        elif parent[cell] >= 0:
            # Its parent is an earlier cell, which has its number already.
            parent[cell] = parent[parent[cell]]
    return count
