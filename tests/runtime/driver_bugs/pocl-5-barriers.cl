// SPDX-License-Identifier: Apache-2.0
// PoCL 5.0 aborts: Kernel.cc:129: createParallelRegionBefore: Assertion `region_entry_barrier != NULL' failed.
// Barriers in the loop over cells, behind two uniform returns.
#pragma OPENCL FP_CONTRACT OFF
typedef long int64;
typedef ulong address_t;
typedef double real;
static inline __attribute__((always_inline)) int chunk_begin(int item, int count) { return min(item * ((count - 1) / (int)(((int)get_num_groups(0)) * ((int)get_local_size(0))) + 1), count); }
static inline __attribute__((always_inline)) int from_both_ends(int group, int groups) { return group % 2 ? groups - 1 - group / 2 : group / 2; }
static inline __attribute__((always_inline)) float key_to_float(uint key) { return as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key); }
static inline __attribute__((always_inline)) int is_finite(float value) { return (as_uint(value) & 0x7f800000u) != 0x7f800000u; }
static inline __attribute__((always_inline)) int group_scan(int value, __local int *scratch, int *total) { int inclusive = value; scratch[((int)get_local_id(0))] = inclusive; barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); for (int reach = 1; reach < ((int)get_local_size(0)); reach *= 2) { int before = ((int)get_local_id(0)) >= reach ? scratch[((int)get_local_id(0)) - reach] : 0; barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); inclusive += before; scratch[((int)get_local_id(0))] = inclusive; barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); } *total = scratch[((int)get_local_size(0)) - 1]; barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); return inclusive - value; }
static inline __attribute__((always_inline)) int count_into_cell(__global int *counts, int cell) {
    return cell >= 0 ? atomic_add(&counts[cell], 1) : 0;
}
static inline __attribute__((always_inline)) int append_to_list(__global int *lengths, int list, int lists) {
    return list >= 0 ? atomic_add(&lengths[list], 1) : 0;
}
static inline __attribute__((always_inline)) void read_points(__global const float *points, int begin, int count, __local float *tile) {
    for (int k = ((int)get_local_id(0)); k < 3 * ((int)get_local_size(0)); k += ((int)get_local_size(0)))
        if (3 * begin + k < 3 * count) tile[k] = points[3 * begin + k];
}
static inline __attribute__((always_inline)) int is_return(float x, float y, float z) {
    return is_finite(x) && is_finite(y) && is_finite(z) && (x != 0.0f || y != 0.0f || z != 0.0f);
}
typedef struct {
    address_t given;
    address_t points;
    address_t label;
    address_t probability;
    float reach;
    int has_non_ground;
    int sensors;
    float unaligned[3][16];
    int ego_masked;
    int ego_scan;
    float ego_pose[12];
    float ego_box[6];
} Frame;
typedef struct {
    real range, height;
} Polar;
typedef struct {
    real x, y, z;
} Level;
static inline __attribute__((always_inline)) real along(__global const real *axis, real x, real y, real z) {
    return axis[0] * x + axis[1] * y + axis[2] * z;
}
static inline __attribute__((always_inline)) Level level_position(__global const real *rotation, float4 p) {
    Level level = {along(rotation, p.x, p.y, p.z), along(rotation + 3, p.x, p.y, p.z), along(rotation + 6, p.x, p.y, p.z)};
    return level;
}
static inline __attribute__((always_inline)) int square_of(real x, real radius) {
    return (int)floor(fmin(fmax(x / ((1.01) * radius), -(1000000.0)), (1000000.0)));
}
static inline __attribute__((always_inline)) int list_of(int column, int row) { return (row & ((64) - 1)) * (64) + (column & ((64) - 1)); }
static inline __attribute__((always_inline)) void add_to_list(int i, Level own, real radius, __global int *heads, __global int *next_entry) {
    int square = list_of(square_of(own.x, radius), square_of(own.y, radius));
    next_entry[i] = atomic_xchg(&heads[square], i + 1);
}
typedef struct {
    __global const real *rotation;
    __global const float4 *points;
    __global const int *heads, *next_entry;
    real radius, height;
    int enough;
} Search;
static inline __attribute__((always_inline)) int near_in_square(Level own, const Search *l, int k) {
    int column = square_of(own.x, l->radius) + k % 3 - 1, row = square_of(own.y, l->radius) + k / 3 - 1, found = 0;
    for (int i = l->heads[list_of(column, row)]; i > 0 && found < l->enough; i = l->next_entry[i - 1]) {
        Level other = level_position(l->rotation, l->points[i - 1]);
        real x = other.x - own.x, y = other.y - own.y;
        found += x * x + y * y < l->radius * l->radius && fabs(other.z - own.z) < l->height;
    }
    return found;
}
static inline __attribute__((always_inline)) int searched_point(int begin, int count) {
    int i = begin + ((int)get_local_id(0)) / 1;
    return ((int)get_local_id(0)) < (256) / 1 * 1 && i < count ? i : -1;
}
static inline __attribute__((always_inline)) int has_neighbours(int searches, Level own, const Search *l, __local int *found) {
}
static inline __attribute__((always_inline)) int direction_of(__global const real *borders, real east, real north, real range) {
    real per_radian = (655) / (2 * (3.141592653589793)), wide = fabs(east), high = fabs(north);
    real t = high > wide ? wide / high : high / wide, t2 = t * t;
    real angle = t * (0.9998660 + t2 * (-0.3302995 + t2 * (0.1801410 + t2 * (-0.0851330 + t2 * 0.0208351))));
}
static inline __attribute__((always_inline)) int see_point(__global const real *borders, __global const real *view, int sensor, float px, float py, float pz,
                       __global Polar *seen) {
    if ((px == 0.0f && py == 0.0f && pz == 0.0f) || !is_finite(px + py + pz)) return -1;
    __global const real *origin = view + 9 + 3 * sensor;
    real x = px - origin[0], y = py - origin[1], z = pz - origin[2];
    real east = along(view, x, y, z), north = along(view + 3, x, y, z);
    Polar from = {sqrt(east * east + north * north), along(view + 6, x, y, z)};
    *seen = from;
    return from.range < (0.2) ? -1 : sensor * (655) + direction_of(borders, east, north, from.range);
}
static inline __attribute__((always_inline)) void store_return(int i, int cell, int rank, float4 point, __global const real *view, __global int *next_entry,
                          __global int *table) {
    if (cell < 0) return;
    if (rank < (480)) table[(((6 + (64) * (64)) + (64) * (64)) + (1) * (655)) + cell * (480) + rank] = i;
    else add_to_list(i, level_position(view, point), (2.0), table + 6, next_entry);
}
typedef struct {
    __local int *order, *marked;
    __global const uchar *ignored;
    __local real *range, *height, *slope;
} Direction;
static inline __attribute__((always_inline)) int rule_of(int returns, int used) {
    int directions = max(used, 1);
    if (returns > (120) * directions) return (0);
    return returns <= (20) * directions ? (2) : (1);
}
static inline __attribute__((always_inline)) void read_return(Direction d, __global const Polar *seen, int a) {
    Polar one = seen[d.order[a]];
    d.range[a] = one.range;
    d.height[a] = one.height;
    d.slope[a] = one.height / one.range;
    d.marked[a] = 0;
}
static inline __attribute__((always_inline)) void sort_by_number(__local int *order, __global const int *members, int n) {
    for (int a = 0; a < n; ++a) {
        int own = members[a], k = a;
        for (; k > 0 && order[k - 1] > own; --k) order[k] = order[k - 1];
        order[k] = own;
    }
}
static inline __attribute__((always_inline)) void sort_by_slope(__local int *order, __local real *slope, __local int *spare_order, __local real *spare, int n) {
    for (int done = 0, end; done < n; done = end) {
        end = done + 1;
        int falls = end < n && slope[end] < slope[done], first = done;
        while (end < n && (slope[end] < slope[end - 1]) == falls) ++end;
        for (int k = 0; k < end - first; ++k) {
            int from = falls ? end - 1 - k : first + k;
            spare[k] = slope[from], spare_order[k] = order[from];
        }
        int before = first - 1, run = end - first - 1, to = end - 1;
        for (; run >= 0; --to) {
            int take = before >= 0 && slope[before] > spare[run];
            slope[to] = take ? slope[before] : spare[run];
            order[to] = take ? order[before] : spare_order[run];
            before -= take, run -= !take;
        }
    }
}
static inline __attribute__((always_inline)) void sort_returns(Direction d, __global const int *members, __global const Polar *seen, int n, int by_slope) {
    sort_by_number(d.order, members, n);
    if (by_slope) {
        for (int a = 0; a < n; ++a) d.slope[a] = seen[d.order[a]].height / seen[d.order[a]].range;
        sort_by_slope(d.order, d.slope, d.marked, d.range, n);
    }
    for (int a = 0; a < n; ++a) read_return(d, seen, a);
}
static inline __attribute__((always_inline)) int is_undercut(real r, real z, real other_r, real other_z) {
    return other_r - r > (0.5) + (0.02) * r && z - r * other_z / other_r > (0.15);
}
static inline __attribute__((always_inline)) int is_lone(Polar own, int cell, __global const Polar *seen, __global const int *table) {
    int first = cell - cell % (655), found = 0;
    for (int side = (655) - 1; side <= (655) + 1; ++side) {
        int other = first + (cell - first + side) % (655), n = table[((6 + (64) * (64)) + (64) * (64)) + other];
        __global const int *members = table + (((6 + (64) * (64)) + (64) * (64)) + (1) * (655)) + other * (480);
        for (int k = 0; n <= (4) * (20) && k < n; ++k)
            found += fabs(seen[members[k]].range - own.range) < (0.1) * own.range &&
                     fabs(seen[members[k]].height - own.height) < (0.3);
    }
    return found < 2;
}
static inline __attribute__((always_inline)) void mark_above(Direction d, int n) {
    for (int a = ((int)get_local_id(0)); a < (n); a += ((int)get_local_size(0))) {
        real r = d.range[a], z = d.height[a];
        for (int b = 0; b < n; ++b) {
        }
    }
}
static inline __attribute__((always_inline)) void mark_far(Direction d, int n) {
    for (int a = ((int)get_local_id(0)); a < (n); a += ((int)get_local_size(0))) {
        if (d.range[a] < (20.0)) continue;
        real nearest = 0.0, rise = 0.0, apart = 0.0;
        for (int b = 0; b < n; ++b) {
            real above = d.slope[b] - d.slope[a];
            if (above <= (0.003) || (nearest > 0.0 && above >= nearest)) continue;
            nearest = above, rise = d.height[b] - d.height[a], apart = d.range[b] - d.range[a];
        }
        if (apart > 0.0 && rise > (0.4) * apart) d.marked[a] = 1;
    }
}
static inline __attribute__((always_inline)) void mark_undersides(Direction d, int n) {
    for (int a = ((int)get_local_id(0)); a < (n); a += ((int)get_local_size(0)))
        for (int b = 0; b < n && !d.marked[a]; ++b) {
            real behind = d.range[a] - d.range[b], lower = d.height[b] - d.height[a];
            if (d.marked[b] == 1 && 0 < behind && behind < (0.8) && 0 < lower && lower < (0.45)) d.marked[a] = 2;
        }
}
static inline __attribute__((always_inline)) void mark_foot(Direction d, int n) {
    for (int a = ((int)get_local_id(0)); a < (n); a += ((int)get_local_size(0))) {
        real slope = d.slope[a], apart = -1.0, rise = 0.0;
        if (slope >= 0) break;
        int b = a + 1;
    }
}
__kernel void mark_directions(__global const Frame *frames, __global const real *views, __global const float4 *located,
                       __global const Polar *seen, __global uchar *non_ground, __global int *next_entry, __global int *tables,
                       int capacity) {
    __local int order[(480)], marked[(480)];
    __local real range[(480)], height[(480)], slope[(480)];
    Direction d = {order, marked, 0, range, height, slope};
    __global const Frame *frame = &frames[((int)get_group_id(1))];
    if (!frame->has_non_ground) return;
    __global const real *view = views + (3 * ((655) + 1)) + ((int)get_group_id(1)) * (9 + 3 * (1));
    __global int *table = tables + ((int)get_group_id(1)) * (323253);
    located += ((int)get_group_id(1)) * capacity, seen += ((int)get_group_id(1)) * capacity, non_ground += ((int)get_group_id(1)) * capacity, next_entry += ((int)get_group_id(1)) * capacity;
    int rule = rule_of(table[0], table[1]), most = (4) * (rule == (2) ? (20) : (120));
    int lone = table[4];
    if (lone >= (8) && (real)lone > (0.1) * (real)table[3]) d.ignored = non_ground;
    if ((((int)get_group_id(0)) * ((int)get_local_size(0)) + ((int)get_local_id(0))) == 0) table[2] = rule;
    if (rule == (0)) return;
    for (int cell = ((int)get_group_id(0)); cell < frame->sensors * (655); cell += ((int)get_num_groups(0))) {
        __global int *members = table + (((6 + (64) * (64)) + (64) * (64)) + (1) * (655)) + cell * (480);
        int n = table[((6 + (64) * (64)) + (64) * (64)) + cell], compared = n > 1 && n <= most, some = compared ? n : 0;
        sort_returns(d, members, seen, some, rule == (1));
        if (rule == (2)) mark_above(d, some);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (rule == (2)) mark_far(d, some);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (rule == (2)) mark_undersides(d, some);
        else mark_foot(d, some);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        for (int a = ((int)get_local_id(0)); a < (some); a += ((int)get_local_size(0))) {
            members[a] = order[a];
            non_ground[order[a]] = (uchar)(marked[a] != 0);
        }
        if (rule == (2))
            for (int a = ((int)get_local_id(0)); a < (min(n, (480))); a += ((int)get_local_size(0))) {
                int own = compared ? order[a] : members[a];
                if (compared && marked[a]) continue;
                add_to_list(own, level_position(view, located[own]), (2.0), table + 6, next_entry);
            }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
}
static inline __attribute__((always_inline)) int lies_before(Polar own, __global const int *others, int n, __global const Polar *seen) {
    real total = 0.0;
    int count = 0;
    for (int k = 0; k < n; ++k) {
        Polar other = seen[others[k]];
        if (other.height <= own.height + (0.04) || fabs(other.range - own.range) >= (0.5)) continue;
        total += other.range - own.range;
        ++count;
    }
    return count > 0 && total > (0.05) * count;
}
