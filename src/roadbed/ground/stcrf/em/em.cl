// SPDX-License-Identifier: Apache-2.0
// One EM iteration of the STCRF in one launch: E-step and sums over a node's points, information of its neighbours and of
// the previous frame, and the 3x3 solve. Jacobi: it reads `from` and writes `to`, so nodes are independent. CPU devices use
// em_rows.cl. Twin: em_cpu.py.
//
// Nodes are in size classes by their number of points: one work-item per node up to FEW, LANES up to SOME, a warp up to
// MANY, and a whole work-group beyond (near the sensor a node holds thousands of points), unless these are thinned out. The
// work-items of a node share its neighbours and points and add up their sums. A work-group serves one class; the nodes of
// the last three classes are in lists.

#ifdef SLOPE_UP
// How many times neighbours count in the slope-aware start: less where a steep node is expected that has `own` points.
FUNCTION float neighbours_count(float4 expected, float own) {
    float steepness = expected.y * expected.y + expected.z * expected.z;
    return steepness > STEEP_SLOPE * STEEP_SLOPE && own > STEEP_POINTS ? STEEP_NEIGHBOURS : 1.0f;
}
#endif

// Adds beta / |N| of each neighbour, shared among `lanes` work-items, and gamma of the previous frame. There are no
// branches, so that all loads overlap: a neighbour outside of the lattice is the node itself with weight zero.
FUNCTION void add_neighbours(Information *sum, GLOBAL const float4 *from, GLOBAL const float4 *prior, int node,
                             float gamma, int lane, int lanes) {
    int column = node % COLUMNS, row = node / COLUMNS;
    UNROLL for (int k = lane; k < 8; k += lanes) {
        int neighbour = k < 4 ? k : k + 1;
        int i = neighbour % 3 - 1, j = neighbour / 3 - 1;
        int counts = column + i >= 0 && column + i < COLUMNS && row + j >= 0 && row + j < ROWS;
        counts = counts && (NEIGHBOURS == 8 || i == 0 || j == 0);
        int other = counts ? node + j * COLUMNS + i : node;
        add_transported(sum, load_information(from, other), i * SPACING, j * SPACING, counts ? BETA / NEIGHBOURS : 0.0f);
    }
    if (gamma > 0.0f && lane == 0) add_transported(sum, load_information(prior, node), 0.0f, 0.0f, gamma);
}

#if SEEN_ONLY
// The information of a node, in which neighbours count less where it has points of its own. In the EM they count the same
// everywhere, which suppresses obstacles but flattens crests and ditches. `from`: the state before the last iteration;
// `even`: effective points of its own with which neighbours count half.
FUNCTION Information reweighted(GLOBAL const float4 *from, GLOBAL const float4 *to, float even, int node) {
    Information sum = load_information(to, node), others = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    add_neighbours(&others, from, from, node, 0.0f, 0, 1);
    float own = fmax(sum.p00 - others.p00, 0.0f);
    add_transported(&sum, others, 0.0f, 0.0f, even / (even + own) - 1.0f);
    return sum;
}

// Whether a node's plane passes below the highest sensor, as ground does, and is not met edge-on if it is not at the height
// of the road.
FUNCTION int is_seen_from_above(GLOBAL const Frame *frame, float4 plane, int node) {
    float x = frame->translation[0] - SPACING * (float)(node % COLUMNS);
    float y = frame->translation[1] - SPACING * (float)(node / COLUMNS);
    float above = plane.x + plane.y * x + plane.z * y - (frame->translation[2] + frame->rise);
    float apart = plane.x - frame->road;
    int facing = above * above >= (x * x + y * y) * (EDGE_ON * EDGE_ON);
    return above <= 0.0f && (facing || (apart <= AT_ROAD && apart >= -AT_ROAD));
}

