// SPDX-License-Identifier: Apache-2.0
// Particles: propagate, gather, resample, normalise. The CPU's: particles_cpu.py.
//
// A particle whose cell is step->size is not in use: it left the grid, or was never drawn. Sorting puts those last.

FUNCTION int cell_at(GLOBAL const Step *step, real x, real y) {
    real column = floor(x / step->spacing), row = floor(y / step->spacing);
    int inside = column >= (real)0 && column < (real)step->columns && row >= (real)0 && row < (real)step->rows;
    return inside ? (int)row * step->columns + (int)column : -1;
}

// P2: constant velocity with random acceleration, then into the new grid.
KERNEL propagate(GLOBAL const Step *step, GLOBAL Particle *particles, GLOBAL int *cells, int capacity) {
    GLOBAL const MotionRule *rule = &step->motion;
    real dt = rule->dt, one_half = (real)0.5;
    // From the old axes to the new.
    real xx = step->turn[0], xy = step->turn[2], yx = step->turn[1], yy = step->turn[3];
    FOR_EACH(i, capacity) {
        if (cells[i] == step->size) continue;
        Particle p = particles[i];
        float4 chance = normals(step->seed, step->frame, PROPAGATE, (uint)i);
        // Slow objects accelerate less: pedestrians walk steadily.
        real q = fmin(rule->acceleration, rule->at_rest + rule->per_speed2 * (real)(p.vx * p.vx + p.vy * p.vy));
        real ax = (real)chance.x * q, ay = (real)chance.y * q;
        real px = (real)p.x - step->shift[0], py = (real)p.y - step->shift[1];
        p.origin = cell_at(step, xx * px + xy * py, yx * px + yy * py);
        px += (real)p.vx * dt + one_half * ax * dt * dt + rule->diffusion * (real)chance.z;
        py += (real)p.vy * dt + one_half * ay * dt * dt + rule->diffusion * (real)chance.w;
        real qx = (real)p.vx + ax * dt, qy = (real)p.vy + ay * dt;
        p.x = (float)(xx * px + xy * py);
        p.y = (float)(yx * px + yy * py);
        p.vx = (float)(xx * qx + xy * qy);
        p.vy = (float)(yx * qx + yy * qy);
        int cell = cell_at(step, (real)p.x, (real)p.y);
        cells[i] = cell < 0 ? step->size : cell;
        particles[i] = p;
    }
}

// Writes where each cell's items begin and end in an array sorted by cell; other cells keep their values.
FUNCTION void note_run(GLOBAL const int *cells, int count, int none, GLOBAL int2 *runs, int k) {
    int cell = cells[k];
    if (cell == none) return;
    GLOBAL int *run = (GLOBAL int *)&runs[cell];
    if (k == 0 || cells[k - 1] != cell) run[0] = k;
    if (k == count - 1 || cells[k + 1] != cell) run[1] = k + 1;
}

// Copies particles in sorted order and writes each cell's run of them; runs are empty before.
KERNEL gather(GLOBAL const Step *step, GLOBAL const int *order, GLOBAL const int *sorted_cells,
              GLOBAL const Particle *particles, GLOBAL Particle *sorted, GLOBAL int2 *runs, int capacity) {
    FOR_EACH(k, capacity) {
        sorted[k] = particles[order[k]];
        note_run(sorted_cells, capacity, step->size, runs, k);
    }
}

// Merges persistent and newborn particles by cell: their masses, and the index of each (-1 - k: newborn k).
KERNEL merge(GLOBAL const Step *step, GLOBAL const Particle *sorted, GLOBAL const int *sorted_cells,
             GLOBAL const Particle *born, GLOBAL const int *born_cells, GLOBAL float *mass, GLOBAL int *origin,
             int capacity, int births) {
    FOR_EACH(k, capacity + births) {
        int persistent = k < capacity, i = persistent ? k : k - capacity;
        int cell = persistent ? sorted_cells[i] : born_cells[i];
        int place = i + (persistent ? count_below(born_cells, births, cell)
                                    : count_below(sorted_cells, capacity, cell + 1));
        mass[place] = cell == step->size ? 0.0f : persistent ? sorted[i].mass : born[i].mass;
        origin[place] = persistent ? i : -1 - i;
    }
}

// Draws as many particles as before by mass.
KERNEL resample(GLOBAL const Step *step, GLOBAL const SystematicDraw *draw, GLOBAL const units_t *reached,
                GLOBAL const units_t *sums, GLOBAL const int *origin, GLOBAL const int *sorted_cells,
                GLOBAL const int *born_cells, GLOBAL int *source, GLOBAL int *cells, int capacity, int births) {
    FOR_EACH(k, capacity) {
        int cell = step->size;
        if (draw->total > 0) {
            int from = origin[covering(reached, sums, capacity + births, position_of(draw, k, capacity))];
            cell = from >= 0 ? sorted_cells[from] : born_cells[-1 - from];
            source[k] = from;
        }
        cells[k] = cell;
    }
}

KERNEL note_drawn(GLOBAL const Step *step, GLOBAL const int *cells, GLOBAL int2 *drawn, int capacity) {
    FOR_EACH(k, capacity) note_run(cells, capacity, step->size, drawn, k);
}

// Dynamic mass without particles cannot be predicted: it becomes unknown. sums, per work-group: that mass and the total.
// Empties the runs of particles for the next step.
KERNEL drop_mass_without_particles(GLOBAL const Step *step, GLOBAL float *layers, GLOBAL const int2 *drawn,
                                   GLOBAL int2 *runs, GLOBAL float2 *sums) {
    LOCAL_ARRAY float2 parts[GROUP];
    GLOBAL float *dynamic = layers + DYNAMIC * step->size;
    float lost = 0.0f, total = 0.0f;
    FOR_EACH(cell, step->size) {
        runs[cell] = INT2(0, 0);
        float d = dynamic[cell];
        if (!(d > 0.0f)) continue;
        total += d;
        int2 run = drawn[cell];
        if (run.y > run.x) continue;
        lost += d;
        dynamic[cell] = 0.0f;
    }
    parts[LOCAL_ID].x = lost;
    parts[LOCAL_ID].y = total;
    BARRIER();
    if (LOCAL_ID != 0) return;
    for (int k = 1; k < LOCAL_SIZE; ++k) {
        lost += parts[k].x;
        total += parts[k].y;
    }
    sums[GROUP_ID].x = lost;
    sums[GROUP_ID].y = total;
}

// Copies the drawn particles; in every cell their masses are equal and sum to its dynamic mass.
KERNEL normalise(GLOBAL const Step *step, GLOBAL const int *source, GLOBAL const int *cells, GLOBAL const int2 *drawn,
                 GLOBAL const float *layers, GLOBAL const Particle *sorted, GLOBAL const Particle *born,
                 GLOBAL Particle *particles, int capacity) {
    GLOBAL const float *dynamic = layers + DYNAMIC * step->size;
    FOR_EACH(k, capacity) {
        int cell = cells[k], from = source[k];
        if (cell == step->size) continue;
        Particle p = from >= 0 ? sorted[from] : born[-1 - from];
        int2 run = drawn[cell];
        p.mass = (float)((real)dynamic[cell] / (real)(run.y - run.x));
        particles[k] = p;
    }
}
