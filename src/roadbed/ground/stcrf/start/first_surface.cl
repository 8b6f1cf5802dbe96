// SPDX-License-Identifier: Apache-2.0
// The coarse start in one launch, for devices whose work-groups can all run at once: LANES work-items stay with a wide
// node, hold its lowest points, and wait for what its neighbours found in the iteration before, not for the whole lattice.
// A second half of the groups is_sloped; then both compare what they explain. Where groups cannot wait for each other, each
// iteration is a launch (em.cl, slope_start.cl).

#ifdef ROADBED_CUDA
#define HALF ((NODES * LANES + TEAM - 1) / TEAM)  // groups of one start
#define HELD ((PER_NODE + LANES - 1) / LANES)     // points of a work-item
#define EACH ((NODES + TEAM - 1) / TEAM)          // nodes of a work-item, where one group looks at all
#define ACROSS (2 * SLOPE_REGION + 1)
#define PLACES ((ACROSS * ACROSS + LANES - 1) / LANES)  // of a node's region, for each of its work-items

// Where messages lie: each start's information after even and odd iterations, three for a node; of the rest one.
#define INFORMATION_OF(is_sloped, iteration) (3 * (2 * (is_sloped) + (iteration) % 2) * NODES)
#define EXPLAINED_BY(is_sloped) ((12 + (is_sloped)) * NODES)  // {all points, those explained, height of the plane}
#define SLOPES_OF_SLOPE_START (14 * NODES)
#define LOWEST_HEIGHTS (15 * NODES)
#define ENVELOPE (16 * NODES)

// A wide node as its work-items see it.
typedef struct {
    int node, row, column, lane;
    int is_sloped;
    int publishes;  // work-items beyond the last node do as it does, in silence
} WideNode;

FUNCTION WideNode own_node(void) {
    int task = GROUP_ID % HALF * (TEAM / LANES) + LOCAL_ID / LANES, node = min(task, NODES - 1);
    WideNode own = {node, node / COLUMNS, node % COLUMNS, LOCAL_ID % LANES, GROUP_ID >= HALF, task < NODES};
    return own;
}

FUNCTION Information received_information(const uint4 *place, uint number) {
    float4 a, b, c;
    do {
        a = peek_message(place);
        b = peek_message(place + 1);
        c = peek_message(place + 2);
    } while (!has_number(a, number) || !has_number(b, number) || !has_number(c, number));
    Information out = {a.x, a.y, a.z, b.x, b.y, b.z, c.x, c.y, c.z};
    return out;
}

// The first three work-items tell a part each.
FUNCTION void publish_information(uint4 *place, Information s, int lane, uint number) {
    float x = lane == 0 ? s.p00 : lane == 1 ? s.p11 : s.x0, y = lane == 0 ? s.p01 : lane == 1 ? s.p12 : s.x1;
    float z = lane == 0 ? s.p02 : lane == 1 ? s.p22 : s.x2;
    if (lane < 3) send_message(place + lane, x, y, z, number);
}

