// SPDX-License-Identifier: Apache-2.0
// The coarse start in one launch, for devices whose work-groups can all run at once: LANES work-items keep the lowest points
// of a coarse node in registers and wait for the last iteration of its neighbours, not of the whole lattice. The second half
// of the groups computes the slope-aware start; then both compare the points they explain. On other devices each iteration
// is a launch (em.cl, slope_start.cl).

#ifdef ROADBED_CUDA
#define HALF ((NODES * LANES + TEAM - 1) / TEAM)  // groups of one start
#define PER_ITEM ((PER_NODE + LANES - 1) / LANES) // points per work-item
#define EACH ((NODES + TEAM - 1) / TEAM)          // nodes per work-item where one group processes all
#define ACROSS (2 * SLOPE_REGION + 1)
#define REGION_PER_ITEM ((ACROSS * ACROSS + LANES - 1) / LANES)  // nodes of a region per work-item

// Offsets of messages: the information of each start after even and odd iterations, three per node; else one per node.
#define INFORMATION_OF(is_sloped, iteration) (3 * (2 * (is_sloped) + (iteration) % 2) * NODES)
#define EXPLAINED_BY(is_sloped) ((12 + (is_sloped)) * NODES)  // {all points, those explained, height of the plane}
#define SLOPES_OF_SLOPE_START (14 * NODES)
#define LOWEST_HEIGHTS (15 * NODES)
#define ENVELOPE (16 * NODES)

// A coarse node, as seen by one of its work-items.
typedef struct {
    int node, row, column, lane;
    int is_sloped;
    int publishes;  // false for work-items beyond the last node, which repeat it without sending messages
} CoarseNode;

FUNCTION CoarseNode own_node(void) {
    int task = GROUP_ID % HALF * (TEAM / LANES) + LOCAL_ID / LANES, node = min(task, NODES - 1);
    CoarseNode own = {node, node / COLUMNS, node % COLUMNS, LOCAL_ID % LANES, GROUP_ID >= HALF, task < NODES};
    return own;
}

FUNCTION Information received_information(const uint4 *message, uint number) {
    float4 a, b, c;
    do {
        a = peek_message(message);
        b = peek_message(message + 1);
        c = peek_message(message + 2);
    } while (!has_number(a, number) || !has_number(b, number) || !has_number(c, number));
    Information out = {a.x, a.y, a.z, b.x, b.y, b.z, c.x, c.y, c.z};
    return out;
}

// The first three work-items send a third each.
FUNCTION void publish_information(uint4 *message, Information s, int lane, uint number) {
    float x = lane == 0 ? s.p00 : lane == 1 ? s.p11 : s.x0, y = lane == 0 ? s.p01 : lane == 1 ? s.p12 : s.x1;
    float z = lane == 0 ? s.p02 : lane == 1 ? s.p22 : s.x2;
    if (lane < 3) send_message(message + lane, x, y, z, number);
}

