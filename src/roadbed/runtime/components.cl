// SPDX-License-Identifier: Apache-2.0
// 8-connected components of cells on a grid by a parallel union-find: `parent` is the cell itself at first, -1 outside.

FUNCTION int root_of(GLOBAL const int *parent, int cell) {
    for (int next = parent[cell]; next != cell; next = parent[cell]) cell = next;
    return cell;
}

// The root with path halving, while other work-items unite trees: each cell on the path gets its grandparent as parent. A
// change of another work-item that is overwritten was made within the same tree, or is repeated by its `unite`.
FUNCTION int root_halving(GLOBAL int *parent, int cell) {
    int above = parent[cell];
    while (above != cell) {
        int next = parent[above];
        if (next != above) parent[cell] = next;
        cell = above;
        above = next;
    }
    return cell;
}

// Unites the trees of two cells under the smaller root; other work-items may do so at the same time.
FUNCTION void unite(GLOBAL int *parent, int one, int other) {
    for (;;) {
        one = root_halving(parent, one);
        other = root_halving(parent, other);
        if (one == other) return;
        int late = max(one, other), early = min(one, other);
        int before = ATOMIC_MIN(&parent[late], early);
        if (before == late) return;
        one = before;
        other = early;
    }
}

// Unites a cell with its neighbours to the west and in the row before; of neighbours that touch each other with one.
FUNCTION void unite_with_previous(GLOBAL int *parent, int cell, int columns) {
    if (parent[cell] < 0) return;
    int column = cell % columns, south = cell >= columns;
    if (south && parent[cell - columns] >= 0) {
        unite(parent, cell, cell - columns);
        return;
    }
    int west = column > 0 && parent[cell - 1] >= 0;
    if (west) unite(parent, cell, cell - 1);
    else if (south && column > 0 && parent[cell - columns - 1] >= 0) unite(parent, cell, cell - columns - 1);
    if (south && column + 1 < columns && parent[cell - columns + 1] >= 0) unite(parent, cell, cell - columns + 1);
}
