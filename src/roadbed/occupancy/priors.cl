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

// P6, interpolating (the paper's): each new cell from four old ones. Those outside are read at the border with weight 0.
FUNCTION void interpolate_cell(GLOBAL const Step *step, GLOBAL const float *RESTRICT layers, int row, int column,
                               GLOBAL float *RESTRICT prior) {
    int columns = step->columns, last_column = columns - 1, last_row = step->rows - 1, size = step->size;
    real x = step->turn[0] * (real)column + step->turn[1] * (real)row + step->centre_shift[0];
    real y = step->turn[2] * (real)column + step->turn[3] * (real)row + step->centre_shift[1];
    int left = floor_of(x), low = floor_of(y);
    real fx = x - (real)left, fy = y - (real)low, one = (real)1, none = (real)0;
    int in_left = left >= 0 && left <= last_column, in_right = left >= -1 && left < last_column;
    int in_low = low >= 0 && low <= last_row, in_high = low >= -1 && low < last_row;
    real w0 = in_left && in_low ? (one - fx) * (one - fy) : none, w1 = in_right && in_low ? fx * (one - fy) : none;
    real w2 = in_left && in_high ? (one - fx) * fy : none, w3 = in_right && in_high ? fx * fy : none;
    int c0 = min(max(left, 0), last_column), c1 = min(max(left + 1, 0), last_column);
    int r0 = min(max(low, 0), last_row) * columns, r1 = min(max(low + 1, 0), last_row) * columns;
    int from0 = r0 + c0, from1 = r0 + c1, from2 = r1 + c0, from3 = r1 + c1, cell = row * columns + column;
    for (int layer = 0; layer < LAYERS; ++layer) {
        GLOBAL const float *old = layers + layer * size;
        real total = w0 * (real)old[from0] + w1 * (real)old[from1];
        total += w2 * (real)old[from2];
        total += w3 * (real)old[from3];
        prior[layer * size + cell] = (float)total;
    }
}

KERNEL propagate_priors(GLOBAL const Step *RESTRICT step, GLOBAL const float *RESTRICT layers,
                        GLOBAL float *RESTRICT prior) {
    int cell = GLOBAL_ID;
    if (cell >= step->size) return;
    int row = cell / step->columns, column = cell % step->columns;
    if (step->interpolates) interpolate_cell(step, layers, row, column, prior);
    else roll_cell(step, layers, row, column, prior);
}

// After a gap nobody knows where movers are: dynamic mass becomes unknown, the rest fades.
KERNEL fade(GLOBAL float *layers, float keep_static, float keep_free, int size) {
    for (int cell = GLOBAL_ID; cell < size; cell += GLOBAL_SIZE) {
        layers[STATIC * size + cell] *= keep_static;
        layers[FREE * size + cell] *= keep_free;
        layers[DYNAMIC * size + cell] = 0.0f;
    }
}
