// SPDX-License-Identifier: Apache-2.0
// Registers components against an older scan: each is shifted until both scans agree. The CPU's: register_cpu.py.
//
// One work-group per component, of one work-item on a CPU device. Positions are subcells of the present grid. Every function
// is called by all work-items of a group.

#define SUBCELLS_OF_CELL (SUBCELLS * SUBCELLS)

// The shift in subcells under which the points agree best, (0, 0) where none is sure enough. Four searches: no shift, every
// second shift, those around the best of them, and those that are hardly a motion. They are one loop, because each copy of
// the search takes PoCL seconds to compile.
FUNCTION int2 best_shift(const Compared *c, int reach, real same, real gain, LOCAL int *shared, LOCAL int *sums) {
    GLOBAL const RegistrationPass *pass = c->pass;
    int count = c->count + c->old_count, best = -count - 1, enough = 0;
    int2 nowhere = INT2(0, 0), shift = nowhere;
    real needed = 0.0;
    Shifts shifts = shifts_around(nowhere, 0, 1, 0.0);
    for (int turn = 0; turn < 4; ++turn) {
        int2 found = search(c, shifts, turn == 3 ? enough - 1 : best, shared, sums);
        if (turn < 3 && found.y != NO_CELL) shift = shift_at(shifts, found.y);
        if (turn == 0) {
            if (found.x > same * count) return nowhere;
            needed = fmax(pass->good * count, found.x + gain * count);
            best = (int)ceil(needed - COARSE_LOSS * count) - 1;
            shifts = shifts_around(nowhere, reach, 2, (real)reach * reach);
        } else if (turn == 1) {
            if (shift.x == 0 && shift.y == 0) return nowhere;
            best = found.x;
            shifts = shifts_around(shift, 1, 1, 1e18);
        } else if (turn == 2) {
            if (found.x < needed) return nowhere;
            // Along a smooth face many shifts agree equally: a shift that is hardly a motion must not be among them.
            enough = (int)ceil(found.x - pass->slack * count);
            shifts = shifts_around(nowhere, (int)ceil(pass->least), 1, ceil(pass->least * pass->least) - 1);
        } else if (found.x >= enough) {
            return nowhere;
        }
    }
    return shift;
}

// Bits of the hit subcells of component k in cell `at` of its box.
FUNCTION uint hits_at(GLOBAL const RegistrationPass *pass, GLOBAL const address_t *bitmap, GLOBAL const int *labels,
                      GLOBAL const int *box, int k, int at) {
    int wide = box[3] - box[2] + 1, cell = (box[0] + at / wide) * pass->columns + box[2] + at % wide;
    return labels[cell] == k ? (uint)bitmap[cell] & HITS_IN_CELL : 0u;
}

// Hit subcells of component k in the order of its cells, evenly subsampled where there are too many. Returns how many.
FUNCTION int points_of(GLOBAL const RegistrationPass *pass, GLOBAL const address_t *bitmap, GLOBAL const int *labels,
                       GLOBAL const int *box, int k, int former, GLOBAL int2 *points, LOCAL int *scratch) {
    int wide = box[3] - box[2] + 1, area = wide * (box[1] - box[0] + 1), own = 0, all;
    int strip = (area - 1) / LOCAL_SIZE + 1, begin = LOCAL_ID * strip, end = min(begin + strip, area);
    for (int at = begin; at < end; ++at) own += (int)POPCOUNT(hits_at(pass, bitmap, labels, box, k, at));
    int rank = SUM_BEFORE(own, scratch, &all), stride = max(1, all / pass->points);
    for (int at = begin; at < end; ++at) {
        int row = box[0] + at / wide, column = box[2] + at % wide;
        uint hits = hits_at(pass, bitmap, labels, box, k, at);
        for (int bit = 0; bit < SUBCELLS_OF_CELL; ++bit) {
            if (!(hits >> bit & 1u)) continue;
            if (rank % stride == 0) {
                int x = column * SUBCELLS + bit % SUBCELLS, y = row * SUBCELLS + bit / SUBCELLS;
                if (former) {  // to the present grid: back through p_old = R p_new + shift
                    real cx = x + 0.5 - pass->x, cy = y + 0.5 - pass->y;
                    x = (int)floor(pass->xx * cx + pass->yx * cy);
                    y = (int)floor(pass->xy * cx + pass->yy * cy);
                }
                points[rank / stride] = INT2(x, y);
            }
            ++rank;
        }
    }
    TOGETHER();
    return (all + stride - 1) / stride;
}

