// SPDX-License-Identifier: Apache-2.0
// The surface as output layers, without small components: a few nodes apart from all others are a tree crown.
// Twin: small_components_cpu.py.

// Computes doubt, unevenness and certainty of every node; each clean node becomes a component. `sizes` ends with the number
// of known nodes.
KERNEL find_clean(GLOBAL const Frame *frames, GLOBAL const float4 *surface, GLOBAL const uchar *seen,
                  GLOBAL const float4 *from, GLOBAL const float4 *to, GLOBAL const float4 *expected,
                  GLOBAL float4 *reported, GLOBAL float4 *doubts, GLOBAL int *clean, GLOBAL int *sizes) {
    if (!(frames[SLOT].wanted & LAYERS)) return;
    FOR_EACH(node, NODES) {
        float2 found = doubt_of(surface + SLOT * NODES, seen + SLOT * NODES, node), certainty;
        certainty.x = certainty.y = 0.0f;
#if SEEN_ONLY
        if (found.x <= KNOWN_VARIANCE)  // other nodes are not reported
            reported[SLOT * NODES + node] = reweighted_plane(from + 3 * SLOT * NODES, to + 3 * SLOT * NODES,
                                                        expected[SLOT * NODES + node], node, &certainty);
#endif
        doubts[SLOT * NODES + node] = FLOAT4(found.x, found.y, certainty.x, certainty.y);
        clean[SLOT * NODES + node] = found.x <= CLEAN_VARIANCE ? node : -1;
        sizes[SLOT * (NODES + 1) + node] = 0;
    }
    if (GLOBAL_ID == 0) sizes[SLOT * (NODES + 1) + NODES] = 0;
}

KERNEL join_clean(GLOBAL const Frame *frames, GLOBAL int *clean) {
    if (!(frames[SLOT].wanted & LAYERS)) return;
    FOR_EACH(node, NODES) unite_with_previous(clean + SLOT * NODES, node, COLUMNS);
}

KERNEL count_clean(GLOBAL const Frame *frames, GLOBAL const float4 *doubts, GLOBAL int *clean, GLOBAL int *sizes_all) {
    GLOBAL int *sizes = sizes_all + SLOT * (NODES + 1);
    if (!(frames[SLOT].wanted & LAYERS)) return;
    FOR_EACH(node, NODES) {
        if (doubts[SLOT * NODES + node].x <= KNOWN_VARIANCE) ATOMIC_ADD(&sizes[NODES], 1);
        int root = flatten(clean + SLOT * NODES, node);
        if (root >= 0) ATOMIC_ADD(&sizes[root], 1);
    }
}

#if SEEN_ONLY
// Whether this node or a neighbour is clean and belongs to a large component.
FUNCTION int in_large_component(GLOBAL const int *clean, GLOBAL const int *sizes, int node) {
    int column = node % COLUMNS, row = node / COLUMNS, found = 0;
    float least = fmin((float)SMALL_COMPONENTS, SMALL_SHARE * (float)sizes[NODES]);
    for (int j = max(row - 1, 0); j < min(row + 2, ROWS); ++j)
        for (int i = max(column - 1, 0); i < min(column + 2, COLUMNS); ++i) {
            int root = clean[j * COLUMNS + i];
            found |= root >= 0 && (float)sizes[max(root, 0)] >= least;
        }
    return found;
}

// The reported variance of a node.
FUNCTION float variance_as_seen(GLOBAL const uchar *seen, GLOBAL const float4 *doubts, GLOBAL const int *clean,
                                GLOBAL const int *sizes, int node) {
    float doubt = doubts[node].x;
    if (doubt > KNOWN_VARIANCE) return doubt;
    if (SMALL_COMPONENTS && !in_large_component(clean, sizes, node)) return VARIANCE_SCALE / HEIGHT_INFORMATION;
    return DISAGREEMENT > 0.0f ? compute_variance(seen, doubts, node) : doubt;
}
#endif

// Writes the output layers; the surface is unknown where its variance is too large.
FUNCTION void describe(GLOBAL const Frame *frame, GLOBAL const float4 *reported, GLOBAL const uchar *seen,
                       GLOBAL const float4 *doubts, GLOBAL const int *clean, GLOBAL const int *sizes, GLOBAL float *layers) {
    FOR_EACH(node, NODES) {
        float4 plane = reported[node];
#if SEEN_ONLY
        plane.w = variance_as_seen(seen, doubts, clean, sizes, node);
#endif
        int known = plane.w <= KNOWN_VARIANCE;
        float scattered = plane.w;
#if SEEN_ONLY
        if (known && frame->warm && DISAGREEMENT > 0.0f) scattered = with_scatter(frame, plane.w, node);
#endif
        layers[node] = known ? plane.x + frame->base : NOT_A_NUMBER;
        layers[NODES + 2 * node] = known ? plane.y : NOT_A_NUMBER;
        layers[NODES + 2 * node + 1] = known ? plane.z : NOT_A_NUMBER;
        layers[3 * NODES + node] = plane.w;
        layers[4 * NODES + node] = scattered;
    }
}
