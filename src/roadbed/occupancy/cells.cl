// SPDX-License-Identifier: Apache-2.0
// The measurement update: masses of every cell, and of the particles in it. Twin: cells_cpu.py.
//
// Masses: s static, d dynamic, e empty, u unknown; `born` is newborn dynamic mass.

typedef struct {
    real s, d, e, born, u;
} Cell;

// P7, P8: unseen masses fade; what was dynamic moved on with its particles and leaves a visible cell empty.
FUNCTION void forget_and_vacate(Cell *cell, real seen, GLOBAL const CellRules *rules) {
    if (seen <= (real)0) {
        cell->s *= rules->keep_static;
        real probable = fmin(cell->e, (real)PROBABLY_FREE);
        cell->e = probable * rules->keep_free + (cell->e - probable) * rules->keep_sure;
    }
    cell->e += rules->vacated * seen * cell->d;
    real total = cell->s + cell->e;
    if (total > (real)1) {
        cell->s /= total;
        cell->e /= total;
    }
}

// Weight in [0, 1] of the oldest static cell nearby: 0 none, 1 has been there for long.
FUNCTION real mature_neighbour(GLOBAL const Step *step, GLOBAL const float *maturity, int row, int column, int radius) {
    GLOBAL const CellRules *rules = &step->cell;
    real full = rules->maturity_begin + rules->maturity_span;
    float oldest = maturity[row * step->columns + column];
    if ((real)oldest >= full) return (real)1;
    int last_row = min(row + radius, step->rows - 1), last = min(column + radius, step->columns - 1);
    for (int r = max(row - radius, 0); r <= last_row; ++r) {
        for (int c = max(column - radius, 0); c <= last; ++c) oldest = fmax(oldest, maturity[r * step->columns + c]);
        if ((real)oldest >= full) return (real)1;
    }
    return fmin(fmax(((real)oldest - rules->maturity_begin) / rules->maturity_span, (real)0), (real)1);
}

// The same; where it was free for long, nothing static was overlooked, and only what touches the cell counts.
FUNCTION real maturity_around(GLOBAL const Step *step, GLOBAL const float *prior, int row, int column) {
    GLOBAL const CellRules *rules = &step->cell;
    GLOBAL const float *maturity = prior + MATURITY * step->size, *known_free = prior + KNOWN_FREE * step->size;
    real mature = mature_neighbour(step, maturity, row, column, rules->maturity_radius);
    real free_time = fmin((real)known_free[row * step->columns + column] * rules->inverse_free_time, (real)1);
    if (mature <= (real)0 || free_time <= (real)0) return mature;
    real touching = mature_neighbour(step, maturity, row, column, rules->touching_radius);
    return ((real)1 - free_time) * mature + free_time * touching;
}

// Seconds in which a cell was seen free, after the update.
FUNCTION real seen_free(real seconds, real p_z, real seen, GLOBAL const CellRules *rules) {
    if (p_z > (real)HIT) return seconds * rules->free_decay;
    if (seen > (real)WATCHED && p_z < (real)CLEAR) return fmin(seconds + rules->time_step, (real)LONGEST_FREE);
    return seconds;
}

// Seconds of static life of a cell after the update.
FUNCTION real matured(real seconds, real s, real p_z, real seen, GLOBAL const CellRules *rules) {
    if (p_z > (real)HIT && s > (real)MATURING) return fmin(seconds + rules->time_step, (real)OLDEST);
    if (seen > (real)WATCHED && p_z < (real)CLEAR) return seconds * rules->maturity_decay;
    return seconds;
}

// P9: empty and static mass become static or newborn dynamic mass.
FUNCTION void transit(Cell *cell, real mature, GLOBAL const CellRules *rules) {
    real s = cell->s, e = cell->e, e_sd = rules->static_to_dynamic;
    real e_ed = rules->empty_to_dynamic * ((real)1 - mature);
    real e_es = rules->empty_to_static + mature * (rules->maturity_static - rules->empty_to_static);
    cell->born = e_sd * s + e_ed * e;
    cell->s = ((real)1 - e_sd) * s + e_es * e;
    cell->e = ((real)1 - e_es - e_ed) * e;
}

// What nobody has looked at is more likely something that stands than what seems to arrive there.
FUNCTION void claim(Cell *cell, real seen, GLOBAL const CellRules *rules) {
    real claimed = rules->claimed * seen * cell->u;
    cell->s += claimed;
    cell->u -= claimed;
}

