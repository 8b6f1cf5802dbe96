// SPDX-License-Identifier: Apache-2.0
// PoCL 5.0 aborts: Kernel.cc:129: createParallelRegionBefore: Assertion `region_entry_barrier != NULL' failed.
// A barrier in a loop, after loops that end early (&&, break, continue), behind two uniform returns.
typedef struct { __local int *order, *marked; __local float *range, *height, *slope; } Direction;
static inline __attribute__((always_inline)) void mark_undersides(Direction d, int n) {
    for (int a = get_local_id(0); a < n; a += get_local_size(0))
        for (int b = 0; b < n && !d.marked[a]; ++b) if (d.marked[b] == 1 && d.range[a] < d.range[b]) d.marked[a] = 2;
}
static inline __attribute__((always_inline)) void mark_foot(Direction d, int n) {
    for (int a = get_local_id(0); a < n; a += get_local_size(0)) {
        if (d.slope[a] >= 0) break;
        int b = a + 1;
        while (b < n && d.slope[b] < d.slope[a] + 0.1f) ++b;
        if (b == n || d.slope[b] <= 0.5f) continue;
        d.marked[a] = 1;
    }
}
__kernel void mark_directions(__global const int *frame, __global int *table) {
    __local int order[480], marked[480];
    __local float range[480], height[480], slope[480];
    Direction d = {order, marked, range, height, slope};
    if (!frame[0]) return;
    int rule = table[0] > 120 * table[1] ? 0 : table[0] <= 20 * table[1] ? 2 : 1;
    if (rule == 0) return;
    for (int cell = get_group_id(0); cell < frame[1] * 655; cell += get_num_groups(0)) {
        int n = table[cell], some = n > 1 && n <= frame[3] ? n : 0;
        if (rule == 2) mark_undersides(d, some);
        else mark_foot(d, some);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
