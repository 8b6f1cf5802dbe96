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
    int warm;               // the prior is used
    int prior;              // which of the two prior buffers holds it
    float base;             // m, height in the lattice frame from which the engine counts
    float road;             // m, height of the road under the vehicle
    float rotation[9];      // sensor to lattice
    float translation[3];
    float vehicle_x;        // m from the lattice's corner
    float vehicle_y;
    float vehicle_cosine;   // of the yaw
    float vehicle_sine;
    float vehicle_slope_x;  // of the plane of its wheels
    float vehicle_slope_y;
    int moving_columns;     // mask of cells that move; 0: none
    int moving_rows;
    float moving_x;         // m from the lattice's corner
    float moving_y;
    float moving_scale;     // cells per m
    int prior_from;         // where the prior to be moved lies: a prior buffer, or POSTERIOR: the last frame's result
    int motion;             // how it is moved: ROLLING by whole nodes, or TURNING with the vehicle
    int shift_columns;
    int shift_rows;
    float lower;            // m the base height has risen
    float turn[9];          // vehicle now to vehicle then
    float travel[3];
    float node_x;           // m, the first node in the vehicle frame
    float node_y;
    int stride;             // every so many-th point is compared with the prior surface
    float reach;            // m around the sensor
    int spare;
} Frame;

#define ROLLING 0
#define TURNING 1
#define POSTERIOR 2

// What a frame says of a node where SEEN_ONLY is set: its ground was seen, now or before; it stays as prior.
#define SEEN 1
#define STAYS 2

