// SPDX-License-Identifier: Apache-2.0
// Functions every algorithm's kernels are built from: exchange between work-items, scans and sums over a work-group,
// counting into cells, Philox random numbers. `scratch` is local memory with one element per work-item.

// The value held by work-item LOCAL_ID ^ offset; offset is a power of two below 32. Every work-item must take part.
#ifdef ROADBED_CUDA
#define EXCHANGE_FLOAT(value, offset, scratch) __shfl_xor_sync(0xffffffffu, value, offset)
#define EXCHANGE_DOUBLE(value, offset, scratch) __shfl_xor_sync(0xffffffffu, value, offset)
#else
FUNCTION float EXCHANGE_FLOAT(float value, int offset, LOCAL float *scratch) {
    BARRIER();
    scratch[LOCAL_ID] = value;
    BARRIER();
    return scratch[LOCAL_ID ^ offset];
}
#ifdef WITH_DOUBLE
FUNCTION double EXCHANGE_DOUBLE(double value, int offset, LOCAL double *scratch) {
    BARRIER();
    scratch[LOCAL_ID] = value;
    BARRIER();
    return scratch[LOCAL_ID ^ offset];
}
#endif
#endif

// Exclusive prefix sum over the work-group; *total receives the sum of all values.
FUNCTION int group_scan(int value, LOCAL int *scratch, int *total) {
    int inclusive = value;
    scratch[LOCAL_ID] = inclusive;
    BARRIER();
    for (int reach = 1; reach < LOCAL_SIZE; reach *= 2) {
        int before = LOCAL_ID >= reach ? scratch[LOCAL_ID - reach] : 0;
        BARRIER();
        inclusive += before;
        scratch[LOCAL_ID] = inclusive;
        BARRIER();
    }
    *total = scratch[LOCAL_SIZE - 1];
    BARRIER();
    return inclusive - value;
}

// Counts one item into `cell` (skipped when negative) and returns its rank there. Neighbouring points mostly share a
// cell, so on CUDA the items of a warp that meet in a cell are counted by one atomic operation.
// Every work-item of a warp must call it.
FUNCTION int count_into_cell(GLOBAL int *counts, int cell) {
#ifdef ROADBED_CUDA
    uint same = __match_any_sync(0xffffffffu, cell);
    int lane = LOCAL_ID & 31;
    int leader = __ffs(same) - 1;
    int first = 0;
    if (lane == leader && cell >= 0) first = atomicAdd(&counts[cell], __popc(same));
    return __shfl_sync(0xffffffffu, first, leader) + __popc(same & ((1u << lane) - 1));
#else
    return cell >= 0 ? ATOMIC_ADD(&counts[cell], 1) : 0;
#endif
}

// A tile of points into local memory, three words each. Work-items read consecutive words, of device or of host memory.
FUNCTION void read_points(GLOBAL const float *points, int begin, int count, LOCAL float *tile) {
    for (int k = LOCAL_ID; k < 3 * LOCAL_SIZE; k += LOCAL_SIZE)
        if (3 * begin + k < 3 * count) tile[k] = points[3 * begin + k];
}

// (0, 0, 0) is how sensors write a missing return.
FUNCTION int is_return(float x, float y, float z) {
    return is_finite(x) && is_finite(y) && is_finite(z) && (x != 0.0f || y != 0.0f || z != 0.0f);
}

// Philox 4x32-10 (Salmon et al. 2011): four random words from a 128-bit counter and a 64-bit key, no state.
FUNCTION uint4 philox(uint4 counter, uint key0, uint key1) {
    for (int round = 0; round < 10; ++round) {
        uint high0 = MULTIPLY_HIGH(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
        uint high1 = MULTIPLY_HIGH(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
        counter = UINT4(high1 ^ counter.y ^ key0, low1, high0 ^ counter.w ^ key1, low0);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

// A random word as a float in [0, 1): 24 bits, so the same on every device.
FUNCTION float unit_float(uint word) { return (float)(word >> 8) * 5.9604645e-8f; }
