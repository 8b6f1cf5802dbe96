// SPDX-License-Identifier: Apache-2.0
// Input of the label rules besides a point's height: points per band of heights in each pillar, and the class of each
// node. Used where RULE_AROUND is set.
//
// Tallies of a slot, TALLY_WORDS in all: three words per pillar (five bands of 16 bits each, then the mark of a wall),
// COUNTERS planes of nodes, and the cells of the vote.

#define WALL_MARK 0x10000u
#define COUNTERS_FROM (NODES * SIDE * SIDE * BAND_WORDS)
#define VOTES_FROM (COUNTERS_FROM + COUNTERS * NODES)
#define PILLARS (SIDE * SIDE)

// Which of side x side squares of the node a point lies in.
FUNCTION int square_of(float x, float y, int side) {
    float middle = 0.5f * SPACING, scale = side / SPACING;
    int column = min(max((int)((x + middle) * scale), 0), side - 1);
    int row = min(max((int)((y + middle) * scale), 0), side - 1);
    return row * side + column;
}

FUNCTION uint band_of(GLOBAL const uint *tallies, int pillar, int band) {
    return (tallies[BAND_WORDS * pillar + band / 2] >> (16 * (band % 2))) & 0xffffu;
}

// What a point at height dz adds to its node's counters.
#define COUNT_POINT(ADD, here, wall, dz)                                                                               \
    {                                                                                                                  \
        int near = here && dz >= BELOW && dz < RULE_CLEAR_THRESHOLD, high = near && dz >= RAISED;                      \
        ADD(NEAR, near);                                                                                               \
        ADD(NEAR_HIGH, high);                                                                                          \
        ADD(OPEN_NEAR, near && !wall);                                                                                 \
        ADD(OPEN_HIGH, high && !wall);                                                                                 \
        ADD(SEEN_GROUND, here && !wall && fabs(dz) < ON_GROUND);                                                       \
        ADD(WALL_RETURNS, wall && dz < WALL_TOP);                                                                      \
    }

// The band of heights in which a pillar counts a point, -1 for none.
FUNCTION int band_at(float dz) {
    int band = (dz >= RULE_THRESHOLD) + (dz >= RULE_CLEAR_THRESHOLD) + (dz >= RULE_HIGHEST) + (dz >= TOP);
    return dz >= FOOT && dz < STRUCTURE_TOP ? band : -1;
}

#if LANES > 1
// Adds `yes` to a counter of the node. On CUDA the points of a warp that follow each other in a node add together.
FUNCTION void tally(GLOBAL int *counter, int node, int yes) {
#ifdef ROADBED_CUDA
    int lane = LOCAL_ID & 31;
    int before = __shfl_up_sync(0xffffffffu, node, 1);
    uint heads = __ballot_sync(0xffffffffu, lane == 0 || node != before);
    uint voices = __ballot_sync(0xffffffffu, yes);
    uint upward = ~(0xffffffffu >> (31 - lane));
    uint later = heads & upward;
    uint run = (upward | (1u << lane)) & (later ? (1u << (__ffs(later) - 1)) - 1 : 0xffffffffu);
    if ((heads >> lane & 1u) && node >= 0 && (voices & run)) atomicAdd(&counter[node], __popc(voices & run));
#else
    if (yes) ATOMIC_ADD(&counter[node], 1);
#endif
}
#endif

// Height of every point over its node's plane, and what it adds to its pillar and its node. GPUs take the points in the
// order of the scan, a CPU's work-items in that of their nodes, which they have for themselves.
KERNEL measure(GLOBAL const Frame *frames, GLOBAL const float4 *located, GLOBAL const int2 *segments,
               GLOBAL const float4 *sorted, GLOBAL const float4 *surface, GLOBAL float *over, GLOBAL uint *tallies_all,
               int capacity) {
    GLOBAL uint *tallies = tallies_all + SLOT * TALLY_WORDS;
    GLOBAL int *counters = (GLOBAL int *)(tallies + COUNTERS_FROM);
#if LANES > 1
    int count = frames[SLOT].count;
    for (int begin = GROUP_ID * LOCAL_SIZE; begin < count; begin += GLOBAL_SIZE) {
        int i = begin + LOCAL_ID;  // every work-item of a warp takes part in `tally`
        float4 p = located[SLOT * capacity + min(i, count - 1)];
        int node = i < count ? (int)BITS_OF(p.w) : -1;
        float4 plane = surface[SLOT * NODES + max(node, 0)];
        float dz = p.z - (plane.x + plane.y * p.x + plane.z * p.y);
        if (i < count) over[SLOT * capacity + i] = dz;
        int pillar = max(node, 0) * PILLARS + square_of(p.x, p.y, SIDE);
        int here = node >= 0, band = band_at(dz);
        int wall = here && (ATOMIC_READ(&tallies[BAND_WORDS * pillar + 2]) & WALL_MARK) != 0;
#define TALLY(counter, yes) tally(counters + (counter) * NODES, node, yes)
        COUNT_POINT(TALLY, here, wall, dz)
#undef TALLY
        if (here && band >= 0) ATOMIC_ADD(&tallies[BAND_WORDS * pillar + band / 2], 1u << (16 * (band % 2)));
    }
#else
    int run = from_both_ends(GROUP_ID, GROUP_COUNT), end = chunk_begin(run + 1, NODES);
    for (int node = chunk_begin(run, NODES); node < end; ++node) {
        int2 segment = segments[SLOT * NODES + node];
        GLOBAL const float4 *points = sorted + SLOT * capacity + segment.x;
        GLOBAL uint *bands = tallies + BAND_WORDS * PILLARS * node;
        float4 plane = surface[SLOT * NODES + node];
        int sums[COUNTERS] = {0};
        for (int k = 0; k < segment.y; ++k) {
            float4 p = points[k];
            float dz = p.z - (plane.x + plane.y * p.x + plane.z * p.y);
            over[SLOT * capacity + (int)BITS_OF(p.w)] = dz;
            GLOBAL uint *pillar = bands + BAND_WORDS * square_of(p.x, p.y, SIDE);
            int band = band_at(dz), wall = (pillar[2] & WALL_MARK) != 0;
#define TALLY(counter, yes) sums[counter] += (yes)
            COUNT_POINT(TALLY, 1, wall, dz)
#undef TALLY
            if (band >= 0) pillar[band / 2] += 1u << (16 * (band % 2));
        }
        for (int k = 0; k < COUNTERS; ++k) counters[k * NODES + node] = sums[k];
    }
#endif
}

