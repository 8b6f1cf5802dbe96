// SPDX-License-Identifier: Apache-2.0
// For sparse sensors: faces on the road are obstacles, though the ground estimate climbed on them.

// Lowest and highest return of every polar bin, over the sensor.
KERNEL bound_bins(GLOBAL const View *views, GLOBAL const float *points_in, GLOBAL const uchar *belongs,
                  GLOBAL uint *lowest, GLOBAL uint *highest) {
    GLOBAL const float *points = AT(float, views->points, points_in);
    FOR_EACH(i, views->count) {
        float px = points[3 * i], py = points[3 * i + 1], pz = points[3 * i + 2];
        int sensor = sensor_of(views, belongs, i, px, py, pz);
        if (sensor < 0 || views[sensor].face <= 0) continue;
        GLOBAL const View *v = &views[sensor];
        Place p = placed(v, px, py, pz);
        int bin = end_bin(v, p);
        if (bin < 0) continue;
        uint up = ordered((float)(p.z - v->origin[2]));
        if (up < lowest[bin]) ATOMIC_MIN(&lowest[bin], up);
        if (up > highest[bin]) ATOMIC_MAX(&highest[bin], up);
    }
}

// The ground around faces is unknown to the sensor that sees them: its nodes get the number of this frame.
KERNEL doubt_ground(GLOBAL const View *views, GLOBAL const float *points_in, GLOBAL const float *heights,
                    GLOBAL const uchar *belongs, GLOBAL const uint *lowest, GLOBAL const uint *highest,
                    GLOBAL int *doubted) {
    GLOBAL const float *points = AT(float, views->points, points_in);
    FOR_EACH(i, views->count) {
        float px = points[3 * i], py = points[3 * i + 1], pz = points[3 * i + 2];
        int sensor = sensor_of(views, belongs, i, px, py, pz);
        if (sensor < 0 || views[sensor].face <= 0) continue;
        GLOBAL const View *v = &views[sensor];
        Place p = placed(v, px, py, pz);
        double over;
        if (!is_on_face(v, p, AT(float, v->heights, heights)[i], lowest, highest, &over)) continue;
        int node = nearest_node(v, p.x, p.y);
        if (node < 0) continue;
        int row = node / v->ground_columns, column = node % v->ground_columns;
        for (int r = max(row - 1, 0); r < min(row + 2, v->ground_rows); ++r)
            for (int c = max(column - 1, 0); c < min(column + 2, v->ground_columns); ++c)
                doubted[v->nodes + r * v->ground_columns + c] = v->frame;
    }
}
