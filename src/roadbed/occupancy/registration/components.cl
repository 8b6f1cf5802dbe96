// SPDX-License-Identifier: Apache-2.0
// The bitmap of one scan, and the 8-connected components of its hits, numbered by their first cell.
//
// `RegistrationPass` says which slot of the scan history is written. Bitmaps are the CPU's: see model.py. A component is
// stored as its bounding box, which is small enough to be walked. The background has the number after the last one, but no
// box. A bitmap is followed by its lines: which subcells are near
// a return (lower half of a word) and which lie in free cells (upper half), every second subcell of a line in each word.
// First all words of subcells at even x, from the lowest line to the highest, then all of those at odd x.

#define BOX 5  // lowest row, highest row, lowest column, highest column, how many cells
#define NO_CELL 0x7fffffff
#define BACKGROUND -2  // as the parent of a cell
#define CELLS_OF_WORD 16
#define WORDS_OF_LINE(pass) (((pass)->columns + CELLS_OF_WORD - 1) / CELLS_OF_WORD)
#define BITMAP_SIZE(pass) ((pass)->rows * ((pass)->columns + 2 * SUBCELLS * WORDS_OF_LINE(pass)))

FUNCTION uint hits_of(GLOBAL const float *probability, GLOBAL const ushort *surface, int cell) {
    uint bits = surface[cell];
    return bits && probability[cell] > HIT ? bits : 0u;
}

// The subcells of a cell within one subcell of a hit, its own or a neighbour's: from six rows of six, of which the outer
// ones are the neighbours'.
FUNCTION uint near_hits(GLOBAL const float *probability, GLOBAL const ushort *surface, int row, int column, int rows,
                        int columns) {
    uint any = 0u;
    for (int j = max(row - 1, 0); j < min(row + 2, rows); ++j)
        any |= surface[j * columns + max(column - 1, 0)] | surface[j * columns + column] |
               surface[j * columns + min(column + 1, columns - 1)];
    if (any == 0u) return 0u;
    uint wide[SUBCELLS + 2];
    for (int k = 0; k < SUBCELLS + 2; ++k) wide[k] = 0u;
    for (int j = max(row - 1, 0); j < min(row + 2, rows); ++j)
        for (int i = max(column - 1, 0); i < min(column + 2, columns); ++i) {
            uint bits = hits_of(probability, surface, j * columns + i);
            if (bits == 0u) continue;
            for (int y = 0; y < SUBCELLS; ++y) {
                int k = (j - row) * SUBCELLS + y + 1;
                if (k < 0 || k > SUBCELLS + 1) continue;
                uint line = bits >> (SUBCELLS * y) & ((1u << SUBCELLS) - 1u);
                wide[k] |= i < column ? line >> (SUBCELLS - 1) : i == column ? line << 1 : (line & 1u) << (SUBCELLS + 1);
            }
        }
    uint found = 0u;
    for (int y = 0; y < SUBCELLS; ++y) {
        uint line = wide[y] | wide[y + 1] | wide[y + 2];
        line |= line << 1 | line >> 1;
        found |= (line >> 1 & ((1u << SUBCELLS) - 1u)) << (SUBCELLS * y);
    }
    return found;
}

FUNCTION void empty_box(GLOBAL int *box) {
    box[0] = box[2] = NO_CELL;
    box[1] = box[3] = -1;
    box[4] = 0;
}

FUNCTION void add_to_box(GLOBAL int *box, int row, int column) {
    if (row < ATOMIC_READ(&box[0])) ATOMIC_MIN(&box[0], row);
    if (row > ATOMIC_READ(&box[1])) ATOMIC_MAX(&box[1], row);
    if (column < ATOMIC_READ(&box[2])) ATOMIC_MIN(&box[2], column);
    if (column > ATOMIC_READ(&box[3])) ATOMIC_MAX(&box[3], column);
    ATOMIC_ADD(&box[4], 1);
}

FUNCTION int extent_of(GLOBAL const int *box) { return max(box[1] - box[0], box[3] - box[2]); }

// Draws the bitmap; every hit is its own root; boxes and velocities are empty. `root_boxes` has room for one per cell.
KERNEL draw_bitmap(GLOBAL const RegistrationPass *pass, GLOBAL const float *probability, GLOBAL const float *observedness,
                    GLOBAL const ushort *surface, GLOBAL address_t *bitmaps, GLOBAL int *parent, GLOBAL int *boxes_all,
                    GLOBAL int *root_boxes, GLOBAL float *velocity, GLOBAL int *cells_out, GLOBAL int *tickets) {
    int rows = pass->rows, columns = pass->columns, cells = rows * columns;
    GLOBAL address_t *bitmap = bitmaps + (address_t)pass->now * BITMAP_SIZE(pass);
    GLOBAL int *boxes = boxes_all + (address_t)pass->now * pass->most_components * BOX;
    FOR_EACH(cell, cells) {
        uint hits = hits_of(probability, surface, cell);
        address_t near = near_hits(probability, surface, cell / columns, cell % columns, rows, columns);
        address_t clear = probability[cell] < CLEAR && observedness[cell] > OBSERVED;
        bitmap[cell] = hits | near << NEAR_SHIFT | clear << FREE_BIT;
        parent[cell] = hits ? cell : -1;
        if (hits) empty_box(root_boxes + BOX * cell);
    }
    FOR_EACH(k, pass->most_components) {
        empty_box(boxes + BOX * k);
        cells_out[k] = 0;
    }
    FOR_EACH(k, 2 * pass->slots * pass->most_components) velocity[k] = NOT_A_NUMBER;
    if (GLOBAL_ID < PASSES) tickets[GLOBAL_ID] = 0;
}