#define CURSORS 6
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
FUNCTION float4 solve_with(Information s, float4 expected, float height_information) {
    float p00 = s.p00 + height_information, p11 = s.p11 + SLOPE_INFORMATION, p22 = s.p22 + SLOPE_INFORMATION;
    float x0 = s.x0 + height_information * expected.x;
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

FUNCTION float4 solve_plane(Information s, float4 expected) { return solve_with(s, expected, HEIGHT_INFORMATION); }

// Adds F^T P F and F^T X with F = [1 a b; 0 1 0; 0 0 1]: what a node (a, b) metres away knows, said of the plane here.
FUNCTION void add_transported(Information *sum, Information n, float a, float b, float share) {
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

// Step 1: each point to the lattice frame, to its node, and to its rank among the node's points. The points may lie in
// host memory: this is the only kernel that reads them.
KERNEL locate(GLOBAL const Frame *frames, GLOBAL const float *intake, GLOBAL float4 *located, GLOBAL int *rank,
              GLOBAL int *counts, GLOBAL int *cursors, GLOBAL uint *tallies, int capacity) {
    LOCAL_ARRAY float tile[3 * GROUP];
    GLOBAL const Frame *frame = &frames[SLOT];
    // While points arrive: what the labels will count starts from zero.
    GLOBAL float4 *quads = (GLOBAL float4 *)(tallies + SLOT * TALLY_WORDS);
    for (int k = GLOBAL_ID; k < TALLY_WORDS / 4; k += GLOBAL_SIZE) quads[k] = FLOAT4(0.0f, 0.0f, 0.0f, 0.0f);
    if (GROUP_ID == 0 && LOCAL_ID < CURSORS) cursors[CURSORS * SLOT + LOCAL_ID] = 0;
    GLOBAL const float *points = AT(const float, frame->points, intake + 3 * SLOT * capacity);
    GLOBAL const float *r = frame->rotation, *t = frame->translation;
    int count = frame->count;
    // A CPU's groups take consecutive tiles, so that points reach their nodes almost in scan order.
    int tiles = (count + LOCAL_SIZE - 1) / LOCAL_SIZE, share = (tiles + GROUP_COUNT - 1) / GROUP_COUNT;
    int first = LANES == 1 ? GROUP_ID * share : GROUP_ID, step = LANES == 1 ? 1 : GROUP_COUNT;
    int last = LANES == 1 ? min(first + share, tiles) : tiles;
    for (int k = first; k < last; k += step) {
        int begin = k * LOCAL_SIZE;
        read_points(points, begin, count, tile);
        BARRIER();
        int i = begin + LOCAL_ID;
        float x = tile[3 * LOCAL_ID], y = tile[3 * LOCAL_ID + 1], z = tile[3 * LOCAL_ID + 2];
        float u = r[0] * x + r[1] * y + r[2] * z + t[0];
        float v = r[3] * x + r[4] * y + r[5] * z + t[1];
        float w = r[6] * x + r[7] * y + r[8] * z + t[2];
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

// Height of the wheels' plane over a node under the vehicle; not a number elsewhere.
FUNCTION float height_under_vehicle(GLOBAL const Frame *frame, int node) {
    float x = ((float)(node % COLUMNS) + 0.5f) * SPACING - frame->vehicle_x;
    float y = ((float)(node / COLUMNS) + 0.5f) * SPACING - frame->vehicle_y;
    float along = frame->vehicle_cosine * x + frame->vehicle_sine * y;
    float across = frame->vehicle_cosine * y - frame->vehicle_sine * x;
    int under = fabs(along) < FOOTPRINT_X && fabs(across) < FOOTPRINT_Y;
    return under ? frame->road + frame->vehicle_slope_x * x + frame->vehicle_slope_y * y : NOT_A_NUMBER;
}

// The state from which the EM starts: the prior's information or none, and the plane it gives with what is expected.
FUNCTION void begin_node(GLOBAL const Frame *frame, GLOBAL const float4 *priors, GLOBAL float4 *start,
                         GLOBAL float4 *expected, int node, float4 plane) {
    Information s = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    if (frame->warm) s = load_information(priors + 3 * frame->prior * NODES, node);
    expected[node] = plane;
    store_node(start, node, s, solve_plane(s, plane));
}

// Step 2, per node: room for its points (ANCHORS more under the vehicle), and the first plane: its own, or that of the
// coarse node of the same number. Nodes with more than FEW points join the list of their kind: {node, place, count}.
// cursors: {next free place; nodes with some points, with many, with more; nodes with points that the prior does not and
// does know}.
KERNEL allocate(GLOBAL const Frame *frames, GLOBAL int *counts, GLOBAL int2 *segments, GLOBAL int *cursors,
                GLOBAL int4 *lists, GLOBAL const float4 *priors, GLOBAL float4 *start, GLOBAL float4 *expected,
                GLOBAL float4 *coarse_start, GLOBAL float4 *coarse_expected) {
    LOCAL_ARRAY int scratch[GROUP];
    LOCAL_ARRAY int first;
    GLOBAL const Frame *frame = &frames[SLOT];
    int node = GLOBAL_ID;
    int here = node < NODES;
    int count = here ? counts[SLOT * NODES + node] : 0;
    if (here && ANCHORS && is_finite(height_under_vehicle(frame, node))) count += ANCHORS;
    int total;
    int before = group_scan(count, scratch, &total);
    if (LOCAL_ID == 0) first = ATOMIC_ADD(&cursors[CURSORS * SLOT], total);
    int kind = count <= FEW ? -1 : count <= SOME ? 0 : count <= MANY ? 1 : 2;
    if (frame->warm) {
        int known = here && priors[3 * ((2 * SLOT + frame->prior) * NODES + node)].x > KNOWN_PRIOR;
        join_list(cursors + CURSORS * SLOT + 4, count > 0 ? known : -1, 2);
    }
    int listed = LANES > 1 ? join_list(cursors + CURSORS * SLOT + 1, kind, 3) : 0;
    BARRIER();
    if (!here) return;
    segments[SLOT * NODES + node] = INT2(first + before, count);
    counts[SLOT * NODES + node] = 0;
    if (LANES > 1 && kind >= 0) lists[(3 * SLOT + kind) * NODES + listed] = INT4(node, first + before, count, 0);
    float4 level = FLOAT4(frame->road, 0.0f, 0.0f, 0.0f);
#if COARSE_START
    if (node < COARSE_NODES) {
        Information nothing = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        coarse_expected[SLOT * COARSE_NODES + node] = level;
        store_node(coarse_start + 3 * SLOT * COARSE_NODES, node, nothing, level);
    }
#else
    begin_node(frame, priors + 6 * SLOT * NODES, start + 3 * SLOT * NODES, expected + SLOT * NODES, node, level);
#endif
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
        sorted[SLOT * (capacity + EXTRA) + segments[SLOT * NODES + node].x + rank[SLOT * capacity + i]] = point;
    }
}