FUNCTION int sum_of_lanes(int value) {
    for (int offset = 1; offset < LANES; offset *= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

// By one group: the envelope for everybody, once all heights are told.
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

// What the climbing start expects of a node, from the envelope of the heights of all nodes.
FUNCTION float4 slope_start_plane(WideNode own, const float4 *held, const Frame *frame, uint4 *messages, float *heights,
                               uint number) {
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

// The EM of one node by its work-items, of which each asks one neighbour. Returns the information and leaves the plane.
FUNCTION Information iterated(WideNode own, const float4 *held, float4 *plane, int iterations, uint4 *messages, uint number) {
    float4 expected = *plane;
    float up = own.is_sloped ? SLOPE_UP : COARSE_UP;
    int place = own.lane < 4 ? own.lane : own.lane + 1, i = place % 3 - 1, j = place / 3 - 1;
    int column = own.column + i, row = own.row + j;
    int asks = column >= 0 && column < COLUMNS && row >= 0 && row < ROWS && (NEIGHBOURS == 8 || i == 0 || j == 0);
    asks = asks && own.publishes;  // nobody waits for the silent: what they were to read may be written over before they look
    Information nothing = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, sum;
    for (int k = 0; k < iterations; ++k) {
        Information data = nothing;
        float4 limits = limited(*plane);
        UNROLL for (int m = 0; m < HELD; ++m) weigh_point(&data, held[m], limits, up, 1);
        sum = nothing;
        if (k > 0 && asks) {  // before the first iteration nobody knows anything
            uint4 *other = messages + INFORMATION_OF(own.is_sloped, k - 1) + 3 * (row * COLUMNS + column);
            add_transported(&sum, received_information(other, number + k), i * SPACING, j * SPACING, BETA / NEIGHBOURS);
        }
        add_data(&sum, data);
        sum_over_lanes(&sum, LANES, (float *)0);
        uint4 *here = messages + INFORMATION_OF(own.is_sloped, k) + 3 * own.node;
        if (own.publishes) publish_information(here, sum, own.lane, number + k + 1);  // nobody waits for the plane
        *plane = solve_plane(sum, expected);
    }
    return sum;
}

// What a start explains of its node's points is told to the level one, with the climbing start's plane.
FUNCTION void publish_explained(WideNode own, const float4 *held, float4 plane, uint4 *messages, uint number) {
    int all = 0, explained = 0;
    UNROLL for (int j = 0; j < HELD; ++j) {
        all += held[j].z < FAR_ABOVE;
        explained += lies_on(held[j], plane);
    }
    all = sum_of_lanes(all);
    explained = sum_of_lanes(explained);
    if (own.lane > 0 || !own.publishes) return;
    if (own.is_sloped) send_message(messages + SLOPES_OF_SLOPE_START + own.node, plane.y, plane.z, 0.0f, number);
    send_message(messages + EXPLAINED_BY(own.is_sloped) + own.node, (float)all, (float)explained, plane.x, number);
}

FUNCTION int takes_slope_start(WideNode own, const uint4 *messages, uint number) {
    float4 level[PLACES], sloped[PLACES];
    Explained region;
    int waits;
    do {
        region.all = region.by_level = region.by_sloped = waits = 0;
        UNROLL for (int k = 0; k < PLACES; ++k) {
            int place = own.lane + k * LANES;
            int row = own.row + place / ACROSS - SLOPE_REGION, column = own.column + place % ACROSS - SLOPE_REGION;
            int counts = place < ACROSS * ACROSS && row >= 0 && row < ROWS && column >= 0 && column < COLUMNS;
            int other = counts ? row * COLUMNS + column : own.node;
            level[k] = peek_message(messages + EXPLAINED_BY(0) + other);
            sloped[k] = peek_message(messages + EXPLAINED_BY(1) + other);
            if (!counts) level[k].x = level[k].y = sloped[k].y = 0.0f;
        }
        UNROLL for (int k = 0; k < PLACES; ++k) {
            waits |= !has_number(level[k], number) || !has_number(sloped[k], number);
            region.all += (int)level[k].x;
            region.by_level += (int)level[k].y;
            region.by_sloped += (int)sloped[k].y;
        }
    } while (waits);
    region.all = sum_of_lanes(region.all);
    region.by_level = sum_of_lanes(region.by_level);
    region.by_sloped = sum_of_lanes(region.by_sloped);
    return slope_start_is_better(region);
}

// As many groups for the start that is_sloped as for the level one, which begins with what is `expected`, or none.
KERNEL_OF_SIZE(TEAM) first_surface(GLOBAL const Frame *frames, GLOBAL const float4 *points, GLOBAL const float4 *expected,
                              GLOBAL float4 *result, GLOBAL uint4 *mail, int iterations) {
    LOCAL_ARRAY float heights[LOCAL_HEIGHTS ? 2 * NODES : 1];
    WideNode own = own_node();
    uint4 *messages = mail + 1;
    uint number = first_message_number(messages);
    float4 held[HELD];
    UNROLL for (int j = 0; j < HELD; ++j) {
        int place = j * LANES + own.lane;
        held[j] = place < PER_NODE ? points[own.node * PER_NODE + place] : FLOAT4(0.0f, 0.0f, FAR_ABOVE, 0.0f);
    }
    float4 plane = expected[own.node];
    if (own.is_sloped) plane = slope_start_plane(own, held, frames, messages, heights, number + 1);
    Information found = iterated(own, held, &plane, own.is_sloped ? SLOPE_ITERATIONS : iterations, messages, number);
    if (GROUP_COUNT > HALF) {
        publish_explained(own, held, plane, messages, number + 1);
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
