// SPDX-License-Identifier: Apache-2.0
// Fuses the sensors' grids cell by cell, and adds the last observedness of silent sensors. The CPU's: fuse_cpu.py.
//
// `FusionStep` describes the step, `SensorPart` one sensor's part in it: first those that report, then the silent ones.

// Dempster's rule on occupied, free, unknown.
FUNCTION void combine(real *o1, real *f1, real *u1, real o2, real f2, real u2) {
    real conflict = *o1 * f2 + *f1 * o2;
    real occupied = *o1 * o2 + *o1 * u2 + *u1 * o2, free = *f1 * f2 + *f1 * u2 + *u1 * f2, unknown = *u1 * u2;
    if (conflict > FULL_CONFLICT) {
        *o1 = occupied, *f1 = free, *u1 = unknown + conflict;
    } else {
        real scale = 1 / (1 - conflict);
        *o1 = occupied * scale, *f1 = free * scale, *u1 = unknown * scale;
    }
}

// A layer on the present grid: shifted by whole cells, or interpolated between four cells.
FUNCTION float moved(GLOBAL const float *layer, GLOBAL const SensorPart *o, int row, int column, int rows, int columns) {
    if (!o->interpolates) {
        int old_row = row + o->shift_rows, old_column = column + o->shift_columns;
        int inside = old_row >= 0 && old_row < rows && old_column >= 0 && old_column < columns;
        return inside ? layer[old_row * columns + old_column] : 0.0f;
    }
    real x = o->rotation[0] * column + o->rotation[1] * row + o->shift[0];
    real y = o->rotation[2] * column + o->rotation[3] * row + o->shift[1];
    // Beyond the grid nothing was observed; an int holds everything nearer.
    if (!(x > -2 && y > -2 && x < columns + 1 && y < rows + 1)) return 0.0f;
    int left = (int)floor(x), low = (int)floor(y);
    real fx = x - left, fy = y - low, total = 0;
    for (int k = 0; k < 4; ++k) {
        int old_column = left + (k & 1), old_row = low + (k >> 1);
        if (old_row < 0 || old_row >= rows || old_column < 0 || old_column >= columns) continue;
        real w = (k & 1 ? fx : 1 - fx) * (k >> 1 ? fy : 1 - fy);
        total += w * layer[old_row * columns + old_column];
    }
    return (float)total;
}

KERNEL fuse_cells(GLOBAL const FusionStep *step, GLOBAL const SensorPart *parts, GLOBAL const float *probability,
                  GLOBAL const float *observedness, GLOBAL const ushort *surface, GLOBAL float *last_observedness,
                  GLOBAL float *fused_probability, GLOBAL float *fused_observedness, GLOBAL ushort *fused_surface) {
    int rows = step->rows, columns = step->columns, cells = rows * columns, rule = step->rule;
    real clip = step->clip;
    FOR_EACH(cell, cells) {
        real unseen = 1, total = 0, weighted = 0, occupied = 0, free = 0, unknown = 1;
        uint bits = 0;
        for (int s = 0; s < step->reporting; ++s) {
            float seen = observedness[s * cells + cell];
            real w = parts[s].reliability * seen, p = fmin(fmax((real)probability[s * cells + cell], clip), 1 - clip);
            unseen *= 1 - w;
            total += w;
            if (rule == LINEAR) weighted += w * p;
            else if (rule == DEMPSTER) combine(&occupied, &free, &unknown, w * p, w * (1 - p), 1 - w);
            else weighted += w * log(p / (1 - p));
            bits |= surface[s * cells + cell];
            last_observedness[parts[s].grid * cells + cell] = seen;
        }
        real fused = 0.5;
        if (total >= LEAST_TOTAL)
            fused = rule == LINEAR        ? weighted / total
                  : rule == INDEPENDENT   ? 1 / (1 + exp(-weighted))
                  : rule == LOGARITHMIC   ? 1 / (1 + exp(-(weighted / total)))
                                          : occupied + 0.5 * unknown;
        float seen = (float)(1 - unseen);
        for (int k = step->reporting; k < step->reporting + step->silent; ++k) {
            GLOBAL const SensorPart *o = &parts[k];
            float last = moved(last_observedness + o->grid * cells, o, cell / columns, cell % columns, rows, columns);
            seen = 1 - (1 - seen) * (1 - o->fading * last);
        }
        fused_probability[cell] = (float)fmin(fmax(fused, clip), 1 - clip);
        fused_observedness[cell] = seen;
        fused_surface[cell] = (ushort)bits;
    }
}
