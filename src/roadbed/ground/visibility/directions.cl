// SPDX-License-Identifier: Apache-2.0
// Occlusion filter: the direction of each return from its sensor. Twin: directions_cpu.py.

// Number of the direction. Near a border the angle is computed from it: the approximate angle could be on the wrong side.
FUNCTION int direction_of(GLOBAL const real *borders, real east, real north, real range) {
    real per_radian = DIRECTIONS / (2 * PI), wide = fabs(east), high = fabs(north);
    real t = high > wide ? wide / high : high / wide, t2 = t * t;
    real angle = t * (0.9998660 + t2 * (-0.3302995 + t2 * (0.1801410 + t2 * (-0.0851330 + t2 * 0.0208351))));
    if (high > wide) angle = PI / 2 - angle;
    if (east < 0) angle = PI - angle;
    if (north < 0) angle = -angle;
    real part = (angle + PI) * per_radian, nearest = floor(part + 0.5);
    if (fabs(part - nearest) < AZIMUTH_ERROR * per_radian) {
        GLOBAL const real *border = borders + 3 * (int)nearest;
        part = (border[0] + (north * border[1] - east * border[2]) / range + PI) * per_radian;
    }
    return min((int)part, DIRECTIONS - 1);
}

// Range and height of a point from its sensor. Returns the cell of sensor and direction; -1: no return, or straight below.
FUNCTION int see_point(GLOBAL const real *borders, GLOBAL const real *view, int sensor, float px, float py, float pz,
                       GLOBAL Polar *seen) {
    if ((px == 0.0f && py == 0.0f && pz == 0.0f) || !is_finite(px + py + pz)) return -1;
    GLOBAL const real *origin = view + 9 + 3 * sensor;
    real x = px - origin[0], y = py - origin[1], z = pz - origin[2];
    real east = along(view, x, y, z), north = along(view + 3, x, y, z);
    Polar from = {sqrt(east * east + north * north), along(view + 6, x, y, z)};
    *seen = from;
    return from.range < NEAREST ? -1 : sensor * DIRECTIONS + direction_of(borders, east, north, from.range);
}

// Stores a return with its direction. Without room the direction is too dense for the filter, and the return counts as road.
FUNCTION void store_return(int i, int cell, int rank, float4 point, GLOBAL const real *view, GLOBAL int *next_entry,
                          GLOBAL int *table) {
    if (cell < 0) return;
    if (rank < ROOM) table[MEMBERS + cell * ROOM + rank] = i;
    else add_to_list(i, level_position(view, point), FOOT, table + ROAD_LISTS, next_entry);
}

// Stores points with their cells in `located`, so that later kernels do not read host memory again.
KERNEL find_directions(GLOBAL const Frame *frames, GLOBAL const float *input_buffer, GLOBAL const real *views,
                       GLOBAL const ushort *sensors, GLOBAL float4 *located, GLOBAL Polar *seen, GLOBAL uchar *non_ground,
                       GLOBAL int *next_entry, GLOBAL int *tables, int capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
    if (!frame->has_non_ground) return;
    GLOBAL const float *points = AT(const float, frame->points, input_buffer + 3 * SLOT * capacity);
    GLOBAL const real *view = views + BORDER_WORDS + SLOT * VIEW_WORDS;
    GLOBAL int *table = tables + SLOT * TABLE_WORDS;
    int count = frame->count, several = frame->sensors > 1, returns = 0, used = 0;
    sensors += SLOT * capacity, located += SLOT * capacity, seen += SLOT * capacity;
    non_ground += SLOT * capacity, next_entry += SLOT * capacity;
    FOR_EACH(k, SQUARES * SQUARES) table[NON_GROUND_LISTS + k] = 0;
#if LANES > 1
    LOCAL_ARRAY float tile[3 * GROUP];
    LOCAL_ARRAY int scratch[GROUP];
    for (int begin = GROUP_ID * LOCAL_SIZE; begin < count; begin += GLOBAL_SIZE) {
        read_points(points, begin, count, tile);
        BARRIER();
        int i = begin + LOCAL_ID, cell = -1;
        float4 point = FLOAT4(tile[3 * LOCAL_ID], tile[3 * LOCAL_ID + 1], tile[3 * LOCAL_ID + 2], 0.0f);
        if (i < count) cell = see_point(views, view, several ? sensors[i] : 0, point.x, point.y, point.z, &seen[i]);
        int rank = count_into_cell(table + COUNTS, cell);
        if (i < count) {
            point.w = FLOAT_OF((uint)cell);
            located[i] = point;
            non_ground[i] = 0;
            store_return(i, cell, rank, point, view, next_entry, table);
        }
        returns += cell >= 0, used += cell >= 0 && rank == 0;
        BARRIER();
    }
    int total_returns, total_used;
    group_scan(returns, scratch, &total_returns);
    group_scan(used, scratch, &total_used);
    if (LOCAL_ID == 0) ATOMIC_ADD(&table[RETURNS], total_returns);
    if (LOCAL_ID == 0) ATOMIC_ADD(&table[USED], total_used);
#else
    int begin = chunk_begin(GLOBAL_ID, count), end = chunk_begin(GLOBAL_ID + 1, count), last = -1;
    for (int i = begin; i <= end; ++i) {  // consecutive points of one cell, from `begin` on, are stored together
        int cell = -1;
        if (i < end) {
            cell = see_point(views, view, several ? sensors[i] : 0, points[3 * i], points[3 * i + 1], points[3 * i + 2], &seen[i]);
            located[i] = FLOAT4(points[3 * i], points[3 * i + 1], points[3 * i + 2], FLOAT_OF((uint)cell));
            non_ground[i] = 0;
            if (cell == last) continue;
        }
        if (last >= 0) {
            int rank = ATOMIC_ADD(&table[COUNTS + last], i - begin);
            for (int k = begin; k < i; ++k) store_return(k, last, rank + k - begin, located[k], view, next_entry, table);
            returns += i - begin, used += rank == 0;
        }
        last = cell, begin = i;
    }
    if (returns) ATOMIC_ADD(&table[RETURNS], returns);
    if (used) ATOMIC_ADD(&table[USED], used);
#endif
}
