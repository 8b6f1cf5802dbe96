// SPDX-License-Identifier: Apache-2.0
// 8-connected components of cells on a grid by a parallel union-find: `parent` is the cell itself at first, -1 outside.
// Work-items read and write parents of each other's cells at the same time, so all accesses are atomic.

// The root of a cell, which becomes its parent; -1 outside.
FUNCTION int flatten(GLOBAL int *parent, int cell) {
    int root = ATOMIC_READ(&parent[cell]);
    if (root < 0) return -1;
    for (int next = ATOMIC_READ(&parent[root]); next != root; next = ATOMIC_READ(&parent[root])) root = next;
    ATOMIC_EXCHANGE(&parent[cell], root);
    return root;
}

// The root with path halving, while other work-items unite trees: each cell on the path gets its grandparent as parent. A
// change of another work-item that is overwritten was made within the same tree, or is repeated by its `unite`.
FUNCTION int root_halving(GLOBAL int *parent, int cell) {
    int above = ATOMIC_READ(&parent[cell]);
    while (above != cell) {
        int next = ATOMIC_READ(&parent[above]);
        if (next != above) ATOMIC_EXCHANGE(&parent[cell], next);
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
    if (ATOMIC_READ(&parent[cell]) < 0) return;
    int column = cell % columns, south = cell >= columns;
    if (south && ATOMIC_READ(&parent[cell - columns]) >= 0) {
        unite(parent, cell, cell - columns);
        return;
    }
    int west = column > 0 && ATOMIC_READ(&parent[cell - 1]) >= 0;
    if (west) unite(parent, cell, cell - 1);
    else if (south && column > 0 && ATOMIC_READ(&parent[cell - columns - 1]) >= 0) unite(parent, cell, cell - columns - 1);
    if (south && column + 1 < columns && ATOMIC_READ(&parent[cell - columns + 1]) >= 0)
        unite(parent, cell, cell - columns + 1);
}
