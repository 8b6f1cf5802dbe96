// SPDX-License-Identifier: Apache-2.0
// Isolated returns below the ground, from reflections and multipath: they must not shape the surface. Twin:
// isolated_cpu.py. `levels` holds each node's level, and which of its points are compared with others.

#define NO_POINT 0.0f
#define LOW_POINTS 1.0f  // those below the levels around
#define ALL_POINTS 2.0f  // a node without a band

#if LANES > 1
#define LEVEL_TASKS (GROUP / LANES)
#else
#define LEVEL_TASKS 1
#endif

FUNCTION int mark_of(GLOBAL const Frame *frame, GLOBAL const uchar *marks, int i) {
    return frame->has_isolated || frame->has_non_ground ? marks[i] : 0;
}

FUNCTION int is_sampled(int node) {
    return (3 * (node / COLUMNS / SAMPLE_BLOCK) + node % COLUMNS / SAMPLE_BLOCK) % SAMPLE_BLOCKS == 0;
}

// Bands of heights of a node, counted from its lowest point: the level, NO_LEVEL where no band has enough points.
FUNCTION float level_of(LOCAL const int *counts, float low) {
    int most = 0;
    for (int k = 0; k < LEVEL_BINS - 1; ++k) most = max(most, counts[k] + counts[k + 1]);
    for (int k = 0; k < LEVEL_BINS - 1; ++k) {
        int band = counts[k] + counts[k + 1];
        if (counts[k] > 0 && band >= LEVEL_FEWEST && (float)band >= LEVEL_SHARE * (float)most)
            return low + (float)k * (LEVEL_HEIGHT * 0.5f);
    }
    return NO_LEVEL;
}

// Work-items of a group take nodes together: LANES of them one of up to SOME points, all of them one with more. The first
// `groups` work-groups serve the nodes listed with more than SOME points.
KERNEL find_levels(GLOBAL const int2 *segments, GLOBAL const float4 *sorted, GLOBAL const int4 *lists,
                   GLOBAL const int *cursors, GLOBAL float *levels, int capacity, int groups) {
    LOCAL_ARRAY int counts[LEVEL_TASKS * (LEVEL_BINS + 1)];
    LOCAL_ARRAY uint lowest[LEVEL_TASKS], highest[LEVEL_TASKS];
    int large = LANES > 1 && GROUP_ID < groups, lanes = large ? LOCAL_SIZE : LANES;
    int slot = LOCAL_ID / lanes, lane = LOCAL_ID % lanes, together = LOCAL_SIZE / lanes;
    int many = LANES > 1 ? cursors[CURSORS * SLOT + 2] : 0;
    int tasks = large ? many + cursors[CURSORS * SLOT + 3] : NODES, first = large ? GROUP_ID : GROUP_ID - (LANES > 1 ? groups : 0);
    int step = together * (large ? groups : (int)GROUP_COUNT - (LANES > 1 ? groups : 0));
    for (int begin = first * together; begin < tasks; begin += step) {
        int mine = begin + slot < tasks, node = min(begin + slot, tasks - 1);
        if (large) node = node < many ? lists[(3 * SLOT + 1) * NODES + node].x : lists[(3 * SLOT + 2) * NODES + node - many].x;
        int2 segment = segments[SLOT * NODES + node];
        mine = mine && (LANES == 1 || large || segment.y <= SOME);
        int count = mine ? segment.y : 0;
        GLOBAL const float4 *points = sorted + SLOT * capacity + segment.x;
        for (int k = lane; k <= LEVEL_BINS; k += lanes) counts[slot * (LEVEL_BINS + 1) + k] = 0;
        if (lane == 0) lowest[slot] = highest[slot] = 0xffffffffu;
        BARRIER();
        for (int k = lane; k < count; k += lanes) {
            ATOMIC_MIN(&lowest[slot], float_to_key(points[k].z));
            ATOMIC_MIN(&highest[slot], float_to_key(-points[k].z));
        }
        BARRIER();
        float low = key_to_float(lowest[slot]), high = -key_to_float(highest[slot]);
        int looks = count >= LEVEL_FEWEST && high - low > LEVEL_DEPTH;
        for (int k = lane; looks && k < count; k += lanes) {
            int layer = (int)((points[k].z - low) * (2.0f / LEVEL_HEIGHT));
            ATOMIC_ADD(&counts[slot * (LEVEL_BINS + 1) + min(layer, LEVEL_BINS)], 1);
        }
        BARRIER();
        if (mine && lane == 0) {
            float found = looks ? level_of(counts + slot * (LEVEL_BINS + 1), low) : count < LEVEL_FEWEST ? NO_LEVEL : low;
            float rule = found == NO_LEVEL ? ALL_POINTS : looks ? LOW_POINTS : NO_POINT;
            levels[2 * (SLOT * NODES + node)] = found > NO_LEVEL ? found : count ? high : NO_LEVEL;
            levels[2 * (SLOT * NODES + node) + 1] = rule;
        }
        BARRIER();
    }
}