// What the frame says of a node. A ceiling does not stay: scans that see the road below it could not correct such a prior.
// Neither does a plane without data far over the first surface, `level`.
FUNCTION uchar seen_by(GLOBAL const Frame *frame, float4 plane, float4 level, int node, float now, float before) {
    int stays = now > STAYS_FROM ? STAYS | HAS_DATA : before > STAYS_FROM ? STAYS : 0;
    int is_seen = now + before > SEEN_FROM;
    if (now > STAYS_FROM && !is_seen_from_above(frame, plane, node)) stays = is_seen = 0;
    if (now <= STAYS_FROM && frame->warm == 2 && plane.x - level.x > FARTHEST_ABOVE) stays = 0;
    return (uchar)((is_seen ? SEEN : 0) | stays);
}
#endif

#if LANES > 1
#define WARP 32
#define MOST_LANES (LIMIT && LIMIT <= MANY ? WARP : GROUP)
#define IN_FLIGHT 4       // points that a work-item loads at a time,
#define MORE_IN_FLIGHT 8  // and where several work-items share a node

// Loads `in_flight` points of a node from index `first` on; beyond the last point it is repeated.
FUNCTION void read_some(GLOBAL const float4 *points, int first, int lanes, int count, int in_flight, float4 *some) {
    UNROLL for (int j = 0; j < in_flight; ++j) some[j] = points[max(min(first + j * lanes, count - 1), 0)];
}

// E-step c_j of a point, and its terms of the M-step: w H^T H and w z H^T with w = c_j if it counts.
FUNCTION void weigh_point(Information *sum, float4 p, float4 plane, float up, int counts) {
    float dz = p.z - (plane.x + plane.y * p.x + plane.z * p.y);
    float c = EXP2(dz * dz * (dz >= 0.0f ? up : DOWN));
#ifdef PULL  // points far below keep a small weight, which draws a surface that starts above a drop down to it
    c = dz < 0.0f ? fmax(c, PULL / (1.0f + dz * dz * PULL_REACH)) : c;
#endif
    c = counts ? c : 0.0f;
    float cx = c * p.x, cy = c * p.y;
    sum->p00 += c;
    sum->p01 += cx;
    sum->p02 += cy;
    sum->p11 += cx * p.x;
    sum->p12 += cx * p.y;
    sum->p22 += cy * p.y;
    sum->x0 += c * p.z;
    sum->x1 += cx * p.z;
    sum->x2 += cy * p.z;
}

FUNCTION void add_data(Information *sum, Information data) {
#define ADD_DATA(number) sum->number += ALPHA * data.number;
    FOR_EACH_NUMBER(ADD_DATA)
#undef ADD_DATA
}

// The plane with limited slopes, for the E-step.
FUNCTION float4 limited(float4 plane) {
    float sx = fmin(fmax(plane.y, -SLOPE_LIMIT), SLOPE_LIMIT), sy = fmin(fmax(plane.z, -SLOPE_LIMIT), SLOPE_LIMIT);
    return FLOAT4(plane.x, sx, sy, 0.0f);
}

// Adds the data term of the M-step; `some` holds the first points. Returns the number of effective points added.
FUNCTION float add_points(Information *sum, GLOBAL const float4 *points, int count, float4 *some, float4 plane, float up,
                          int lane, int lanes, int in_flight) {
    Information data = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    plane = limited(plane);
    for (int first = lane; first < count; first += in_flight * lanes) {
        if (first != lane) read_some(points, first, lanes, count, in_flight, some);
        UNROLL for (int j = 0; j < in_flight; ++j) weigh_point(&data, some[j], plane, up, first + j * lanes < count);
    }
    add_data(sum, data);
    return ALPHA * data.p00;
}

