// SPDX-License-Identifier: Apache-2.0
// Grid variance in the phases of the report. Heights are summed as integers of 2^-24 m, so that every backend gives the
// same labels whatever the order of the points in a cell, without double precision. Twin: variance_cpu.py.
//
// Cells are grouped in size classes by their number of points: 1, 2, 3-4, 5-8, 9-16, 17-32 (reduced by 1, 2, 4 .. 32
// work-items) and more (LARGE: a whole work-group). Constants and VarianceFrame come from model.py.

#define LARGE (SIZE_CLASSES - 1)

// Phase 1: cell of every point, points per cell, and the point's rank in its cell (the report's fused histogram).
KERNEL assign(GLOBAL const VarianceFrame *frame, GLOBAL const float *input_buffer, GLOBAL int2 *cell_and_rank,
              GLOBAL float *heights, GLOBAL int *counts, GLOBAL int *cursors) {
    LOCAL_ARRAY float tile[3 * GROUP];
    if (GROUP_ID == 0 && LOCAL_ID < SIZE_CLASSES + 2) cursors[LOCAL_ID] = 0;
    GLOBAL const float *points = AT(const float, frame->points, input_buffer);
    int count = frame->count;
    for (int begin = GROUP_ID * LOCAL_SIZE; begin < count; begin += GLOBAL_SIZE) {
        read_points(points, begin, count, tile);
        BARRIER();
        int i = begin + LOCAL_ID;
        float x = tile[3 * LOCAL_ID], y = tile[3 * LOCAL_ID + 1], z = tile[3 * LOCAL_ID + 2];
        int usable = i < count && is_return(x, y, z) && fabs(z) < FARTHEST_HEIGHT;
        int cell = -1;
        if (usable && x >= X_MIN && x < X_MAX && y >= Y_MIN && y < Y_MAX) {
            // Products, because not all devices round a float quotient correctly.
            int column = (int)((x - X_MIN) * CELLS_PER_METRE), row = (int)((y - Y_MIN) * CELLS_PER_METRE);
            cell = min(row, ROWS - 1) * COLUMNS + min(column, COLUMNS - 1);
        }
        int rank = count_into_cell(counts, cell);
        if (i < count) {
            cell_and_rank[i] = INT2(cell, rank);
            heights[i] = z;
        }
        BARRIER();
    }
}

// Phase 2: each cell reserves padded room for its heights and is appended to the list of its size class. CPU devices
// need neither the padding nor the lists. cursors: {cells in each size class.., next free index, cells with points}.
KERNEL group_cells(GLOBAL int *counts, GLOBAL int2 *segments, GLOBAL int *cursors, GLOBAL int *lists) {
#if LANES > 1
    LOCAL_ARRAY int scratch[GROUP];
    LOCAL_ARRAY int first;
    int cell = GLOBAL_ID;
    int count = cell < CELLS ? counts[cell] : 0;
    int size_class = count > 0 ? 0 : -1, padded = count;
    if (count > 0 && count <= 32)
        for (padded = 1; padded < count; padded *= 2) ++size_class;
    if (count > 32) size_class = LARGE;
    int total;
    int before = group_scan(padded, scratch, &total);
    if (LOCAL_ID == 0) first = ATOMIC_ADD(&cursors[SIZE_CLASSES], total);
    int index = append_to_list(cursors, size_class, SIZE_CLASSES);
    BARRIER();
    if (cell >= CELLS) return;
    segments[cell] = INT2(first + before, count);
    counts[cell] = 0;
    if (size_class >= 0) lists[size_class * CELLS + index] = cell;
#else
    FOR_EACH(cell, CELLS) {
        int count = counts[cell];
        segments[cell] = INT2(count ? ATOMIC_ADD(&cursors[SIZE_CLASSES], count) : 0, count);
        counts[cell] = 0;
    }
#endif
}

