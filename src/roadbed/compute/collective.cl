// SPDX-License-Identifier: Apache-2.0
// Whole-array kernels: fill, copy, random draws, exclusive scan.

KERNEL fill(GLOBAL int *values, int value, int count) {
    for (int i = GLOBAL_ID; i < count; i += GLOBAL_SIZE) values[i] = value;
}

KERNEL copy(GLOBAL const int *values, GLOBAL int *copies, int count) {
    for (int i = GLOBAL_ID; i < count; i += GLOBAL_SIZE) copies[i] = values[i];
}

// Draws first to first + count - 1 of a stream: words, uniform numbers, normal numbers.
KERNEL draw_words(GLOBAL uint4 *words, uint first, int count, uint seed, uint frame, uint stream) {
    for (int i = GLOBAL_ID; i < count; i += GLOBAL_SIZE) words[i] = random_words(seed, frame, stream, first + (uint)i);
}

KERNEL draw_uniforms(GLOBAL float4 *numbers, uint first, int count, uint seed, uint frame, uint stream) {
    for (int i = GLOBAL_ID; i < count; i += GLOBAL_SIZE) numbers[i] = uniforms(seed, frame, stream, first + (uint)i);
}

KERNEL draw_normals(GLOBAL float4 *numbers, uint first, int count, uint seed, uint frame, uint stream) {
    for (int i = GLOBAL_ID; i < count; i += GLOBAL_SIZE) numbers[i] = normals(seed, frame, stream, first + (uint)i);
}

// Exclusive scan in one pass: a group publishes the sum of its tile, then adds up its predecessors' until it meets a
// finished prefix. Groups number themselves by a ticket, so every predecessor is already running.
// progress: {ticket, then per tile: status, sum, prefix}, all zero before the launch.
#define SCAN_PER_ITEM 8
#define HAS_SUM 1
#define HAS_PREFIX 2

KERNEL scan(GLOBAL const int *values, GLOBAL int *sums_before, GLOBAL int *progress, int count) {
    LOCAL_ARRAY int scratch[256];
    LOCAL_ARRAY int shared[2];
    if (LOCAL_ID == 0) shared[0] = ATOMIC_ADD(&progress[0], 1);
    BARRIER();
    int tile = shared[0];
    GLOBAL int *state = progress + 1;
    int begin = (tile * LOCAL_SIZE + LOCAL_ID) * SCAN_PER_ITEM;

    int mine = 0;
    for (int k = 0; k < SCAN_PER_ITEM; ++k) mine += begin + k < count ? values[begin + k] : 0;
    int tile_sum;
    int before = group_scan(mine, scratch, &tile_sum);

    if (LOCAL_ID == 0) {
        ATOMIC_EXCHANGE(&state[3 * tile + 1], tile_sum);
        FENCE();
        ATOMIC_EXCHANGE(&state[3 * tile], HAS_SUM);
        int prefix = 0;
        for (int other = tile - 1; other >= 0; --other) {
            int status = 0;
            while (status == 0) status = ATOMIC_OR(&state[3 * other], 0);
            FENCE();
            prefix += ATOMIC_OR(&state[3 * other + status], 0);
            if (status == HAS_PREFIX) break;
        }
        ATOMIC_EXCHANGE(&state[3 * tile + 2], prefix + tile_sum);
        FENCE();
        ATOMIC_EXCHANGE(&state[3 * tile], HAS_PREFIX);
        shared[1] = prefix;
    }
    BARRIER();
    before += shared[1];
    for (int k = 0; k < SCAN_PER_ITEM && begin + k < count; ++k) {
        int value = values[begin + k];
        sums_before[begin + k] = before;
        before += value;
    }
}
