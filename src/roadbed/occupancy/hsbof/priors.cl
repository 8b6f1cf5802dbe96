// SPDX-License-Identifier: Apache-2.0
// The masses of the last step, where the grid is now. Twin: priors_cpu.py.

// P6, rolling: the grid moved by whole cells; cells that enter are zero, which is unknown.
FUNCTION void roll_cell(GLOBAL const Step *step, GLOBAL const float *RESTRICT layers, int row, int column,
                        GLOBAL float *RESTRICT prior) {
    int old_row = row + step->roll[1], old_column = column + step->roll[0], columns = step->columns, size = step->size;
    int inside = old_row >= 0 && old_row < step->rows && old_column >= 0 && old_column < columns;
    int from = inside ? old_row * columns + old_column : 0, cell = row * columns + column;
    for (int layer = 0; layer < LAYERS; ++layer) prior[layer * size + cell] = inside ? layers[layer * size + from] : 0.0f;
}

// The four old cells around a new one. Those outside lie on the border with weight 0.
typedef struct {
    real w0, w1, w2, w3;
    int low, high, left, right;
} Around;

FUNCTION Around around(GLOBAL const Step *step, int row, int column) {
    int last_column = step->columns - 1, last_row = step->rows - 1;
    real x = step->turn[0] * (real)column + step->turn[1] * (real)row + step->centre_shift[0];
    real y = step->turn[2] * (real)column + step->turn[3] * (real)row + step->centre_shift[1];
    int left = floor_of(x), low = floor_of(y);
    real fx = x - (real)left, fy = y - (real)low, one = (real)1, none = (real)0;
    int in_left = left >= 0 && left <= last_column, in_right = left >= -1 && left < last_column;
    int in_low = low >= 0 && low <= last_row, in_high = low >= -1 && low < last_row;
    Around a;
    a.w0 = in_left && in_low ? (one - fx) * (one - fy) : none;
    a.w1 = in_right && in_low ? fx * (one - fy) : none;
    a.w2 = in_left && in_high ? (one - fx) * fy : none;
    a.w3 = in_right && in_high ? fx * fy : none;
    a.low = min(max(low, 0), last_row);
    a.high = min(max(low + 1, 0), last_row);
    a.left = min(max(left, 0), last_column);
    a.right = min(max(left + 1, 0), last_column);
    return a;
}

FUNCTION float weighted(const Around *a, float v0, float v1, float v2, float v3) {
    real total = a->w0 * (real)v0 + a->w1 * (real)v1;
    total += a->w2 * (real)v2;
    total += a->w3 * (real)v3;
    return (float)total;
}

// P6, interpolating (the paper's): each new cell from four old ones.
FUNCTION void interpolate_cell(GLOBAL const Step *step, GLOBAL const float *RESTRICT layers, int row, int column,
                               GLOBAL float *RESTRICT prior) {
    int columns = step->columns, size = step->size, cell = row * columns + column;
    Around a = around(step, row, column);
    int low = a.low * columns, high = a.high * columns;
    for (int layer = 0; layer < LAYERS; ++layer) {
        GLOBAL const float *old = layers + layer * size;
        prior[layer * size + cell] =
            weighted(&a, old[low + a.left], old[low + a.right], old[high + a.left], old[high + a.right]);
    }
}

KERNEL propagate_priors(GLOBAL const Step *RESTRICT step, GLOBAL const float *RESTRICT layers,
                        GLOBAL float *RESTRICT prior) {
    FOR_EACH(cell, step->size) {
        int row = cell / step->columns, column = cell % step->columns;
        if (step->interpolates) interpolate_cell(step, layers, row, column, prior);
        else roll_cell(step, layers, row, column, prior);
    }
}

// The same from tiles in local memory: while one is worked on, the next is on its way (the paper's double buffering). A
// tile is TILE_ROWS rows of `tile_columns` cells; what it needs of the old grid is a rectangle of at most TILE_ROOM cells.
typedef struct {
    int row, column, last_row, last_column;  // of the new grid
    int low, left, rows, columns;            // of the old one
} Tile;