// Phase 3: heights into the room of their cells.
KERNEL scatter(GLOBAL const VarianceFrame *frame, GLOBAL const int2 *cell_and_rank, GLOBAL const float *heights,
               GLOBAL const int2 *segments, GLOBAL float *grouped) {
    int count = frame->count;
    for (int i = GLOBAL_ID; i < count; i += GLOBAL_SIZE) {
        int2 point = cell_and_rank[i];
        if (point.x >= 0) grouped[segments[point.x].x + point.y] = heights[i];
    }
}

FUNCTION int64 to_units(float z) { return (int64)(z * UNITS_PER_METRE); }

// Rounded down, as in Python.
FUNCTION int64 mean_of(int64 sum, int n) { return sum / n - (sum % n < 0); }

// By how many bits deviations are shortened so that n squares fit in 63 bits; 0 unless a cell is several metres high.
FUNCTION int shift_of(float low, float high, int n) {
    int shift = 0;
    for (float extent = (high - low) * UNITS_PER_METRE; extent * extent * (float)n > MOST_SQUARES; extent *= 0.5f) ++shift;
    return shift;
}

FUNCTION int64 squared(float z, int64 mean, int shift) {
    int64 off = (to_units(z) - mean) >> shift;
    return off * off;
}

// Mean, population variance, lowest and highest of a cell.
FUNCTION float4 described(int64 mean, int64 squares, int shift, int n, float low, float high) {
    float unit = (float)(1 << shift) * METRES_PER_UNIT;
    return FLOAT4((float)mean * METRES_PER_UNIT, (float)squares / (float)n * (unit * unit), low, high);
}

#if LANES > 1
#define LANE_SUM(value, lanes) \
    for (int offset = 1; offset < (lanes); offset *= 2) value += EXCHANGE_INT64(value, offset, sums)

// A cell of up to 32 points: `lanes` work-items hold one height each.
FUNCTION void reduce_small(GLOBAL const float *grouped, GLOBAL const int2 *segments, GLOBAL float4 *statistics, int cell,
                           int lane, int lanes, LOCAL int64 *sums, LOCAL float *floats) {
    int2 segment = cell >= 0 ? segments[cell] : INT2(0, 1);
    int mine = cell >= 0 && lane < segment.y;
    float z = mine ? grouped[segment.x + lane] : 0.0f;
    int64 sum = to_units(z);
    LANE_SUM(sum, lanes);
    float low = mine ? z : FARTHEST_HEIGHT, high = mine ? z : -FARTHEST_HEIGHT;
    for (int offset = 1; offset < lanes; offset *= 2) {
        low = fmin(low, EXCHANGE_FLOAT(low, offset, floats));
        high = fmax(high, EXCHANGE_FLOAT(high, offset, floats));
    }
    int shift = shift_of(low, high, segment.y);
    int64 mean = mean_of(sum, segment.y), squares = mine ? squared(z, mean, shift) : 0;
    LANE_SUM(squares, lanes);
    if (mine && lane == 0) statistics[cell] = described(mean, squares, shift, segment.y, low, high);
}

// The sum over the work-group, returned to every work-item.
FUNCTION int64 group_sum(int64 value, LOCAL int64 *sums) {
    LANE_SUM(value, 32);
    BARRIER();
    if (LOCAL_ID % 32 == 0) sums[LOCAL_ID / 32] = value;
    BARRIER();
    int64 sum = 0;
    for (int k = 0; k < GROUP / 32; ++k) sum += sums[k];
    BARRIER();
    return sum;
}