// The highest level of a node and of those around, lowered by a slope for nodes farther away. A steeper rise than
// STEEPEST_LEVEL is a wall.
FUNCTION float highest_level(GLOBAL const float *levels, int row, int column, int reach) {
    float own = levels[2 * (row * COLUMNS + column)], top = own;
    for (int y = max(row - reach, 0); y < min(row + reach + 1, ROWS); ++y)
        for (int x = max(column - reach, 0); x < min(column + reach + 1, COLUMNS); ++x) {
            float away = (float)max(y > row ? y - row : row - y, x > column ? x - column : column - x) * SPACING;
            top = fmax(top, fmin(levels[2 * (y * COLUMNS + x)], own + STEEPEST_LEVEL * away) - LEVEL_SLOPE * away);
        }
    return top;
}

// Whether three levels in a row rise or fall like a slope: beside a wall they rise on one side only.
FUNCTION int rises(float before, float here, float after) {
    float first = fabs(here - before), second = fabs(after - here);
    int one_way = (here > before) == (after > here);
    return one_way && fmin(first, second) > LEVEL_SLOPE * SPACING && fmax(first, second) <= STEEPEST_LEVEL * SPACING;
}

// Whether the levels rise through a node, from one side to the other.
FUNCTION int is_slope(GLOBAL const float *levels, int row, int column) {
    GLOBAL const float *own = levels + 2 * (row * COLUMNS + column);
    if (row == 0 || column == 0 || row == ROWS - 1 || column == COLUMNS - 1) return 0;
    return rises(own[-2], own[0], own[2]) || rises(own[-2 * COLUMNS], own[0], own[2 * COLUMNS]);
}

#define NOT_ALONE 0
#define ALONE 1  // below a surface
#define UNDER_SURFACE 2  // below a thin one, with next to no other at its height
#define LONE 3  // next to none are at its height, but no surface lies above it either

#if LANES > 1
#define COMPARE_LANES 32  // work-items that compare one return with those around it
#define COMPARE_TASKS (GROUP / COMPARE_LANES)
#else
#define COMPARE_LANES 1
#define COMPARE_TASKS 1
#endif

// What lies around a return: others at its height, in two radii, and in layers above it.
#define ALIKE 0
#define WIDE 1
#define LAYERS 2
#define AROUND_COUNTS (LAYERS + ISOLATED_LAYERS)