// The sum over `lanes` neighbouring work-items, valid at least in the first. scratch: nine floats per work-item.
FUNCTION void sum_over_lanes(Information *s, int lanes, LOCAL float *scratch) {
#ifdef ROADBED_CUDA
    UNROLL for (int offset = 1; offset < min(lanes, WARP); offset *= 2) {
#define ADD_OTHER(number) s->number += __shfl_xor_sync(0xffffffffu, s->number, offset);
        FOR_EACH_NUMBER(ADD_OTHER)
#undef ADD_OTHER
    }
    if (lanes <= WARP) return;
    int part = LOCAL_ID / WARP, number = 0;
    __syncthreads();
    if (LOCAL_ID % WARP == 0) {
#define WRITE_PART(name) scratch[GROUP / WARP * number++ + part] = s->name;
        FOR_EACH_NUMBER(WRITE_PART)
#undef WRITE_PART
    }
    __syncthreads();
    number = 0;
    if (LOCAL_ID == 0) {
#define ADD_PARTS(name)                                                                               \
    s->name = 0.0f;                                                                                   \
    for (int k = 0; k < GROUP / WARP; ++k) s->name += scratch[GROUP / WARP * number + k];             \
    ++number;
        FOR_EACH_NUMBER(ADD_PARTS)
#undef ADD_PARTS
    }
#else
    // All work-items reach the same barriers: not all OpenCL compilers handle barriers in branches.
    int number = 0;
    BARRIER();
#define WRITE_MINE(name) scratch[GROUP * number++ + LOCAL_ID] = s->name;
    FOR_EACH_NUMBER(WRITE_MINE)
#undef WRITE_MINE
    for (int offset = 1; offset < GROUP; offset *= 2) {
        BARRIER();
        if (offset < lanes && LOCAL_ID % (2 * offset) == 0)
            for (int k = 0; k < 9; ++k) scratch[GROUP * k + LOCAL_ID] += scratch[GROUP * k + LOCAL_ID + offset];
    }
    BARRIER();
    number = 0;
#define READ_MINE(name) s->name = scratch[GROUP * number++ + LOCAL_ID];
    FOR_EACH_NUMBER(READ_MINE)
#undef READ_MINE
#endif
}

// The same for one number, valid in all of them.
FUNCTION float number_over_lanes(float number, int lanes, LOCAL float *scratch) {
#ifdef ROADBED_CUDA
    UNROLL for (int offset = 1; offset < min(lanes, WARP); offset *= 2)
        number += __shfl_xor_sync(0xffffffffu, number, offset);
    if (lanes <= WARP) return number;
    __syncthreads();
    if (LOCAL_ID % WARP == 0) scratch[LOCAL_ID / WARP] = number;
    __syncthreads();
    number = 0.0f;
    for (int k = 0; k < GROUP / WARP; ++k) number += scratch[k];
    return number;
#else
    BARRIER();
    scratch[LOCAL_ID] = number;
    for (int offset = 1; offset < GROUP; offset *= 2) {
        BARRIER();
        if (offset < lanes && LOCAL_ID % (2 * offset) == 0) scratch[LOCAL_ID] += scratch[LOCAL_ID + offset];
    }
    BARRIER();
    return scratch[LOCAL_ID / lanes * lanes];
#endif
}

// One node by `lanes` work-items, of which the first writes the result.
FUNCTION void update_node(GLOBAL const Frame *frame, int node, int skip, int lane, int lanes, int in_flight, int2 segment,
                          GLOBAL const float4 *from, GLOBAL float4 *to, GLOBAL const float4 *prior,
                          GLOBAL const float4 *expected, GLOBAL const float4 *points, GLOBAL float4 *surface,
                          GLOBAL uchar *seen, float up, float gamma, int warm, int last, LOCAL float *scratch) {
    Information sum = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    int count = skip ? 0 : segment.y;
    float4 some[MORE_IN_FLIGHT];
    if (count > 0) read_some(points + segment.x, lane, lanes, count, in_flight, some);
    float4 plane = load_plane(from, node), level = expected[node];
    add_neighbours(&sum, from, prior, node, gamma, lane, lanes);
#ifdef SLOPE_UP
    Information others = sum;
#endif
    float own = add_points(&sum, points + segment.x, count, some, plane, up, lane, lanes, in_flight);
#ifdef SLOPE_UP
    if (up == SLOPE_UP) {
        float all_own = number_over_lanes(own, lanes, scratch);
        add_transported(&sum, others, 0.0f, 0.0f, neighbours_count(level, all_own) - 1.0f);
    }
#endif
    sum_over_lanes(&sum, lanes, scratch);
    if (SEEN_ONLY && last) own = number_over_lanes(own, lanes, scratch);
    if (!skip && lane == 0) {
        float4 found = solve_plane(sum, level);
        store_node(to, node, sum, found);
        if (last) surface[node] = FLOAT4(found.x, found.y, found.z, found.w * VARIANCE_SCALE);
#if SEEN_ONLY
        if (last) seen[node] = seen_by(frame, found, level, node, own, warm ? prior[3 * node].x : 0.0f);
#endif
    }
}

