// SPDX-License-Identifier: Apache-2.0
// The uncertainty of the surface. Twin: surface_cpu.py.

#if SEEN_ONLY
// Number of seen nodes in the 3 x 3 around a node, itself included.
FUNCTION int seen_around(GLOBAL const uchar *seen, int node) {
    int column = node % COLUMNS, row = node / COLUMNS, found = 0;
    for (int j = max(row - 1, 0); j < min(row + 2, ROWS); ++j)
        for (int i = max(column - 1, 0); i < min(column + 2, COLUMNS); ++i)
            found += (seen[j * COLUMNS + i] & SEEN) != 0;
    return found;
}

// Mean squared difference, m^2, between a node's height and the planes of its seen neighbours.
FUNCTION float disagreement(GLOBAL const float4 *surface, GLOBAL const uchar *seen, int node) {
    int column = node % COLUMNS, row = node / COLUMNS;
    float total = 0.0f, count = 0.0f, height = surface[node].x;
    for (int j = max(row - 1, 0); j < min(row + 2, ROWS); ++j)
        for (int i = max(column - 1, 0); i < min(column + 2, COLUMNS); ++i) {
            int other = j * COLUMNS + i;
            if (other == node || !(seen[other] & SEEN)) continue;
            float4 plane = surface[other];
            float apart = plane.x + SPACING * (plane.y * (float)(column - i) + plane.z * (float)(row - j)) - height;
            total += apart * apart;
            count += 1.0f;
        }
    return total / fmax(count, 1.0f);
}

// The reported plane (h, sx, sy) of a node. `certainty`: [(P + P0)^-1]_00, and the factor (m^2) of the expected slope's
// variance. `from`: the state before the last iteration.
FUNCTION float4 reweighted_plane(GLOBAL const float4 *from, GLOBAL const float4 *to, float4 expected, int node, float2 *certainty) {
    Information sum = reweighted(from, to, OWN_POINTS, node);
    float4 plane = solve_plane(sum, expected);
    float l1 = sum.p01 / (sum.p00 + HEIGHT_INFORMATION), l2 = sum.p02 / (sum.p00 + HEIGHT_INFORMATION);
    float inverse1 = 1.0f / (sum.p11 + SLOPE_INFORMATION - l1 * sum.p01), t = sum.p12 - l1 * sum.p02, l3 = t * inverse1;
    float by_y = (l1 * l3 - l2) / (sum.p22 + SLOPE_INFORMATION - l2 * sum.p02 - l3 * t), by_x = l1 * inverse1 + by_y * l3;
    certainty->x = plane.w;
    certainty->y = SLOPE_INFORMATION * SLOPE_INFORMATION * (by_x * by_x + by_y * by_y);
    return plane;
}

// Doubt and unevenness of a node, m^2. The doubt is the variance of its height, plus a share of the unevenness: the mean
// squared difference from the planes of its neighbours. A node that was not seen is known only between seen neighbours,
// because information from neighbours alone says little about it.
FUNCTION float2 doubt_of(GLOBAL const float4 *surface, GLOBAL const uchar *seen, int node) {
    float unknown = VARIANCE_SCALE / HEIGHT_INFORMATION, doubt = surface[node].w, unevenness = 0.0f;
    int own = (seen[node] & SEEN) != 0;
    if (!own) doubt = seen_around(seen, node) >= SIDES ? doubt + FILLED_VARIANCE : unknown;
    if (DISAGREEMENT > 0.0f && (own || doubt <= KNOWN_VARIANCE)) unevenness = disagreement(surface, seen, node);
    if (!own && unevenness > GAP_UNEVENNESS) doubt = unknown;  // a hollow may hide in the gap
    if (doubt <= KNOWN_VARIANCE) doubt += DISAGREEMENT * unevenness;
    float2 found;
    found.x = doubt;
    found.y = unevenness;
    return found;
}

// The variance of a known node, m^2. The unevenness around is the variance of a point, instead of a fixed one. The node's own
// unevenness is added however many points it has, more of it where it has none, and so is the part of the expected slope:
// one ring of points cannot determine the slope across it.
FUNCTION float compute_variance(GLOBAL const uchar *seen, GLOBAL const float4 *doubts, int node) {
    int column = node % COLUMNS, row = node / COLUMNS;
    float total = 0.0f, count = 0.0f;
    for (int j = max(row - 1, 0); j < min(row + 2, ROWS); ++j)
        for (int i = max(column - 1, 0); i < min(column + 2, COLUMNS); ++i) {
            int other = j * COLUMNS + i;
            if (!(seen[other] & SEEN)) continue;
            total += doubts[other].y;
            count += 1.0f;
        }
    float point = POINT_NOISE + POINT_UNEVENNESS * total / fmax(count, 1.0f);
    float4 own = doubts[node];
    float share = seen[node] & SEEN ? NODE_UNEVENNESS : FILLED_UNEVENNESS;
    return fmin(own.z * point + share * own.y + SLOPE_VARIANCE * own.w, KNOWN_VARIANCE);
}

// The variance of a known node with the scatter of the poses, which counts far from the sensor.
FUNCTION float with_scatter(GLOBAL const Frame *frame, float variance, int node) {
    float x = frame->translation[0] - SPACING * ((float)(node % COLUMNS) + 0.5f);
    float y = frame->translation[1] - SPACING * ((float)(node / COLUMNS) + 0.5f);
    float scatter = frame->lift_variance + x * x * frame->slope_x_variance + y * y * frame->slope_y_variance;
    return fmin(variance + scatter, KNOWN_VARIANCE);
}
#else
FUNCTION float2 doubt_of(GLOBAL const float4 *surface, GLOBAL const uchar *seen, int node) {
    float2 found;
    found.x = surface[node].w;
    found.y = 0.0f;
    return found;
}
#endif
