// SPDX-License-Identifier: Apache-2.0
// Positions of points in the polar table of their sensor, over the ground and over the vehicle's plane.
//
// `View` describes one sensor's view of the grid: see `program.py`. Positions are `real`, on most devices double as on the
// CPU, so that points fall into the same cells.

// A point in the ground's lattice frame, and relative to its sensor.
typedef struct {
    real x, y, z, dx, dy, distance;
} Place;

// The sensor of a point; -1 where the point is left out or not finite.
FUNCTION int sensor_of(GLOBAL const View *views, GLOBAL const uchar *sensor_index, int i, float px, float py, float pz) {
    int sensor = views->all_points ? 0 : AT(uchar, views->sensor_index, sensor_index)[i];
    return sensor != NO_SENSOR && is_finite(px) && is_finite(py) && is_finite(pz) ? sensor : -1;
}

FUNCTION Place placed(GLOBAL const View *v, float px, float py, float pz) {
    GLOBAL const real *r = v->rotation;
    Place p;
    p.x = r[0] * px + r[1] * py + r[2] * pz + v->translation[0];
    p.y = r[3] * px + r[4] * py + r[5] * pz + v->translation[1];
    p.z = r[6] * px + r[7] * py + r[8] * pz + v->translation[2];
    p.dx = p.x - v->origin[0];
    p.dy = p.y - v->origin[1];
    p.distance = sqrt(p.dx * p.dx + p.dy * p.dy);
    return p;
}

FUNCTION real plane_at(GLOBAL const View *v, real x, real y) {
    return v->plane[0] + v->plane[1] * x + v->plane[2] * y;
}

FUNCTION int nearest_node(GLOBAL const View *v, real x, real y) {
    real column = floor((x - v->ground_x0) / v->ground_spacing + 0.5);
    real row = floor((y - v->ground_y0) / v->ground_spacing + 0.5);
    if (column < 0 || row < 0 || column >= v->ground_columns || row >= v->ground_rows) return -1;
    return (int)row * v->ground_columns + (int)column;
}

// Clamped, so that what is beyond every table is so as an int, too.
FUNCTION int whole(real value) { return (int)fmin(value, 1e9); }

// atan2 by the polynomial of Abramowitz and Stegun 4.4.49, within 0.001 degrees: the bins are far wider.
FUNCTION int azimuth_bin(real dx, real dy, int bins) {
    real wide = fabs(dx), high = fabs(dy);
    int steep = high > wide;
    real t = wide + high > 0 ? (steep ? wide / high : high / wide) : 0.0, t2 = t * t;
    real angle = t * (0.9998660 + t2 * (-0.3302995 + t2 * (0.1801410 + t2 * (-0.0851330 + t2 * 0.0208351))));
    if (steep) angle = PI / 2 - angle;
    if (dx < 0) angle = PI - angle;
    if (dy < 0) angle = -angle;
    return min((int)((angle + PI) * (bins / (2 * PI))), bins - 1);
}

// Polar bin in which a beam ends, -1 beyond the table.
FUNCTION int end_bin(GLOBAL const View *v, Place p) {
    int bin = whole(p.distance / v->grid_spacing);
    if (p.distance < v->min_range || bin >= v->range_bins) return -1;
    return v->table + azimuth_bin(p.dx, p.dy, v->azimuth_bins) * v->range_bins + bin;
}

// Whether a point lies on a vertical face that the ground estimate may have climbed; *over: height over the vehicle's plane.
FUNCTION int is_on_face(GLOBAL const View *v, Place p, float height, GLOBAL const uint *lowest, GLOBAL const uint *highest,
                        real *over) {
    int bin = end_bin(v, p);
    if (bin < 0 || key_to_float(highest[bin]) - key_to_float(lowest[bin]) < v->face) return 0;
    *over = p.z - plane_at(v, p.x, p.y);
    return v->obstacle_height < *over && *over < v->clearance && !(height > v->obstacle_height);
}
