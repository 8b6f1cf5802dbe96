// SPDX-License-Identifier: Apache-2.0
// The slope-aware start: a second coarse start for hillsides, used where it explains clearly more lowest returns. Part of
// the coarse program: COLUMNS, ROWS, NODES and SPACING describe the coarse lattice, PER_NODE is the room for the lowest
// points of a node. Twin: slope_start_cpu.py.

#define UNSEEN 1e9f

// For CPU devices: moves the lowest points of a node together and writes their number to `lists`.
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

// Height of a coarse node: its second lowest point, so that one stray return below ground has no effect.
FUNCTION float height_of(GLOBAL const Frame *frame, int node, float first, float second) {
    if (second >= FAR_ABOVE) second = first < FAR_ABOVE ? first : UNSEEN;
    int under = node == (int)(frame->vehicle_y * (1.0f / SPACING)) * COLUMNS + (int)(frame->vehicle_x * (1.0f / SPACING));
    return under ? fmin(second, frame->road) : second;
}

KERNEL find_heights(GLOBAL const Frame *frames, GLOBAL const float4 *points, GLOBAL float *heights) {
    int node = GLOBAL_ID;
    if (node >= NODES) return;
    float first = UNSEEN, second = UNSEEN;
    for (int k = 0; k < PER_NODE; ++k) {
        float z = points[(SLOT * NODES + node) * PER_NODE + k].z;
        second = fmin(second, fmax(first, z));  // a select of `first` here aborts LLVM 18 (PoCL 6)
        first = fmin(first, z);
    }
    heights[2 * SLOT * NODES + node] = height_of(&frames[SLOT], node, first, second);
}

// Two copies of the coarse lattice are in local memory if they fit; there a CPU device has a border of unseen nodes, and
// processes eight nodes of a row as one vector.
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
#define INDEX(row, column) ((row) * COLUMNS + (column))
#else
#define STRIDE ((COLUMNS + 7) / 8 * 8 + 2)
#define LATTICE ((ROWS + 2) * STRIDE)
#define INDEX(row, column) (((row) + 1) * STRIDE + (column) + 1)
#endif

#if !BORDERED
FUNCTION float height_at(const HEIGHTS *heights, int row, int column) {
    return row >= 0 && row < ROWS && column >= 0 && column < COLUMNS ? heights[row * COLUMNS + column] : UNSEEN;
}

FUNCTION float lowest_side(const HEIGHTS *heights, int row, int column) {
    return fmin(height_at(heights, row, column - 1), height_at(heights, row, column + 1));
}
#endif

FUNCTION float known_or(float height, float road) { return height < FAR_ABOVE ? height : road; }

FUNCTION float height_or(const HEIGHTS *heights, int row, int column, float road) {
    return known_or(heights[INDEX(row, column)], road);
}

// One step of the envelope: lowers nodes that are higher over a neighbour than the slope limit allows.
FUNCTION void lower(const HEIGHTS *from, HEIGHTS *to) {
    float straight = SLOPE_LIMIT * SPACING, across = straight * 1.41421356f;
#if !BORDERED
    // A work-item processes a part of a column, so that it reads three heights per node instead of nine.
    int parts = max(LOCAL_SIZE / COLUMNS, 1), length = (ROWS + parts - 1) / parts;
    for (int part = LOCAL_ID; part < parts * COLUMNS; part += LOCAL_SIZE) {
        int column = part % COLUMNS, first = part / COLUMNS * length;
        float south = height_at(from, first - 1, column), sides_south = lowest_side(from, first - 1, column);
        float here = height_at(from, first, column), sides = lowest_side(from, first, column);
        for (int row = first; row < min(first + length, ROWS); ++row) {
            float north = height_at(from, row + 1, column), sides_north = lowest_side(from, row + 1, column);
            float next = fmin(sides, fmin(south, north)) + straight, corner = fmin(sides_south, sides_north) + across;
            to[row * COLUMNS + column] = fmin(here, fmin(next, corner));
            south = here, sides_south = sides, here = north, sides = sides_north;
        }
    }
#else
    for (int row = 0; row < ROWS; ++row)
        for (int column = 0; column < COLUMNS; column += 8) {
            const HEIGHTS *here = from + INDEX(row, column), *south = here - STRIDE, *north = here + STRIDE;
            float8 sides = min(min(vload8(0, here - 1), vload8(0, here + 1)), min(vload8(0, south), vload8(0, north)));
            float8 corner = min(min(vload8(0, south - 1), vload8(0, south + 1)), min(vload8(0, north - 1), vload8(0, north + 1)));
            float8 lowest = min(vload8(0, here), min(sides + straight, corner + across));
            if (column + 8 <= COLUMNS) vstore8(lowest, 0, to + INDEX(row, column));
            else for (int k = 0; k < COLUMNS - column; ++k) to[INDEX(row, column + k)] = ((float *)&lowest)[k];
        }
#endif
    BARRIER();
}

// Replaces heights by their lower envelope; the second half of the buffer is scratch.
FUNCTION void find_envelope(HEIGHTS *heights) {
    for (int step = 0; step < ENVELOPE_STEPS; ++step)
        lower(heights + step % 2 * LATTICE, heights + (1 - step % 2) * LATTICE);
}

FUNCTION int is_inside(int row, int column) { return row > 0 && row < ROWS - 1 && column > 0 && column < COLUMNS - 1; }

