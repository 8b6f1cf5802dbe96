// SPDX-License-Identifier: Apache-2.0
// The surface's uncertainty.

#if SEEN_ONLY
// How many nodes around, itself among them, were seen.
FUNCTION int seen_beside(GLOBAL const uchar *seen, int node) {
    int column = node % COLUMNS, row = node / COLUMNS, found = 0;
    for (int j = max(row - 1, 0); j < min(row + 2, ROWS); ++j)
        for (int i = max(column - 1, 0); i < min(column + 2, COLUMNS); ++i)
            found += (seen[j * COLUMNS + i] & SEEN) != 0;
    return found;
}

// Mean squared difference, m^2, between a node's height and the planes of the seen nodes beside it.
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

// The plane that is reported of a node (h, sx, sy). In the EM neighbours count the same everywhere, which holds obstacles
// down and bends every crest and ditch flat; where a node has points of its own, these are asked first. `certainty`:
// [(P + P0)^-1]_00, and m^2 by which the expected slope's variance counts. `from`: the state before the last iteration.
FUNCTION float4 reweighted_plane(GLOBAL const float4 *from, GLOBAL const float4 *to, float4 expected, int node, float2 *certainty) {
    Information sum = load_information(to, node), others = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    add_neighbours(&others, from, from, node, 0.0f, 0, 1);
    float own = fmax(sum.p00 - others.p00, 0.0f);
    add_transported(&sum, others, 0.0f, 0.0f, OWN_POINTS / (OWN_POINTS + own) - 1.0f);
    float4 plane = solve_plane(sum, expected);
    float l1 = sum.p01 / (sum.p00 + HEIGHT_INFORMATION), l2 = sum.p02 / (sum.p00 + HEIGHT_INFORMATION);
    float inverse1 = 1.0f / (sum.p11 + SLOPE_INFORMATION - l1 * sum.p01), t = sum.p12 - l1 * sum.p02, l3 = t * inverse1;
    float by_y = (l1 * l3 - l2) / (sum.p22 + SLOPE_INFORMATION - l2 * sum.p02 - l3 * t), by_x = l1 * inverse1 + by_y * l3;
    certainty->x = plane.w;
    certainty->y = SLOPE_INFORMATION * SLOPE_INFORMATION * (by_x * by_x + by_y * by_y);
    return plane;
}

// What is known of a node, m^2: how far it is in doubt, and what it and the planes beside it disagree by.
// Information that came from neighbours alone says little about a node: it is known only between seen neighbours.
// Points tell how well a plane is known, its neighbours how well the ground is one: what they disagree by is added.
FUNCTION float2 judge(GLOBAL const float4 *surface, GLOBAL const uchar *seen, int node) {
    float unknown = VARIANCE_SCALE / HEIGHT_INFORMATION, doubt = surface[node].w, bump = 0.0f;
    int own = (seen[node] & SEEN) != 0;
    if (!own) doubt = seen_beside(seen, node) >= SIDES ? doubt + FILLED_VARIANCE : unknown;
    if (DISAGREEMENT > 0.0f && (own || doubt <= KNOWN_VARIANCE)) bump = disagreement(surface, seen, node);
    if (!own && bump > GAP_UNEVENNESS) doubt = unknown;  // a hollow may hide in the gap
    if (doubt <= KNOWN_VARIANCE) doubt += DISAGREEMENT * bump;
    float2 found;
    found.x = doubt;
    found.y = bump;
    return found;
}

// The variance of a known node, m^2: points fix the ground as well as it is even around them. What the planes around
// disagree by is a point's variance, in place of a fixed one; what a node itself disagrees by stays, whatever its points.
// So does the part that depends on an expected slope: one ring of points cannot determine the slope across it.
FUNCTION float compute_variance(GLOBAL const uchar *seen, GLOBAL const float4 *judged, int node) {
    int column = node % COLUMNS, row = node / COLUMNS;
    float total = 0.0f, count = 0.0f;
    for (int j = max(row - 1, 0); j < min(row + 2, ROWS); ++j)
        for (int i = max(column - 1, 0); i < min(column + 2, COLUMNS); ++i) {
            int other = j * COLUMNS + i;
            if (!(seen[other] & SEEN)) continue;
            total += judged[other].y;
            count += 1.0f;
        }
    float point = POINT_NOISE + POINT_UNEVENNESS * total / fmax(count, 1.0f);
    float4 own = judged[node];
    return fmin(own.z * point + NODE_UNEVENNESS * own.y + SLOPE_VARIANCE * own.w, KNOWN_VARIANCE);
}
#else
FUNCTION float2 judge(GLOBAL const float4 *surface, GLOBAL const uchar *seen, int node) {
    float2 found;
    found.x = surface[node].w;
    found.y = 0.0f;
    return found;
}
#endif
