// SPDX-License-Identifier: Apache-2.0
// The surface as the caller's layers, with its uncertainty.

#if SEEN_ONLY
// Information that came from neighbours alone says little about a node: it is known only between seen neighbours.
FUNCTION float variance_as_seen(GLOBAL const uchar *seen, int node, float variance) {
    if (seen[node] & SEEN) return variance;
    int column = node % COLUMNS, row = node / COLUMNS, beside = 0;
    for (int j = max(row - 1, 0); j < min(row + 2, ROWS); ++j)
        for (int i = max(column - 1, 0); i < min(column + 2, COLUMNS); ++i)
            beside += (seen[j * COLUMNS + i] & SEEN) != 0;
    return beside >= SIDES ? variance + FILLED_VARIANCE : VARIANCE_SCALE / HEIGHT_INFORMATION;
}
#endif

// The surface as the caller's layers; unknown where its variance is too large.
FUNCTION void describe(GLOBAL const float4 *surface, GLOBAL const uchar *seen, GLOBAL float *layers, float base) {
    for (int node = GLOBAL_ID; node < NODES; node += GLOBAL_SIZE) {
        float4 plane = surface[node];
#if SEEN_ONLY
        plane.w = variance_as_seen(seen, node, plane.w);
#endif
        int known = plane.w <= KNOWN_VARIANCE;
        layers[node] = known ? plane.x + base : NOT_A_NUMBER;
        layers[NODES + 2 * node] = known ? plane.y : NOT_A_NUMBER;
        layers[NODES + 2 * node + 1] = known ? plane.z : NOT_A_NUMBER;
        layers[3 * NODES + node] = plane.w;
    }
}