FUNCTION int sum_of_lanes(int value) {
    for (int offset = 1; offset < LANES; offset *= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

// Called by one group: sends the envelope to all groups once all heights are received.
FUNCTION void publish_envelope(uint4 *messages, float *heights, uint number) {
    float4 found[EACH];
    int waits;
    do {
        waits = 0;
        UNROLL for (int k = 0; k < EACH; ++k)
            found[k] = peek_message(messages + LOWEST_HEIGHTS + min(LOCAL_ID + k * TEAM, NODES - 1));
        UNROLL for (int k = 0; k < EACH; ++k) waits |= !has_number(found[k], number);
    } while (waits);
    UNROLL for (int k = 0; k < EACH; ++k) heights[min(LOCAL_ID + k * TEAM, NODES - 1)] = found[k].x;
    BARRIER();
    find_envelope(heights);
    for (int node = LOCAL_ID; node < NODES; node += TEAM)
        send_message(messages + ENVELOPE + node, heights[node], 0.0f, 0.0f, number);
}

// The expected plane of a node in the slope-aware start, from the envelope of all heights.
FUNCTION float4 slope_start_plane(CoarseNode own, const float4 *own_points, const Frame *frame, uint4 *messages,
                                  float *heights, uint number) {
    float first = UNSEEN, second = UNSEEN;
    UNROLL for (int j = 0; j < PER_ITEM; ++j) {
        second = own_points[j].z < first ? first : fmin(second, own_points[j].z);
        first = fmin(first, own_points[j].z);
    }
    for (int offset = 1; offset < LANES; offset *= 2) {
        float other = __shfl_xor_sync(0xffffffffu, first, offset), next = __shfl_xor_sync(0xffffffffu, second, offset);
        second = fmin(fmax(first, other), fmin(second, next));
        first = fmin(first, other);
    }
    float lowest = height_of(frame, own.node, first, second);
    if (own.lane == 0 && own.publishes) send_message(messages + LOWEST_HEIGHTS + own.node, lowest, 0.0f, 0.0f, number);
    if (GROUP_ID == HALF) publish_envelope(messages, heights, number);
    int inside = is_inside(own.row, own.column), lane = inside ? own.lane : 0;  // {itself, west, east, south, north}
    int other = own.node + (lane == 1 ? -1 : lane == 2 ? 1 : lane == 3 ? -COLUMNS : lane == 4 ? COLUMNS : 0);
    float height = known_or(receive_message(messages + ENVELOPE + other, number).x, frame->road), around[5];
    UNROLL for (int k = 0; k < 5; ++k) around[k] = __shfl_sync(0xffffffffu, height, k, LANES);
    if (!inside) return FLOAT4(around[0], 0.0f, 0.0f, 0.0f);
    return FLOAT4(around[0], slope_between(around[1], around[2]), slope_between(around[3], around[4]), 0.0f);
}

// The EM of one node; each of its work-items reads one neighbour. Returns the information and writes the plane.
FUNCTION Information iterated(CoarseNode own, const float4 *own_points, float4 *plane, int iterations, uint4 *messages,
                              uint number) {
    float4 expected = *plane;
    float up = own.is_sloped ? SLOPE_UP : COARSE_UP;
    int neighbour = own.lane < 4 ? own.lane : own.lane + 1, i = neighbour % 3 - 1, j = neighbour / 3 - 1;
    int column = own.column + i, row = own.row + j;
    int reads = column >= 0 && column < COLUMNS && row >= 0 && row < ROWS && (NEIGHBOURS == 8 || i == 0 || j == 0);
    reads = reads && own.publishes;  // no group waits for the others: messages to them may be overwritten
    Information nothing = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, sum;
    for (int k = 0; k < iterations; ++k) {
        Information data = nothing;
        float4 limits = limited(*plane);
        UNROLL for (int m = 0; m < PER_ITEM; ++m) weigh_point(&data, own_points[m], limits, up, 1);
        sum = nothing;
        float own_points_on_plane = ALPHA * number_over_lanes(data.p00, LANES, (float *)0);
        float count = own.is_sloped ? neighbours_count(expected, own_points_on_plane) : 1.0f;
        if (k > 0 && reads) {  // before the first iteration there is no information
            uint4 *other = messages + INFORMATION_OF(own.is_sloped, k - 1) + 3 * (row * COLUMNS + column);
            add_transported(&sum, received_information(other, number + k), i * SPACING, j * SPACING, count * (BETA / NEIGHBOURS));
        }
        add_data(&sum, data);
        sum_over_lanes(&sum, LANES, (float *)0);
        uint4 *here = messages + INFORMATION_OF(own.is_sloped, k) + 3 * own.node;
        if (own.publishes) publish_information(here, sum, own.lane, number + k + 1);  // neighbours do not need the plane
        *plane = solve_plane(sum, expected);
    }
    return sum;
}

// Sends the number of points that a start explains at its node to the level start, with the plane of the sloped one.
FUNCTION void publish_explained(CoarseNode own, const float4 *own_points, float4 plane, uint4 *messages, uint number) {
    int all = 0, explained = 0;
    UNROLL for (int j = 0; j < PER_ITEM; ++j) {
        all += own_points[j].z < FAR_ABOVE;
        explained += lies_on(own_points[j], plane);
    }
    all = sum_of_lanes(all);
    explained = sum_of_lanes(explained);
    if (own.lane > 0 || !own.publishes) return;
    if (own.is_sloped) send_message(messages + SLOPES_OF_SLOPE_START + own.node, plane.y, plane.z, 0.0f, number);
    send_message(messages + EXPLAINED_BY(own.is_sloped) + own.node, (float)all, (float)explained, plane.x, number);
}

FUNCTION int takes_slope_start(CoarseNode own, const uint4 *messages, uint number) {
    float4 level[REGION_PER_ITEM], sloped[REGION_PER_ITEM];
    Explained region, own_points = {0, 0, 0};
    int level_around, waits;
    do {
        region.all = region.by_level = region.by_sloped = level_around = waits = 0;
        UNROLL for (int k = 0; k < REGION_PER_ITEM; ++k) {
            int cell = own.lane + k * LANES;
            int row = own.row + cell / ACROSS - SLOPE_REGION, column = own.column + cell % ACROSS - SLOPE_REGION;
            int counts = cell < ACROSS * ACROSS && row >= 0 && row < ROWS && column >= 0 && column < COLUMNS;
            int other = counts ? row * COLUMNS + column : own.node;
            level[k] = peek_message(messages + EXPLAINED_BY(0) + other);
            sloped[k] = peek_message(messages + EXPLAINED_BY(1) + other);
            if (!counts) level[k].x = level[k].y = sloped[k].y = 0.0f;
        }
        UNROLL for (int k = 0; k < REGION_PER_ITEM; ++k) {
            waits |= !has_number(level[k], number) || !has_number(sloped[k], number);
            region.all += (int)level[k].x;
            region.by_level += (int)level[k].y;
            region.by_sloped += (int)sloped[k].y;
            int cell = own.lane + k * LANES, down = cell / ACROSS - SLOPE_REGION, along = cell % ACROSS - SLOPE_REGION;
            if (abs(down) <= 1 && abs(along) <= 1) level_around += (int)level[k].y;
            if (down == 0 && along == 0) {
                own_points.all = (int)level[k].x;
                own_points.by_level = (int)level[k].y;
                own_points.by_sloped = (int)sloped[k].y;
            }
        }
    } while (waits);
    region.all = sum_of_lanes(region.all);
    region.by_level = sum_of_lanes(region.by_level);
    region.by_sloped = sum_of_lanes(region.by_sloped);
    own_points.all = sum_of_lanes(own_points.all);
    own_points.by_level = sum_of_lanes(own_points.by_level);
    own_points.by_sloped = sum_of_lanes(own_points.by_sloped);
    return slope_start_is_better(region, is_own_sloped(own_points, sum_of_lanes(level_around)));
}

// The first HALF groups compute the level start, which begins at `expected`; the sloped start has as many groups, or none.
KERNEL_OF_SIZE(TEAM) first_surface(GLOBAL const Frame *frames, GLOBAL const float4 *points, GLOBAL const float4 *expected,
                              GLOBAL float4 *result, GLOBAL uint4 *mail, int iterations) {
    LOCAL_ARRAY float heights[LOCAL_HEIGHTS ? 2 * NODES : 1];
    CoarseNode own = own_node();
    uint4 *messages = mail + 1;
    uint number = first_message_number(messages);
    float4 own_points[PER_ITEM];
    UNROLL for (int j = 0; j < PER_ITEM; ++j) {
        int index = j * LANES + own.lane;
        own_points[j] = index < PER_NODE ? points[own.node * PER_NODE + index] : FLOAT4(0.0f, 0.0f, FAR_ABOVE, 0.0f);
    }
    float4 plane = expected[own.node];
    if (own.is_sloped) plane = slope_start_plane(own, own_points, frames, messages, heights, number + 1);
    Information found = iterated(own, own_points, &plane, own.is_sloped ? SLOPE_ITERATIONS : iterations, messages, number);
    if (GROUP_COUNT > HALF) {
        publish_explained(own, own_points, plane, messages, number + 1);
        if (!own.is_sloped && takes_slope_start(own, messages, number + 1)) {
            float4 slopes = receive_message(messages + SLOPES_OF_SLOPE_START + own.node, number + 1);
            plane = FLOAT4(receive_message(messages + EXPLAINED_BY(1) + own.node, number + 1).z, slopes.x, slopes.y, 0.0f);
            uint4 *sloped_information = messages + INFORMATION_OF(1, SLOPE_ITERATIONS - 1) + 3 * own.node;
            found = received_information(sloped_information, number + SLOPE_ITERATIONS);
        }
    }
    if (!own.is_sloped && own.publishes && own.lane == 0) store_node(result, own.node, found, plane);
    end_launch(messages);
}
#endif