// The shifts, in subcells, that are tried for a component.
FUNCTION int reach_of(GLOBAL const RegistrationPass *pass, GLOBAL const int *box) {
    return (int)fmin(pass->reach, pass->reach_per_extent * extent_of(box) + pass->reach_least);
}

// The old component found most often in the 3 x 3 cells around the cells of component k, the first of several, or -1. With
// a reach, the one with most cells that are hit no more, at most so many cells from its box. Candidates are counted one
// after the other: there are few. The first pass finds the first and the last of them.
FUNCTION int partner_of(GLOBAL const RegistrationPass *pass, GLOBAL const int *labels, GLOBAL const int *old_labels,
                        GLOBAL const int *box, int k, int reach, LOCAL int *shared) {
    int first_row = max(box[0] - reach, 0), first = max(box[2] - reach, 0), around = reach ? 0 : 1;
    int wide = min(box[3] + reach, pass->columns - 1) - first + 1;
    int area = wide * (min(box[1] + reach, pass->rows - 1) - first_row + 1);
    int best = -1, most = 0;
    for (int candidate = -1; candidate != NO_CELL;) {
        TOGETHER();
        if (LOCAL_ID == 0) shared[0] = candidate < 0 ? -1 : 0, shared[1] = NO_CELL;
        TOGETHER();
        int votes = 0, last = -1, next = NO_CELL;
        for (int at = LOCAL_ID; at < area; at += LOCAL_SIZE) {
            int row = first_row + at / wide, column = first + at % wide, label = labels[row * pass->columns + column];
            if (reach ? label >= 0 : label != k) continue;
            real x = (column + 0.5) * SUBCELLS, y = (row + 0.5) * SUBCELLS;
            real old_column = floor((pass->xx * x + pass->xy * y + pass->x) / SUBCELLS);
            real old_row = floor((pass->yx * x + pass->yy * y + pass->y) / SUBCELLS);
            if (old_column < -1 || old_row < -1 || old_column > pass->columns || old_row > pass->rows) continue;
            int middle = (int)old_column, low = (int)old_row;
            for (int r = max(low - around, 0); r < min(low + around + 1, pass->rows); ++r)
                for (int c = max(middle - around, 0); c < min(middle + around + 1, pass->columns); ++c) {
                    int one = old_labels[r * pass->columns + c];
                    votes += one == candidate;
                    last = max(last, one);
                    if (one > candidate) next = min(next, one);
                }
        }
        if (candidate >= 0 && votes) ATOMIC_ADD(&shared[0], votes);
        if (candidate < 0 && last >= 0) ATOMIC_MAX(&shared[0], last);
        if (next != NO_CELL) ATOMIC_MIN(&shared[1], next);
        TOGETHER();
        if (candidate < 0 && shared[0] == shared[1]) return shared[0];  // the only one
        if (candidate >= 0 && shared[0] > most) best = candidate, most = shared[0];
        candidate = shared[1];
    }
    return best;
}

// Whether enough cells of component k have been static for long; `maturity` is on the grid of the last iteration.
FUNCTION int is_static(GLOBAL const RegistrationPass *pass, GLOBAL const int *labels, GLOBAL const float *maturity,
                    GLOBAL const int *box, int k, LOCAL int *shared) {
    int wide = box[3] - box[2] + 1, area = wide * (box[1] - box[0] + 1), count = 0;
    TOGETHER();
    if (LOCAL_ID == 0) shared[0] = 0;
    TOGETHER();
    for (int at = LOCAL_ID; at < area; at += LOCAL_SIZE) {
        int row = box[0] + at / wide, column = box[2] + at % wide;
        if (labels[row * pass->columns + column] != k) continue;
        real x = (column + 0.5) * SUBCELLS, y = (row + 0.5) * SUBCELLS;
        real old_column = floor((pass->prior_xx * x + pass->prior_xy * y + pass->prior_x) / SUBCELLS);
        real old_row = floor((pass->prior_yx * x + pass->prior_yy * y + pass->prior_y) / SUBCELLS);
        if (old_column < 0 || old_row < 0 || old_column >= pass->columns || old_row >= pass->rows) continue;
        count += maturity[(int)old_row * pass->columns + (int)old_column] >= pass->standing_time;
    }
    if (count) ATOMIC_ADD(&shared[0], count);
    TOGETHER();
    return shared[0] >= STATIC_SHARE * box[4];
}