// P10: static and arriving dynamic mass exclude each other; the other masses fill the rest.
FUNCTION void compose(Cell *cell, real arriving, GLOBAL const CellRules *rules) {
    real s = cell->s, one = (real)1, d, rest;
    if (rules->compose == NORMALISE) {
        real total = s + arriving + cell->e + cell->born + cell->u;
        cell->s = s / total;
        cell->d = arriving / total;
        cell->e /= total;
        cell->born /= total;
        cell->u /= total;
        return;
    }
    if (rules->compose == ODDS) {
        d = fmin(arriving, (real)ARRIVAL_CEILING);
        real only_static = s * (one - d), only_dynamic = d * (one - s), neither = (one - s) * (one - d);
        real total = only_static + only_dynamic + neither;
        s = only_static / total;
        d = only_dynamic / total;
        rest = neither / total;
    } else {
        d = fmin(arriving, one - s);
        rest = one - s - d;
    }
    real others = cell->e + cell->born + cell->u;
    int nothing = others <= (real)NOTHING_LEFT;
    real scale = nothing ? (real)0 : rest / others;
    cell->s = nothing ? s + rest : s;
    cell->d = d;
    cell->e *= scale;
    cell->born *= scale;
    cell->u *= scale;
}

// U1: looking at unknown mass makes it static, dynamic or empty; where none is kept, so does not looking.
FUNCTION void resolve_unknown(Cell *cell, real seen, int hit, real mature, GLOBAL const CellRules *rules) {
    real k = rules->keep_unknown ? seen * cell->u : cell->u;
    real k_s = hit ? rules->hit_static + rules->hit_dynamic * mature : rules->free_static;
    real k_d = hit ? rules->hit_dynamic * ((real)1 - mature) : rules->free_dynamic;
    cell->s += k_s * k;
    cell->e += ((real)1 - k_s - k_d) * k;
    cell->born += k_d * k;
    cell->u -= k;
}

// A particle stood a test when it moved onto something that was empty before, or away from where it is empty now.
// Particles inside a large object are not tested, whatever their velocity.
FUNCTION float test_particle(GLOBAL const Step *step, Particle p, int cell, int was_empty, GLOBAL const float *probability,
                             GLOBAL const float *observedness) {
    float tested = (float)((real)p.tested * step->cell.test_memory);
    if (cell == p.origin || p.origin < 0 || (real)probability[cell] <= (real)HIT) return tested;
    int left = (real)probability[p.origin] < (real)CLEAR && (real)observedness[p.origin] > (real)WATCHED;
    return was_empty || left ? 1.0f : tested;
}

// How well a particle at (x, y), in subcells, lies on what was hit: 1 on a return, `surface_floor` far from any.
FUNCTION real surface_likelihood(GLOBAL const Step *step, GLOBAL const ushort *surface, real x, real y) {
    GLOBAL const CellRules *rules = &step->cell;
    int column = (int)x, row = (int)y;
    int last_row = min(row + SURFACE_REACH, step->rows * SUBCELLS - 1);
    int last = min(column + SURFACE_REACH, step->columns * SUBCELLS - 1);
    real nearest = (real)NO_SURFACE, one_half = (real)0.5;
    for (int r = max(row - SURFACE_REACH, 0); r <= last_row; ++r)
        for (int c = max(column - SURFACE_REACH, 0); c <= last; ++c) {
            int bits = surface[(r / SUBCELLS) * step->columns + c / SUBCELLS];
            if (!((bits >> ((r % SUBCELLS) * SUBCELLS + c % SUBCELLS)) & 1)) continue;
            real dx = (real)c + one_half - x, dy = (real)r + one_half - y;
            nearest = fmin(nearest, dx * dx + dy * dy);
        }
    return rules->surface_floor + ((real)1 - rules->surface_floor) * exp(-nearest * rules->surface_precision);
}

// Particles of a hit cell compete for the surface seen in it; their sum stays.
FUNCTION void follow_surface(GLOBAL const Step *step, GLOBAL Particle *particles, int2 run, GLOBAL const ushort *surface,
                             real arriving) {
    real per_metre = step->cell.subcells_per_metre, kept = (real)0;
    for (int i = run.x; i < run.y; ++i) {
        real x = (real)particles[i].x * per_metre, y = (real)particles[i].y * per_metre;
        float mass = (float)((real)particles[i].mass * surface_likelihood(step, surface, x, y));
        particles[i].mass = mass;
        kept += (real)mass;
    }
    real factor = arriving / kept;
    for (int i = run.x; i < run.y; ++i) particles[i].mass = (float)((real)particles[i].mass * factor);
}