// A cell of more than 32 points: the whole work-group, in strides.
FUNCTION void reduce_large(GLOBAL const float *grouped, int2 segment, GLOBAL float4 *statistics, int cell,
                           LOCAL int64 *sums, LOCAL float *floats) {
    int64 sum = 0, squares = 0;
    float low = FARTHEST_HEIGHT, high = -FARTHEST_HEIGHT;
    for (int k = LOCAL_ID; k < segment.y; k += GROUP) {
        float z = grouped[segment.x + k];
        sum += to_units(z);
        low = fmin(low, z);
        high = fmax(high, z);
    }
    int64 mean = mean_of(group_sum(sum, sums), segment.y);
    floats[LOCAL_ID] = low;
    floats[GROUP + LOCAL_ID] = high;
    BARRIER();
    for (int reach = GROUP / 2; reach > 0; reach /= 2) {
        if (LOCAL_ID < reach) {
            floats[LOCAL_ID] = fmin(floats[LOCAL_ID], floats[LOCAL_ID + reach]);
            floats[GROUP + LOCAL_ID] = fmax(floats[GROUP + LOCAL_ID], floats[GROUP + LOCAL_ID + reach]);
        }
        BARRIER();
    }
    int shift = shift_of(floats[0], floats[GROUP], segment.y);
    for (int k = LOCAL_ID; k < segment.y; k += GROUP) squares += squared(grouped[segment.x + k], mean, shift);
    squares = group_sum(squares, sums);
    if (LOCAL_ID == 0) statistics[cell] = described(mean, squares, shift, segment.y, floats[0], floats[GROUP]);
    BARRIER();
}
#endif

// Phase 4: mean, population variance (second pass), lowest and highest of every cell.
KERNEL reduce(GLOBAL const float *grouped, GLOBAL const int2 *segments, GLOBAL const int *cursors,
              GLOBAL const int *lists, GLOBAL float4 *statistics) {
#if LANES > 1
    LOCAL_ARRAY int64 sums[GROUP];
    LOCAL_ARRAY float floats[2 * GROUP];
    // Work-groups take batches of cells of one size class in turn, large cells first.
    int batch = GROUP_ID;
    for (int size_class = LARGE; size_class >= 0; --size_class) {
        int lanes = size_class == LARGE ? GROUP : 1 << size_class;
        int per_batch = GROUP / lanes, cells = cursors[size_class];
        int batches = (cells + per_batch - 1) / per_batch;
        for (; batch < batches; batch += GROUP_COUNT) {
            int k = batch * per_batch + LOCAL_ID / lanes;
            int cell = k < cells ? lists[size_class * CELLS + k] : -1;
            if (size_class == LARGE) reduce_large(grouped, segments[cell], statistics, cell, sums, floats);
            else reduce_small(grouped, segments, statistics, cell, LOCAL_ID % lanes, lanes, sums, floats);
        }
        batch -= batches;
    }
#else
    FOR_EACH(cell, CELLS) {
        int2 segment = segments[cell];
        if (segment.y == 0) continue;
        int64 sum = 0, squares = 0;
        float low = FARTHEST_HEIGHT, high = -FARTHEST_HEIGHT;
        for (int k = segment.x; k < segment.x + segment.y; ++k) {
            sum += to_units(grouped[k]);
            low = fmin(low, grouped[k]);
            high = fmax(high, grouped[k]);
        }
        int64 mean = mean_of(sum, segment.y);
        int shift = shift_of(low, high, segment.y);
        for (int k = segment.x; k < segment.x + segment.y; ++k) squares += squared(grouped[k], mean, shift);
        statistics[cell] = described(mean, squares, shift, segment.y, low, high);
    }
#endif
}

// The variance of a cell, or -1 where it has too few points.
FUNCTION float known_variance(GLOBAL const int2 *segments, GLOBAL const float4 *statistics, int column, int row) {
    int inside = column >= 0 && column < COLUMNS && row >= 0 && row < ROWS;
    int cell = inside ? row * COLUMNS + column : 0;
    return inside && segments[cell].y >= FEWEST ? statistics[cell].y : -1.0f;
}

// Phase 5, on GPUs on tiles of 16 x 16 cells with a border in local memory: a cell is ground by its variance; one with too
// few points by the mean of its 3 x 3 patch. Cells with points are listed for the host, which so does not read all cells.
#if LANES > 1
#define TILE_STRIDE (TILE + 2)
#define NEIGHBOUR(di, dj) tile[(j + (dj)) * TILE_STRIDE + i + (di)]
#define NEXT_CELL return
#else
#define NEIGHBOUR(di, dj) known_variance(segments, statistics, column + (di), row + (dj))
#define NEXT_CELL continue
#endif