// Labels and boxes of the present components, and of the old ones, and how many of them there are.
typedef struct {
    GLOBAL const int *labels, *old_labels, *boxes, *old_boxes;
    int count, old_count;
} Scans;

FUNCTION Scans scans_of(GLOBAL const RegistrationPass *pass, GLOBAL const int *labels, GLOBAL const int *boxes,
                        GLOBAL const int *counts) {
    address_t cells = pass->rows * pass->columns, size = pass->most_components * BOX;
    Scans s = {labels + pass->now * cells, labels + pass->old * cells, boxes + pass->now * size, boxes + pass->old * size,
               counts[pass->now], counts[pass->old]};
    return s;
}

// Whether component k alone has new cells, and one single old one lost some, at most `reach` cells from its box.
FUNCTION int is_alone(GLOBAL const RegistrationPass *pass, const Scans *s, GLOBAL const int *box, int k, int reach,
                      LOCAL int *shared) {
    int wide = box[3] - box[2] + 1 + 2 * reach, area = wide * (box[1] - box[0] + 1 + 2 * reach);
    int last = -1, first = NO_CELL;
    TOGETHER();
    if (LOCAL_ID == 0) shared[0] = last, shared[1] = first;
    TOGETHER();
    for (int at = LOCAL_ID; at < area; at += LOCAL_SIZE) {
        int row = box[0] - reach + at / wide, column = box[2] - reach + at % wide;
        real x = (column + 0.5) * SUBCELLS, y = (row + 0.5) * SUBCELLS;
        real old_column = floor((pass->xx * x + pass->xy * y + pass->x) / SUBCELLS);
        real old_row = floor((pass->yx * x + pass->yy * y + pass->y) / SUBCELLS);
        if (fmin(fmin((real)row, (real)column), fmin(old_row, old_column)) < 0 || fmax((real)row, old_row) >= pass->rows ||
            fmax((real)column, old_column) >= pass->columns) {
            last = NO_CELL;  // beyond the grid there may be more
            continue;
        }
        int one = s->old_labels[(int)old_row * pass->columns + (int)old_column];
        int now = s->labels[row * pass->columns + column];
        if (now == k || (now >= 0) == (one >= 0)) continue;
        last = max(last, now >= 0 ? NO_CELL : one);
        if (one >= 0) first = min(first, one);
    }
    if (last >= 0) ATOMIC_MAX(&shared[0], last);
    if (first != NO_CELL) ATOMIC_MIN(&shared[1], first);
    TOGETHER();
    return shared[0] == shared[1] && shared[0] != NO_CELL;
}

// Score without a shift; or, with `free_only`, the number of points in cells that were free, or are free now.
FUNCTION int unmoved(const Compared *c, int free_only, LOCAL int *shared) {
    int total = 0;
    TOGETHER();
    if (LOCAL_ID == 0) shared[0] = 0;
    TOGETHER();
    for (int k = LOCAL_ID; k < c->count + c->old_count; k += LOCAL_SIZE) {
        int former = k - c->count;
        int2 was = former < 0 ? was_at(c->pass, c->present[k].x, c->present[k].y) : c->former[former];
        int here = agreement(c->pass, former < 0 ? c->old : c->now, was.x, was.y);
        total += free_only ? here < 0 : here;
    }
    if (total) ATOMIC_ADD(&shared[0], total);
    TOGETHER();
    return shared[0];
}