FUNCTION Tile tile_at(GLOBAL const Step *step, int number, int tile_columns) {
    int across = (step->columns + tile_columns - 1) / tile_columns;
    Tile t;
    t.row = number / across * TILE_ROWS;
    t.column = number % across * tile_columns;
    t.last_row = min(t.row + TILE_ROWS, step->rows) - 1;
    t.last_column = min(t.column + tile_columns, step->columns) - 1;
    Around a = around(step, t.row, t.column), b = around(step, t.row, t.last_column);
    Around c = around(step, t.last_row, t.column), d = around(step, t.last_row, t.last_column);
    t.low = min(min(a.low, b.low), min(c.low, d.low));
    t.left = min(min(a.left, b.left), min(c.left, d.left));
    t.rows = max(max(a.high, b.high), max(c.high, d.high)) - t.low + 1;
    t.columns = max(max(a.right, b.right), max(c.right, d.right)) - t.left + 1;
    return t;
}

FUNCTION int fits(const Tile *tile) { return tile->rows * tile->columns <= TILE_ROOM; }

#define FETCH_TILE(tile, layers, step, room, copy)                                                              \
    if (fits(&tile))                                                                                            \
        for (int layer = 0; layer < LAYERS; ++layer)                                                            \
            for (int r = 0; r < tile.rows; ++r)                                                                 \
                ASYNC_COPY(room + layer * TILE_ROOM + r * tile.columns,                                         \
                           layers + layer * step->size + (tile.low + r) * step->columns + tile.left,            \
                           tile.columns, copy);

KERNEL propagate_priors_by_tiles(GLOBAL const Step *RESTRICT step, GLOBAL const float *RESTRICT layers,
                                 GLOBAL float *RESTRICT prior, int tile_columns) {
    LOCAL_ARRAY float rooms[2 * LAYERS * TILE_ROOM];
    int across = (step->columns + tile_columns - 1) / tile_columns;
    int tiles = across * ((step->rows + TILE_ROWS - 1) / TILE_ROWS), current = 0;
    copy_t copy = 0;
    Tile next = tile_at(step, min(GROUP_ID, tiles - 1), tile_columns);
    FETCH_TILE(next, layers, step, rooms, copy)
    for (int number = GROUP_ID; number < tiles; number += GROUP_COUNT) {
        Tile tile = next;
        LOCAL const float *room = rooms + current * LAYERS * TILE_ROOM;
        WAIT_COPY(copy);
        current = 1 - current;
        next = tile_at(step, min(number + GROUP_COUNT, tiles - 1), tile_columns);
        FETCH_TILE(next, layers, step, rooms + current * LAYERS * TILE_ROOM, copy)
        int width = tile.last_column - tile.column + 1, cells = width * (tile.last_row - tile.row + 1);
        for (int k = LOCAL_ID; k < cells; k += LOCAL_SIZE) {
            int row = tile.row + k / width, column = tile.column + k % width;
            if (!fits(&tile)) {
                interpolate_cell(step, layers, row, column, prior);
                continue;
            }
            Around a = around(step, row, column);
            int low = (a.low - tile.low) * tile.columns - tile.left, high = (a.high - tile.low) * tile.columns - tile.left;
            for (int layer = 0; layer < LAYERS; ++layer) {
                LOCAL const float *old = room + layer * TILE_ROOM;
                prior[layer * step->size + row * step->columns + column] =
                    weighted(&a, old[low + a.left], old[low + a.right], old[high + a.left], old[high + a.right]);
            }
        }
        BARRIER();
    }
    WAIT_COPY(copy);
}

// After a gap nobody knows where movers are: dynamic mass becomes unknown, the rest fades.
KERNEL fade(GLOBAL float *layers, float keep_static, float keep_free, int size) {
    FOR_EACH(cell, size) {
        layers[STATIC * size + cell] *= keep_static;
        layers[FREE * size + cell] *= keep_free;
        layers[DYNAMIC * size + cell] = 0.0f;
    }
}
