// SPDX-License-Identifier: Apache-2.0
// What is registered, laid once more over a younger scan: what speeds up is faster by now. One work-group per component.

// Mean of the shifts around the expected one that agree nearly as well as the best, times how many they are, and these.
// Their number is 0 where the best is not good. `shared` has room for four numbers.
FUNCTION int mean_shift(const Compared *c, int2 expected, int2 *sum, LOCAL int *shared, LOCAL int *sums) {
    GLOBAL const Laying *lay = c->lay;
    Shifts shifts = shifts_around(expected, lay->around, 1, 1e18);
    int count = c->count + c->old_count, enough = -count, few = are_few(shifts);
    if (few) add_up(c, shifts, sums);
    TOGETHER();
    if (LOCAL_ID == 0) shared[0] = -count, shared[1] = shared[2] = shared[3] = 0;
    TOGETHER();
    for (int turn = 0; turn < 2; ++turn) {  // the best, then those nearly as good
        for (int k = LOCAL_ID; k < shifts.side * shifts.side; k += LOCAL_SIZE) {
            int2 shift = shift_at(shifts, k);
            int here = few ? sums[k] : score(c, shift.x, shift.y, enough);
            if (turn == 0) {
                ATOMIC_MAX(&shared[0], here);
            } else if (here >= enough) {
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
KERNEL_OF(REGISTER_GROUP) refine_hits(GLOBAL const Laying *layings, GLOBAL const address_t *pictures,
                                      GLOBAL const int *labels_all, GLOBAL const int *boxes_all,
                                      GLOBAL const int *counts, GLOBAL int2 *scratch_points, GLOBAL int *tickets,
                                      GLOBAL float *velocity, int laid) {
    LOCAL_ARRAY int scratch[REGISTER_GROUP];
    LOCAL_ARRAY int shared[4];
    Scans s = scans_of(&layings[laid], labels_all, boxes_all);
    Compared c = compared_of(&layings[laid], pictures, scratch_points);
    double per_velocity = c.lay->age / c.lay->subcell;
    int components = counts[c.lay->now];
    for (int k = next_of(tickets + laid, shared); k < components; k = next_of(tickets + laid, shared)) {
        double vx = velocity[2 * k], vy = velocity[2 * k + 1];
        if (!(vx * vx + vy * vy >= c.lay->refined_speed * c.lay->refined_speed)) continue;  // nor if it is not a number
        if (!lay_over(&c, &s, k, scratch, shared)) continue;
        int2 sum, expected = INT2((int)floor(vx * per_velocity + 0.5), (int)floor(vy * per_velocity + 0.5));
        double alike = mean_shift(&c, expected, &sum, shared, scratch);
        if (LOCAL_ID == 0 && alike > 0) {
            double dx = expected.x + sum.x / alike, dy = expected.y + sum.y / alike;
            // What keeps its speed or slows down is known better over the longer time.
            if (dx * vx + dy * vy > (vx * vx + vy * vy) * per_velocity) set_velocity(velocity, k, dx, dy, c.lay);
        }
    }
}
