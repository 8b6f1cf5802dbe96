// SPDX-License-Identifier: Apache-2.0
// Stable radix sort of items by cell, SORT_BITS of the cell number per pass, lowest bits first.
//
// A work-group of SORT_ITEMS work-items sorts a tile of SORT_TILE items. `table`: the number of items of each digit in each
// tile, and after a scan their start in the output.

#define SORT_DIGITS (1 << SORT_BITS)
#define SORT_EACH (SORT_TILE / SORT_ITEMS)
#define DIGIT(cell) ((cell) >> shift & (SORT_DIGITS - 1))

// Counts digits, and clears the progress of the scan that follows.
KERNEL sort_count(GLOBAL const int *cells, GLOBAL int *table, GLOBAL int *progress, int cleared, int shift, int count) {
    LOCAL_ARRAY int digits[SORT_DIGITS];
    for (int d = LOCAL_ID; d < SORT_DIGITS; d += LOCAL_SIZE) digits[d] = 0;
    for (int k = GLOBAL_ID; k < cleared; k += GLOBAL_SIZE) progress[k] = 0;
    BARRIER();
    int begin = GROUP_ID * SORT_TILE, end = min(begin + SORT_TILE, count);
    for (int i = begin + LOCAL_ID; i < end; i += LOCAL_SIZE) ATOMIC_ADD(&digits[DIGIT(cells[i])], 1);
    BARRIER();
    for (int d = LOCAL_ID; d < SORT_DIGITS; d += LOCAL_SIZE) table[d * GROUP_COUNT + GROUP_ID] = digits[d];
}

#ifdef ROADBED_CUDA
#define WARPS (SORT_ITEMS / 32)

// A warp owns consecutive rows of 32 items. In a row, items with the same digit are ranked by warp intrinsics.
KERNEL sort_scatter(GLOBAL const int *cells, GLOBAL const int *items, GLOBAL const int *table, GLOBAL int *cells_out,
                    GLOBAL int *items_out, int shift, int count) {
    LOCAL_ARRAY int starts[WARPS * SORT_DIGITS];
    int warp = LOCAL_ID / 32, lane = LOCAL_ID % 32, first = GROUP_ID * SORT_TILE + warp * SORT_EACH * 32 + lane;
    int cell[SORT_EACH], rank[SORT_EACH];
    for (int k = LOCAL_ID; k < WARPS * SORT_DIGITS; k += LOCAL_SIZE) starts[k] = 0;
    BARRIER();
    for (int r = 0; r < SORT_EACH; ++r) {
        int i = first + 32 * r;
        cell[r] = i < count ? cells[i] : 0;
        uint alike = __match_any_sync(0xffffffffu, i < count ? DIGIT(cell[r]) : -1);
        uint before = alike & ((1u << lane) - 1u);
        LOCAL int *start = &starts[warp * SORT_DIGITS + DIGIT(cell[r])];
        rank[r] = *start + __popc(before);
        __syncwarp();
        if (i < count && before == 0u) *start += __popc(alike);
        __syncwarp();
    }
    BARRIER();
    for (int d = LOCAL_ID; d < SORT_DIGITS; d += LOCAL_SIZE) {
        int at = table[d * GROUP_COUNT + GROUP_ID];
        for (int k = d; k < WARPS * SORT_DIGITS; k += SORT_DIGITS) {
            int here = starts[k];
            starts[k] = at;
            at += here;
        }
    }
    BARRIER();
    for (int r = 0; r < SORT_EACH && first + 32 * r < count; ++r) {
        int to = starts[warp * SORT_DIGITS + DIGIT(cell[r])] + rank[r];
        cells_out[to] = cell[r];
        items_out[to] = items[first + 32 * r];
    }
}

#else

// Each work-item owns a strip of consecutive items.
KERNEL sort_scatter(GLOBAL const int *cells, GLOBAL const int *items, GLOBAL const int *table, GLOBAL int *cells_out,
                    GLOBAL int *items_out, int shift, int count) {
    LOCAL_ARRAY ushort ranks[SORT_DIGITS * SORT_ITEMS];
    for (int k = LOCAL_ID; k < SORT_DIGITS * SORT_ITEMS; k += LOCAL_SIZE) ranks[k] = 0;
    BARRIER();
    int begin = (GROUP_ID * SORT_ITEMS + LOCAL_ID) * SORT_EACH;
    int end = min(begin + SORT_EACH, count);
    for (int i = begin; i < end; ++i) ranks[DIGIT(cells[i]) * SORT_ITEMS + LOCAL_ID] += 1;
    BARRIER();
    for (int d = LOCAL_ID; d < SORT_DIGITS; d += LOCAL_SIZE) {
        ushort before = 0;
        for (int k = d * SORT_ITEMS; k < (d + 1) * SORT_ITEMS; ++k) {
            ushort here = ranks[k];
            ranks[k] = before;
            before += here;
        }
    }
    BARRIER();
    for (int i = begin; i < end; ++i) {
        int digit = DIGIT(cells[i]);
        int to = table[digit * GROUP_COUNT + GROUP_ID] + ranks[digit * SORT_ITEMS + LOCAL_ID]++;
        cells_out[to] = cells[i];
        items_out[to] = items[i];
    }
}

#endif
