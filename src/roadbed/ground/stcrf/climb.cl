// SPDX-License-Identifier: Apache-2.0
// A second coarse start, for hillsides: it climbs the lowest returns, and is taken where it explains clearly more. Part of
// the coarse program: COLUMNS, ROWS, NODES and SPACING are the wide lattice's, PER_NODE the places for a node's lowest points.

#define UNSEEN 1e9f

// For CPU devices: of the places for lowest points those that hold one, side by side; `lists` says how many.
KERNEL pack_lowest(GLOBAL const float4 *points, GLOBAL float4 *packed, GLOBAL int4 *lists) {
    int node = GLOBAL_ID;
    if (node >= NODES) return;
    GLOBAL const float4 *from = points + (SLOT * NODES + node) * PER_NODE;
    GLOBAL float4 *to = packed + (SLOT * NODES + node) * PER_NODE;
    int count = 0;
    for (int k = 0; k < PER_NODE; ++k)
        if (from[k].z < FAR_ABOVE) to[count++] = from[k];
    lists[3 * SLOT * NODES + node].z = count;
}

// The second lowest point of each wide node, so that one stray return below ground counts for nothing.
KERNEL find_heights(GLOBAL const Frame *frames, GLOBAL const float4 *points, GLOBAL float *heights) {
    GLOBAL const Frame *frame = &frames[SLOT];
    int node = GLOBAL_ID;
    if (node >= NODES) return;
    float first = UNSEEN, second = UNSEEN;
    for (int k = 0; k < PER_NODE; ++k) {
        float z = points[(SLOT * NODES + node) * PER_NODE + k].z;
        second = z < first ? first : fmin(second, z);
        first = fmin(first, z);
    }
    if (second >= FAR_ABOVE) second = first < FAR_ABOVE ? first : UNSEEN;
    int under = node == (int)(frame->vehicle_y * (1.0f / SPACING)) * COLUMNS + (int)(frame->vehicle_x * (1.0f / SPACING));
    heights[2 * SLOT * NODES + node] = under ? fmin(second, frame->road) : second;
}

// Twice the lattice of wide nodes in local memory, where it fits; there a CPU device has a border of unseen ones around it
// and takes eight nodes of a row as one vector.
#if NODES <= 4096
#define LOCAL_HEIGHTS 1
#define HEIGHTS LOCAL float
#else
#define LOCAL_HEIGHTS 0
#define HEIGHTS GLOBAL float
#endif
#define BORDERED (LANES == 1 && LOCAL_HEIGHTS)
#if !BORDERED
#define STRIDE COLUMNS
#define LATTICE NODES
#define PLACE(row, column) ((row) * COLUMNS + (column))
#else
#define STRIDE ((COLUMNS + 7) / 8 * 8 + 2)
#define LATTICE ((ROWS + 2) * STRIDE)
#define PLACE(row, column) (((row) + 1) * STRIDE + (column) + 1)
#endif

#if !BORDERED
FUNCTION float height_at(const HEIGHTS *heights, int row, int column) {
    return row >= 0 && row < ROWS && column >= 0 && column < COLUMNS ? heights[row * COLUMNS + column] : UNSEEN;
}
#endif

FUNCTION float height_or(const HEIGHTS *heights, int row, int column, float road) {
    float height = heights[PLACE(row, column)];
    return height < FAR_ABOVE ? height : road;
}

// No node higher over a neighbour than the slope limit allows.
FUNCTION void lower(const HEIGHTS *from, HEIGHTS *to) {
    float straight = SLOPE_LIMIT * SPACING, across = straight * 1.41421356f;
#if !BORDERED
    for (int node = LOCAL_ID; node < NODES; node += LOCAL_SIZE) {
        int row = node / COLUMNS, column = node % COLUMNS;
        float lowest = from[node];
        for (int place = 0; place < 9; ++place) {
            int i = place % 3 - 1, j = place / 3 - 1;
            float rise = place == 4 ? 0.0f : i && j ? across : straight;
            lowest = fmin(lowest, height_at(from, row + j, column + i) + rise);
        }
        to[node] = lowest;
    }
#else
    for (int row = 0; row < ROWS; ++row)
        for (int column = 0; column < COLUMNS; column += 8) {
            const HEIGHTS *here = from + PLACE(row, column), *south = here - STRIDE, *north = here + STRIDE;
            float8 beside = min(min(vload8(0, here - 1), vload8(0, here + 1)), min(vload8(0, south), vload8(0, north)));
            float8 corner = min(min(vload8(0, south - 1), vload8(0, south + 1)), min(vload8(0, north - 1), vload8(0, north + 1)));
            float8 lowest = min(vload8(0, here), min(beside + straight, corner + across));
            if (column + 8 <= COLUMNS) vstore8(lowest, 0, to + PLACE(row, column));
            else for (int k = 0; k < COLUMNS - column; ++k) to[PLACE(row, column + k)] = ((float *)&lowest)[k];
        }
#endif
    BARRIER();
}