FUNCTION float slope_between(float one, float other) {
    return fmin(fmax((other - one) / (2.0f * SPACING), -SLOPE_LIMIT), SLOPE_LIMIT);
}

// One work-group: expected planes from the lower envelope of the heights.
KERNEL expect_envelope(GLOBAL const Frame *frames, GLOBAL float *heights_all, GLOBAL float4 *expected,
                       GLOBAL float4 *start) {
#if LOCAL_HEIGHTS
    LOCAL_ARRAY float heights[2 * LATTICE];
#if BORDERED
    for (int k = 0; k < 2 * LATTICE; ++k) heights[k] = UNSEEN;
#endif
    for (int node = LOCAL_ID; node < NODES; node += LOCAL_SIZE)
        heights[INDEX(node / COLUMNS, node % COLUMNS)] = heights_all[2 * SLOT * NODES + node];
    BARRIER();
#else
    GLOBAL float *heights = heights_all + 2 * SLOT * NODES;
#endif
    find_envelope(heights);
    float road = frames[SLOT].road;
    Information nothing = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int node = LOCAL_ID; node < NODES; node += LOCAL_SIZE) {
        int row = node / COLUMNS, column = node % COLUMNS;
        float4 plane = FLOAT4(height_or(heights, row, column, road), 0.0f, 0.0f, 0.0f);
        if (is_inside(row, column)) {
            float west = height_or(heights, row, column - 1, road), east = height_or(heights, row, column + 1, road);
            float south = height_or(heights, row - 1, column, road), north = height_or(heights, row + 1, column, road);
            plane.y = slope_between(west, east);
            plane.z = slope_between(south, north);
        }
        expected[SLOT * NODES + node] = plane;
        store_node(start + 3 * SLOT * NODES, node, nothing, plane);
    }
}

// Numbers of lowest points of a node or region: all, explained by the level start, by the sloped one.
typedef struct {
    int all, by_level, by_sloped;
} Explained;

FUNCTION int lies_on(float4 point, float4 plane) {
    float tolerance = EXPLAINED + EXPLAINED_ON_SLOPES * (plane.y * plane.y + plane.z * plane.z);
    tolerance = fmin(tolerance, EXPLAINED_AT_MOST);
    return fabs(point.z - (plane.x + plane.y * point.x + plane.z * point.y)) < tolerance;
}

// Whether the sloped start explains clearly more points of a region: many more, or nearly all of the region's or of the
// node's own.
FUNCTION int slope_start_is_better(Explained region, int own_is_sloped) {
    int more = region.by_sloped - region.by_level;
    int nearly_all = (float)region.by_sloped > SLOPE_NEARLY_ALL * (float)region.all || own_is_sloped;
    int enough = nearly_all ? SLOPE_SOME_MORE : SLOPE_MANY_MORE;  // `more` compared twice aborts LLVM 18 (PoCL 6)
    return (float)region.by_sloped > SLOPE_BETTER * (float)region.by_level && more > enough;
}

// Whether the sloped start explains nearly all points of a node and the level start hardly any, next to seen ground.
FUNCTION int is_own_sloped(Explained own, int level_around) {
    float nearly_all = SLOPE_NEARLY_ALL * (float)own.all;
    int seen = own.all >= SLOPE_FEWEST && level_around >= SLOPE_FEWEST;
    return seen && (float)own.by_sloped >= nearly_all && (float)own.by_level <= (float)own.all - nearly_all;
}

KERNEL count_explained(GLOBAL const float4 *points, GLOBAL const float4 *level, GLOBAL const float4 *sloped,
                       GLOBAL int4 *counts) {
    int node = GLOBAL_ID;
    if (node >= NODES) return;
    node += SLOT * NODES;
    float4 level_plane = load_plane(level, node), slope_start_plane = load_plane(sloped, node);
    Explained found = {0, 0, 0};
    for (int k = 0; k < PER_NODE; ++k) {
        float4 point = points[node * PER_NODE + k];
        found.all += point.z < FAR_ABOVE;
        found.by_level += lies_on(point, level_plane);
        found.by_sloped += lies_on(point, slope_start_plane);
    }
    counts[node] = INT4(found.all, found.by_level, found.by_sloped, 0);
}

// Replaces the state of the level start where the slope-aware start explains its region better.
KERNEL take_better(GLOBAL const int4 *counts, GLOBAL const float4 *sloped, GLOBAL float4 *level) {
    int node = GLOBAL_ID;
    if (node >= NODES) return;
    int row = node / COLUMNS, column = node % COLUMNS;
    int4 mine = counts[SLOT * NODES + node];
    Explained region = {0, 0, 0}, own = {mine.x, mine.y, mine.z};
    int level_around = 0;
    for (int j = max(row - SLOPE_REGION, 0); j < min(row + SLOPE_REGION + 1, ROWS); ++j)
        for (int i = max(column - SLOPE_REGION, 0); i < min(column + SLOPE_REGION + 1, COLUMNS); ++i) {
            int4 found = counts[SLOT * NODES + j * COLUMNS + i];
            region.all += found.x;
            region.by_level += found.y;
            region.by_sloped += found.z;
            if (abs(j - row) <= 1 && abs(i - column) <= 1) level_around += found.y;
        }
    if (!slope_start_is_better(region, is_own_sloped(own, level_around))) return;
    for (int k = 0; k < 3; ++k) level[3 * (SLOT * NODES + node) + k] = sloped[3 * (SLOT * NODES + node) + k];
}
