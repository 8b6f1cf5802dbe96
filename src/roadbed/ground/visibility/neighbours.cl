// SPDX-License-Identifier: Apache-2.0
// Occlusion among neighbours: release the road in front of obstacles, grow non-ground returns sideways.
// Twin: neighbours_cpu.py.

// Whether a return lies before those above it, in the order of their numbers, in which they are summed up.
FUNCTION int lies_before(Seen own, GLOBAL const int *others, int n, GLOBAL const Seen *seen) {
    double total = 0.0;
    int count = 0;
    for (int k = 0; k < n; ++k) {
        Seen other = seen[others[k]];
        if (other.height <= own.height + RISE || fabs(other.range - own.range) >= FOOT_NEAR) continue;
        total += other.range - own.range;
        ++count;
    }
    return count > 0 && total > FOOT_BEFORE * count;
}

// The road just before what stands does not stand, where there is more of it around at the same height. What still stands is
// listed.
KERNEL release_road(GLOBAL const Frame *frames, GLOBAL const double *sights, GLOBAL const float4 *located,
                    GLOBAL const Seen *seen, GLOBAL uchar *non_ground, GLOBAL int *following, GLOBAL int *tables, int capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
    GLOBAL int *table = tables + SLOT * TABLE_WORDS;
    if (!frame->has_non_ground || table[RULE] != SPARSE_RULE) return;
    GLOBAL const double *sight = sights + BORDERS + SLOT * SIGHT;
    located += SLOT * capacity, seen += SLOT * capacity, non_ground += SLOT * capacity, following += SLOT * capacity;
    LOCAL_ARRAY int found[GROUP / ASKING + 1];
    Listed roads = {sight, located, table + ROADS, following, FOOT, FOOT_HEIGHT, FOOT_FROM};
    FOR_EACH_ASKED(begin, frame->count) {
        int i = asked_about(begin, frame->count), stands = i >= 0 && non_ground[i];
        int cell = stands ? (int)BITS_OF(located[i].w) : 0;
        Level own = level_place(sight, located[max(i, 0)]);
        int before = stands && lies_before(seen[i], table + HELD + cell * ROOM, table[COUNTS + cell], seen);
        int released = are_near(before, own, &roads, found);
        if (!stands || LOCAL_ID % ASKING) continue;
        if (released) non_ground[i] = 0;
        else list_place(i, own, GROW, table + STANDING, following);
    }
}

// Returns beside enough non_ground ones of their height stand too: a car's side at a flat angle, in one layer. What was
// counted and the lists of the road start from zero again.
KERNEL grow_non_ground(GLOBAL const Frame *frames, GLOBAL const double *sights, GLOBAL const float4 *located,
                     GLOBAL uchar *non_ground, GLOBAL const int *following, GLOBAL int *tables, int capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
    GLOBAL int *table = tables + SLOT * TABLE_WORDS;
    if (!frame->has_non_ground) return;
    FOR_EACH(k, SQUARES * SQUARES) table[ROADS + k] = 0;
    FOR_EACH(k, frame->sensors * DIRECTIONS) table[COUNTS + k] = 0;
    if (GLOBAL_ID == 0) table[RETURNS] = table[USED] = 0;
    if (table[RULE] != SPARSE_RULE) return;
    GLOBAL const double *sight = sights + BORDERS + SLOT * SIGHT;
    located += SLOT * capacity, non_ground += SLOT * capacity, following += SLOT * capacity;
    LOCAL_ARRAY int found[GROUP / ASKING + 1];
    Listed walls = {sight, located, table + STANDING, following, GROW, GROW_HEIGHT, GROW_FROM};
    FOR_EACH_ASKED(begin, frame->count) {
        int i = asked_about(begin, frame->count);
        float4 p = located[max(i, 0)];
        int asked = i >= 0 && !non_ground[i] && !(p.x == 0.0f && p.y == 0.0f && p.z == 0.0f) && is_finite(p.x + p.y + p.z);
        int near = are_near(asked, level_place(sight, p), &walls, found);
        if (asked && LOCAL_ID % ASKING == 0) non_ground[i] = (uchar)near;
    }
}
