// SPDX-License-Identifier: Apache-2.0
// Moves the prior with the vehicle: by whole nodes on a rolling lattice, or transformed into the new vehicle frame.
// Twin: motion_cpu.py.

// Whether a node stays as prior: of a posterior, only nodes that were seen do.
FUNCTION int stays(GLOBAL const Frame *frame, GLOBAL const uchar *seen, int node) {
    return !SEEN_ONLY || frame->prior_from != POSTERIOR || (seen[node] & STAYS);
}

// Information of a node that stays; `earlier`: the state before the last iteration. A node of a posterior without data
// keeps the plane of the prior `before`, with no more information than its posterior has: else it would creep towards its
// neighbours with every scan that does not see it.
FUNCTION Information kept_information(GLOBAL const Frame *frame, GLOBAL const float4 *from, GLOBAL const float4 *earlier,
                                      GLOBAL const float4 *before, GLOBAL const uchar *seen, int node) {
    if (!SEEN_ONLY || frame->prior_from != POSTERIOR) return load_information(from, node);
#if SEEN_ONLY
    if (seen[node] & HAS_DATA) return reweighted(earlier, from, REMEMBERED_POINTS, node);
#endif
    Information kept = load_information(before, node);
    float share = fmin(from[3 * node].x / fmax(kept.p00, STAYS_FROM), 1.0f);
#define SCALE(number) kept.number *= share;
    FOR_EACH_NUMBER(SCALE)
#undef SCALE
    return kept;
}

// Information of the four nodes around (x, y) of the old frame, each transported to that point; none outside.
FUNCTION Information sample(GLOBAL const Frame *frame, GLOBAL const float4 *state, GLOBAL const float4 *earlier,
                            GLOBAL const float4 *before, GLOBAL const uchar *seen, float x, float y) {
    Information sum = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    float u = (x - frame->node_x) / SPACING, v = (y - frame->node_y) / SPACING;
    int column = (int)floor(u), row = (int)floor(v);
    for (int corner = 0; corner < 4; ++corner) {
        int i = column + corner % 2, j = row + corner / 2;
        if (i < 0 || i >= COLUMNS || j < 0 || j >= ROWS || !stays(frame, seen, j * COLUMNS + i)) continue;
        float weight = (1.0f - fabs(u - i)) * (1.0f - fabs(v - j));
        Information kept = kept_information(frame, state, earlier, before, seen, j * COLUMNS + i);
        add_transported(&sum, kept, (i - u) * SPACING, (j - v) * SPACING, weight);
    }
    return sum;
}

// To first order d mu_old / d mu_new = blkdiag(1, R(yaw)): the slopes' part of P turns; X follows from the moved plane.
FUNCTION Information turned(Information s, float4 plane, float cosine, float sine) {
    Information t;
    t.p00 = s.p00;
    t.p01 = cosine * s.p01 + sine * s.p02;
    t.p02 = cosine * s.p02 - sine * s.p01;
    float cross = 2.0f * cosine * sine * s.p12;
    t.p11 = cosine * cosine * s.p11 + sine * sine * s.p22 + cross;
    t.p22 = sine * sine * s.p11 + cosine * cosine * s.p22 - cross;
    t.p12 = (cosine * cosine - sine * sine) * s.p12 + cosine * sine * (s.p22 - s.p11);
    t.x0 = t.p00 * plane.x + t.p01 * plane.y + t.p02 * plane.z;
    t.x1 = t.p01 * plane.x + t.p11 * plane.y + t.p12 * plane.z;
    t.x2 = t.p02 * plane.x + t.p12 * plane.y + t.p22 * plane.z;
    return t;
}

