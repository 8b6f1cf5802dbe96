// SPDX-License-Identifier: Apache-2.0
// The coarse start in one launch, for devices whose work-groups can all run at once: LANES work-items stay with a wide
// node, hold its lowest points, and wait for what each of its neighbours found in the iteration before. A second half of
// the groups climbs; both compare what they explain. Otherwise the same is a launch for each iteration (em.cl, climb.cl).

#ifdef ROADBED_CUDA
#define HALF ((NODES * LANES + GROUP - 1) / GROUP)  // groups of one start
#define HELD ((PER_NODE + LANES - 1) / LANES)       // points of a work-item
#define EACH ((NODES + GROUP - 1) / GROUP)          // nodes of a work-item, where one group looks at all

// Where messages lie: each start's information of an even and an odd iteration, three for a node; then one for a node.
#define INFORMATION_OF(climbing, iteration) (3 * (2 * (climbing) + (iteration) % 2) * NODES)
#define EXPLAINED_BY(climbing) ((12 + (climbing)) * NODES)  // {all, explained} and, by the climbing start, its height
#define CLIMBING_SLOPES (14 * NODES)
#define HEIGHTS_FOUND (15 * NODES)
#define ENVELOPE (16 * NODES)

FUNCTION int sum_of_lanes(int value) {
    for (int offset = 1; offset < LANES; offset *= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

// By one group, once all heights are told: their envelope for everybody.
FUNCTION void tell_envelope(uint4 *messages, float *heights, uint number) {
    float4 found[EACH];
    int waits;
    do {
        waits = 0;
        UNROLL for (int k = 0; k < EACH; ++k) found[k] = look(messages + HEIGHTS_FOUND + min(LOCAL_ID + k * GROUP, NODES - 1));
        UNROLL for (int k = 0; k < EACH; ++k) waits |= !is_numbered(found[k], number);
    } while (waits);
    UNROLL for (int k = 0; k < EACH; ++k) heights[min(LOCAL_ID + k * GROUP, NODES - 1)] = found[k].x;
    BARRIER();
    find_envelope(heights);
    for (int node = LOCAL_ID; node < NODES; node += GROUP) tell(messages + ENVELOPE + node, heights[node], 0.0f, 0.0f, number);
}

// What the climbing start expects of a node, from the envelope of the heights of all nodes.
FUNCTION float4 climbing_plane(const Frame *frame, const float4 *held, int node, int lane, int tells, uint4 *messages,
                               float *heights, uint number) {
    float first = UNSEEN, second = UNSEEN;
    UNROLL for (int j = 0; j < HELD; ++j) {
        second = held[j].z < first ? first : fmin(second, held[j].z);
        first = fmin(first, held[j].z);
    }
    for (int offset = 1; offset < LANES; offset *= 2) {
        float other = __shfl_xor_sync(0xffffffffu, first, offset), next = __shfl_xor_sync(0xffffffffu, second, offset);
        second = fmin(fmax(first, other), fmin(second, next));
        first = fmin(first, other);
    }
    if (lane == 0 && tells) tell(messages + HEIGHTS_FOUND + node, height_of(frame, node, first, second), 0.0f, 0.0f, number);
    if (GROUP_ID == HALF) tell_envelope(messages, heights, number);
    int row = node / COLUMNS, column = node % COLUMNS, inside = is_inside(row, column);
    int beside[4] = {-1, 1, -COLUMNS, COLUMNS};
    int other = inside && lane > 0 && lane < 5 ? node + beside[lane - 1] : node;
    float height = known_or(told(messages + ENVELOPE + other, number).x, frame->road);
    float around[5];
    UNROLL for (int k = 0; k < 5; ++k) around[k] = __shfl_sync(0xffffffffu, height, k, LANES);
    if (!inside) return FLOAT4(around[0], 0.0f, 0.0f, 0.0f);
    return FLOAT4(around[0], slope_between(around[1], around[2]), slope_between(around[3], around[4]), 0.0f);
}

// The EM of one node by its work-items, of which each asks one neighbour; returns the information and leaves the plane.
FUNCTION Information iterated(const float4 *held, float4 *plane, float4 expected, int node, int lane, int tells, int climbs,
                              int iterations, uint4 *messages, uint number) {
    float up = climbs ? CLIMB_UP : COARSE_UP;
    int place = lane < 4 ? lane : lane + 1, i = place % 3 - 1, j = place / 3 - 1;
    int column = node % COLUMNS + i, row = node / COLUMNS + j;
    int asks = column >= 0 && column < COLUMNS && row >= 0 && row < ROWS && (NEIGHBOURS == 8 || i == 0 || j == 0);
    Information sum;
    for (int k = 0; k < iterations; ++k) {
        Information zero = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, data = zero;
        float4 limits = limited(*plane);
        UNROLL for (int j = 0; j < HELD; ++j) weigh_point(&data, held[j], limits, up, 1);
        sum = zero;
        if (k > 0 && asks) {  // before the first iteration nobody knows anything
            uint4 *other = messages + INFORMATION_OF(climbs, k - 1) + 3 * (row * COLUMNS + column);
            add_transported(&sum, told_information(other, number + k), i * SPACING, j * SPACING, BETA / NEIGHBOURS);
        }
        add_data(&sum, data);
        sum_over_lanes(&sum, LANES, (float *)0);
        *plane = solve_plane(sum, expected);
        if (tells) tell_information(messages + INFORMATION_OF(climbs, k) + 3 * node, sum, lane, number + k + 1);
    }
    return sum;
}

// The level start's work-items decide for their node; the climbing ones have told what they explain, and their plane.
FUNCTION int takes_climbing(int node, int lane, const uint4 *messages, uint number) {
    int row = node / COLUMNS, column = node % COLUMNS, across = 2 * CLIMB_REGION + 1;
    Explained region = {0, 0, 0};
    for (int k = lane; k < across * across; k += LANES) {
        int j = row + k / across - CLIMB_REGION, i = column + k % across - CLIMB_REGION;
        if (i < 0 || i >= COLUMNS || j < 0 || j >= ROWS) continue;
        float4 level = told(messages + EXPLAINED_BY(0) + j * COLUMNS + i, number);
        float4 climbing = told(messages + EXPLAINED_BY(1) + j * COLUMNS + i, number);
        region.all += (int)level.x;
        region.by_level += (int)level.y;
        region.by_climbing += (int)climbing.y;
    }
    region.all = sum_of_lanes(region.all);
    region.by_level = sum_of_lanes(region.by_level);
    region.by_climbing = sum_of_lanes(region.by_climbing);
    return climbing_is_better(region);
}
#endif

// As many groups for a second start that climbs as for the first one, or none.
KERNEL_OF(GROUP) first_surface(GLOBAL const Frame *frames, GLOBAL const float4 *points, GLOBAL const float4 *start,
                               GLOBAL const float4 *expected, GLOBAL float4 *result, GLOBAL uint4 *mail,
                               int iterations) {
#ifdef ROADBED_CUDA
    LOCAL_ARRAY float heights[LOCAL_HEIGHTS ? 2 * NODES : 1];
    int climbs = GROUP_ID >= HALF, task = GROUP_ID % HALF * (GROUP / LANES) + LOCAL_ID / LANES, lane = LOCAL_ID % LANES;
    int node = min(task, NODES - 1), tells = task < NODES;  // beyond the last node they do as it does, in silence
    uint4 *messages = mail + 1;
    uint number = first_number(messages);
    float4 held[HELD];
    UNROLL for (int j = 0; j < HELD; ++j)
        held[j] = j * LANES + lane < PER_NODE ? points[node * PER_NODE + j * LANES + lane] : FLOAT4(0.0f, 0.0f, FAR_ABOVE, 0.0f);
    float4 plane = climbs ? climbing_plane(frames, held, node, lane, tells, messages, heights, number + 1) : load_plane(start, node);
    float4 level = climbs ? plane : expected[node];
    Information found = iterated(held, &plane, level, node, lane, tells, climbs, climbs ? CLIMB_ITERATIONS : iterations, messages, number);
    if (GROUP_COUNT > HALF) {
        int all = 0, explained = 0;
        UNROLL for (int j = 0; j < HELD; ++j) {
            all += held[j].z < FAR_ABOVE;
            explained += lies_on(held[j], plane);
        }
        all = sum_of_lanes(all);
        explained = sum_of_lanes(explained);
        if (lane == 0 && tells) {
            if (climbs) tell(messages + CLIMBING_SLOPES + node, plane.y, plane.z, 0.0f, number + 1);
            tell(messages + EXPLAINED_BY(climbs) + node, (float)all, (float)explained, plane.x, number + 1);
        }
        if (!climbs && takes_climbing(node, lane, messages, number + 1)) {
            float4 slopes = told(messages + CLIMBING_SLOPES + node, number + 1);
            plane = FLOAT4(told(messages + EXPLAINED_BY(1) + node, number + 1).z, slopes.x, slopes.y, 0.0f);
            found = told_information(messages + INFORMATION_OF(1, CLIMB_ITERATIONS - 1) + 3 * node, number + CLIMB_ITERATIONS);
        }
    }
    if (!climbs && tells && lane == 0) store_node(result, node, found, plane);
    end_launch(messages);
#endif
}
