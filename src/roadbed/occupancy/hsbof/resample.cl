// SPDX-License-Identifier: Apache-2.0
// Systematic resampling in integers, which births and resampling share. The CPU's: resample_cpu.py.
//
// Masses are summed within tiles, then over the tiles; the mass at the position of a draw is found by bisection.

typedef address_t units_t;  // of 1 / MASS_UNIT

#define TILE (TILE_STRIP * GROUP)

// Without the library's function, which some CPU devices call for every work-item.
FUNCTION int floor_of(real x) {
    int whole = (int)x;
    return whole - ((real)whole > x);
}

GROUP_SCAN(scan_units, units_t)

// reached[i]: units of a tile's masses up to and with i. sums: of each tile.
KERNEL sum_tiles(GLOBAL const float *mass, GLOBAL units_t *reached, GLOBAL units_t *sums, int count) {
    LOCAL_ARRAY units_t scratch[GROUP];
    int begin = GROUP_ID * TILE + LOCAL_ID * TILE_STRIP, end = min(begin + TILE_STRIP, count);
    units_t mine = 0, total;
    for (int i = begin; i < end; ++i) mine += (units_t)(mass[i] * MASS_UNIT);
    units_t sum = scan_units(mine, scratch, &total);
    for (int i = begin; i < end; ++i) {
        sum += (units_t)(mass[i] * MASS_UNIT);
        reached[i] = sum;
    }
    if (LOCAL_ID == 0) sums[GROUP_ID] = total;
}

// One work-group: sums become those of the tiles before, and the stride and offset of the draws follow from the total.
KERNEL start_draw(GLOBAL const Step *step, GLOBAL units_t *sums, GLOBAL SystematicDraw *draw, int tiles, int draws,
                  uint which) {
    LOCAL_ARRAY units_t scratch[GROUP];
    units_t before = 0;
    for (int first = 0; first < tiles; first += LOCAL_SIZE) {
        int tile = first + LOCAL_ID;
        units_t total, value = tile < tiles ? sums[tile] : 0;
        units_t sum = scan_units(value, scratch, &total);
        if (tile < tiles) sums[tile] = before + sum;
        before += total;
    }
    if (LOCAL_ID != 0) return;
    units_t stride = before / (units_t)draws, low = stride & (((units_t)1 << OFFSET_SPLIT) - 1);
    units_t chance = (random_words(step->seed, step->frame, SYSTEMATIC, which).x >> (32 - OFFSET_BITS)) | 1u;
    draw->total = before;
    draw->stride = stride;
    draw->rest = before % (units_t)draws;
    draw->offset = ((stride >> OFFSET_SPLIT) * chance >> (OFFSET_BITS - OFFSET_SPLIT)) + (low * chance >> OFFSET_BITS);
}

// The position of draw k.
FUNCTION units_t position_of(GLOBAL const SystematicDraw *draw, int k, int draws) {
    return (units_t)k * draw->stride + (units_t)k * draw->rest / (units_t)draws + draw->offset;
}

FUNCTION units_t reached_by(GLOBAL const units_t *reached, GLOBAL const units_t *sums, int i) {
    return i < 0 ? 0 : sums[i / TILE] + reached[i];
}

// The first of `count` masses that reaches beyond `position`.
FUNCTION int covering(GLOBAL const units_t *reached, GLOBAL const units_t *sums, int count, units_t position) {
    int low = 0, high = count - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (reached_by(reached, sums, middle) > position) high = middle;
        else low = middle + 1;
    }
    return low;
}

// How many draws lie before `position`.
FUNCTION int draws_before(GLOBAL const SystematicDraw *draw, int draws, units_t position) {
    int low = 0, high = draws;
    while (low < high) {
        int middle = (low + high) / 2;
        if (position_of(draw, middle, draws) < position) low = middle + 1;
        else high = middle;
    }
    return low;
}

// How many of the sorted `values` lie below `limit`.
FUNCTION int count_below(GLOBAL const int *values, int count, int limit) {
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (values[middle] < limit) low = middle + 1;
        else high = middle;
    }
    return low;
}
