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

// Information that came from neighbours alone says little about a node: it is known only between seen neighbours.
// Points tell how well a plane is known, its neighbours how well the ground is one: what they disagree by is added.
FUNCTION float variance_as_seen(GLOBAL const float4 *surface, GLOBAL const uchar *seen, int node) {
    float unknown = VARIANCE_SCALE / HEIGHT_INFORMATION, variance = surface[node].w;
    if (!(seen[node] & SEEN)) variance = seen_beside(seen, node) >= SIDES ? variance + FILLED_VARIANCE : unknown;
    if (DISAGREEMENT > 0.0f && variance <= KNOWN_VARIANCE) variance += DISAGREEMENT * disagreement(surface, seen, node);
    return variance;
}
#else
FUNCTION float variance_as_seen(GLOBAL const float4 *surface, GLOBAL const uchar *seen, int node) { return surface[node].w; }
#endif