// Transports the information at a node of the new vehicle frame from the old frame.
FUNCTION void transport(GLOBAL const Frame *frame, GLOBAL const float4 *from, GLOBAL const float4 *earlier,
                        GLOBAL const float4 *before, GLOBAL const uchar *seen, GLOBAL float4 *to, int node) {
    GLOBAL const float *turn = frame->turn, *travel = frame->travel;
    float x = frame->node_x + (float)(node % COLUMNS) * SPACING, y = frame->node_y + (float)(node / COLUMNS) * SPACING;
    float4 plane = FLOAT4(0.0f, 0.0f, 0.0f, 0.0f), level = plane;
    Information found = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    // If the vehicle has tilted, the old position of the node depends on its height: guess, then repeat.
    for (int pass = 0; pass < 2; ++pass) {
        float x_old = turn[0] * x + turn[1] * y + turn[2] * plane.x + travel[0];
        float y_old = turn[3] * x + turn[4] * y + turn[5] * plane.x + travel[1];
        found = sample(frame, from, earlier, before, seen, x_old, y_old);
        if (found.p00 <= NOTHING_KNOWN) break;
        float4 old = solve_with(found, level, WEAK_HEIGHT_INFORMATION);
        // Plane m . p = d in the old frame, turned and moved into the new one.
        float m0 = turn[6] - turn[0] * old.y - turn[3] * old.z;
        float m1 = turn[7] - turn[1] * old.y - turn[4] * old.z;
        float m2 = turn[8] - turn[2] * old.y - turn[5] * old.z;
        float distance = old.x - old.y * x_old - old.z * y_old + old.y * travel[0] + old.z * travel[1] - travel[2];
        plane.y = -m0 / m2;
        plane.z = -m1 / m2;
        plane.x = distance / m2 + plane.y * x + plane.z * y;
    }
    Information nothing = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    float length = sqrt(turn[0] * turn[0] + turn[3] * turn[3]);
    if (found.p00 <= NOTHING_KNOWN) store_node(to, node, nothing, level);
    else store_node(to, node, turned(found, plane, turn[0] / length, turn[3] / length), plane);
}

// Shifts a node. Its plane moves along, or the expected one if too little is known; nodes that enter take the plane of the
// nearest node: the next frame's coarse lattice starts from these planes.
FUNCTION void roll(GLOBAL const Frame *frame, GLOBAL const float4 *from, GLOBAL const float4 *earlier,
                   GLOBAL const float4 *before, GLOBAL const uchar *seen, GLOBAL const float4 *expected, GLOBAL float4 *to,
                   int node) {
    int column = node % COLUMNS + frame->shift_columns, row = node / COLUMNS + frame->shift_rows;
    int inside = column >= 0 && column < COLUMNS && row >= 0 && row < ROWS;
    int old = min(max(row, 0), ROWS - 1) * COLUMNS + min(max(column, 0), COLUMNS - 1);
    Information s = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    int kept = stays(frame, seen, old);
    if (inside && kept) {
        s = kept_information(frame, from, earlier, before, seen, old);
        s.x0 -= frame->lower * s.p00;
        s.x1 -= frame->lower * s.p01;
        s.x2 -= frame->lower * s.p02;
    }
    float4 last = from[3 * old + 2], plane = FLOAT4(last.y, last.z, last.w, 0.0f);
    if (!kept && from[3 * old].x <= PLANE_FROM) plane = expected[old];
    store_node(to, node, s, FLOAT4(plane.x - frame->lower, plane.y, plane.z, 0.0f));
}

KERNEL move_prior(GLOBAL const Frame *frames, GLOBAL const float4 *posterior, GLOBAL const float4 *earlier_all,
                  GLOBAL const uchar *seen_all, GLOBAL const float4 *expected, GLOBAL float4 *priors) {
    int node = GLOBAL_ID;
    if (node >= NODES) return;
    GLOBAL const Frame *frame = &frames[SLOT];
    GLOBAL float4 *own = priors + 6 * SLOT * NODES;
    GLOBAL const float4 *from = own + 3 * frame->prior_from * NODES;
    if (frame->prior_from == POSTERIOR) from = posterior + 3 * SLOT * NODES;
    GLOBAL const uchar *seen = seen_all + SLOT * NODES;
    GLOBAL float4 *to = own + 3 * frame->prior * NODES;
    GLOBAL const float4 *before = own + 3 * (1 - frame->prior) * NODES, *earlier = earlier_all + 3 * SLOT * NODES;
    if (frame->motion == TURNING) transport(frame, from, earlier, before, seen, to, node);
    else roll(frame, from, earlier, before, seen, expected + SLOT * NODES, to, node);
}