// One work-group: the lower envelope of the heights as what to expect.
KERNEL expect_envelope(GLOBAL const Frame *frames, GLOBAL float *heights_all, GLOBAL float4 *expected,
                       GLOBAL float4 *start) {
#if LOCAL_HEIGHTS
    LOCAL_ARRAY float heights[2 * LATTICE];
#if BORDERED
    for (int k = 0; k < 2 * LATTICE; ++k) heights[k] = UNSEEN;
#endif
    for (int node = LOCAL_ID; node < NODES; node += LOCAL_SIZE)
        heights[PLACE(node / COLUMNS, node % COLUMNS)] = heights_all[2 * SLOT * NODES + node];
    BARRIER();
#else
    GLOBAL float *heights = heights_all + 2 * SLOT * NODES;
#endif
    for (int step = 0; step < CLIMB_STEPS; ++step)
        lower(heights + step % 2 * LATTICE, heights + (1 - step % 2) * LATTICE);
    float road = frames[SLOT].road;
    Information nothing = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int node = LOCAL_ID; node < NODES; node += LOCAL_SIZE) {
        int row = node / COLUMNS, column = node % COLUMNS;
        float4 plane = FLOAT4(height_or(heights, row, column, road), 0.0f, 0.0f, 0.0f);
        if (row > 0 && row < ROWS - 1 && column > 0 && column < COLUMNS - 1) {
            float x = height_or(heights, row, column + 1, road) - height_or(heights, row, column - 1, road);
            float y = height_or(heights, row + 1, column, road) - height_or(heights, row - 1, column, road);
            plane.y = fmin(fmax(x / (2.0f * SPACING), -SLOPE_LIMIT), SLOPE_LIMIT);
            plane.z = fmin(fmax(y / (2.0f * SPACING), -SLOPE_LIMIT), SLOPE_LIMIT);
        }
        expected[SLOT * NODES + node] = plane;
        store_node(start + 3 * SLOT * NODES, node, nothing, plane);
    }
}

FUNCTION int lies_on(float4 point, float4 state) {
    return fabs(point.z - (state.y + state.z * point.x + state.w * point.y)) < EXPLAINED;
}

// Per node its lowest points: all, explained by the level start, by the climbing one.
KERNEL count_explained(GLOBAL const float4 *points, GLOBAL const float4 *level, GLOBAL const float4 *climbing,
                       GLOBAL int4 *counts) {
    int node = GLOBAL_ID;
    if (node >= NODES) return;
    node += SLOT * NODES;
    float4 level_plane = level[3 * node + 2], climbing_plane = climbing[3 * node + 2];
    int4 found = INT4(0, 0, 0, 0);
    for (int k = 0; k < PER_NODE; ++k) {
        float4 point = points[node * PER_NODE + k];
        found.x += point.z < FAR_ABOVE;
        found.y += lies_on(point, level_plane);
        found.z += lies_on(point, climbing_plane);
    }
    counts[node] = found;
}

// Where the climbing start explains its region better, its state replaces the level start's: clearly more points, and
// either many more or nearly all there are.
KERNEL take_better(GLOBAL const int4 *counts, GLOBAL const float4 *climbing, GLOBAL float4 *level) {
    int node = GLOBAL_ID;
    if (node >= NODES) return;
    int row = node / COLUMNS, column = node % COLUMNS, all = 0, by_level = 0, by_climbing = 0;
    for (int j = max(row - CLIMB_REGION, 0); j < min(row + CLIMB_REGION + 1, ROWS); ++j)
        for (int i = max(column - CLIMB_REGION, 0); i < min(column + CLIMB_REGION + 1, COLUMNS); ++i) {
            int4 found = counts[SLOT * NODES + j * COLUMNS + i];
            all += found.x;
            by_level += found.y;
            by_climbing += found.z;
        }
    int more = by_climbing - by_level;
    int nearly_all = more > CLIMB_SOME_MORE && (float)by_climbing > CLIMB_NEARLY_ALL * (float)all;
    if (!((float)by_climbing > CLIMB_BETTER * (float)by_level && (more > CLIMB_MANY_MORE || nearly_all))) return;
    for (int k = 0; k < 3; ++k) level[3 * (SLOT * NODES + node) + k] = climbing[3 * (SLOT * NODES + node) + k];
}
