// SPDX-License-Identifier: Apache-2.0
// The first surface from a coarse lattice: the same EM on wide nodes (its own program), blended here onto the fine nodes.

// Blend the four coarse planes around each fine node, weighted by what they know; where they know nothing, a level plane
// or the one `carried` from the last frame.
KERNEL spread(GLOBAL const Frame *frames, GLOBAL const float4 *coarse, GLOBAL const float4 *priors, GLOBAL float4 *start,
              GLOBAL float4 *expected, int carried) {
    int node = GLOBAL_ID;
    if (node >= NODES) return;
    float u = ((float)(node % COLUMNS) + 0.5f) / RATIO - 0.5f, v = ((float)(node / COLUMNS) + 0.5f) / RATIO - 0.5f;
    int column = (int)floor(u), row = (int)floor(v);
    float height = 0.0f, slope_x = 0.0f, slope_y = 0.0f, total = 0.0f;
    for (int corner = 0; corner < 4; ++corner) {
        int i = column + corner % 2, j = row + corner / 2;
        float weight = (1.0f - fabs(u - i)) * (1.0f - fabs(v - j));
        i = min(max(i, 0), COARSE_COLUMNS - 1);
        j = min(max(j, 0), COARSE_ROWS - 1);
        GLOBAL const float4 *state = coarse + 3 * (SLOT * COARSE_NODES + j * COARSE_COLUMNS + i);
        float4 plane = state[2];
        weight *= fmin(state[0].x, MOST_INFORMATION);
        height += weight * (plane.y + (plane.z * (u - i) + plane.w * (v - j)) * (RATIO * SPACING));
        slope_x += weight * plane.z;
        slope_y += weight * plane.w;
        total += weight;
    }
    GLOBAL const Frame *frame = &frames[SLOT];
    float4 plane = FLOAT4(frame->road, 0.0f, 0.0f, 0.0f);
    if (total > COARSE_KNOWS) plane = FLOAT4(height / total, slope_x / total, slope_y / total, 0.0f);
    else if (carried) plane = carried_plane(frame, priors, node);
    begin_node(frame, priors + 6 * SLOT * NODES, start + 3 * SLOT * NODES, expected + SLOT * NODES, node, plane);
}