// 0: too few points, 1: smooth, 2: rough.
FUNCTION int roughness(int points, int raised) {
    return points < FEWEST_RETURNS ? 0 : raised >= ROUGH_RETURNS && (float)raised > ROUGH_SHARE * (float)points ? 2 : 1;
}

// One even or uneven node of a row, or none; nodes outside are none.
FUNCTION uint evenness(GLOBAL const int *counters, int first, int column) {
    int other = first + min(max(column, 0), COLUMNS - 1), inside = column >= 0 && column < COLUMNS;
    int state = roughness(counters[OPEN_NEAR * NODES + other], counters[OPEN_HIGH * NODES + other]);
    return !inside ? 0u : state == 1 ? 1u : state == 2 ? 0x10000u : 0u;
}

// Along x: how many even and uneven nodes of the row lie within REGION (16 bits each).
KERNEL sum_rows(GLOBAL const uint *tallies, GLOBAL uint *row_sums) {
    GLOBAL const int *counters = (GLOBAL const int *)(tallies + SLOT * TALLY_WORDS + COUNTERS_FROM);
#if LANES > 1
    int node = GLOBAL_ID;
    if (node >= NODES) return;
    int column = node % COLUMNS, first = node - column;
    uint sums = 0;
    UNROLL for (int k = -REGION; k <= REGION; ++k) sums += evenness(counters, first, column + k);
    row_sums[SLOT * NODES + node] = sums;
#else
    FOR_EACH(row, ROWS) {  // one node enters and one leaves from column to column
        int first = row * COLUMNS;
        uint sums = 0;
        for (int k = 0; k < REGION; ++k) sums += evenness(counters, first, k);
        for (int column = 0; column < COLUMNS; ++column) {
            sums += evenness(counters, first, column + REGION) - evenness(counters, first, column - REGION - 1);
            row_sums[SLOT * NODES + first + column] = sums;
        }
    }
#endif
}

// Class of each node. The ring two nodes away decides about smoothness: an isolated object touches only the nodes inside
// it, so its own roughness does not count, while a kerb or a bank crosses the ring.
KERNEL classify_nodes(GLOBAL const uint *tallies, GLOBAL const uint *row_sums, GLOBAL const float4 *states,
                      GLOBAL const int2 *segments, GLOBAL uchar *kinds) {
    int node = GLOBAL_ID;
    if (node >= NODES) return;
    if (LANES == 1 && !segments[SLOT * NODES + node].y) return;  // no point asks for it
    GLOBAL const int *counters = (GLOBAL const int *)(tallies + SLOT * TALLY_WORDS + COUNTERS_FROM);
    int column = node % COLUMNS, row = node / COLUMNS;
    uint region = 0;
    UNROLL for (int j = -REGION; j <= REGION; ++j) {
        uint sums = row_sums[SLOT * NODES + min(max(row + j, 0), ROWS - 1) * COLUMNS + column];
        region += row + j >= 0 && row + j < ROWS ? sums : 0u;
    }
    int even = region & 0xffffu, uneven = region >> 16;
    int ring_rough = 0, ring_smooth = 0, ground = 0, walls = 0;
    UNROLL for (int j = -2; j <= 2; ++j)
        UNROLL for (int i = -2; i <= 2; ++i) {
            int inside = column + i >= 0 && column + i < COLUMNS && row + j >= 0 && row + j < ROWS;
            int other = inside ? node + j * COLUMNS + i : node;
            if (i == -2 || i == 2 || j == -2 || j == 2) {
                int state = roughness(counters[NEAR * NODES + other], counters[NEAR_HIGH * NODES + other]);
                ring_rough += inside && state == 2;
                ring_smooth += inside && state == 1;
            } else {
                ground += inside ? counters[SEEN_GROUND * NODES + other] : 0;
                walls += inside ? counters[WALL_RETURNS * NODES + other] : 0;
            }
        }
    float support = states[3 * (SLOT * NODES + node)].x;
    int is_even = (float)even > EVEN_SHARE * (float)(even + uneven);
    int kind = 0;
    if (ring_rough <= RING_ROUGH && ring_smooth >= RING_SMOOTH) kind |= SMOOTH;
    if (support < SUPPORT_RATIO && (float)ground < FOOT_RATIO * (float)(walls + 1)) kind |= FOOT_BY_RATIO;
    if (is_even && support < SUPPORT_EVEN) kind |= FOOT_BY_SUPPORT;
    if (!is_even && walls < OPEN_WALLS) kind |= OPEN;
    kinds[SLOT * NODES + node] = (uchar)kind;
}