FUNCTION int judge_isolated(LOCAL const int *around, float most_alike) {
    LOCAL const int *layers = around + LAYERS;
    int most = 0, total = layers[ISOLATED_LAYERS - 1], on_surface = 0, alike = around[ALIKE];
    if ((float)alike > most_alike) return NOT_ALONE;
    for (int k = 0; k < ISOLATED_LAYERS - 1; ++k) {
        most = max(most, layers[k] + layers[k + 1]);
        total += layers[k];
    }
    for (int k = 0; k < ISOLATED_LAYERS - 1 && !on_surface; ++k)
        if (layers[k] > 0 && (float)(layers[k] + layers[k + 1]) >= ISOLATED_LOWEST * (float)most)
            on_surface = layers[k] + layers[k + 1];
    float allowed = fmax(ISOLATED_SHARE * (float)on_surface, on_surface >= ISOLATED_LONE ? 1.0f : 0.0f);
    if (on_surface < ISOLATED_FEWEST || (float)alike > allowed) return alike <= 1 ? LONE : NOT_ALONE;
    int thin = on_surface >= ISOLATED_LONE && (float)on_surface > THIN_SURFACE * (float)total;
    int next_to_none = (float)around[WIDE] <= ISOLATED_WIDE_SHARE * (float)on_surface;
    return thin && next_to_none ? UNDER_SURFACE : ALONE;
}

// Counts what lies around a return; every lane takes some of the points. A return with more than `most_alike` at its
// height is not alone: the rest need not be counted.
FUNCTION void count_around(float4 p, int row, int column, int reach, float most_alike, GLOBAL const int2 *segments,
                           GLOBAL const float4 *sorted, LOCAL int *around, int lane) {
    int top = max(row - reach, 0), bottom = min(row + reach + 1, ROWS);
    int left = max(column - reach, 0), across = min(column + reach + 1, COLUMNS) - left;
    int own = (row - top) * across + column - left;
    for (int turn = 0; turn < (bottom - top) * across; ++turn) {
        int here = turn == 0 ? own : turn <= own ? turn - 1 : turn;  // its own node first: most are not alone there
        int y = top + here / across, x = left + here % across, alike = 0, wide = 0;
        int2 segment = segments[y * COLUMNS + x];
        float east = (float)(x - column) * SPACING - p.x, north = (float)(y - row) * SPACING - p.y;
        for (int k = segment.x + lane; k < segment.x + segment.y; k += COMPARE_LANES) {
            float4 q = sorted[k];
            float u = q.x + east, v = q.y + north, d = q.z - p.z, aside = fmax(fabs(u), fabs(v));
            if (aside > ISOLATED_RADIUS) continue;
            int is_alike = fabs(d) <= aside * ISOLATED_ALIKE_SLOPE + ISOLATED_ALIKE;
            alike += is_alike && aside <= ISOLATED_ALIKE_RADIUS;
            wide += is_alike && aside <= ISOLATED_WIDE_RADIUS;
            if (d > aside * ISOLATED_ABOVE_SLOPE + ISOLATED_ABOVE && d < ISOLATED_DEEPEST)
                ATOMIC_ADD(&around[LAYERS + min((int)(d * (1.0f / ISOLATED_LAYER)), ISOLATED_LAYERS - 1)], 1);
        }
        if (wide) ATOMIC_ADD(&around[WIDE], wide);
        if ((float)(ATOMIC_ADD(&around[ALIKE], alike) + alike) > most_alike) return;
    }
}

// Whether a return of a node cannot be ground: the level may be that of an object.
FUNCTION int has_non_ground(int2 segment, GLOBAL const float4 *sorted, GLOBAL const uchar *marks) {
    for (int k = segment.x; k < segment.x + segment.y; ++k)
        if (marks[BITS_OF(sorted[k].w)] & NON_GROUND) return 1;
    return 0;
}

