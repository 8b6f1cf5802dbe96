// SPDX-License-Identifier: Apache-2.0
// One EM iteration of the STCRF in one launch: E-step and sums over a node's points, its neighbours' information, its
// previous frame's, and the 3x3 solve. Jacobi: it reads `from` and writes `to`, so nodes are independent.
//
// LANES work-items share a node: they take its neighbours and its points in turn and add up what they found. A node with
// more than DENSE_FROM points (next to the sensor there are thousands) is done by a whole work-group instead.

FUNCTION void add_transported(Information *sum, Information n, float a, float b, float share) {
    // F^T P F and F^T X with F = [1 a b; 0 1 0; 0 0 1]: the neighbour's plane, evaluated here (paper's F_in)
    sum->p00 += share * n.p00;
    sum->p01 += share * (a * n.p00 + n.p01);
    sum->p02 += share * (b * n.p00 + n.p02);
    sum->p11 += share * (a * (a * n.p00 + 2.0f * n.p01) + n.p11);
    sum->p12 += share * (a * (b * n.p00 + n.p02) + b * n.p01 + n.p12);
    sum->p22 += share * (b * (b * n.p00 + 2.0f * n.p02) + n.p22);
    sum->x0 += share * n.x0;
    sum->x1 += share * (a * n.x0 + n.x1);
    sum->x2 += share * (b * n.x0 + n.x2);
}

// beta / |N| of each neighbour and gamma of the previous frame, dealt out among `lanes` work-items.
FUNCTION void add_neighbours(Information *sum, GLOBAL const float4 *from, GLOBAL const float4 *prior, int node,
                             int warm, int lane, int lanes) {
    int column = node % COLUMNS, row = node / COLUMNS;
    for (int k = lane; k < 9; k += lanes) {
        int i = k % 3 - 1, j = k / 3 - 1;
        if (k == 4) {
            if (warm) add_transported(sum, load_information(prior, node), 0.0f, 0.0f, GAMMA);
            continue;
        }
        int inside = column + i >= 0 && column + i < COLUMNS && row + j >= 0 && row + j < ROWS;
        if (inside && (NEIGHBOURS == 8 || i == 0 || j == 0))
            add_transported(sum, load_information(from, node + j * COLUMNS + i), i * SPACING, j * SPACING,
                            BETA / NEIGHBOURS);
    }
}

// E-step c_j, and at once the data term of the M-step: sums of w H^T H and w z H^T with w = alpha c_j.
FUNCTION void add_points(Information *sum, GLOBAL const float4 *points, int count, float4 plane, float up, int lane,
                         int lanes) {
    float h = plane.y;
    float sx = fmin(fmax(plane.z, -SLOPE_LIMIT), SLOPE_LIMIT), sy = fmin(fmax(plane.w, -SLOPE_LIMIT), SLOPE_LIMIT);
    float w = 0.0f, wx = 0.0f, wy = 0.0f, wxx = 0.0f, wxy = 0.0f, wyy = 0.0f, wz = 0.0f, wzx = 0.0f, wzy = 0.0f;
#ifdef ROADBED_CUDA
#pragma unroll 2
#endif
    for (int k = lane; k < count; k += lanes) {
        float4 p = points[k];
        float dz = p.z - (h + sx * p.x + sy * p.y);
        float c = EXP2(dz * dz * (dz >= 0.0f ? up : DOWN));
        float cx = c * p.x, cy = c * p.y;
        w += c;
        wx += cx;
        wy += cy;
        wxx += cx * p.x;
        wxy += cx * p.y;
        wyy += cy * p.y;
        wz += c * p.z;
        wzx += cx * p.z;
        wzy += cy * p.z;
    }
    sum->p00 += ALPHA * w;
    sum->p01 += ALPHA * wx;
    sum->p02 += ALPHA * wy;
    sum->p11 += ALPHA * wxx;
    sum->p12 += ALPHA * wxy;
    sum->p22 += ALPHA * wyy;
    sum->x0 += ALPHA * wz;
    sum->x1 += ALPHA * wzx;
    sum->x2 += ALPHA * wzy;
}

#define FOR_EACH_NUMBER(DO) DO(p00) DO(p01) DO(p02) DO(p11) DO(p12) DO(p22) DO(x0) DO(x1) DO(x2)

