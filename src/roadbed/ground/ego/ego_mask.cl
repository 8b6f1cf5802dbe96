// SPDX-License-Identifier: Apache-2.0
// The ego mask: points inside the box of the ego vehicle, and occupied cells around it. Twin: ego_mask_cpu.py.

FUNCTION float along(GLOBAL const float *axis, float start, float x, float y, float z) {
    return axis[0] * x + axis[1] * y + axis[2] * z + start;
}

// Tests one point: on the ego vehicle it becomes a missing return. `left` receives the points that remain.
FUNCTION void test_point(GLOBAL const Frame *frame, int i, float x, float y, float z, GLOBAL float *left, GLOBAL uchar *mask,
                         GLOBAL int *cells) {
    GLOBAL const float *r = frame->ego_pose, *t = frame->ego_pose + 9, *box = frame->ego_box;
    float u = along(r, t[0], x, y, z), v = along(r + 3, t[1], x, y, z), w = along(r + 6, t[2], x, y, z);
    if (frame->ego_scan && -ALONG < u && u < ALONG && -ACROSS < v && v < ACROSS && LOW < w && w < CLEARANCE) {
        int column = (int)((u + ALONG) * PER_METRE), row = (int)((v + ACROSS) * PER_METRE);
        cells[(SLOT * CELLS_ALONG + min(column, CELLS_ALONG - 1)) * CELLS_ACROSS + min(row, CELLS_ACROSS - 1)] = frame->ego_scan;
    }
    if (!frame->ego_masked) return;
    int inside = box[0] < u && u < box[1] && box[2] < v && v < box[3] && box[4] < w && w < box[5];
    mask[i] = (uchar)inside;
    if (!inside && !frame->given) return;
    left[3 * i] = inside ? NOT_A_NUMBER : x;
    left[3 * i + 1] = inside ? NOT_A_NUMBER : y;
    left[3 * i + 2] = inside ? NOT_A_NUMBER : z;
}

// mask: one byte per point. cells: number of the last scan with a point in the cell, [x][y] from the rear right corner.
KERNEL mask_ego(GLOBAL const Frame *frames, GLOBAL float *input_buffer, GLOBAL uchar *mask, GLOBAL int *cells, int capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
    GLOBAL float *left = input_buffer + 3 * SLOT * capacity;
    GLOBAL const float *points = AT(const float, frame->given, left);
    int count = frame->count;
    mask += SLOT * capacity;
#if LANES > 1
    LOCAL_ARRAY float tile[3 * GROUP];
    for (int begin = GROUP_ID * LOCAL_SIZE; begin < count; begin += GLOBAL_SIZE) {
        read_points(points, begin, count, tile);
        BARRIER();
        int i = begin + LOCAL_ID;
        if (i < count) test_point(frame, i, tile[3 * LOCAL_ID], tile[3 * LOCAL_ID + 1], tile[3 * LOCAL_ID + 2], left, mask, cells);
        BARRIER();
    }
#else
    FOR_EACH(i, count) test_point(frame, i, points[3 * i], points[3 * i + 1], points[3 * i + 2], left, mask, cells);
#endif
}