// `up`: factor of dz^2 above the surface in this iteration. `last`: also write the surface (h, sx, sy, variance) and, with
// SEEN_ONLY, where it was seen. The first `whole_groups` work-groups serve nodes with more than MANY points, the next
// 2 * `groups` the other two listed classes, the rest all nodes of few points.
KERNEL iterate(GLOBAL const Frame *frames, GLOBAL const float4 *from_all, GLOBAL float4 *to_all,
               GLOBAL const float4 *priors, GLOBAL const float4 *expected_all, GLOBAL const int2 *segments,
               GLOBAL const float4 *sorted, GLOBAL const int4 *lists, GLOBAL const int *cursors,
               GLOBAL float4 *surface_all, GLOBAL uchar *seen_all, int per_slot, int whole_groups, int groups, float up,
               float gamma, int last) {
    GLOBAL const float4 *from = from_all + 3 * SLOT * NODES, *prior = priors;
    GLOBAL uchar *seen = seen_all + SLOT * NODES;
    int warm = SEEN_ONLY && last ? frames[SLOT].warm : 0;
    if (gamma > 0.0f || warm) prior += 3 * (2 * SLOT + frames[SLOT].prior) * NODES;
    GLOBAL float4 *to = to_all + 3 * SLOT * NODES, *surface = surface_all + SLOT * NODES;
    GLOBAL const float4 *points = sorted + SLOT * per_slot, *expected = expected_all + SLOT * NODES;
    LOCAL_ARRAY float scratch[9 * GROUP];
    // Size class 0: up to SOME points, 1: up to MANY, 2: more.
    int size_class = GROUP_ID < whole_groups ? 2 : (GROUP_ID - whole_groups) / groups;
    int one_item = GROUP_ID >= whole_groups + 2 * groups;
    int lanes = one_item ? 1 : size_class == 0 ? LANES : size_class == 1 ? WARP : MOST_LANES;
    int first_group = one_item ? whole_groups + 2 * groups : size_class == 2 ? 0 : whole_groups + size_class * groups;
    int member = GROUP_ID - first_group;
    int members = one_item ? GROUP_COUNT - first_group : size_class == 2 ? whole_groups : groups;
    int per_round = members * (GROUP / lanes), task = member * (GROUP / lanes) + LOCAL_ID / lanes;
    GLOBAL const int4 *list = lists + (3 * SLOT + (one_item ? 0 : size_class)) * NODES;
    int4 entry = list[min(task, NODES - 1)];  // loaded before the length of the list is known
    int tasks = one_item ? NODES : cursors[CURSORS * SLOT + 1 + size_class];
    for (int round = 0; round * per_round < tasks; ++round, task += per_round) {
        if (round > 0) entry = list[min(task, NODES - 1)];
        int node = one_item ? min(task, NODES - 1) : entry.x;
        int2 segment = one_item ? segments[SLOT * NODES + node] : INT2(entry.y, entry.z);
        int skip = task >= tasks || (one_item && segment.y > FEW);
#define UPDATE(lane, lanes, in_flight)                                                                                    \
    update_node(&frames[SLOT], node, skip, lane, lanes, in_flight, segment, from, to, prior, expected, points, surface,  \
                seen, up, gamma, warm, last, scratch)
#ifdef ROADBED_CUDA
        if (skip && lanes >= WARP) continue;  // whole warps: no other work-item waits for them
        // The same code four times with constant `lanes`, so that the compiler unrolls it.
        if (one_item) UPDATE(0, 1, IN_FLIGHT);
        else if (size_class == 0) UPDATE(LOCAL_ID & (LANES - 1), LANES, MORE_IN_FLIGHT);
        else if (size_class == 1) UPDATE(LOCAL_ID & (WARP - 1), WARP, MORE_IN_FLIGHT);
        else UPDATE(LOCAL_ID & (MOST_LANES - 1), MOST_LANES, MORE_IN_FLIGHT);
#else
        UPDATE(LOCAL_ID % lanes, lanes, IN_FLIGHT);
#endif
    }
}
#endif