// Particles compete for a registered velocity; their sum stays.
FUNCTION void follow_registered(GLOBAL const CellRules *rules, GLOBAL Particle *particles, int2 run, float2 velocity) {
    real before = (real)0, after = (real)0;
    for (int i = run.x; i < run.y; ++i) {
        float dx = particles[i].vx - velocity.x, dy = particles[i].vy - velocity.y, mass = particles[i].mass;
        before += (real)mass;
        real near = exp(-(real)(dx * dx + dy * dy) * rules->registered_precision);
        mass = (float)((real)mass * (rules->registered_floor + ((real)1 - rules->registered_floor) * near));
        particles[i].mass = mass;
        after += (real)mass;
    }
    real factor = before / after;
    for (int i = run.x; i < run.y; ++i) particles[i].mass = (float)((real)particles[i].mass * factor);
}

// Priors and particles meet the observation grid. Changes the particles' masses in place; `birth` is the newborn part of
// the dynamic mass. `drawn` is emptied for the resampling that follows.
KERNEL update_measurement(GLOBAL const Step *step, GLOBAL const float *prior, GLOBAL const float *probability,
                          GLOBAL const float *observedness, GLOBAL const ushort *surface, GLOBAL const int *label,
                          GLOBAL const float2 *registered, GLOBAL const int2 *runs, GLOBAL Particle *particles,
                          GLOBAL float *layers, GLOBAL float *birth, GLOBAL int2 *drawn) {
    GLOBAL const CellRules *rules = &step->cell;
    int size = step->size;
    FOR_EACH(at, size) {
        int row = at / step->columns, column = at % step->columns;
        int2 run = runs[at];
        real seen = (real)observedness[at], p_z = (real)probability[at], one = (real)1;
        int hit = p_z > (real)HIT, was_empty = (real)prior[FREE * size + at] > (real)WAS_EMPTY;
        Cell cell = {(real)prior[STATIC * size + at], (real)prior[DYNAMIC * size + at], (real)prior[FREE * size + at],
                     (real)0, (real)0};
        drawn[at] = INT2(0, 0);
        forget_and_vacate(&cell, seen, rules);
        cell.u = one - cell.s - cell.e;

        // P3-P5: survival, stopping, arrival of the particles in this cell.
        real stopped = (real)0, arriving = (real)0;
        real survive = rules->survival * (one - rules->unobserved_loss * (one - seen));
        for (int i = run.x; i < run.y; ++i) {
            Particle p = particles[i];
            real m = (real)p.mass * survive;
            real stop = rules->dynamic_to_static * exp(-(real)(p.vx * p.vx + p.vy * p.vy) * rules->inverse_stop_speed);
            stopped += stop * m;
            m *= one - stop;
            arriving += m;
            particles[i].mass = (float)m;
            particles[i].tested = test_particle(step, p, at, was_empty, probability, observedness);
        }

        int component = label[at];
        int moves = component >= 0 && is_finite(registered[component].x);
        real mature = hit && !moves ? maturity_around(step, prior, row, column) : (real)0;
        if (hit || !rules->hits_only) {
            transit(&cell, mature, rules);
            if (moves) {
                cell.born += rules->released * cell.s;
                cell.s -= rules->released * cell.s;
            }
        }
        if (hit && arriving > (real)0) claim(&cell, seen, rules);
        cell.s = fmin(cell.s + stopped, (real)CEILING);
        compose(&cell, arriving, rules);
        resolve_unknown(&cell, seen, hit, mature, rules);

        if (hit && arriving > (real)0) {
            if (rules->surface_precision > (real)0 && surface[at] != 0)
                follow_surface(step, particles, run, surface, arriving);
            if (moves) follow_registered(rules, particles, run, registered[component]);
        }

        // U2, U3: likelihoods p_z for occupied, 1 - p_z for empty, 1/2 for unknown.
        real z = p_z * (cell.s + cell.d + cell.born) + (one - p_z) * cell.e + (real)0.5 * cell.u, gain = p_z / z;
        if (arriving > (real)0) {
            real factor = gain * cell.d / arriving;
            for (int i = run.x; i < run.y; ++i) particles[i].mass = (float)((real)particles[i].mass * factor);
        }
        real s = fmin(cell.s * gain, (real)CEILING);
        layers[STATIC * size + at] = (float)s;
        layers[DYNAMIC * size + at] = (float)((cell.d + cell.born) * gain);
        layers[FREE * size + at] = (float)fmin((one - p_z) * cell.e / z, (real)CEILING);
        birth[at] = (float)(cell.born * gain);
        layers[KNOWN_FREE * size + at] = (float)seen_free((real)prior[KNOWN_FREE * size + at], p_z, seen, rules);
        layers[MATURITY * size + at] = (float)matured((real)prior[MATURITY * size + at], s, p_z, seen, rules);
    }
}
