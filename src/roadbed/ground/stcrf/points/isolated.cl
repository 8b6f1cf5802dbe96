// SPDX-License-Identifier: Apache-2.0
// Isolated returns below the ground, from reflections and multipath: they must not shape the surface. Twin:
// isolated_cpu.py. `levels` holds each node's level, and with what its points are compared.

#define ONLY_OWN 1.0f  // its own level,
#define ONLY_AROUND 2.0f  // the levels around,
#define NOTHING_BELOW 0.0f  // nothing

#if LANES > 1
#define LEVEL_TASKS (GROUP / LANES)
#else
#define LEVEL_TASKS 1
#endif

FUNCTION int mark_of(GLOBAL const Frame *frame, GLOBAL const uchar *marks, int i) {
    return RULE_ISOLATED_RETURNS || frame->has_non_ground ? marks[i] : 0;
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
            float rule = found == NO_LEVEL ? ONLY_AROUND : low < found - LEVEL_DEPTH ? ONLY_OWN : NOTHING_BELOW;
            levels[2 * (SLOT * NODES + node)] = found > NO_LEVEL ? found : count ? high : NO_LEVEL;
            levels[2 * (SLOT * NODES + node) + 1] = rule;
        }
        BARRIER();
    }
}

// The highest level around a node, lowered by a slope for nodes farther away.
FUNCTION float highest_level(GLOBAL const float *levels, int row, int column) {
    float top = NO_LEVEL;
    for (int y = max(row - ISOLATED_REACH, 0); y < min(row + ISOLATED_REACH + 1, ROWS); ++y)
        for (int x = max(column - ISOLATED_REACH, 0); x < min(column + ISOLATED_REACH + 1, COLUMNS); ++x) {
            int away = max(y > row ? y - row : row - y, x > column ? x - column : column - x);
            top = fmax(top, levels[2 * (y * COLUMNS + x)] - LEVEL_SLOPE * SPACING * (float)away);
        }
    return top;
}

// Slope of the levels of three nodes in a row, of which some may have none.
FUNCTION float level_difference(float low, float middle, float high) {
    if (low > NO_LEVEL && high > NO_LEVEL) return (high - low) / (2.0f * SPACING);
    if (low > NO_LEVEL) return (middle - low) / SPACING;
    return high > NO_LEVEL ? (high - middle) / SPACING : 0.0f;
}

// 0: others lie at the height of point p, 1: it is alone below a surface, 2: below a thin one.
FUNCTION int judge_isolated(int alike, const int *layers) {
    int most = 0, total = layers[ISOLATED_LAYERS - 1], on_surface = 0;
    for (int k = 0; k < ISOLATED_LAYERS - 1; ++k) {
        most = max(most, layers[k] + layers[k + 1]);
        total += layers[k];
    }
    for (int k = 0; k < ISOLATED_LAYERS - 1 && !on_surface; ++k)
        if (layers[k] > 0 && (float)(layers[k] + layers[k + 1]) >= ISOLATED_LOWEST * (float)most)
            on_surface = layers[k] + layers[k + 1];
    float allowed = fmax(ISOLATED_SHARE * (float)on_surface, on_surface >= ISOLATED_LONE ? 1.0f : 0.0f);
    if (on_surface < ISOLATED_FEWEST || (float)alike > allowed) return 0;
    return on_surface >= ISOLATED_LONE && (float)on_surface > THIN_SURFACE * (float)total ? 2 : 1;
}

