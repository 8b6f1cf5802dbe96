// SPDX-License-Identifier: Apache-2.0
// Which points shape the surface: none of a wall's pillar, none that stand or move, at most LIMIT per node.
// Points that do not are put FAR_ABOVE, where their weight is zero. The lowest point of each part of a node
// goes to the coarse lattice. SIDE x SIDE pillars and LOW_SIDE x LOW_SIDE parts make a node.
//
// LANES work-items share a node of up to SOME points, SHARE one of up to MANY, a whole work-group one with more. CPU devices
// have their own form, select_runs.cl.

#define TASKS (GROUP / LANES)
#define PARTS (LOW_SIDE * LOW_SIDE)
#define NOTHING 0xffffffffu
#define KEPT (LIMIT > 0 ? LIMIT : 1)

// Height from which two returns of a wall may be farther apart. Such a pillar does not shape the surface, but says nothing to
// the labels.
FUNCTION float raised_from(GLOBAL const Frame *frame, int node) {
    float x = ((float)(node % COLUMNS) + 0.5f) * SPACING - frame->translation[0];
    float y = ((float)(node / COLUMNS) + 0.5f) * SPACING - frame->translation[1];
    int is_near = x * x + y * y < RAISED_WALL_RANGE * RAISED_WALL_RANGE;
    return is_near && WALLS ? frame->translation[2] + frame->rise : FARTHEST_HEIGHT;
}

// Whether a return `above` the `lowest` one of its pillar makes that a wall, MARKED for the labels or not.
#define WALL_MARKED 1
#define WALL_RAISED 2
FUNCTION int wall_of(float above, float lowest, float raised) {
    int marked = above > WALL_LOW && above < WALL_HIGH ? WALL_MARKED : 0;
    return marked | (lowest > raised && above > WALL_LOW && above < RAISED_WALL_HIGH ? WALL_RAISED : 0);
}

FUNCTION int is_moving(GLOBAL const Frame *frame, GLOBAL const uchar *moving, int node, float4 p) {
    if (frame->moving_rows == 0) return 0;
    float u = (((float)(node % COLUMNS) + 0.5f) * SPACING + p.x - frame->moving_x) * frame->moving_scale;
    float v = (((float)(node / COLUMNS) + 0.5f) * SPACING + p.y - frame->moving_y) * frame->moving_scale;
    int inside = u >= 0.0f && v >= 0.0f && u < frame->moving_columns && v < frame->moving_rows;
    return inside && moving[(int)v * frame->moving_columns + (int)u];
}

#if COARSE_START
// The coarse lattice's points: RATIO x RATIO nodes with PARTS places each make a coarse node.
FUNCTION int place_of_lowest(int node) {
    int row = node / COLUMNS, column = node % COLUMNS;
    int coarse = SLOT * COARSE_NODES + row / RATIO * COARSE_COLUMNS + column / RATIO;
    return (coarse * RATIO * RATIO + row % RATIO * RATIO + column % RATIO) * PARTS;
}

FUNCTION float4 seen_from_coarse(int node, float4 p) {
    float shift_x = ((float)(node % COLUMNS % RATIO) - 0.5f * (RATIO - 1)) * SPACING;
    float shift_y = ((float)(node / COLUMNS % RATIO) - 0.5f * (RATIO - 1)) * SPACING;
    return FLOAT4(p.x + shift_x, p.y + shift_y, p.z, p.w);
}
#endif

#if LANES > 1
#define SHARE 32

