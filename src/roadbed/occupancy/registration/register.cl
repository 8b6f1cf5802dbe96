// SPDX-License-Identifier: Apache-2.0
// How connected hits moved: each component is laid over an older scan and shifted until both agree.
//
// One work-group per component, of one work-item on a CPU device. Places are subcells of the present grid. Every function is
// called by all work-items of a group.

#define SUBCELLS_OF_CELL (SUBCELLS * SUBCELLS)

// The shift in subcells that makes the points agree best, (0, 0) where none is sure enough. In four searches: of no shift
// at all, of every second shift, of those around the best of them, and of those that are hardly a motion. They are one
// loop, because each copy of the search takes PoCL seconds to compile.
FUNCTION int2 best_shift(const Compared *c, int reach, double same, double gain, LOCAL int *shared, LOCAL int *sums) {
    GLOBAL const Laying *lay = c->lay;
    int count = c->count + c->old_count, best = -count - 1, enough = 0;
    int2 nowhere = INT2(0, 0), shift = nowhere;
    double wanted = 0.0;
    Shifts shifts = shifts_around(nowhere, 0, 1, 0.0);
    for (int turn = 0; turn < 4; ++turn) {
        int2 found = search(c, shifts, turn == 3 ? enough - 1 : best, shared, sums);
        if (turn < 3 && found.y != NO_CELL) shift = shift_at(shifts, found.y);
        if (turn == 0) {
            if (found.x > same * count) return nowhere;
            wanted = fmax(lay->good * count, found.x + gain * count);
            best = (int)ceil(wanted - COARSE_LOSS * count) - 1;
            shifts = shifts_around(nowhere, reach, 2, (double)reach * reach);
        } else if (turn == 1) {
            if (shift.x == 0 && shift.y == 0) return nowhere;
            best = found.x;
            shifts = shifts_around(shift, 1, 1, 1e18);
        } else if (turn == 2) {
            if (found.x < wanted) return nowhere;
            // Along a smooth face many shifts agree alike: one that is hardly a motion must not be among them.
            enough = (int)ceil(found.x - lay->slack * count);
            shifts = shifts_around(nowhere, (int)ceil(lay->least), 1, ceil(lay->least * lay->least) - 1);
        } else if (found.x >= enough) {
            return nowhere;
        }
    }
    return shift;
}

// Bits of the hit subcells in a component's box, at its cell `at`.
FUNCTION uint hits_at(GLOBAL const Laying *lay, GLOBAL const address_t *picture, GLOBAL const int *labels,
                      GLOBAL const int *box, int k, int at) {
    int wide = box[3] - box[2] + 1, cell = (box[0] + at / wide) * lay->columns + box[2] + at % wide;
    return labels[cell] == k ? (uint)picture[cell] & HITS_IN_CELL : 0u;
}

// Hit subcells of component k in the order of its cells, every so manyth where there are more than `most`. Returns how many.
FUNCTION int points_of(GLOBAL const Laying *lay, GLOBAL const address_t *picture, GLOBAL const int *labels,
                       GLOBAL const int *box, int k, int former, GLOBAL int2 *points, LOCAL int *scratch) {
    int wide = box[3] - box[2] + 1, area = wide * (box[1] - box[0] + 1), own = 0, all;
    int strip = (area - 1) / LOCAL_SIZE + 1, begin = LOCAL_ID * strip, end = min(begin + strip, area);
    for (int at = begin; at < end; ++at) own += (int)POPCOUNT(hits_at(lay, picture, labels, box, k, at));
    int rank = SUM_BEFORE(own, scratch, &all), stride = max(1, all / lay->points);
    for (int at = begin; at < end; ++at) {
        int row = box[0] + at / wide, column = box[2] + at % wide;
        uint hits = hits_at(lay, picture, labels, box, k, at);
        for (int bit = 0; bit < SUBCELLS_OF_CELL; ++bit) {
            if (!(hits >> bit & 1u)) continue;
            if (rank % stride == 0) {
                int x = column * SUBCELLS + bit % SUBCELLS, y = row * SUBCELLS + bit / SUBCELLS;
                if (former) {  // to the present grid: back through p_old = R p_new + shift
                    double cx = x + 0.5 - lay->x, cy = y + 0.5 - lay->y;
                    x = (int)floor(lay->xx * cx + lay->yx * cy);
                    y = (int)floor(lay->xy * cx + lay->yy * cy);
                }
                points[rank / stride] = INT2(x, y);
            }
            ++rank;
        }
    }
    TOGETHER();
    return (all + stride - 1) / stride;
}