// The next component that no group has taken; each group starts with the component of its own number.
FUNCTION int next_of(GLOBAL int *ticket, LOCAL int *shared) {
    TOGETHER();
    if (LOCAL_ID == 0) shared[0] = GROUP_COUNT + ATOMIC_ADD(ticket, 1);
    TOGETHER();
    return shared[0];
}

// Without points yet; each group has memory of its own for them.
FUNCTION Compared compared_of(GLOBAL const RegistrationPass *pass, GLOBAL const address_t *bitmaps, GLOBAL int2 *points) {
    address_t size = BITMAP_SIZE(pass), most = 2 * pass->points, group = pass->slot * GROUP_COUNT + GROUP_ID;
    Compared c = {pass, bitmaps + pass->now * size, bitmaps + pass->old * size, points + group * 2 * most,
                  points + (group * 2 + 1) * most, 0, 0};
    return c;
}

// The points of component k and of its partner. Returns whether it has one, and both have enough points.
FUNCTION int matched_points(Compared *c, const Scans *s, int k, LOCAL int *scratch, LOCAL int *shared) {
    GLOBAL const RegistrationPass *pass = c->pass;
    GLOBAL const int *box = s->boxes + BOX * k;
    int partner = -1, large = extent_of(box) > pass->small, last = reach_of(pass, box) / SUBCELLS;
    for (int reach = 0; reach <= last; reach += max(last, 1)) {
        // What overlaps with nothing, or with a piece of something, may have moved further than its length.
        if (partner == s->old_count) break;
        if (partner >= 0 && !(large && s->old_boxes[BOX * partner + 4] < pass->piece * box[4])) break;
        int found = partner_of(pass, s->labels, s->old_labels, box, k, reach, shared);
        if (found >= 0) partner = found;
    }
    if (partner < 0 || partner == s->old_count || extent_of(s->old_boxes + BOX * partner) > pass->partner_extent) return 0;
    for (int former = 0; former < 2; ++former) {  // in a loop, as above
        GLOBAL const int *whose = former ? s->old_boxes + BOX * partner : box;
        int points = points_of(pass, former ? c->old : c->now, former ? s->old_labels : s->labels, whose,
                               former ? partner : k, former, former ? c->former : c->present, scratch);
        if (former) c->old_count = points;
        else c->count = points;
    }
    return c->count >= pass->fewest_points && c->old_count >= pass->fewest_points;
}

// Length of the present points along a shift, and their width across it, in subcells.
typedef struct {
    real length, width;
} Spread;

FUNCTION Spread spread_along(const Compared *c, int2 shift) {
    int first_along = FAR, first_across = FAR, last_along = -FAR, last_across = -FAR;
    for (int k = 0; k < c->count; ++k) {
        int2 at = c->present[k];
        int along = at.x * shift.x + at.y * shift.y, across = at.y * shift.x - at.x * shift.y;
        first_along = min(first_along, along), last_along = max(last_along, along);
        first_across = min(first_across, across), last_across = max(last_across, across);
    }
    real far = sqrt((real)(shift.x * shift.x + shift.y * shift.y));
    Spread spread = {(last_along - first_along) / far, (last_across - first_across) / far};
    return spread;
}

// Whether one of the 3 x 3 cells around the cells of component k is background.
FUNCTION int touches_background(GLOBAL const RegistrationPass *pass, const Scans *s, GLOBAL const int *box, int k,
                                LOCAL int *shared) {
    int first_row = max(box[0] - 1, 0), last_row = min(box[1] + 1, pass->rows - 1), first = max(box[2] - 1, 0);
    int wide = min(box[3] + 1, pass->columns - 1) - first + 1, found = 0;
    TOGETHER();
    if (LOCAL_ID == 0) shared[0] = 0;
    TOGETHER();
    for (int at = LOCAL_ID; at < wide * (last_row - first_row + 1); at += LOCAL_SIZE) {
        int row = first_row + at / wide, column = first + at % wide;
        if (s->labels[row * pass->columns + column] != s->count) continue;
        for (int r = max(row - 1, 0); r < min(row + 2, pass->rows); ++r)
            for (int c = max(column - 1, 0); c < min(column + 2, pass->columns); ++c)
                found |= s->labels[r * pass->columns + c] == k;
    }
    if (found) ATOMIC_MAX(&shared[0], 1);
    TOGETHER();
    return shared[0];
}