FUNCTION int compare_point(float4 p, int row, int column, int reach, float slope_x, float slope_y,
                           GLOBAL const int2 *segments, GLOBAL const float4 *sorted) {
    int top = max(row - reach, 0), bottom = min(row + reach + 1, ROWS), most = 0, alike = -1;  // the point finds itself
    int left = max(column - reach, 0), right = min(column + reach + 1, COLUMNS), layers[ISOLATED_LAYERS];
    for (int k = 0; k < ISOLATED_LAYERS; ++k) layers[k] = 0;
    for (int y = top; y < bottom; ++y)
        for (int x = left; x < right; ++x) most += segments[y * COLUMNS + x].y;
    for (int y = top; y < bottom; ++y)
        for (int x = left; x < right; ++x) {
            int2 segment = segments[y * COLUMNS + x];
            float east = (float)(x - column) * SPACING - p.x, north = (float)(y - row) * SPACING - p.y;
            for (int k = segment.x; k < segment.x + segment.y; ++k) {
                float4 q = sorted[k];
                float u = q.x + east, v = q.y + north, d = q.z - p.z, aside = fmax(fabs(u), fabs(v));
                if (aside > ISOLATED_RADIUS) continue;
                float over = d - u * slope_x - v * slope_y, tolerance = aside * ISOLATED_ALIKE_SLOPE + ISOLATED_ALIKE;
                alike += aside <= ISOLATED_ALIKE_RADIUS && (fabs(d) <= tolerance || fabs(over) <= tolerance);
                if (fabs(d) > tolerance && over > aside * ISOLATED_ABOVE_SLOPE + ISOLATED_ABOVE && over < ISOLATED_DEEPEST)
                    ++layers[min((int)(over * (1.0f / ISOLATED_LAYER)), ISOLATED_LAYERS - 1)];
            }
            if (alike > 1 && (float)alike > ISOLATED_SHARE * (float)most) return 0;
        }
    return judge_isolated(alike, layers);
}

// Marks of all points, which hold NON_GROUND where the occlusion filter has run. cursors[6], [7]: returns below a thin
// surface, and returns, of sampled blocks or of all of a small scan.
KERNEL mark_isolated(GLOBAL const Frame *frames, GLOBAL const float4 *located, GLOBAL const int2 *segments,
                     GLOBAL const float4 *sorted, GLOBAL const float *levels, GLOBAL uchar *marks, GLOBAL int *cursors,
                     int capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
    int count = frame->count, small = cursors[CURSORS * SLOT] < SMALL_SCAN, strays = 0, returns = 0;
    segments += SLOT * NODES, levels += 2 * SLOT * NODES, sorted += SLOT * capacity, marks += SLOT * capacity;
    FOR_EACH(i, count) {
        float4 p = located[SLOT * capacity + i];
        int node = (int)BITS_OF(p.w), mark = frame->has_non_ground ? marks[i] & NON_GROUND : 0;
        if (node >= 0) {
            int row = node / COLUMNS, column = node % COLUMNS, counts = small || is_sampled(node);
            float own = levels[2 * node], rule = levels[2 * node + 1];
            float limit = (rule == ONLY_AROUND ? highest_level(levels, row, column) : own) - LEVEL_DEPTH;
            returns += counts;
            if (rule != NOTHING_BELOW && p.z < limit) {
                float slope_x = 0.0f, slope_y = 0.0f;
                if (row > 0 && column > 0 && row < ROWS - 1 && column < COLUMNS - 1) {
                    slope_x = level_difference(levels[2 * node - 2], own, levels[2 * node + 2]);
                    slope_y = level_difference(levels[2 * (node - COLUMNS)], own, levels[2 * (node + COLUMNS)]);
                    if (fmax(fabs(slope_x), fabs(slope_y)) > STEEPEST_LEVEL) slope_x = slope_y = 0.0f;
                }
                int reach = segments[node].y >= ISOLATED_ENOUGH ? 0 : ISOLATED_REACH;
                int found = compare_point(p, row, column, reach, slope_x, slope_y, segments, sorted);
                if (found) mark |= ISOLATED;
                strays += counts && found == 2;
            }
        }
        marks[i] = (uchar)mark;
    }
    if (strays) ATOMIC_ADD(&cursors[CURSORS * SLOT + 6], strays);
    if (returns) ATOMIC_ADD(&cursors[CURSORS * SLOT + 7], returns);
}

// In a scan without strays no return is taken for isolated.
KERNEL settle_isolated(GLOBAL const Frame *frames, GLOBAL uchar *marks, GLOBAL const int *cursors, int capacity) {
    int strays = cursors[CURSORS * SLOT + 6], returns = cursors[CURSORS * SLOT + 7], count = frames[SLOT].count;
    if (strays >= FEWEST_STRAYS && (float)strays >= STRAY_SHARE * (float)returns) return;
    FOR_EACH(i, count) marks[SLOT * capacity + i] &= NON_GROUND;
}