// Draws the lines of the bitmap.
KERNEL draw_lines(GLOBAL const RegistrationPass *pass, GLOBAL address_t *bitmaps) {
    int rows = pass->rows, columns = pass->columns, words = WORDS_OF_LINE(pass), height = rows * SUBCELLS;
    GLOBAL address_t *bitmap = bitmaps + (address_t)pass->now * BITMAP_SIZE(pass), *lines = bitmap + rows * columns;
    FOR_EACH(k, rows * words) {
        int row = k % rows, word = k / rows, first = word * CELLS_OF_WORD;
        address_t found[2 * SUBCELLS], free = 0;  // at even x of each line, then at odd x
        UNROLL for (int j = 0; j < 2 * SUBCELLS; ++j) found[j] = 0;
        UNROLL for (int i = 0; i < CELLS_OF_WORD; ++i) {
            address_t there = first + i < columns ? bitmap[row * columns + first + i] : 0;
            free |= (there >> FREE_BIT & 1) * 3 << (2 * i);
            uint near = (uint)(there >> NEAR_SHIFT) & HITS_IN_CELL;
            if (near == 0u) continue;
            UNROLL for (int j = 0; j < 2 * SUBCELLS; ++j) {
                uint line = near >> (j % SUBCELLS * SUBCELLS + j / SUBCELLS);
                found[j] |= (address_t)((line & 1u) | (line >> 1 & 2u)) << (2 * i);
            }
        }
        UNROLL for (int j = 0; j < 2 * SUBCELLS; ++j)
            lines[(j / SUBCELLS * words + word) * height + row * SUBCELLS + j % SUBCELLS] = found[j] | free << 32;
    }
}

KERNEL join_hits(GLOBAL const RegistrationPass *pass, GLOBAL int *parent) {
    FOR_EACH(cell, pass->rows * pass->columns) unite_with_previous(parent, cell, pass->columns);
}

// The root of every hit, and which cells are roots: the first of their components. Clears the progress of the prefix sum
// that follows.
KERNEL find_roots(GLOBAL const RegistrationPass *pass, GLOBAL int *parent, GLOBAL int *is_root, GLOBAL int *progress,
                  int cleared) {
    FOR_EACH(k, cleared) progress[k] = 0;
    FOR_EACH(cell, pass->rows * pass->columns) {
        is_root[cell] = flatten(parent, cell) == cell;
    }
}

// Boxes of the components while the background is part of them, at their roots.
KERNEL measure_hits(GLOBAL const RegistrationPass *pass, GLOBAL int *parent, GLOBAL int *root_boxes) {
    FOR_EACH(cell, pass->rows * pass->columns) {
        int root = flatten(parent, cell);
        if (root >= 0) add_to_box(root_boxes + BOX * root, cell / pass->columns, cell % pass->columns);
    }
}

// Whether a cell, or one next to it, has been static for long; `maturity` is on the grid of the last iteration.
FUNCTION int is_old(GLOBAL const RegistrationPass *pass, GLOBAL const float *maturity, int cell) {
    real x = (cell % pass->columns + 0.5) * SUBCELLS, y = (cell / pass->columns + 0.5) * SUBCELLS;
    real column = floor((pass->prior_xx * x + pass->prior_xy * y + pass->prior_x) / SUBCELLS);
    real row = floor((pass->prior_yx * x + pass->prior_yy * y + pass->prior_y) / SUBCELLS);
    if (column < -1 || row < -1 || column > pass->columns || row > pass->rows) return 0;
    int found = 0;
    for (int r = max((int)row - 1, 0); r < min((int)row + 2, pass->rows); ++r)
        for (int c = max((int)column - 1, 0); c < min((int)column + 2, pass->columns); ++c)
            found |= maturity[r * pass->columns + c] >= pass->background_time;
    return found;
}

// The background: cells of components too large for a mover that have been static for long. Their other cells are their
// own roots again. The CPU's: background_cpu.py.
KERNEL leave_background(GLOBAL const RegistrationPass *pass, GLOBAL const int *root_boxes, GLOBAL const float *layers,
                        GLOBAL int *parent) {
    GLOBAL const float *maturity = layers + pass->maturity;
    FOR_EACH(cell, pass->rows * pass->columns) {
        if (parent[cell] < 0) continue;
        GLOBAL const int *box = root_boxes + BOX * parent[cell];
        if (box[4] > pass->most_cells || extent_of(box) > pass->extent)
            parent[cell] = is_old(pass, maturity, cell) ? BACKGROUND : cell;
    }
}

// `before` counts the roots before each cell.
KERNEL number_hits(GLOBAL const RegistrationPass *pass, GLOBAL const int *parent, GLOBAL const int *is_root,
                   GLOBAL const int *before, GLOBAL int *labels_all, GLOBAL int *boxes_all, GLOBAL int *counts,
                   GLOBAL int *label_out, GLOBAL int *cells_out) {
    int columns = pass->columns, cells = pass->rows * columns;
    GLOBAL int *labels = labels_all + (address_t)pass->now * cells;
    GLOBAL int *boxes = boxes_all + (address_t)pass->now * pass->most_components * BOX;
    int count = before[cells - 1] + is_root[cells - 1];
    FOR_EACH(cell, cells) {
        int label = parent[cell] == BACKGROUND ? count : parent[cell] < 0 ? -1 : before[parent[cell]];
        labels[cell] = label_out[cell] = label;
        if (cell == 0) counts[pass->now] = count;
        if (label < 0 || label == count) continue;
        add_to_box(boxes + BOX * label, cell / columns, cell % columns);
        ATOMIC_ADD(&cells_out[label], 1);
    }
}