#if LANES > 1
// The sum over `lanes` neighbouring work-items, known to all of them. scratch: nine floats per work-item.
FUNCTION void sum_over_lanes(Information *s, int lanes, LOCAL float *scratch) {
#ifdef ROADBED_CUDA
    for (int offset = 1; offset < lanes; offset *= 2) {
#define ADD_OTHER(number) s->number += __shfl_xor_sync(0xffffffffu, s->number, offset);
        FOR_EACH_NUMBER(ADD_OTHER)
#undef ADD_OTHER
    }
#else
    int number = 0, first = LOCAL_ID & ~(lanes - 1);
    BARRIER();
#define WRITE_MINE(name) scratch[LOCAL_SIZE * number++ + LOCAL_ID] = s->name;
    FOR_EACH_NUMBER(WRITE_MINE)
#undef WRITE_MINE
    BARRIER();
    number = 0;
#define ADD_ALL(name)                                                                         \
    s->name = 0.0f;                                                                           \
    for (int k = 0; k < lanes; ++k) s->name += scratch[LOCAL_SIZE * number + first + k];      \
    ++number;
    FOR_EACH_NUMBER(ADD_ALL)
#undef ADD_ALL
#endif
}

#ifdef ROADBED_CUDA
#define PART 32
#else
#define PART LANES
#endif

// The sum over the whole work-group, known to all of it.
FUNCTION void sum_over_group(Information *s, LOCAL float *scratch) {
    sum_over_lanes(s, PART, scratch);
    BARRIER();
    int part = LOCAL_ID / PART, parts = GROUP / PART;
    if (LOCAL_ID % PART == 0) {
        int number = 0;
#define WRITE_PART(name) scratch[parts * number++ + part] = s->name;
        FOR_EACH_NUMBER(WRITE_PART)
#undef WRITE_PART
    }
    BARRIER();
    int number = 0;
#define ADD_PARTS(name)                                                                \
    s->name = 0.0f;                                                                    \
    for (int k = 0; k < parts; ++k) s->name += scratch[parts * number + k];            \
    ++number;
    FOR_EACH_NUMBER(ADD_PARTS)
#undef ADD_PARTS
    BARRIER();
}
#endif

// `up`: the exponent's factor above the surface in this iteration. `last`: also describe the surface (h, sx, sy, variance).
KERNEL iterate(GLOBAL const Frame *frames, GLOBAL const float4 *from_all, GLOBAL float4 *to_all,
               GLOBAL const float4 *prior_all, GLOBAL const float4 *expected, GLOBAL const int2 *segments,
               GLOBAL const float4 *sorted, GLOBAL const int *dense, GLOBAL const int *cursors,
               GLOBAL float4 *surface, int capacity, int dense_groups, float up, int last) {
    GLOBAL const float4 *from = from_all + 3 * SLOT * NODES;
    GLOBAL const float4 *prior = prior_all + 3 * SLOT * NODES;
    GLOBAL float4 *to = to_all + 3 * SLOT * NODES;
    GLOBAL const float4 *points = sorted + SLOT * capacity;
    int warm = frames[SLOT].warm;
    int task, tasks, step, lane, lanes;
#if LANES > 1
    LOCAL_ARRAY float scratch[9 * GROUP];
    int whole_group = GROUP_ID < dense_groups;
    if (whole_group) {
        task = GROUP_ID, tasks = cursors[2 * SLOT + 1], step = dense_groups, lane = LOCAL_ID, lanes = LOCAL_SIZE;
    } else {
        task = (GROUP_ID - dense_groups) * (GROUP / LANES) + LOCAL_ID / LANES;
        tasks = task + 1, step = 1, lane = LOCAL_ID % LANES, lanes = LANES;
    }
#else
    task = GLOBAL_ID, tasks = task < NODES ? task + 1 : 0, step = 1, lane = 0, lanes = 1;
#endif
    for (; task < tasks; task += step) {
        int node = task;
#if LANES > 1
        if (whole_group) node = dense[SLOT * NODES + task];
        int beyond = node >= NODES;
        node = beyond ? NODES - 1 : node;
#endif
        int2 segment = segments[SLOT * NODES + node];
        float4 plane = from[3 * node + 2];
        Information sum = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        add_neighbours(&sum, from, prior, node, warm, lane, lanes);
#if LANES > 1
        int skip = beyond || (!whole_group && segment.y > DENSE_FROM);
        add_points(&sum, points + segment.x, skip ? 0 : segment.y, plane, up, lane, lanes);
        if (whole_group) sum_over_group(&sum, scratch);
        else sum_over_lanes(&sum, LANES, scratch);
        if (skip || lane != 0) continue;
#else
        add_points(&sum, points + segment.x, segment.y, plane, up, 0, 1);
#endif
        float4 found = solve_plane(sum, expected[SLOT * NODES + node]);
        store_node(to, node, sum, found);
        if (last) surface[SLOT * NODES + node] = FLOAT4(found.x, found.y, found.z, found.w * VARIANCE_SCALE);
    }
}
