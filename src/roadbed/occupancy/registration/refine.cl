// SPDX-License-Identifier: Apache-2.0
// What is registered, laid once more over a younger scan: what speeds up is faster by now, and what had not moved by then
// does not move at all. One work-group per component.

// Mean of the shifts around the expected one that agree nearly as well as the best, times how many they are, and these.
// Their number is 0 where the best is not good. `shared` has room for four numbers, of which the first is the best score.
FUNCTION int mean_shift(const Compared *c, int2 expected, int2 *sum, LOCAL int *shared, LOCAL int *sums) {
    GLOBAL const Laying *lay = c->lay;
    Shifts shifts = shifts_around(expected, lay->around, 1, 1e18);
    int count = c->count + c->old_count, enough = -count, few = are_few(shifts);
    if (few) add_up(c, shifts, sums);
    TOGETHER();
    if (LOCAL_ID == 0) shared[0] = -count, shared[1] = shared[2] = shared[3] = 0;
    TOGETHER();
    for (int turn = 0; turn < 2; ++turn) {  // the best, then those nearly as good
        for (int k = LOCAL_ID; k < (few ? shifts.side * shifts.side : words_of(shifts)); k += LOCAL_SIZE) {
            Word word = {k, 1, 1u};
            int best;
            if (few) {
                best = sums[k];
                word.tried = best >= enough;
            } else {
                uint digits[DIGITS];
                word = word_at(shifts, k);
                tally(c, shift_at(shifts, word.first), digits);
                uint among = word.tried &= reaching(digits, max(enough + count, 0));
                best = highest(digits, &among) - count;
            }
            if (turn == 0) ATOMIC_MAX(&shared[0], best);
            for (uint left = turn == 0 ? 0u : word.tried; left; left &= left - 1u) {
                int2 shift = shift_at(shifts, first_of(word, left));
                ATOMIC_ADD(&shared[1], shift.x - expected.x);
                ATOMIC_ADD(&shared[2], shift.y - expected.y);
                ATOMIC_ADD(&shared[3], 1);
            }
        }
        TOGETHER();
        if (shared[0] < lay->good * count) return 0;
        enough = (int)ceil(shared[0] - lay->nearly * count);
    }
    *sum = INT2(shared[1], shared[2]);
    return shared[3];
}

// Velocities of components of now that are known, not slow, and faster since, in m/s.
KERNEL_OF_SIZE(REGISTER_GROUP) refine_hits(GLOBAL const Laying *layings, GLOBAL const address_t *pictures,
                                      GLOBAL const int *labels_all, GLOBAL const int *boxes_all,
                                      GLOBAL const int *counts, GLOBAL int2 *scratch_points, GLOBAL int *tickets,
                                      GLOBAL float *velocity, int laid) {
    LOCAL_ARRAY int scratch[REGISTER_GROUP];
    LOCAL_ARRAY int shared[4];
    Scans s = scans_of(&layings[laid], labels_all, boxes_all);
    Compared c = compared_of(&layings[laid], pictures, scratch_points);
    double per_velocity = c.lay->age / c.lay->subcell;
    int components = counts[c.lay->now];
    for (int k = GROUP_ID; k < components; k = next_of(tickets + laid, shared)) {
        double vx = velocity[2 * k], vy = velocity[2 * k + 1];
        if (!(vx * vx + vy * vy >= c.lay->refined_speed * c.lay->refined_speed)) continue;  // nor if it is not a number
        int laid_over = lay_over(&c, &s, k, scratch, shared), points = c.count + c.old_count;
        int still = laid_over ? unmoved(&c, 0, shared) : 0;
        int2 sum, expected = INT2((int)floor(vx * per_velocity + 0.5), (int)floor(vy * per_velocity + 0.5));
        double alike = laid_over ? mean_shift(&c, expected, &sum, shared, scratch) : 0;
        // A wall behind a gap is seen elsewhere after a while, and in between still where it is.
        int confirmed = c.lay->confirmed == 0 || (laid_over && shared[0] - still >= c.lay->confirmed * points);
        if (LOCAL_ID == 0 && !confirmed) {
            velocity[2 * k] = velocity[2 * k + 1] = NOT_A_NUMBER;
        } else if (LOCAL_ID == 0 && alike > 0) {
            double dx = expected.x + sum.x / alike, dy = expected.y + sum.y / alike;
            // What keeps its speed or slows down is known better over the longer time.
            if (dx * vx + dy * vy > (vx * vx + vy * vy) * per_velocity) set_velocity(velocity, k, dx, dy, c.lay);
        }
    }
}
