// SPDX-License-Identifier: Apache-2.0
// One frame of the STCRF: where it is described, and how its points come to their nodes.
//
// COLUMNS, ROWS, NODES, SPACING describe the lattice; GROUP is the work-group size. SLOT selects one of several scans that
// are processed at the same time. Heights count from the frame's base height, positions from the lattice's corner.

typedef struct {
    address_t points;       // (count, 3) float; 0: they were copied to the intake buffer
    address_t label;        // outputs, one per point; 0: our own buffers
    address_t probability;
    address_t height;
    address_t layers;       // lattice layers: elevation, then slope (x, y), then variance
    int count;
    int wanted;             // outputs the caller asks for: PROBABILITY | HEIGHT | LAYERS
    int warm;               // the previous posterior is the prior
    int shift_columns;      // nodes the lattice has moved since the previous frame
    int shift_rows;
    float base;             // m, height in the lattice frame from which the engine counts
    float base_change;      // m it has risen since the previous frame
    float rotation[9];      // sensor to lattice
    float translation[3];
} Frame;

#define PROBABILITY 1
#define HEIGHT 2
#define LAYERS 4

// Information of a node: P = (p00 p01 p02 p11 p12 p22) and X = P mu.
typedef struct {
    float p00, p01, p02, p11, p12, p22, x0, x1, x2;
} Information;

// In memory a node takes three float4: the nine numbers of its information, then its plane mu = (h, sx, sy).
FUNCTION Information load_information(GLOBAL const float4 *state, int node) {
    float4 a = state[3 * node], b = state[3 * node + 1], c = state[3 * node + 2];
    Information out = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x};
    return out;
}

FUNCTION void store_node(GLOBAL float4 *state, int node, Information s, float4 plane) {
    state[3 * node] = FLOAT4(s.p00, s.p01, s.p02, s.p11);
    state[3 * node + 1] = FLOAT4(s.p12, s.p22, s.x0, s.x1);
    state[3 * node + 2] = FLOAT4(s.x2, plane.x, plane.y, plane.z);
}

// mu = (P + P0)^-1 (X + P0 expected) by an unrolled L D L^T; w receives [(P + P0)^-1]_00. P0 is never accumulated.
FUNCTION float4 solve_plane(Information s, float4 expected) {
    float p00 = s.p00 + HEIGHT_INFORMATION, p11 = s.p11 + SLOPE_INFORMATION, p22 = s.p22 + SLOPE_INFORMATION;
    float x0 = s.x0 + HEIGHT_INFORMATION * expected.x;
    float x1 = s.x1 + SLOPE_INFORMATION * expected.y;
    float x2 = s.x2 + SLOPE_INFORMATION * expected.z;
    float inverse0 = 1.0f / p00;
    float l1 = s.p01 * inverse0, l2 = s.p02 * inverse0;
    float inverse1 = 1.0f / (p11 - l1 * s.p01);
    float t = s.p12 - l1 * s.p02;
    float l3 = t * inverse1;
    float inverse2 = 1.0f / (p22 - l2 * s.p02 - l3 * t);
    float y1 = x1 - l1 * x0;
    float slope_y = (x2 - l2 * x0 - l3 * y1) * inverse2;
    float slope_x = inverse1 * y1 - l3 * slope_y;
    float lever = l1 * l3 - l2;
    return FLOAT4(x0 * inverse0 - l1 * slope_x - l2 * slope_y, slope_x, slope_y,
                  inverse0 + l1 * l1 * inverse1 + lever * lever * inverse2);
}

