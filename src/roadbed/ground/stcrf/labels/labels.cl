// SPDX-License-Identifier: Apache-2.0
// Labels of the STCRF by the height over the surface and, with RULE_AROUND, by the pillars around and the node class.

#define VOTE_COLUMNS ((COLUMNS * SIDE + VOTE_PILLARS - 1) / VOTE_PILLARS)
#define VOTE_ROWS ((ROWS * SIDE + VOTE_PILLARS - 1) / VOTE_PILLARS)

// Whether counts are of a connected structure: returns in lower and upper bands, more than `ratio` per foot return.
FUNCTION int is_structure(const int *bands, int ratio) {
    int middle = bands[1] + bands[2], high = bands[3];
    return middle > 0 && high > 0 && middle + high > ratio * bands[0];
}

// Below the threshold: ground, unless it is the foot of a structure.
FUNCTION int low_is_ground(float dz, const int *own, const int *around, int node_class) {
    if (RULE_FOOT_BY_SUPPORT && (node_class & FOOT_BY_SUPPORT)) return around[1] + around[2] + around[3] == 0;
    if (RULE_FOOT_BY_RATIO && (node_class & FOOT_BY_RATIO) && own[1] + own[2] + own[3] > 0) return 0;
    if (dz < FOOT) return 1;
    if (RULE_PILLARS && is_structure(own, RATIO_OWN)) return 0;
    return dz < FOOT_AROUND || !(RULE_PILLARS_AROUND && is_structure(around, RATIO_AROUND));
}

// Above the threshold: grass and banks are ground if no structure rises above them.
FUNCTION int raised_is_ground(float dz, const int *around, int node_class, float support) {
    if (around[3] + around[4] > 0) return 0;
    int open_ground = RULE_OPEN_GROUND && (node_class & OPEN), firm = support >= FIRM_GROUND;
    if (dz < RULE_CLEAR_THRESHOLD) return around[2] == 0 || (RULE_BANKS && firm) || open_ground;
    return (RULE_STEEP_BANKS && firm && around[2] >= MANY_ALIKE && around[1] > 0) || open_ground;
}

// Cell {row, column, layer} of a point in the vote: a cell spans 2 x 2 pillars and one layer of heights.
FUNCTION int vote_row(int node, int square) { return (node / COLUMNS * SIDE + square / SIDE) / VOTE_PILLARS; }
FUNCTION int vote_column(int node, int square) { return (node % COLUMNS * SIDE + square % SIDE) / VOTE_PILLARS; }
FUNCTION int vote_layer(float dz) { return min((int)((dz - VOTE_LOWEST) * (1.0f / VOTE_LAYER)), VOTE_LAYERS - 1); }

// For CPU devices: clears the tallies of nodes with points in the last frame, which `segments` still holds. `measure` writes
// the other counters of every node.
KERNEL empty_tallies(GLOBAL const int2 *segments, GLOBAL uint *tallies_all) {
    GLOBAL uint *tallies = tallies_all + SLOT * TALLY_WORDS;
    FOR_EACH(node, NODES) {
        if (!segments[SLOT * NODES + node].y) continue;
        for (int k = 0; k < BAND_WORDS * PILLARS; ++k) tallies[BAND_WORDS * PILLARS * node + k] = 0;
        int column = vote_column(node, 0), columns = vote_column(node, PILLARS - 1) + 1 - column;
        for (int row = vote_row(node, 0); row <= vote_row(node, PILLARS - 1); ++row)
            for (int k = 0; k < columns * VOTE_LAYERS; ++k)
                tallies[VOTES_FROM + (row * VOTE_COLUMNS + column) * VOTE_LAYERS + k] = 0;
    }
}

// Decides ground or not for every point, before the vote. A vote for ground is in the upper half of a word, else the lower.
KERNEL decide(GLOBAL const Frame *frames, GLOBAL const float4 *located, GLOBAL const float *over,
              GLOBAL uint *tallies_all, GLOBAL const uchar *node_classes, GLOBAL const float4 *states,
              GLOBAL const uchar *non_ground, GLOBAL uchar *decisions, int capacity) {
    int count = frames[SLOT].count;
    GLOBAL uint *tallies = tallies_all + SLOT * TALLY_WORDS;
    FOR_EACH(i, count) {
        float4 p = located[SLOT * capacity + i];
        int node = (int)BITS_OF(p.w);
        if (node < 0) continue;
        float dz = over[SLOT * capacity + i];
        int node_class = node_classes[SLOT * NODES + node], square = square_of(p.x, p.y, SIDE);
        int at_foot = (RULE_FOOT_BY_SUPPORT && (node_class & FOOT_BY_SUPPORT)) || (RULE_FOOT_BY_RATIO && (node_class & FOOT_BY_RATIO));
        int ground = 0;
        if (dz < (RULE_SMOOTH && (node_class & SMOOTH) ? RULE_SMOOTH_THRESHOLD : RULE_HIGHEST) && dz >= -RULE_LOW_OUTLIER) {
            ground = 1;
            if (dz >= FOOT || at_foot) {
                int own[BANDS], around[BANDS] = {0, 0, 0, 0, 0};
                for (int band = 0; band < BANDS; ++band) own[band] = band_of(tallies, node * PILLARS + square, band);
                int x = node % COLUMNS * SIDE + square % SIDE, y = node / COLUMNS * SIDE + square / SIDE;
                for (int v = max(y - 1, 0); v < min(y + 2, ROWS * SIDE); ++v)
                    for (int u = max(x - 1, 0); u < min(x + 2, COLUMNS * SIDE); ++u) {
                        int pillar = (v / SIDE * COLUMNS + u / SIDE) * PILLARS + v % SIDE * SIDE + u % SIDE;
                        for (int band = 0; band < BANDS; ++band) around[band] += band_of(tallies, pillar, band);
                    }
                ground = dz < RULE_THRESHOLD ? low_is_ground(dz, own, around, node_class)
                                        : raised_is_ground(dz, around, node_class, states[3 * (SLOT * NODES + node)].x);
            }
        }
        int mark = mark_of(&frames[SLOT], non_ground + SLOT * capacity, i);
        if ((mark & NON_GROUND) || ((mark & ISOLATED) && dz < -RULE_LOW_ISOLATED)) ground = 0;
        decisions[SLOT * capacity + i] = (uchar)ground;
        if (RULE_VOTE && dz >= VOTE_LOWEST && dz < VOTE_TOP) {
            int cell = (vote_row(node, square) * VOTE_COLUMNS + vote_column(node, square)) * VOTE_LAYERS + vote_layer(dz);
            ATOMIC_ADD(&tallies[VOTES_FROM + cell], ground ? 0x10000u : 1u);
        }
    }
}