// The first `groups` work-groups serve nodes listed with more than MANY points, as many more those with more than SOME, the
// rest the other nodes by their number.
KERNEL select_points(GLOBAL const Frame *frames, GLOBAL const uchar *moving, GLOBAL const uchar *non_ground, GLOBAL int2 *segments,
                     GLOBAL float4 *sorted, GLOBAL const int4 *lists, GLOBAL const int *cursors,
                     GLOBAL float4 *lowest_points, GLOBAL uint *tallies, int capacity, int groups, int moving_capacity) {
    LOCAL_ARRAY uint lowest[TASKS * PILLARS], wall[TASKS * PILLARS], part_low[TASKS * PARTS], part_first[TASKS * PARTS];
    GLOBAL const Frame *frame = &frames[SLOT];
    int kind = max(2 - GROUP_ID / groups, 0), lanes = kind == 2 ? GROUP : kind == 1 ? SHARE : LANES;  // 0: not listed here
    int slot = LOCAL_ID / lanes, lane = LOCAL_ID % lanes, member = GROUP_ID - (2 - kind) * groups;
    int tasks = kind ? cursors[CURSORS * SLOT + 1 + kind] : NODES, at_once = GROUP / lanes * (kind ? groups : GROUP_COUNT);
    for (int begin = member * (GROUP / lanes); begin < tasks; begin += at_once) {
        int mine = begin + slot < tasks, node = min(begin + slot, tasks - 1);
        if (kind) node = lists[(3 * SLOT + kind) * NODES + node].x;
        int2 segment = segments[SLOT * NODES + node];
        mine = mine && (kind || segment.y <= SOME);
        int count = mine ? segment.y : 0;
        GLOBAL float4 *points = sorted + SLOT * capacity + segment.x;

        for (int k = lane; k < PILLARS; k += lanes) lowest[slot * PILLARS + k] = NOTHING, wall[slot * PILLARS + k] = 0;
        for (int k = lane; k < PARTS; k += lanes) part_low[slot * PARTS + k] = part_first[slot * PARTS + k] = NOTHING;
        BARRIER();
        for (int k = lane; k < count; k += lanes) {
            float4 p = points[k];
            if (mark_of(frame, non_ground + SLOT * capacity, (int)BITS_OF(p.w)) & ISOLATED) continue;
            ATOMIC_MIN(&lowest[slot * PILLARS + square_of(p.x, p.y, SIDE)], float_to_key(p.z));
        }
        BARRIER();
        for (int k = lane; FIND_WALLS && k < count; k += lanes) {
            float4 p = points[k];
            int pillar = slot * PILLARS + square_of(p.x, p.y, SIDE);
            float bottom = lowest[pillar] == NOTHING ? p.z : key_to_float(lowest[pillar]);
            int found = wall_of(p.z - bottom, bottom, raised_from(frame, node));
            if (found) ATOMIC_OR(&wall[pillar], (uint)found);
        }
        BARRIER();
        for (int k = lane; k < count; k += lanes) {
            float4 p = points[k];
            int in_wall = WALLS && wall[slot * PILLARS + square_of(p.x, p.y, SIDE)];
            int stands = mark_of(frame, non_ground + SLOT * capacity, (int)BITS_OF(p.w));
            int out = in_wall || stands || is_moving(frame, moving + SLOT * moving_capacity, node, p);
            if (out) points[k].z = FAR_ABOVE;
            else ATOMIC_MIN(&part_low[slot * PARTS + square_of(p.x, p.y, LOW_SIDE)], float_to_key(p.z));
        }
        BARRIER();
        for (int k = lane; k < count; k += lanes) {
            float4 p = points[k];
            int part = slot * PARTS + square_of(p.x, p.y, LOW_SIDE);
            if (p.z < FAR_ABOVE && float_to_key(p.z) == part_low[part]) ATOMIC_MIN(&part_first[part], BITS_OF(p.w));
        }
        BARRIER();
        for (int k = lane; RULE_AROUND && mine && k < PILLARS; k += lanes)
            if (wall[slot * PILLARS + k] & WALL_MARKED)
                tallies[SLOT * TALLY_WORDS + BAND_WORDS * (node * PILLARS + k) + 2] = WALL_MARK;
#if COARSE_START
        GLOBAL float4 *low = lowest_points + place_of_lowest(node);
        for (int k = lane; mine && k < PARTS; k += lanes)
            if (part_first[slot * PARTS + k] == NOTHING) low[k] = FLOAT4(0.0f, 0.0f, FAR_ABOVE, 0.0f);
        for (int k = lane; k < count; k += lanes) {
            float4 p = points[k];
            int part = square_of(p.x, p.y, LOW_SIDE);
            if (p.z < FAR_ABOVE && BITS_OF(p.w) == part_first[slot * PARTS + part]) low[part] = seen_from_coarse(node, p);
        }
#endif
        BARRIER();
    }
}

// A work-group per listed node keeps every stride-th usable point in scan order, so that at most LIMIT remain. A point's
// rank is the number of marks before its own in a bitmap of the scan, taken in windows that fit local memory.
#define WORDS 4096
#define WORDS_EACH (WORDS / GROUP)

KERNEL thin_out(GLOBAL const Frame *frames, GLOBAL float4 *sorted, GLOBAL const int4 *lists, GLOBAL const int *cursors,
                int capacity) {
    LOCAL_ARRAY uint marks[WORDS];
    LOCAL_ARRAY int before[GROUP];
    LOCAL_ARRAY int scratch[GROUP];
    LOCAL_ARRAY int usable;
    GLOBAL const Frame *frame = &frames[SLOT];
    int tasks = cursors[CURSORS * SLOT + 3];
    for (int task = GROUP_ID; task < tasks; task += GROUP_COUNT) {
        int4 entry = lists[(3 * SLOT + 2) * NODES + task];
        int count = entry.z;
        GLOBAL float4 *points = sorted + SLOT * capacity + entry.y;
        if (LOCAL_ID == 0) usable = 0;
        BARRIER();
        int found = 0;
        for (int k = LOCAL_ID; k < count; k += LOCAL_SIZE) found += points[k].z < FAR_ABOVE;
        ATOMIC_ADD(&usable, found);
        BARRIER();
        int stride = (usable + KEPT - 1) / KEPT, earlier = 0;
        int windows = stride > 1 ? (frame->count + 32 * WORDS - 1) / (32 * WORDS) : 0;
        for (int window = 0; window < windows; ++window) {
            uint first = 32u * WORDS * window;
            for (int k = LOCAL_ID; k < WORDS; k += LOCAL_SIZE) marks[k] = 0;
            BARRIER();
            for (int k = LOCAL_ID; k < count; k += LOCAL_SIZE) {
                uint place = BITS_OF(points[k].w) - first;
                if (points[k].z < FAR_ABOVE && place < 32u * WORDS) ATOMIC_OR(&marks[place / 32], 1u << (place % 32));
            }
            BARRIER();
            int mine = 0, total;
            for (int k = 0; k < WORDS_EACH; ++k) mine += POPCOUNT(marks[LOCAL_ID * WORDS_EACH + k]);
            before[LOCAL_ID] = earlier + group_scan(mine, scratch, &total);
            earlier += total;
            BARRIER();
            for (int k = LOCAL_ID; k < count; k += LOCAL_SIZE) {
                uint place = BITS_OF(points[k].w) - first;
                if (points[k].z >= FAR_ABOVE || place >= 32u * WORDS) continue;
                int word = place / 32, rank = before[word / WORDS_EACH];
                for (int other = word / WORDS_EACH * WORDS_EACH; other < word; ++other) rank += POPCOUNT(marks[other]);
                rank += POPCOUNT(marks[word] & ((1u << (place % 32)) - 1));
                if (rank % stride) points[k].z = FAR_ABOVE;
            }
            BARRIER();
        }
    }
}
#endif
