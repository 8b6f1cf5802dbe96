// SPDX-License-Identifier: Apache-2.0
// The measurement update: masses of every cell, and of the particles in it. The CPU's: cells_cpu.py.
//
// Masses: s static, d dynamic, e empty, u unknown; `born` is newborn dynamic mass.

typedef struct {
    real s, d, e, born, u;
} Cell;

// P7, P8: unseen masses fade; dynamic mass has moved on with its particles and leaves a visible cell empty.
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

// Weight in [0, 1] of the longest static cell nearby: 0 none, 1 fully mature.
FUNCTION real maturity_around(GLOBAL const Step *step, GLOBAL const float *prior, int row, int column) {
    GLOBAL const CellRules *rules = &step->cell;
    GLOBAL const float *maturity = prior + MATURITY * step->size;
    int radius = rules->maturity_radius;
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

// Seconds in which a cell was seen free, after the update.
FUNCTION real seen_free(real seconds, real p_z, real seen, GLOBAL const CellRules *rules) {
    if (p_z > (real)HIT) return seconds * rules->free_decay;
    if (seen > (real)OBSERVED && p_z < (real)CLEAR) return fmin(seconds + rules->time_step, (real)LONGEST_FREE);
    return seconds;
}

// Seconds of static life of a cell after the update.
FUNCTION real matured(real seconds, real s, real p_z, real seen, GLOBAL const CellRules *rules) {
    if (p_z > (real)HIT && s > (real)MATURING) return fmin(seconds + rules->time_step, (real)OLDEST);
    if (seen > (real)OBSERVED && p_z < (real)CLEAR) return seconds * rules->maturity_decay;
    return seconds;
}

// P9: empty and static mass become static or newborn dynamic mass.
FUNCTION void transit(Cell *cell, real mature, int beside, GLOBAL const CellRules *rules) {
    real s = cell->s, e = cell->e, e_sd = rules->static_to_dynamic;
    real e_ed = (beside ? rules->beside : rules->empty_to_dynamic) * ((real)1 - mature);
    real e_es = rules->empty_to_static + mature * (rules->maturity_static - rules->empty_to_static);
    cell->born = e_sd * s + e_ed * e;
    cell->s = ((real)1 - e_sd) * s + e_es * e;
    cell->e = ((real)1 - e_es - e_ed) * e;
}

// Unknown mass of a hit cell is static rather than what arrives there, but for the share of it that was `tested`.
FUNCTION void claim(Cell *cell, real seen, real tested, GLOBAL const CellRules *rules) {
    real claimed = rules->claimed * ((real)1 - tested) * seen * cell->u;
    cell->s += claimed;
    cell->u -= claimed;
}

// P10: static and arriving dynamic mass exclude each other; the other masses fill the rest.
FUNCTION void compose(Cell *cell, real arriving, GLOBAL const CellRules *rules) {
    real s = cell->s, one = (real)1;
    if (!rules->exclusive) {
        real total = s + arriving + cell->e + cell->born + cell->u;
        cell->s = s / total;
        cell->d = arriving / total;
        cell->e /= total;
        cell->born /= total;
        cell->u /= total;
        return;
    }
    real d = fmin(arriving, (real)ARRIVAL_CEILING);
    real only_static = s * (one - d), only_dynamic = d * (one - s), neither = (one - s) * (one - d);
    real total = only_static + only_dynamic + neither, rest = neither / total;
    s = only_static / total;
    d = only_dynamic / total;
    real others = cell->e + cell->born + cell->u;
    int nothing = others <= (real)NOTHING_LEFT;
    real scale = nothing ? (real)0 : rest / others;
    cell->s = nothing ? s + rest : s;
    cell->d = d;
    cell->e *= scale;
    cell->born *= scale;
    cell->u *= scale;
}

// U1: observing unknown mass makes it static, dynamic or empty; without `keep_unknown` every step does.
FUNCTION void resolve_unknown(Cell *cell, real seen, int hit, real mature, GLOBAL const CellRules *rules) {
    real k = rules->keep_unknown ? seen * cell->u : cell->u;
    real k_s = hit ? rules->hit_static + rules->hit_dynamic * mature : rules->free_static;
    real k_d = hit ? rules->hit_dynamic * ((real)1 - mature) : rules->free_dynamic;
    cell->s += k_s * k;
    cell->e += ((real)1 - k_s - k_d) * k;
    cell->born += k_d * k;
    cell->u -= k;
}

// Whether several cells around one were dynamic: a hit there belongs to the same moving object.
FUNCTION int beside_mover(GLOBAL const Step *step, GLOBAL const float *prior, int row, int column) {
    GLOBAL const float *dynamic = prior + DYNAMIC * step->size;
    int count = 0;
    for (int r = max(row - BESIDE_REACH, 0); r <= min(row + BESIDE_REACH, step->rows - 1); ++r)
        for (int c = max(column - BESIDE_REACH, 0); c <= min(column + BESIDE_REACH, step->columns - 1); ++c)
            count += (real)dynamic[r * step->columns + c] > (real)BESIDE_MASS;
    return count >= BESIDE_CELLS;
}

// Free space confirms a particle that moved into a hit cell that was free before, or out of a cell that is free now.
// Particles inside a large object are not tested, whatever their velocity.
FUNCTION float test_particle(GLOBAL const Step *step, Particle p, int cell, int was_free, GLOBAL const float *probability,
                             GLOBAL const float *observedness) {
    float tested = (float)((real)p.tested * step->cell.test_memory);
    if (cell == p.origin || p.origin < 0 || (real)probability[cell] <= (real)HIT) return tested;
    int left = (real)probability[p.origin] < (real)CLEAR && (real)observedness[p.origin] > (real)OBSERVED;
    return was_free || left ? 1.0f : tested;
}

// Likelihood of a particle at (x, y), in subcells: 1 on a return, `surface_floor` far from any.
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

// A particle's surviving mass, the share of it that stops, its likelihood by a registered velocity (1: none), and the mass
// that arrives, weighted by the surface.
typedef struct {
    real survived, stopping, as_registered;
    float on_surface;
} Weights;

FUNCTION int is_registered(GLOBAL const float2 *registered, int component) {
    return component >= 0 && is_finite(registered[component].x);
}

// The weights of all particles in parallel; a cell then only has to sum them.
KERNEL weigh_particles(GLOBAL const Step *step, GLOBAL const float *prior, GLOBAL const float *probability,
                       GLOBAL const float *observedness, GLOBAL const ushort *surface, GLOBAL const int *label,
                       GLOBAL const float2 *registered, GLOBAL const int *cells, GLOBAL Particle *particles,
                       GLOBAL Weights *weights, int capacity) {
    GLOBAL const CellRules *rules = &step->cell;
    real per_metre = rules->subcells_per_metre, one = (real)1;
    FOR_EACH(i, capacity) {
        int cell = cells[i];
        if (cell == step->size) continue;
        Particle p = particles[i];
        int was_free = rules->test_free > (real)0 ? (real)prior[KNOWN_FREE * step->size + cell] > rules->test_free
                                                  : (real)prior[FREE * step->size + cell] > (real)WAS_EMPTY;
        particles[i].tested = test_particle(step, p, cell, was_free, probability, observedness);
        real seen = (real)observedness[cell], on_surface = one;
        Weights w = {(real)p.mass * (rules->survival * (one - rules->unobserved_loss * (one - seen))), one, one, 0.0f};
        w.stopping = rules->dynamic_to_static * exp(-(real)(p.vx * p.vx + p.vy * p.vy) * rules->inverse_stop_speed);
        if ((real)probability[cell] > (real)HIT) {
            if (rules->surface_precision > (real)0 && surface[cell] != 0)
                on_surface = surface_likelihood(step, surface, (real)p.x * per_metre, (real)p.y * per_metre);
            if (is_registered(registered, label[cell])) {
                float2 velocity = registered[label[cell]];
                float dx = p.vx - velocity.x, dy = p.vy - velocity.y;
                real near = exp(-(real)(dx * dx + dy * dy) * rules->registered_precision);
                w.as_registered = rules->registered_floor + (one - rules->registered_floor) * near;
            }
        }
        w.on_surface = (float)((real)(float)(w.survived * (one - w.stopping)) * on_surface);
        weights[i] = w;
    }
}

// Factors of the masses of a cell's particles; the first two keep their sum.
typedef struct {
    real surface, registered, update;
} Factors;

// The particles of a cell, and those of all cells of its work-group.
typedef struct {
    GLOBAL Particle *particles;
    GLOBAL const Weights *weights;
    GLOBAL const int *cells;  // of the particles
    int2 run, whole;
    LOCAL real *terms;
    LOCAL Factors *factors;  // of the group's cells,
    int first;               // from this one on
    Factors own;
} CellParticles;

// Share the cell's factors with the work-group.
FUNCTION void share_factors(const CellParticles *c) {
#if LANES > 1
    BARRIER();
    c->factors[LOCAL_ID] = c->own;
    BARRIER();
#endif
}

FUNCTION Factors factors_of(const CellParticles *c, int i) {
#if LANES > 1
    return c->factors[c->cells[i] - c->first];
#else
    return c->own;
#endif
}

// P3-P5: mass that stops, mass that arrives, how much of it was tested lately, and the mass weighted by the surface.
FUNCTION void arrival(const CellParticles *c, int i, real *terms) {
    Weights w = c->weights[i];
    terms[0] = w.stopping * w.survived;
    terms[1] = w.survived * ((real)1 - w.stopping);
    terms[2] = terms[1] * fmin((real)2 * (real)c->particles[i].tested, (real)1);
    terms[3] = (real)w.on_surface;
}

FUNCTION float before_registered(const CellParticles *c, int i) {
    return (float)((real)c->weights[i].on_surface * factors_of(c, i).surface);
}

FUNCTION float as_registered(const CellParticles *c, int i) {
    return (float)((real)before_registered(c, i) * c->weights[i].as_registered);
}

// Particles of a hit cell are reweighted by the surface seen in it, then by a registered velocity.
FUNCTION void reweighted(const CellParticles *c, int i, real *terms) {
    terms[0] = (real)before_registered(c, i);
    terms[1] = (real)as_registered(c, i);
}

FUNCTION void set_masses(const CellParticles *c) {
#if LANES > 1
    for (int i = c->whole.x + LOCAL_ID; i < c->whole.y; i += LOCAL_SIZE) {
#else
    for (int i = c->run.x; i < c->run.y; ++i) {
#endif
        Factors by = factors_of(c, i);
        float mass = (float)((real)as_registered(c, i) * by.registered);
        c->particles[i].mass = (float)((real)mass * by.update);
    }
}

// Updates priors and particles with the observation grid. Changes the particles' masses in place; `birth` is the newborn
// part of the dynamic mass. `drawn` is emptied for resampling.
KERNEL update_measurement(GLOBAL const Step *step, GLOBAL const float *prior, GLOBAL const float *probability,
                          GLOBAL const float *observedness, GLOBAL const ushort *surface, GLOBAL const int *label,
                          GLOBAL const float2 *registered, GLOBAL const int2 *runs, GLOBAL const int *cells,
                          GLOBAL const Weights *weights, GLOBAL Particle *particles, GLOBAL float *layers,
                          GLOBAL float *birth, GLOBAL int2 *drawn) {
    LOCAL_ARRAY real terms[4 * CHUNK];
    LOCAL_ARRAY Factors factors[GROUP];
    LOCAL_ARRAY int bounds[2];
    GLOBAL const CellRules *rules = &step->cell;
    int size = step->size;
    FOR_EACH_TOGETHER(i, size) {
        int inside = i < size, at = min(i, size - 1), row = at / step->columns, column = at % step->columns;
        real seen = (real)observedness[at], p_z = (real)probability[at], one = (real)1;
        int hit = p_z > (real)HIT;
        Cell cell = {(real)prior[STATIC * size + at], (real)prior[DYNAMIC * size + at], (real)prior[FREE * size + at],
                     (real)0, (real)0};
        int2 run = inside ? runs[at] : INT2(0, 0);
        CellParticles group = {particles, weights, cells, run, run_of_group(run, bounds), terms, factors, i - LOCAL_ID,
                       {one, one, one}};
        real arrivals[4] = {(real)0, (real)0, (real)0, (real)0}, reweighteds[2] = {(real)0, (real)0};
        SEGMENTED_SUM(arrival, 4, &group, arrivals)
        real stopped = arrivals[0], arriving = arrivals[1], tested = arrivals[2];
        // A cell that is hit again while little comes was not left: the end of a fence, where a shadow gives it free.
        if (hit) cell.d = fmin(cell.d, (real)REPLACED * (stopped + arriving));
        forget_and_vacate(&cell, seen, rules);
        cell.u = one - cell.s - cell.e;

        int moves = is_registered(registered, label[at]);
        int beside = hit && rules->beside > (real)0 && beside_mover(step, prior, row, column);
        int no_surface = rules->surface_births && !beside && surface[at] == 0;
        real mature = hit && !moves ? (no_surface ? one : maturity_around(step, prior, row, column)) : (real)0;
        if (hit || !rules->hits_only) {
            transit(&cell, mature, beside, rules);
            if (moves) {
                cell.born += rules->released * cell.s;
                cell.s -= rules->released * cell.s;
            }
        }
        if (hit && arriving > (real)0) claim(&cell, seen, tested / arriving, rules);
        cell.s = fmin(cell.s + stopped, (real)CEILING);
        compose(&cell, arriving, rules);
        resolve_unknown(&cell, seen, hit, mature, rules);

        int reweights = hit && arriving > (real)0;
        if (reweights && rules->surface_precision > (real)0 && surface[at] != 0) group.own.surface = arriving / arrivals[3];
        share_factors(&group);
        SEGMENTED_SUM(reweighted, 2, &group, reweighteds)
        if (reweights && moves) group.own.registered = reweighteds[0] / reweighteds[1];

        // U2, U3: likelihoods p_z for occupied, 1 - p_z for empty, 1/2 for unknown.
        real z = p_z * (cell.s + cell.d + cell.born) + (one - p_z) * cell.e + (real)0.5 * cell.u, gain = p_z / z;
        if (arriving > (real)0) group.own.update = gain * cell.d / arriving;
        share_factors(&group);
        set_masses(&group);
        if (inside) {
            real s = fmin(cell.s * gain, (real)CEILING);
            layers[STATIC * size + at] = (float)s;
            layers[DYNAMIC * size + at] = (float)((cell.d + cell.born) * gain);
            layers[FREE * size + at] = (float)fmin((one - p_z) * cell.e / z, (real)CEILING);
            birth[at] = (float)(cell.born * gain);
            layers[KNOWN_FREE * size + at] = (float)seen_free((real)prior[KNOWN_FREE * size + at], p_z, seen, rules);
            layers[MATURITY * size + at] = (float)matured((real)prior[MATURITY * size + at], s, p_z, seen, rules);
            drawn[at] = INT2(0, 0);
        }
    }
}