// The majority of the 3 x 3 x 3 cells around a point; a tie changes nothing.
FUNCTION int after_vote(GLOBAL const uint *votes, int ground, int node, float4 p, float dz) {
    if (!RULE_VOTE || dz < VOTE_MAY_CHANGE || dz >= RULE_HIGHEST) return ground;
    int square = square_of(p.x, p.y, SIDE);
    int row = vote_row(node, square), column = vote_column(node, square), layer = vote_layer(dz);
    int total = 0;
    UNROLL for (int k = 0; k < 27; ++k) {
        int y = row + k / 9 - 1, x = column + k / 3 % 3 - 1, z = layer + k % 3 - 1;
        if (y < 0 || y >= VOTE_ROWS || x < 0 || x >= VOTE_COLUMNS || z < 0 || z >= VOTE_LAYERS) continue;
        uint cell = votes[(y * VOTE_COLUMNS + x) * VOTE_LAYERS + z];
        total += (int)(cell >> 16) - (int)(cell & 0xffffu);
    }
    return total == 0 ? ground : total > 0;
}

// Labels are written as whole words of four points; buffers hold a multiple of four points.
KERNEL label(GLOBAL const Frame *frames, GLOBAL const float4 *located, GLOBAL const float4 *surface,
             GLOBAL const float4 *reported, GLOBAL const uchar *seen, GLOBAL const float4 *doubts, GLOBAL const int *clean,
             GLOBAL const int *clean_sizes, GLOBAL const uint *tallies, GLOBAL const uchar *non_ground,
             GLOBAL const uchar *decisions, GLOBAL uchar *labels, GLOBAL float *probabilities, GLOBAL float *heights,
             GLOBAL float *layers, int capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
    int count = frame->count, wanted = frame->wanted;
    GLOBAL uint *words = (GLOBAL uint *)AT(uchar, frame->label, labels + SLOT * capacity);
    GLOBAL float *probability = AT(float, frame->probability, probabilities + SLOT * capacity);
    GLOBAL float *height = AT(float, frame->height, heights + SLOT * capacity);
    if (wanted & LAYERS) {
        GLOBAL float *own_layers = AT(float, frame->layers, layers + 5 * SLOT * NODES);
        GLOBAL const int *sizes = clean_sizes + SLOT * (NODES + 1);
        describe(frame, reported + SLOT * NODES, seen + SLOT * NODES, doubts + SLOT * NODES, clean + SLOT * NODES, sizes,
                 own_layers);
    }
#if LANES > 1
    LOCAL_ARRAY uchar group_labels[GROUP];
    for (int begin = GROUP_ID * GROUP; begin < count; begin += GROUP_COUNT * GROUP) {
        int i = min(begin + LOCAL_ID, count - 1);
#else
    FOR_EACH(i, count) {
#endif
        float4 point = located[SLOT * capacity + i];
        int node = (int)BITS_OF(point.w);
        int point_label = UNKNOWN;
        float chance = 0.0f, over = NOT_A_NUMBER;
        if (node >= 0) {
            float4 plane = surface[SLOT * NODES + node];
            over = point.z - (plane.x + plane.y * point.x + plane.z * point.y);
            chance = EXP2(over * over * (over >= 0.0f ? UP : DOWN));
#if RULE_AROUND
            int ground = after_vote(tallies + SLOT * TALLY_WORDS + VOTES_FROM, decisions[SLOT * capacity + i], node,
                                    point, over);
#else
            int ground = over < RULE_THRESHOLD && over >= -RULE_LOW_OUTLIER;
#endif
            int mark = mark_of(frame, non_ground + SLOT * capacity, i);
            int is_low = (mark & ISOLATED) && over < -RULE_LOW_ISOLATED;
            if ((mark & NON_GROUND) || is_low) ground = 0;
            point_label = ground                               ? GROUND
                        : is_low || over < -RULE_LOW_OUTLIER ? LOW_OUTLIER
                        : over >= RULE_CLEARANCE             ? OVERHANG
                                                             : OBSTACLE;
        }
        if (wanted & PROBABILITY) probability[i] = chance;
        if (wanted & HEIGHT) height[i] = over;
#if LANES > 1
        group_labels[LOCAL_ID] = (uchar)point_label;
        BARRIER();
        int four = 4 * LOCAL_ID;
        if (LOCAL_ID < GROUP / 4 && begin + four < count)
            words[begin / 4 + LOCAL_ID] = group_labels[four] | (uint)group_labels[four + 1] << 8 |
                                          (uint)group_labels[four + 2] << 16 | (uint)group_labels[four + 3] << 24;
        BARRIER();
#else
        labels[SLOT * capacity + i] = (uchar)point_label;
#endif
    }
}
