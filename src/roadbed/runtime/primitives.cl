// SPDX-License-Identifier: Apache-2.0
// Functions for all kernels: exchange between work-items, scans over a work-group, counting into cells. `scratch` is local
// memory with one element per work-item.

// The value held by work-item LOCAL_ID ^ offset; offset is a power of two below 32. Every work-item must call it.
#ifdef ROADBED_CUDA
#define EXCHANGE_FLOAT(value, offset, scratch) __shfl_xor_sync(0xffffffffu, value, offset)
#define EXCHANGE_INT64(value, offset, scratch) __shfl_xor_sync(0xffffffffu, value, offset)
#else
#define EXCHANGE(NAME, NUMBER)                                               \
FUNCTION NUMBER NAME(NUMBER value, int offset, LOCAL NUMBER *scratch) {      \
    BARRIER();                                                               \
    scratch[LOCAL_ID] = value;                                               \
    BARRIER();                                                               \
    return scratch[LOCAL_ID ^ offset];                                       \
}
EXCHANGE(EXCHANGE_FLOAT, float)
EXCHANGE(EXCHANGE_INT64, int64)
#endif

// Exclusive prefix sum over the work-group, for one number type; *total receives the sum of all values.
#ifdef ROADBED_CUDA
#define WARP_SCAN(NUMBER, sum)                                                        \
    for (int reach = 1; reach < 32; reach *= 2) {                                     \
        NUMBER before = __shfl_up_sync(warp_mask(), sum, reach);                      \
        if (LOCAL_ID % 32 >= reach) sum += before;                                    \
    }
// A scan per warp, then in every warp a scan of the warps' sums: two barriers instead of two per doubling.
#define GROUP_SCAN(NAME, NUMBER)                                                      \
FUNCTION NUMBER NAME(NUMBER value, LOCAL NUMBER *scratch, NUMBER *total) {            \
    int warp = LOCAL_ID / 32, last = (LOCAL_SIZE - 1) / 32;                           \
    NUMBER inclusive = value;                                                         \
    WARP_SCAN(NUMBER, inclusive)                                                      \
    if (LOCAL_ID % 32 == 31 || LOCAL_ID == LOCAL_SIZE - 1) scratch[warp] = inclusive; \
    BARRIER();                                                                        \
    NUMBER warps = LOCAL_ID % 32 <= last ? scratch[LOCAL_ID % 32] : 0;                \
    WARP_SCAN(NUMBER, warps)                                                          \
    NUMBER earlier = __shfl_sync(warp_mask(), warps, max(warp - 1, 0));               \
    *total = __shfl_sync(warp_mask(), warps, last);                                   \
    BARRIER();                                                                        \
    return inclusive - value + (warp ? earlier : 0);                                  \
}
FUNCTION uint warp_mask() { return LOCAL_SIZE < 32 ? (1u << LOCAL_SIZE) - 1u : 0xffffffffu; }
#else
#define GROUP_SCAN(NAME, NUMBER)                                                      \
FUNCTION NUMBER NAME(NUMBER value, LOCAL NUMBER *scratch, NUMBER *total) {            \
    NUMBER inclusive = value;                                                         \
    scratch[LOCAL_ID] = inclusive;                                                    \
    BARRIER();                                                                        \
    for (int reach = 1; reach < LOCAL_SIZE; reach *= 2) {                             \
        NUMBER before = LOCAL_ID >= reach ? scratch[LOCAL_ID - reach] : 0;            \
        BARRIER();                                                                    \
        inclusive += before;                                                          \
        scratch[LOCAL_ID] = inclusive;                                                \
        BARRIER();                                                                    \
    }                                                                                 \
    *total = scratch[LOCAL_SIZE - 1];                                                 \
    BARRIER();                                                                        \
    return inclusive - value;                                                         \
}
#endif

GROUP_SCAN(group_scan, int)

// Counts one item into `cell` (not if negative) and returns its rank there. Neighbouring points mostly share a cell, so on
// CUDA one atomic operation counts a run of equal cells in a warp. Every work-item of a warp must call it.
FUNCTION int count_into_cell(GLOBAL int *counts, int cell) {
#ifdef ROADBED_CUDA
    int lane = LOCAL_ID & 31;
    int before = __shfl_up_sync(0xffffffffu, cell, 1);
    uint heads = __ballot_sync(0xffffffffu, lane == 0 || cell != before);
    int head = 31 - __clz(heads & (0xffffffffu >> (31 - lane)));
    uint later_heads = heads & ~(0xffffffffu >> (31 - lane));
    int end = later_heads ? __ffs(later_heads) - 1 : 32;
    int first = 0;
    if (lane == head && cell >= 0) first = atomicAdd(&counts[cell], end - lane);
    return __shfl_sync(0xffffffffu, first, head) + lane - head;
#else
    return cell >= 0 ? ATOMIC_ADD(&counts[cell], 1) : 0;
#endif
}

// Appends to one of a few lists (none if negative) and returns the index there: on CUDA one atomic operation per warp and
// list. Every work-item of a warp must call it.
FUNCTION int append_to_list(GLOBAL int *lengths, int list, int lists) {
#ifdef ROADBED_CUDA
    int lane = LOCAL_ID & 31, index = 0;
    for (int k = 0; k < lists; ++k) {
        uint members = __ballot_sync(0xffffffffu, list == k);
        if (!members) continue;
        int leader = __ffs(members) - 1, first = 0;
        if (lane == leader) first = atomicAdd(&lengths[k], __popc(members));
        first = __shfl_sync(0xffffffffu, first, leader);
        if (list == k) index = first + __popc(members & ((1u << lane) - 1));
    }
    return index;
#else
    return list >= 0 ? ATOMIC_ADD(&lengths[list], 1) : 0;
#endif
}

// Reads a tile of points (x, y, z) into local memory, one point per work-item, (0, 0, 0) beyond the last. Reads are
// coalesced.
FUNCTION void read_points(GLOBAL const float *points, int begin, int count, LOCAL float *tile) {
    for (int k = LOCAL_ID; k < 3 * LOCAL_SIZE; k += LOCAL_SIZE)
        tile[k] = 3 * begin + k < 3 * count ? points[3 * begin + k] : 0.0f;
}

// Sensors write (0, 0, 0) for a missing return.
FUNCTION int is_return(float x, float y, float z) {
    return is_finite(x) && is_finite(y) && is_finite(z) && (x != 0.0f || y != 0.0f || z != 0.0f);
}
