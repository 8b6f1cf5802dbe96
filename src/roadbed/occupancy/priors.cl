// SPDX-License-Identifier: Apache-2.0
// The masses of the last step, where the grid is now. Twin: priors_cpu.py.

// P6, rolling: the grid moved by whole cells; cells that enter are zero, which is unknown.
FUNCTION float rolled(GLOBAL const float *layer, GLOBAL const Step *step, int row, int column) {
    int old_row = row + step->roll[1], old_column = column + step->roll[0];
    int inside = old_row >= 0 && old_row < step->rows && old_column >= 0 && old_column < step->columns;
    return inside ? layer[old_row * step->columns + old_column] : 0.0f;
}

// P6, interpolating (the paper's): each new cell from four old ones. Those outside are read at the border with weight 0.
FUNCTION void interpolate(GLOBAL const float *layers, GLOBAL const Step *step, int row, int column, GLOBAL float *prior) {
    real x = step->turn[0] * (real)column + step->turn[1] * (real)row + step->centre_shift[0];
    real y = step->turn[2] * (real)column + step->turn[3] * (real)row + step->centre_shift[1];
    int left = (int)floor(x), low = (int)floor(y), last_column = step->columns - 1, last_row = step->rows - 1;
    real fx = x - (real)left, fy = y - (real)low, one = (real)1, none = (real)0;
    int in_left = left >= 0 && left <= last_column, in_right = left >= -1 && left < last_column;
    int in_low = low >= 0 && low <= last_row, in_high = low >= -1 && low < last_row;
    real w0 = in_left && in_low ? (one - fx) * (one - fy) : none, w1 = in_right && in_low ? fx * (one - fy) : none;
    real w2 = in_left && in_high ? (one - fx) * fy : none, w3 = in_right && in_high ? fx * fy : none;
    int c0 = min(max(left, 0), last_column), c1 = min(max(left + 1, 0), last_column);
    int r0 = min(max(low, 0), last_row) * step->columns, r1 = min(max(low + 1, 0), last_row) * step->columns;
    int cell = row * step->columns + column;
    for (int layer = 0; layer < LAYERS; ++layer) {
        GLOBAL const float *old = layers + layer * step->size;
        real total = w0 * (real)old[r0 + c0];
        total += w1 * (real)old[r0 + c1];
        total += w2 * (real)old[r1 + c0];
        total += w3 * (real)old[r1 + c1];
        prior[layer * step->size + cell] = (float)total;
    }
}

KERNEL propagate_priors(GLOBAL const Step *step, GLOBAL const float *layers, GLOBAL float *prior) {
    for (int cell = GLOBAL_ID; cell < step->size; cell += GLOBAL_SIZE) {
        int row = cell / step->columns, column = cell % step->columns;
        if (step->interpolates) {
            interpolate(layers, step, row, column, prior);
            continue;
        }
        for (int layer = 0; layer < LAYERS; ++layer)
            prior[layer * step->size + cell] = rolled(layers + layer * step->size, step, row, column);
    }
}

// After a gap nobody knows where movers are: dynamic mass becomes unknown, the rest fades.
KERNEL fade(GLOBAL float *layers, float keep_static, float keep_free, int size) {
    for (int cell = GLOBAL_ID; cell < size; cell += GLOBAL_SIZE) {
        layers[STATIC * size + cell] *= keep_static;
        layers[FREE * size + cell] *= keep_free;
        layers[DYNAMIC * size + cell] = 0.0f;
    }
}
