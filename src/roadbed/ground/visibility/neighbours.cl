// SPDX-License-Identifier: Apache-2.0
// Occlusion among neighbours: release the road in front of obstacles, grow non-ground returns sideways.
// Twin: neighbours_cpu.py.

// Whether a return is nearer than those above it; they are summed in the order of point numbers.
FUNCTION int lies_before(Polar own, GLOBAL const int *others, int n, GLOBAL const Polar *seen) {
    real total = 0.0;
    int count = 0;
    for (int k = 0; k < n; ++k) {
        Polar other = seen[others[k]];
        if (other.height <= own.height + RISE || fabs(other.range - own.range) >= FOOT_NEAR) continue;
        total += other.range - own.range;
        ++count;
    }
    return count > 0 && total > FOOT_BEFORE * count;
}

// Unmarks road just before an obstacle, if there is more road around at the same height. Returns that stay non-ground are
// listed for `grow_non_ground`.
KERNEL release_road(GLOBAL const Frame *frames, GLOBAL const real *views, GLOBAL const float4 *located,
                    GLOBAL const Polar *seen, GLOBAL uchar *non_ground, GLOBAL int *next_entry, GLOBAL int *tables,
                    int capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
    GLOBAL int *table = tables + SLOT * TABLE_WORDS;
    if (!frame->has_non_ground || table[RULE] != SPARSE_RULE) return;
    GLOBAL const real *view = views + BORDER_WORDS + SLOT * VIEW_WORDS;
    located += SLOT * capacity, seen += SLOT * capacity, non_ground += SLOT * capacity, next_entry += SLOT * capacity;
    LOCAL_ARRAY int found[GROUP / PER_POINT + 1];
    Search roads = {view, located, table + ROAD_LISTS, next_entry, FOOT, FOOT_HEIGHT, FOOT_FROM};
    FOR_EACH_SEARCH(begin, frame->count) {
        int i = searched_point(begin, frame->count), marked = i >= 0 && non_ground[i];
        int cell = marked ? (int)BITS_OF(located[i].w) : 0;
        Level own = level_position(view, located[max(i, 0)]);
        int before = marked && lies_before(seen[i], table + MEMBERS + cell * ROOM, table[COUNTS + cell], seen);
        int released = has_neighbours(before, own, &roads, found);
        if (!marked || LOCAL_ID % PER_POINT) continue;
        if (released) non_ground[i] = 0;
        else add_to_list(i, own, GROW, table + NON_GROUND_LISTS, next_entry);
    }
}

// Marks returns with enough non-ground neighbours at their height: the side of a car in one layer. Clears counts and the
// lists of road for the next scan.
KERNEL grow_non_ground(GLOBAL const Frame *frames, GLOBAL const real *views, GLOBAL const float4 *located,
                     GLOBAL uchar *non_ground, GLOBAL const int *next_entry, GLOBAL int *tables, int capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
    GLOBAL int *table = tables + SLOT * TABLE_WORDS;
    if (!frame->has_non_ground) return;
    FOR_EACH(k, SQUARES * SQUARES) table[ROAD_LISTS + k] = 0;
    FOR_EACH(k, frame->sensors * DIRECTIONS) table[COUNTS + k] = 0;
    if (GLOBAL_ID == 0) table[RETURNS] = table[USED] = table[PASSED] = table[LONE] = table[MANY_BEAMS] = 0;
    if (table[RULE] != SPARSE_RULE) return;
    GLOBAL const real *view = views + BORDER_WORDS + SLOT * VIEW_WORDS;
    located += SLOT * capacity, non_ground += SLOT * capacity, next_entry += SLOT * capacity;
    LOCAL_ARRAY int found[GROUP / PER_POINT + 1];
    Search walls = {view, located, table + NON_GROUND_LISTS, next_entry, GROW, GROW_HEIGHT, GROW_FROM};
    FOR_EACH_SEARCH(begin, frame->count) {
        int i = searched_point(begin, frame->count);
        float4 p = located[max(i, 0)];
        int searches = i >= 0 && !non_ground[i] && !(p.x == 0.0f && p.y == 0.0f && p.z == 0.0f) && is_finite(p.x + p.y + p.z);
        int near = has_neighbours(searches, level_position(view, p), &walls, found);
        if (searches && LOCAL_ID % PER_POINT == 0) non_ground[i] = (uchar)near;
    }
}
