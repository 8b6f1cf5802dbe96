// SPDX-License-Identifier: Apache-2.0
// For sparse sensors: vertical faces are obstacles, even where the ground estimate climbed them. The CPU's:
// vertical_faces_cpu.py.

// The view of the sensor of point i, and the position of the point; 0 where it has none or looks for no faces.
FUNCTION GLOBAL const View *view_with_faces(GLOBAL const View *views, GLOBAL const float *points,
                                            GLOBAL const uchar *sensor_index, int i, Place *place) {
    float x = points[3 * i], y = points[3 * i + 1], z = points[3 * i + 2];
    int sensor = sensor_of(views, sensor_index, i, x, y, z);
    if (sensor < 0 || views[sensor].face <= 0) return 0;
    *place = placed(&views[sensor], x, y, z);
    return &views[sensor];
}

// Lowest and highest return of every polar bin, relative to the sensor.
KERNEL bound_bins(GLOBAL const View *views, GLOBAL const float *points_in, GLOBAL const uchar *sensor_index,
                  GLOBAL uint *lowest, GLOBAL uint *highest) {
    GLOBAL const float *points = AT(float, views->points, points_in);
    FOR_EACH(i, views->count) {
        Place p;
        GLOBAL const View *v = view_with_faces(views, points, sensor_index, i, &p);
        if (!v) continue;
        int bin = end_bin(v, p);
        if (bin < 0) continue;
        uint up = float_to_key((float)(p.z - v->origin[2]));
        if (up < ATOMIC_READ(&lowest[bin])) ATOMIC_MIN(&lowest[bin], up);
        if (up > ATOMIC_READ(&highest[bin])) ATOMIC_MAX(&highest[bin], up);
    }
}

// The ground around faces is unreliable for the sensor that sees them: its nodes get the number of this frame.
KERNEL mark_unreliable_ground(GLOBAL const View *views, GLOBAL const float *points_in, GLOBAL const float *heights,
                    GLOBAL const uchar *sensor_index, GLOBAL const uint *lowest, GLOBAL const uint *highest,
                    GLOBAL int *unreliable) {
    GLOBAL const float *points = AT(float, views->points, points_in);
    FOR_EACH(i, views->count) {
        Place p;
        GLOBAL const View *v = view_with_faces(views, points, sensor_index, i, &p);
        if (!v) continue;
        real over;
        if (!is_on_face(v, p, AT(float, v->heights, heights)[i], lowest, highest, &over)) continue;
        int node = nearest_node(v, p.x, p.y);
        if (node < 0) continue;
        int row = node / v->ground_columns, column = node % v->ground_columns;
        for (int r = max(row - 1, 0); r < min(row + 2, v->ground_rows); ++r)
            for (int c = max(column - 1, 0); c < min(column + 2, v->ground_columns); ++c)
                unreliable[v->nodes + r * v->ground_columns + c] = v->frame;
    }
}