// The velocity of component k, which moved by (dx, dy) subcells.
FUNCTION void set_velocity(GLOBAL float *velocity, int k, real dx, real dy, GLOBAL const RegistrationPass *pass) {
    velocity[2 * k] = (float)(dx / pass->age) * (float)pass->subcell;
    velocity[2 * k + 1] = (float)(dy / pass->age) * (float)pass->subcell;
}

// Velocities of the present components in m/s; known ones stay.
KERNEL_OF_SIZE(REGISTER_GROUP) register_hits(GLOBAL const RegistrationPass *passes, GLOBAL const address_t *bitmaps,
                                        GLOBAL const int *labels_all, GLOBAL const int *boxes_all,
                                        GLOBAL const int *counts, GLOBAL int2 *scratch_points, GLOBAL int *tickets,
                                        GLOBAL const float *maturity, GLOBAL float *velocity, int kind) {
    LOCAL_ARRAY int scratch[REGISTER_GROUP];
    LOCAL_ARRAY int shared[2];
    GLOBAL const RegistrationPass *pass = &passes[kind];
    Scans s = scans_of(pass, labels_all, boxes_all, counts);
    Compared c = compared_of(pass, bitmaps, scratch_points);
    velocity += (address_t)pass->slot * 2 * pass->most_components;
    for (int k = GROUP_ID; k < s.count; k = next_of(tickets + kind, shared)) {
        if (velocity[2 * k] == velocity[2 * k]) continue;  // a number
        GLOBAL const int *box = s.boxes + BOX * k;
        int extent = extent_of(box);
        if (box[4] < pass->fewest_cells || box[4] > pass->most_cells || extent > pass->extent) continue;
        if (!matched_points(&c, &s, k, scratch, shared)) continue;
        int reach = reach_of(pass, box);
        real same = pass->same, gain = pass->gain, freed = pass->freed;
        if (extent <= pass->small) {
            same = pass->small_same;
            gain = pass->small_gain;
        } else if (is_static(pass, s.labels, maturity + pass->maturity, box, k, shared)) {
            // Its flank still agrees with the past, but free space opens behind it, or closes before it.
            same = pass->standing_same;
            gain = pass->standing_gain;
            freed = pass->standing_freed;
        }
        // What was out of sight, or is now, may have stood there: a wall that the grid's rim, a shadow or the sensor's view
        // cuts off does not move with its end. What is small and alone has no such end.
        if (unmoved(&c, 1, shared) < freed * (c.count + c.old_count) &&
            (extent > pass->small || !is_alone(pass, &s, box, k, reach / SUBCELLS, shared)))
            continue;
        int2 shift = best_shift(&c, reach, same, gain, shared, scratch);
        if (shift.x == 0 && shift.y == 0) continue;
        Spread spread = spread_along(&c, shift);
        // Each piece of a guard rail looks like the next one, and so does a parked car. A rail's end that comes out of a
        // shadow moves along the rail.
        real far = sqrt((real)(shift.x * shift.x + shift.y * shift.y));
        int narrow = spread.width < pass->across, leaves = far > spread.length;
        if (pass->short_shift == 0 ? narrow && leaves : far > pass->short_shift && (narrow || leaves)) continue;
        if (spread.width < pass->line && spread.length > LINE_RATIO * spread.width &&
            touches_background(pass, &s, box, k, shared))
            continue;
        if (LOCAL_ID == 0) set_velocity(velocity, k, shift.x, shift.y, pass);
    }
}

// Fast objects, which were registered concurrently, count where nothing else is known.
KERNEL merge_fast(GLOBAL const RegistrationPass *pass, GLOBAL const int *counts, GLOBAL float *velocity) {
    GLOBAL const float *fast = velocity + 2 * pass->most_components;
    FOR_EACH(k, counts[pass->now]) {
        if (velocity[2 * k] == velocity[2 * k]) continue;  // a number
        velocity[2 * k] = fast[2 * k];
        velocity[2 * k + 1] = fast[2 * k + 1];
    }
}
