// SPDX-License-Identifier: Apache-2.0
// Blends the planes of the coarse lattice (computed by the coarse program) onto the fine nodes. Twin: start_cpu.py.

// The last coarse node whose middle is not beyond that of a fine node, and the distance to it in coarse nodes. It is counted
// in halves of fine nodes, so that the weight of the next coarse node is exactly zero in the middle of a coarse node: a
// rounding error could outweigh a node with little information.
FUNCTION int coarse_before(int index, float *beyond) {
    int halves = 2 * index + 1 - RATIO, before = (halves + 2 * RATIO) / (2 * RATIO) - 1;
    *beyond = (float)(halves - 2 * RATIO * before) / (2.0f * RATIO);
    return before;
}

// Blends the four coarse planes around each fine node, weighted by their information. Where they have none, the plane is
// level or the one `carried` from the last frame.
KERNEL blend_coarse(GLOBAL const Frame *frames, GLOBAL const float4 *coarse, GLOBAL const float4 *priors,
                    GLOBAL float4 *start, GLOBAL float4 *expected, int carried) {
    int node = GLOBAL_ID;
    if (node >= NODES) return;
    float east, north;
    int column = coarse_before(node % COLUMNS, &east), row = coarse_before(node / COLUMNS, &north);
    float height = 0.0f, slope_x = 0.0f, slope_y = 0.0f, total = 0.0f;
    for (int corner = 0; corner < 4; ++corner) {
        int i = min(max(column + corner % 2, 0), COARSE_COLUMNS - 1);
        int j = min(max(row + corner / 2, 0), COARSE_ROWS - 1);
        float weight = (corner % 2 ? east : 1.0f - east) * (corner / 2 ? north : 1.0f - north);
        float along = (float)(column - i) + east, across = (float)(row - j) + north;
        GLOBAL const float4 *state = coarse + 3 * (SLOT * COARSE_NODES + j * COARSE_COLUMNS + i);
        float4 plane = state[2];
        weight *= state[0].x;
        height += weight * (plane.y + (plane.z * along + plane.w * across) * (RATIO * SPACING));
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
