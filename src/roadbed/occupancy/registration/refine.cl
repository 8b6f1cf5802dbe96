// SPDX-License-Identifier: Apache-2.0
// Registers components once more against a younger scan: objects that speed up are faster by now, and what had not moved by
// then does not move at all. One work-group per component. The CPU's: refine_cpu.py.

// Sum of the shifts around the expected one that agree nearly as well as the best, and their number, which is 0 where the
// best is not good. `shared` holds four numbers, of which the first is the best score.
FUNCTION int mean_shift(const Compared *c, int2 expected, int2 *sum, LOCAL int *shared, LOCAL int *sums) {
    GLOBAL const RegistrationPass *pass = c->pass;
    Shifts shifts = shifts_around(expected, pass->refined_reach, 1, 1e18);
    int count = c->count + c->old_count, enough = -count, few = are_few(shifts);
    if (few) sum_few(c, shifts, sums);
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
        if (shared[0] < pass->good * count) return 0;
        enough = (int)ceil(shared[0] - pass->refined_slack * count);
    }
    *sum = INT2(shared[1], shared[2]);
    return shared[3];
}

// Refines velocities (m/s) of components that are known, not both slow and small, and faster since.
KERNEL_OF_SIZE(REGISTER_GROUP) refine_hits(GLOBAL const RegistrationPass *passes, GLOBAL const address_t *bitmaps,
                                      GLOBAL const int *labels_all, GLOBAL const int *boxes_all,
                                      GLOBAL const int *counts, GLOBAL int2 *scratch_points, GLOBAL int *tickets,
                                      GLOBAL float *velocity, int kind) {
    LOCAL_ARRAY int scratch[REGISTER_GROUP];
    LOCAL_ARRAY int shared[4];
    Scans s = scans_of(&passes[kind], labels_all, boxes_all, counts);
    Compared c = compared_of(&passes[kind], bitmaps, scratch_points);
    real per_velocity = c.pass->age / c.pass->subcell;
    for (int k = GROUP_ID; k < s.count; k = next_of(tickets + kind, shared)) {
        real vx = velocity[2 * k], vy = velocity[2 * k + 1];
        real squared = vx * vx + vy * vy;
        int slow = squared < c.pass->refined_speed * c.pass->refined_speed;
        if (!(squared >= 0)) continue;  // NaN
        if (slow && extent_of(s.boxes + BOX * k) <= c.pass->small) continue;  // limbs move more than the body
        real least = slow ? 0 : c.pass->confirmed;  // what is slow has hardly left its place since: rest agrees, too
        int matched = matched_points(&c, &s, k, scratch, shared), points = c.count + c.old_count;
        int still = matched ? unmoved(&c, 0, shared) : 0;
        int2 sum, expected = INT2((int)floor(vx * per_velocity + 0.5), (int)floor(vy * per_velocity + 0.5));
        real alike = matched ? mean_shift(&c, expected, &sum, shared, scratch) : 0;
        // A wall seen through a gap appears elsewhere after a while, but in between still where it is.
        int confirmed = least == 0 || (matched && shared[0] - still >= least * points);
        if (LOCAL_ID == 0 && !confirmed) {
            velocity[2 * k] = velocity[2 * k + 1] = NOT_A_NUMBER;
        } else if (LOCAL_ID == 0 && alike > 0) {
            real dx = expected.x + sum.x / alike, dy = expected.y + sum.y / alike;
            // Constant or falling speeds are known better over the longer time.
            if (dx * vx + dy * vy > (vx * vx + vy * vy) * per_velocity) set_velocity(velocity, k, dx, dy, c.pass);
        }
    }
}
