// SPDX-License-Identifier: Apache-2.0
// The same selection on a CPU device, whose work-items take whole nodes: nothing is shared, and what shapes the surface is
// moved to the front of its node's points, so that the EM reads nothing else. `lists` says how many these are.

#if LANES == 1
FUNCTION void exchange(GLOBAL float4 *points, int one, int other) {
    float4 kept = points[one];
    points[one] = points[other];
    points[other] = kept;
}

FUNCTION void sort_by_scan(GLOBAL float4 *points, int count) {  // Shell's method
    int gap = 1;
    while (gap < count / 3) gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (int i = gap; i < count; ++i) {
            float4 p = points[i];
            int j = i;
            for (; j >= gap && BITS_OF(points[j - gap].w) > BITS_OF(p.w); j -= gap) points[j] = points[j - gap];
            points[j] = p;
        }
}

// Every stride-th point in scan order to the front, at most LIMIT.
FUNCTION int thin_out(GLOBAL float4 *points, int count) {
    int stride = (count + KEPT - 1) / KEPT, kept = 0;
    sort_by_scan(points, count);
    for (int k = 0; k < count; k += stride) exchange(points, kept++, k);
    return kept;
}

// Which pillars hold a wall; returns whether any does.
FUNCTION int find_walls(GLOBAL const Frame *frame, GLOBAL const uchar *marks, GLOBAL const float4 *points, int count,
                        float raised, uchar *wall) {
    float lowest[PILLARS], top = -FARTHEST_HEIGHT, bottom = FARTHEST_HEIGHT;
    int found = 0;
    for (int k = 0; k < PILLARS; ++k) lowest[k] = FARTHEST_HEIGHT, wall[k] = 0;
    for (int k = 0; k < count; ++k) {
        float z = points[k].z;
        int pillar = square_of(points[k].x, points[k].y, SIDE);
        if (!(mark_of(frame, marks, (int)BITS_OF(points[k].w)) & ISOLATED)) lowest[pillar] = fmin(lowest[pillar], z);
        top = fmax(top, z), bottom = fmin(bottom, z);
    }
    if (top - bottom <= WALL_LOW) return 0;
    for (int k = 0; k < count; ++k) {
        int pillar = square_of(points[k].x, points[k].y, SIDE);
        float above = points[k].z - lowest[pillar];
        int stands = wall_of(above, lowest[pillar], raised);
        wall[pillar] |= stands;
        found |= stands;
    }
    return found;
}

// Of a node's points those that shape the surface, to the front; their lowest in each part. Returns how many there are.
FUNCTION int keep_usable(GLOBAL const Frame *frame, GLOBAL const uchar *moving, GLOBAL const uchar *non_ground,
                         const uchar *wall, int walls, int node, GLOBAL float4 *points, int count, float4 *lowest) {
    int kept = 0;
    for (int part = 0; part < PARTS; ++part) lowest[part] = FLOAT4(0.0f, 0.0f, FAR_ABOVE, FLOAT_OF(0x7fffffffu));
    for (int k = 0; k < count; ++k) {
        float4 p = points[k];
        if (walls && wall[square_of(p.x, p.y, SIDE)]) continue;
        if (mark_of(frame, non_ground, (int)BITS_OF(p.w))) continue;
        if (is_moving(frame, moving, node, p)) continue;
        exchange(points, kept++, k);
        int part = square_of(p.x, p.y, LOW_SIDE);
        float4 low = lowest[part];
        if (p.z < low.z || (p.z == low.z && BITS_OF(p.w) < BITS_OF(low.w))) lowest[part] = p;
    }
    return kept;
}

KERNEL select_points(GLOBAL const Frame *frames, GLOBAL const uchar *moving, GLOBAL const uchar *non_ground,
                     GLOBAL const int2 *segments, GLOBAL float4 *sorted, GLOBAL int4 *lists, GLOBAL const int *cursors,
                     GLOBAL float4 *lowest_points, GLOBAL uint *tallies, int capacity, int whole_groups,
                     int moving_capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
    int run = from_both_ends(GROUP_ID, GROUP_COUNT), end = chunk_begin(run + 1, NODES);
    for (int node = chunk_begin(run, NODES); node < end; ++node) {
        int2 segment = segments[SLOT * NODES + node];
        int count = segment.y;
        GLOBAL float4 *points = sorted + SLOT * capacity + segment.x;
        uchar wall[PILLARS];
        float4 lowest[PARTS];
        float raised = raised_from(frame, node);
        int walls = FIND_WALLS && count ? find_walls(frame, non_ground + SLOT * capacity, points, count, raised, wall) : 0;
        for (int k = 0; RULE_AROUND && walls && k < PILLARS; ++k)
            if (wall[k] & WALL_MARKED) tallies[SLOT * TALLY_WORDS + BAND_WORDS * (node * PILLARS + k) + 2] = WALL_MARK;
        int kept = keep_usable(frame, moving + SLOT * moving_capacity, non_ground + SLOT * capacity, wall, WALLS && walls,
                               node, points, count, lowest);
#if COARSE_START
        GLOBAL float4 *low = lowest_points + place_of_lowest(node);
        for (int part = 0; part < PARTS; ++part)
            low[part] = lowest[part].z < FAR_ABOVE ? seen_from_coarse(node, lowest[part]) : lowest[part];
#endif
        if (LIMIT > 0 && kept > LIMIT) kept = thin_out(points, kept);
        lists[3 * SLOT * NODES + node].z = kept;
    }
}
#endif