// The old component found most often in the 3 x 3 cells around the cells of component k, the first of several, or -1.
// Candidates are counted one after the other, in order: there are few. The first turn finds the first and the last of them.
FUNCTION int partner_of(GLOBAL const Laying *lay, GLOBAL const int *labels, GLOBAL const int *old_labels,
                        GLOBAL const int *box, int k, LOCAL int *shared) {
    int wide = box[3] - box[2] + 1, area = wide * (box[1] - box[0] + 1);
    int best = -1, most = 0;
    for (int candidate = -1; candidate != NO_CELL;) {
        TOGETHER();
        if (LOCAL_ID == 0) shared[0] = candidate < 0 ? -1 : 0, shared[1] = NO_CELL;
        TOGETHER();
        int votes = 0, last = -1, next = NO_CELL;
        for (int at = LOCAL_ID; at < area; at += LOCAL_SIZE) {
            int row = box[0] + at / wide, column = box[2] + at % wide;
            if (labels[row * lay->columns + column] != k) continue;
            double x = (column + 0.5) * SUBCELLS, y = (row + 0.5) * SUBCELLS;
            double old_column = floor((lay->xx * x + lay->xy * y + lay->x) / SUBCELLS);
            double old_row = floor((lay->yx * x + lay->yy * y + lay->y) / SUBCELLS);
            if (old_column < -1 || old_row < -1 || old_column > lay->columns || old_row > lay->rows) continue;
            int middle = (int)old_column, low = (int)old_row;
            for (int r = max(low - 1, 0); r < min(low + 2, lay->rows); ++r)
                for (int c = max(middle - 1, 0); c < min(middle + 2, lay->columns); ++c) {
                    int one = old_labels[r * lay->columns + c];
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

// Whether enough cells of component k have been static for long; `maturity` is that of the grid before it last moved.
FUNCTION int stands(GLOBAL const Laying *lay, GLOBAL const int *labels, GLOBAL const float *maturity,
                    GLOBAL const int *box, int k, LOCAL int *shared) {
    int wide = box[3] - box[2] + 1, area = wide * (box[1] - box[0] + 1), count = 0;
    TOGETHER();
    if (LOCAL_ID == 0) shared[0] = 0;
    TOGETHER();
    for (int at = LOCAL_ID; at < area; at += LOCAL_SIZE) {
        int row = box[0] + at / wide, column = box[2] + at % wide;
        if (labels[row * lay->columns + column] != k) continue;
        double x = (column + 0.5) * SUBCELLS, y = (row + 0.5) * SUBCELLS;
        double old_column = floor((lay->before_xx * x + lay->before_xy * y + lay->before_x) / SUBCELLS);
        double old_row = floor((lay->before_yx * x + lay->before_yy * y + lay->before_y) / SUBCELLS);
        if (old_column < 0 || old_row < 0 || old_column >= lay->columns || old_row >= lay->rows) continue;
        count += maturity[(int)old_row * lay->columns + (int)old_column] >= lay->standing_time;
    }
    if (count) ATOMIC_ADD(&shared[0], count);
    TOGETHER();
    return shared[0] >= STANDING * box[4];
}

// Score if nothing moved; or, with `free_only`, how many points lie where it was free, or is now.
FUNCTION int unmoved(const Compared *c, int free_only, LOCAL int *shared) {
    int total = 0;
    TOGETHER();
    if (LOCAL_ID == 0) shared[0] = 0;
    TOGETHER();
    for (int k = LOCAL_ID; k < c->count + c->old_count; k += LOCAL_SIZE) {
        int former = k - c->count;
        int2 was = former < 0 ? was_at(c->lay, c->present[k].x, c->present[k].y) : c->former[former];
        int here = agreement(c->lay, former < 0 ? c->old : c->now, was.x, was.y);
        total += free_only ? here < 0 : here;
    }
    if (total) ATOMIC_ADD(&shared[0], total);
    TOGETHER();
    return shared[0];
}

// The next component that no group has taken; the first ones are those of the groups' own numbers.
FUNCTION int next_of(GLOBAL int *ticket, LOCAL int *shared) {
    TOGETHER();
    if (LOCAL_ID == 0) shared[0] = GROUP_COUNT + ATOMIC_ADD(ticket, 1);
    TOGETHER();
    return shared[0];
}

FUNCTION int extent_of(GLOBAL const int *box) { return max(box[1] - box[0], box[3] - box[2]); }

// Labels and boxes of the components of now, and of the old ones.
typedef struct {
    GLOBAL const int *labels, *old_labels, *boxes, *old_boxes;
} Scans;

FUNCTION Scans scans_of(GLOBAL const Laying *lay, GLOBAL const int *labels, GLOBAL const int *boxes) {
    address_t cells = lay->rows * lay->columns, room = lay->most_components * BOX;
    Scans s = {labels + lay->now * cells, labels + lay->old * cells, boxes + lay->now * room, boxes + lay->old * room};
    return s;
}

// Without points yet, for which each group has its own room.
FUNCTION Compared compared_of(GLOBAL const Laying *lay, GLOBAL const address_t *pictures, GLOBAL int2 *points) {
    address_t size = PICTURE_SIZE(lay), room = 2 * lay->points, group = lay->room * GROUP_COUNT + GROUP_ID;
    Compared c = {lay, pictures + lay->now * size, pictures + lay->old * size, points + group * 2 * room,
                  points + (group * 2 + 1) * room, 0, 0};
    return c;
}

// The points of component k and of its partner. Returns whether there is one, and enough points of both.
FUNCTION int lay_over(Compared *c, const Scans *s, int k, LOCAL int *scratch, LOCAL int *shared) {
    GLOBAL const Laying *lay = c->lay;
    GLOBAL const int *box = s->boxes + BOX * k;
    int partner = partner_of(lay, s->labels, s->old_labels, box, k, shared);
    if (partner < 0 || extent_of(s->old_boxes + BOX * partner) > lay->partner_extent) return 0;
    for (int former = 0; former < 2; ++former) {  // in a loop, as above
        GLOBAL const int *whose = former ? s->old_boxes + BOX * partner : box;
        int points = points_of(lay, former ? c->old : c->now, former ? s->old_labels : s->labels, whose,
                               former ? partner : k, former, former ? c->former : c->present, scratch);
        if (former) c->old_count = points;
        else c->count = points;
    }
    return c->count >= lay->fewest_points && c->old_count >= lay->fewest_points;
}

// That of component k, which moved by so many subcells.
FUNCTION void set_velocity(GLOBAL float *velocity, int k, double dx, double dy, GLOBAL const Laying *lay) {
    velocity[2 * k] = (float)(dx / lay->age) * (float)lay->subcell;
    velocity[2 * k + 1] = (float)(dy / lay->age) * (float)lay->subcell;
}

// Velocities of components of now, in m/s; what is known already stays.
KERNEL_OF_SIZE(REGISTER_GROUP) register_hits(GLOBAL const Laying *layings, GLOBAL const address_t *pictures,
                                        GLOBAL const int *labels_all, GLOBAL const int *boxes_all,
                                        GLOBAL const int *counts, GLOBAL int2 *scratch_points, GLOBAL int *tickets,
                                        GLOBAL const float *maturity, GLOBAL float *velocity, int laid) {
    LOCAL_ARRAY int scratch[REGISTER_GROUP];
    LOCAL_ARRAY int shared[2];
    GLOBAL const Laying *lay = &layings[laid];
    Scans s = scans_of(lay, labels_all, boxes_all);
    Compared c = compared_of(lay, pictures, scratch_points);
    velocity += (address_t)lay->room * 2 * lay->most_components;
    int components = counts[lay->now];
    for (int k = GROUP_ID; k < components; k = next_of(tickets + laid, shared)) {
        if (velocity[2 * k] == velocity[2 * k]) continue;  // a number
        GLOBAL const int *box = s.boxes + BOX * k;
        int extent = extent_of(box);
        if (box[4] < lay->fewest_cells || box[4] > lay->most_cells) continue;
        if (extent > lay->extent || extent < lay->least_extent) continue;
        if (!lay_over(&c, &s, k, scratch, shared)) continue;
        int reach = (int)fmin(lay->reach, lay->reach_per_extent * extent + lay->reach_least);
        double same = lay->same, gain = lay->gain;
        if (extent <= lay->small) {
            same = lay->small_same;
            gain = lay->small_gain;
        } else if (stands(lay, s.labels, maturity + lay->maturity, box, k, shared) &&
                   unmoved(&c, 1, shared) >= lay->standing_freed * (c.count + c.old_count)) {
            // Its flank agrees for long with where it stood, but free space opens behind it, or closes before it.
            same = lay->standing_same;
            gain = lay->standing_gain;
        }
        int2 shift = best_shift(&c, reach, same, gain, shared, scratch);
        if (LOCAL_ID == 0 && (shift.x != 0 || shift.y != 0)) set_velocity(velocity, k, shift.x, shift.y, lay);
    }
}

// What was laid in a room of its own counts where nothing else is known.
KERNEL take_apart(GLOBAL const Laying *lay, GLOBAL const int *counts, GLOBAL float *velocity) {
    GLOBAL const float *apart = velocity + 2 * lay->most_components;
    FOR_EACH(k, counts[lay->now]) {
        if (velocity[2 * k] == velocity[2 * k]) continue;  // a number
        velocity[2 * k] = apart[2 * k];
        velocity[2 * k + 1] = apart[2 * k + 1];
    }
}
