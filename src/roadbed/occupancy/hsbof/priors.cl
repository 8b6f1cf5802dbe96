// SPDX-License-Identifier: Apache-2.0
// Moves the masses of the last step to the present grid. The CPU's: priors_cpu.py.

// P6, rolling: the grid moved by whole cells; cells that enter are zero, which is unknown.
FUNCTION void roll_cell(GLOBAL const Step *step, GLOBAL const float *RESTRICT layers, int row, int column,
                        GLOBAL float *RESTRICT prior) {
    int old_row = row + step->roll[1], old_column = column + step->roll[0], columns = step->columns, size = step->size;
    int inside = old_row >= 0 && old_row < step->rows && old_column >= 0 && old_column < columns;
    int from = inside ? old_row * columns + old_column : 0, cell = row * columns + column;
    for (int layer = 0; layer < LAYERS; ++layer) prior[layer * size + cell] = inside ? layers[layer * size + from] : 0.0f;
}

// The four old cells around a new one. Those outside are clamped to the border, with weight 0.
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

// After a gap dynamic mass becomes unknown, the rest fades.
KERNEL fade(GLOBAL float *layers, float keep_static, float keep_free, int size) {
    FOR_EACH(cell, size) {
        layers[STATIC * size + cell] *= keep_static;
        layers[FREE * size + cell] *= keep_free;
        layers[DYNAMIC * size + cell] = 0.0f;
    }
}