// Whether the ray from a sensor to a return of a node passed below ground: below the level of a node with a band, or just
// over it to a return below it, where it met the ground as rays beside it did. The level is lower than the sensor or rises
// from that of the last node like a slope. A crown or a bridge does not, nor in a sparse scan the foot of an object.
FUNCTION int passed_below(GLOBAL const Frame *frame, int sensor, GLOBAL const float *levels, float4 p, int row, int column,
                          int sparse, GLOBAL const int2 *segments, GLOBAL const float4 *sorted, GLOBAL const uchar *marks) {
    GLOBAL const float *o = frame->origins[sensor], *r = frame->rotation, *t = frame->translation;
    float height = r[6] * o[0] + r[7] * o[1] + r[8] * o[2] + t[2];
    float x = p.x + ((float)column + 0.5f) * SPACING, y = p.y + ((float)row + 0.5f) * SPACING;
    float east = r[0] * o[0] + r[1] * o[1] + r[2] * o[2] + t[0] - x;
    float north = r[3] * o[0] + r[4] * o[1] + r[5] * o[2] + t[1] - y, up = height - p.z;
    float far = fmax(fabs(east), fabs(north)) / SPACING, nearer = NO_LEVEL;
    int steps = (int)fmin((float)RAY_NODES, far);
    for (int i = 1; i < steps; ++i) {  // away from the sensor
        float part = (float)(steps - i) / far, there_x = (x + east * part) / SPACING, there_y = (y + north * part) / SPACING;
        if (!(there_x >= 0.0f && there_y >= 0.0f && there_x < (float)COLUMNS && there_y < (float)ROWS)) continue;
        int there = (int)there_y * COLUMNS + (int)there_x;
        GLOBAL const float *node = levels + 2 * there;
        float here = node[1] != ALL_POINTS ? node[0] : NO_LEVEL, over = here - (p.z + up * part);
        float rise = (here - nearer) / SPACING;
        nearer = here;
        int is_ground = here < height || (rise > LEVEL_SLOPE && rise <= STEEPEST_LEVEL);
        int entered = over > -RAY_ENTERS && here - p.z > LEVEL_DEPTH;
        if (is_ground && (over > RAY_DEPTH || entered) && over < ISOLATED_DEEPEST &&
            !(sparse && frame->has_non_ground && has_non_ground(segments[there], sorted, marks)))
            return 1;
    }
    return 0;
}

// Step 1: marks of all points hold NON_GROUND where the occlusion filter has run, and the points that lie so low that
// they must be compared with others are listed as twice their index, plus one if with their own node alone.
// cursors[7]: returns of sampled blocks or of all of a small scan; cursors[8]: listed points.
KERNEL list_low_returns(GLOBAL const Frame *frames, GLOBAL const float4 *located, GLOBAL const int2 *segments,
                        GLOBAL const float *levels, GLOBAL uchar *marks, GLOBAL int *low_returns, GLOBAL int *cursors,
                        int capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
    int count = frame->count, small = cursors[CURSORS * SLOT] < SMALL_SCAN, returns = 0;
    segments += SLOT * NODES, levels += 2 * SLOT * NODES, marks += SLOT * capacity, low_returns += SLOT * capacity;
    FOR_EACH(i, count) {
        float4 p = located[SLOT * capacity + i];
        int node = (int)BITS_OF(p.w);
        marks[i] = (uchar)(frame->has_non_ground ? marks[i] & NON_GROUND : 0);
        if (node < 0) continue;
        int row = node / COLUMNS, column = node % COLUMNS, own_node = 0;
        float rule = levels[2 * node + 1], limit = -NO_LEVEL;
        returns += small || is_sampled(node);
        if (rule == NO_POINT) continue;
        if (rule == LOW_POINTS) {
            own_node = segments[node].y >= ISOLATED_ENOUGH && !is_slope(levels, row, column);
            limit = highest_level(levels, row, column, own_node ? 0 : ISOLATED_REACH) - LEVEL_DEPTH;
        }
        if (p.z < limit) low_returns[ATOMIC_ADD(&cursors[CURSORS * SLOT + 8], 1)] = 2 * i + own_node;
    }
    if (returns) ATOMIC_ADD(&cursors[CURSORS * SLOT + 7], returns);
}