KERNEL classify(GLOBAL const VarianceFrame *frame, GLOBAL const int2 *segments, GLOBAL const float4 *statistics,
                GLOBAL uchar *ground, GLOBAL int *cursors, GLOBAL int2 *cells_out, GLOBAL float4 *statistics_out) {
#if LANES > 1
    LOCAL_ARRAY float tile[TILE_STRIDE * TILE_STRIDE];
    int tiles_across = (COLUMNS + TILE - 1) / TILE;
    int column0 = GROUP_ID % tiles_across * TILE - 1, row0 = GROUP_ID / tiles_across * TILE - 1;
    for (int k = LOCAL_ID; k < TILE_STRIDE * TILE_STRIDE; k += LOCAL_SIZE)
        tile[k] = known_variance(segments, statistics, column0 + k % TILE_STRIDE, row0 + k / TILE_STRIDE);
    BARRIER();
    int i = LOCAL_ID % TILE + 1, j = LOCAL_ID / TILE + 1;
    int column = column0 + i, row = row0 + j, cell = row * COLUMNS + column;
    int points = column < COLUMNS && row < ROWS ? segments[cell].y : 0;
    {
#else
    FOR_EACH(cell, CELLS) {
        int column = cell % COLUMNS, row = cell / COLUMNS, points = segments[cell].y;
#endif
        int index = append_to_list(cursors + SIZE_CLASSES + 1, points ? 0 : -1, 1);
        if (!points) NEXT_CELL;
        float own = NEIGHBOUR(0, 0);
        float sum = 0.0f;
        int n = 0;
        for (int dj = -1; dj <= 1; ++dj)
            for (int di = -1; di <= 1; ++di) {
                float other = NEIGHBOUR(di, dj);
                if (other >= 0.0f) sum += other, ++n;
            }
        int is_ground = own >= 0.0f ? own < LARGEST_VARIANCE : n > 0 && sum < LARGEST_VARIANCE * (float)n;
        ground[cell] = (uchar)is_ground;
        AT(int2, frame->cells, cells_out)[index] = INT2(cell, points * 2 + is_ground);
        AT(float4, frame->statistics, statistics_out)[index] = statistics[cell];
    }
}

// Phase 6: a point in a ground cell and within the tolerance of its mean height is ground. A work-item labels four points,
// so that it writes whole words; buffers hold a multiple of four points.
KERNEL label_points(GLOBAL const VarianceFrame *frame, GLOBAL const int2 *cell_and_rank, GLOBAL const float *heights,
                    GLOBAL const float4 *statistics, GLOBAL const uchar *ground, GLOBAL const int *cursors,
                    GLOBAL uchar *labels, GLOBAL float *probabilities, GLOBAL float *heights_out,
                    GLOBAL int *occupied_out) {
    int count = frame->count;
    if (GLOBAL_ID == 0) AT(int, frame->occupied, occupied_out)[0] = cursors[SIZE_CLASSES + 1];
    GLOBAL uint *words = (GLOBAL uint *)AT(uchar, frame->label, labels);
    GLOBAL float4 *probability = (GLOBAL float4 *)AT(float, frame->probability, probabilities);
    GLOBAL float4 *height = (GLOBAL float4 *)AT(float, frame->height, heights_out);
    for (int word = GLOBAL_ID; 4 * word < count; word += GLOBAL_SIZE) {
        uint four = 0;
        float chance[4], over[4];
        for (int k = 0; k < 4; ++k) {
            int i = min(4 * word + k, count - 1), cell = cell_and_rank[i].x;
            int on_ground = cell >= 0 && ground[cell];
            over[k] = on_ground ? heights[i] - statistics[cell].x : NOT_A_NUMBER;
            int is_ground = on_ground && fabs(over[k]) < TOLERANCE;
            chance[k] = is_ground ? 1.0f : 0.0f;
            four |= (uint)(cell < 0 ? UNKNOWN : is_ground ? GROUND : OBSTACLE) << (8 * k);
        }
        words[word] = four;
        probability[word] = FLOAT4(chance[0], chance[1], chance[2], chance[3]);
        height[word] = FLOAT4(over[0], over[1], over[2], over[3]);
    }
}
