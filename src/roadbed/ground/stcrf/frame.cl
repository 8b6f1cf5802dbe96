// SPDX-License-Identifier: Apache-2.0
// What every kernel of the STCRF shares: information about planes, and the solve.
//
// COLUMNS, ROWS, NODES, SPACING describe the lattice; GROUP is the work-group size. SLOT selects one of several scans that
// are processed at the same time. `Frame` and all constants come from model.py. Heights count from the frame's base height,
// positions from the lattice's corner.

// Information of a node: P = (p00 p01 p02 p11 p12 p22) and X = P mu.
typedef struct {
    float p00, p01, p02, p11, p12, p22, x0, x1, x2;
} Information;

#define FOR_EACH_NUMBER(DO) DO(p00) DO(p01) DO(p02) DO(p11) DO(p12) DO(p22) DO(x0) DO(x1) DO(x2)

// In memory a node takes three float4: the nine numbers of its information, then its plane mu = (h, sx, sy).
FUNCTION Information load_information(GLOBAL const float4 *state, int node) {
    float4 a = state[3 * node], b = state[3 * node + 1], c = state[3 * node + 2];
    Information out = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x};
    return out;
}

FUNCTION float4 load_plane(GLOBAL const float4 *state, int node) {
    float4 c = state[3 * node + 2];
    return FLOAT4(c.y, c.z, c.w, 0.0f);
}

FUNCTION void store_node(GLOBAL float4 *state, int node, Information s, float4 plane) {
    state[3 * node] = FLOAT4(s.p00, s.p01, s.p02, s.p11);
    state[3 * node + 1] = FLOAT4(s.p12, s.p22, s.x0, s.x1);
    state[3 * node + 2] = FLOAT4(s.x2, plane.x, plane.y, plane.z);
}

// mu = (P + P0)^-1 (X + P0 expected) by an unrolled L D L^T; w receives [(P + P0)^-1]_00. P0 is never accumulated.
#define SOLVE(NAME, NUMBER, INFORMATION, PLANE)                                                                        \
FUNCTION PLANE NAME(INFORMATION s, PLANE expected, float height_information) {                                         \
    NUMBER p00 = s.p00 + height_information, p11 = s.p11 + SLOPE_INFORMATION, p22 = s.p22 + SLOPE_INFORMATION;         \
    NUMBER x0 = s.x0 + height_information * expected.x;                                                                \
    NUMBER x1 = s.x1 + SLOPE_INFORMATION * expected.y;                                                                 \
    NUMBER x2 = s.x2 + SLOPE_INFORMATION * expected.z;                                                                 \
    NUMBER inverse0 = 1.0f / p00;                                                                                      \
    NUMBER l1 = s.p01 * inverse0, l2 = s.p02 * inverse0;                                                               \
    NUMBER inverse1 = 1.0f / (p11 - l1 * s.p01);                                                                       \
    NUMBER t = s.p12 - l1 * s.p02;                                                                                     \
    NUMBER l3 = t * inverse1;                                                                                          \
    NUMBER inverse2 = 1.0f / (p22 - l2 * s.p02 - l3 * t);                                                              \
    NUMBER y1 = x1 - l1 * x0;                                                                                          \
    NUMBER lever = l1 * l3 - l2;                                                                                       \
    PLANE plane;                                                                                                       \
    plane.z = (x2 - l2 * x0 - l3 * y1) * inverse2;                                                                     \
    plane.y = inverse1 * y1 - l3 * plane.z;                                                                            \
    plane.x = x0 * inverse0 - l1 * plane.y - l2 * plane.z;                                                             \
    plane.w = inverse0 + l1 * l1 * inverse1 + lever * lever * inverse2;                                                \
    return plane;                                                                                                      \
}

SOLVE(solve_with, float, Information, float4)

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