// Step 2: COMPARE_LANES work-items compare one of the listed points with those around it, and mark it if it is
// isolated. cursors[6]: returns below a thin surface, counted where returns are; cursors[9]: rays below ground.
KERNEL mark_isolated(GLOBAL const Frame *frames, GLOBAL const float4 *located, GLOBAL const int2 *segments,
                     GLOBAL const float4 *sorted, GLOBAL const float *levels, GLOBAL const int *low_returns,
                     GLOBAL uchar *marks, GLOBAL int *cursors, int capacity) {
    LOCAL_ARRAY int counts[COMPARE_TASKS * AROUND_COUNTS];
    GLOBAL const Frame *frame = &frames[SLOT];
    int slot = LOCAL_ID / COMPARE_LANES, lane = LOCAL_ID % COMPARE_LANES, strays = 0, rays = 0;
    int tasks = cursors[CURSORS * SLOT + 8], small = cursors[CURSORS * SLOT] < SMALL_SCAN;
    int sparse = cursors[CURSORS * SLOT] < SPARSE_SCAN;
    LOCAL int *around = counts + slot * AROUND_COUNTS;
    segments += SLOT * NODES, levels += 2 * SLOT * NODES, sorted += SLOT * capacity, marks += SLOT * capacity;
    for (int begin = GROUP_ID * COMPARE_TASKS; begin < tasks; begin += (int)GROUP_COUNT * COMPARE_TASKS) {
        int mine = begin + slot < tasks, task = low_returns[SLOT * capacity + min(begin + slot, tasks - 1)];
        float4 p = located[SLOT * capacity + task / 2];
        int node = (int)BITS_OF(p.w), row = node / COLUMNS, column = node % COLUMNS;
        float most_alike = fmax((float)ISOLATED_LONE, ISOLATED_MOST * (float)segments[node].y);
        for (int k = lane; k < AROUND_COUNTS; k += COMPARE_LANES) around[k] = k < LAYERS ? -1 : 0;  // it finds itself
        BARRIER();
        if (mine) count_around(p, row, column, task % 2 ? 0 : ISOLATED_REACH, most_alike, segments, sorted, around, lane);
        BARRIER();
        if (mine && lane == 0) {
            int found = judge_isolated(around, most_alike);
            if (found == LONE) {  // of any of several sensors: the ray from each must have passed below ground
                found = frame->sensors ? ALONE : NOT_ALONE;
                for (int sensor = 0; found && sensor < min(frame->sensors, MOST_ORIGINS); ++sensor)
                    if (!passed_below(frame, sensor, levels, p, row, column, sparse, segments, sorted, marks))
                        found = NOT_ALONE;
                rays += found == ALONE;
            }
            if (found) marks[task / 2] |= ISOLATED;
            strays += found == UNDER_SURFACE && (small || is_sampled(node));
        }
        BARRIER();
    }
    if (strays) ATOMIC_ADD(&cursors[CURSORS * SLOT + 6], strays);
    if (rays) ATOMIC_ADD(&cursors[CURSORS * SLOT + 9], rays);
}

// Step 3: in a scan without strays no return is taken for isolated.
KERNEL settle_isolated(GLOBAL const Frame *frames, GLOBAL uchar *marks, GLOBAL const int *cursors, int capacity) {
    int strays = cursors[CURSORS * SLOT + 6], returns = cursors[CURSORS * SLOT + 7], count = frames[SLOT].count;
    if (strays >= FEWEST_STRAYS && (float)strays >= STRAY_SHARE * (float)returns) return;
    int rays = cursors[CURSORS * SLOT + 9];  // `returns` are all of so small a scan
    if (cursors[CURSORS * SLOT] < SPARSE_SCAN && rays >= FEWEST_RAYS && (float)rays >= RAY_SHARE * (float)returns) return;
    FOR_EACH(i, count) marks[SLOT * capacity + i] &= NON_GROUND;
}