// Step 1: each point to the lattice frame, to its node, and to its rank among the node's points.
// `incoming` may be host memory, so it is read once per group and handed on to the later kernels as `frames`.
KERNEL locate(GLOBAL const Frame *incoming, GLOBAL Frame *frames, GLOBAL const float *intake, GLOBAL float4 *located,
              GLOBAL int *rank, GLOBAL int *counts, GLOBAL int *cursors, int capacity) {
    LOCAL_ARRAY Frame frame;
    LOCAL_ARRAY float tile[3 * GROUP];
    GLOBAL const int *words = (GLOBAL const int *)&incoming[SLOT];
    for (int k = LOCAL_ID; k < (int)sizeof(Frame) / 4; k += LOCAL_SIZE) {
        ((LOCAL int *)&frame)[k] = words[k];
        if (GROUP_ID == 0) ((GLOBAL int *)&frames[SLOT])[k] = words[k];
    }
    if (GROUP_ID == 0 && LOCAL_ID < 2) cursors[2 * SLOT + LOCAL_ID] = 0;
    BARRIER();
    GLOBAL const float *points = AT(const float, frame.points, intake + 3 * SLOT * capacity);
    int count = frame.count;
    for (int begin = GROUP_ID * LOCAL_SIZE; begin < count; begin += GLOBAL_SIZE) {
        read_points(points, begin, count, tile);
        BARRIER();
        int i = begin + LOCAL_ID;
        float x = tile[3 * LOCAL_ID], y = tile[3 * LOCAL_ID + 1], z = tile[3 * LOCAL_ID + 2];
        float u = frame.rotation[0] * x + frame.rotation[1] * y + frame.rotation[2] * z + frame.translation[0];
        float v = frame.rotation[3] * x + frame.rotation[4] * y + frame.rotation[5] * z + frame.translation[1];
        float w = frame.rotation[6] * x + frame.rotation[7] * y + frame.rotation[8] * z + frame.translation[2];
        float column = u * (1.0f / SPACING), row = v * (1.0f / SPACING);
        int usable = i < count && is_return(x, y, z);
        int inside = column >= 0.0f && column < COLUMNS && row >= 0.0f && row < ROWS && fabs(w) < 1e4f;
        int node = usable && inside ? (int)row * COLUMNS + (int)column : -1;
        int place = count_into_cell(counts + SLOT * NODES, node);
        if (i < count) {
            located[SLOT * capacity + i] = FLOAT4(u - ((float)(int)column + 0.5f) * SPACING,
                                                  v - ((float)(int)row + 0.5f) * SPACING, w, FLOAT_OF((uint)node));
            rank[SLOT * capacity + i] = place;
        }
        BARRIER();
    }
}

// Step 2, per node: room for its points, and its prior: the previous posterior moved with the lattice (rolling), its
// plane counted from the new base height. cursors: {next free place, number of dense nodes}.
KERNEL prepare(GLOBAL const Frame *frames, GLOBAL int *counts, GLOBAL int2 *segments, GLOBAL int *cursors,
               GLOBAL int *dense, GLOBAL const float4 *posterior, GLOBAL float4 *prior,
               GLOBAL const float4 *expected) {
    LOCAL_ARRAY int scratch[GROUP];
    LOCAL_ARRAY int first;
    int node = GLOBAL_ID;
    int here = node < NODES;
    int count = here ? counts[SLOT * NODES + node] : 0;
    int total;
    int before = group_scan(count, scratch, &total);
    if (LOCAL_ID == 0) first = ATOMIC_ADD(&cursors[2 * SLOT], total);
    BARRIER();
    if (!here) return;
    segments[SLOT * NODES + node] = INT2(first + before, count);
    counts[SLOT * NODES + node] = 0;
    if (LANES > 1 && count > DENSE_FROM) dense[SLOT * NODES + ATOMIC_ADD(&cursors[2 * SLOT + 1], 1)] = node;

    GLOBAL const Frame *frame = &frames[SLOT];
    Information s = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    int column = node % COLUMNS + frame->shift_columns, row = node / COLUMNS + frame->shift_rows;
    if (frame->warm && column >= 0 && column < COLUMNS && row >= 0 && row < ROWS) {
        s = load_information(posterior + 3 * SLOT * NODES, row * COLUMNS + column);
        s.x0 -= frame->base_change * s.p00;
        s.x1 -= frame->base_change * s.p01;
        s.x2 -= frame->base_change * s.p02;
    }
    float4 plane = solve_plane(s, expected[SLOT * NODES + node]);
    store_node(prior + 3 * SLOT * NODES, node, s, plane);
}

// Step 3: points into the order of their nodes. The fourth number is the point's place in the input.
KERNEL place(GLOBAL const Frame *frames, GLOBAL const float4 *located, GLOBAL const int *rank,
             GLOBAL const int2 *segments, GLOBAL float4 *sorted, int capacity) {
    int count = frames[SLOT].count;
    for (int i = GLOBAL_ID; i < count; i += GLOBAL_SIZE) {
        float4 point = located[SLOT * capacity + i];
        int node = (int)BITS_OF(point.w);
        if (node < 0) continue;
        point.w = FLOAT_OF((uint)i);
        sorted[SLOT * capacity + segments[SLOT * NODES + node].x + rank[SLOT * capacity + i]] = point;
    }
}
