// SPDX-License-Identifier: Apache-2.0
// Kernels over whole arrays: fill, copy, exclusive scan.

KERNEL fill(GLOBAL int *values, int value, int count) {
    for (int i = GLOBAL_ID; i < count; i += GLOBAL_SIZE) values[i] = value;
}

KERNEL copy(GLOBAL const int *values, GLOBAL int *copies, int count) {
    for (int i = GLOBAL_ID; i < count; i += GLOBAL_SIZE) copies[i] = values[i];
}

// Exclusive scan in one pass, of numbers that are not negative: a group publishes the sum of its tile and adds up the sums
// of all tiles before it. Groups draw their tile by a ticket, so the groups of earlier tiles are already running.
// progress: {ticket, then for each tile 1 + its sum}, all zero before the launch.
#define SCAN_PER_ITEM 8

KERNEL scan(GLOBAL const int *values, GLOBAL int *sums_before, GLOBAL int *progress, int count) {
    LOCAL_ARRAY int scratch[256];
    LOCAL_ARRAY int tile;
    if (LOCAL_ID == 0) tile = ATOMIC_ADD(&progress[0], 1);
    BARRIER();
    GLOBAL int *published = progress + 1;
    int begin = (tile * LOCAL_SIZE + LOCAL_ID) * SCAN_PER_ITEM, own[SCAN_PER_ITEM], mine = 0;
    UNROLL for (int k = 0; k < SCAN_PER_ITEM; ++k) own[k] = begin + k < count ? values[begin + k] : 0;
    UNROLL for (int k = 0; k < SCAN_PER_ITEM; ++k) mine += own[k];
    int in_tile, before_tile, before = group_scan(mine, scratch, &in_tile), tiles_before = 0;

    if (LOCAL_ID == 0) ATOMIC_EXCHANGE(&published[tile], in_tile + 1);
    for (int other = LOCAL_ID; other < tile; other += LOCAL_SIZE) {
        int sum = 0;
        while (sum == 0) sum = ATOMIC_READ(&published[other]);
        tiles_before += sum - 1;
    }
    group_scan(tiles_before, scratch, &before_tile);
    before += before_tile;
    UNROLL for (int k = 0; k < SCAN_PER_ITEM; ++k) {
        if (begin + k < count) sums_before[begin + k] = before;
        before += own[k];
    }
}
