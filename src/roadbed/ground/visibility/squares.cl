// SPDX-License-Identifier: Apache-2.0
// Shared by the kernels of the occlusion filter: coordinates of returns, and linked lists of them by square of the plane.
// On the CPU: neighbours_cpu.py. The result of a search does not depend on the order of a list.
//
// Table of a slot: {returns with a direction, directions with returns, the rule, beams that passed below a return, those of
// them that ended alone, directions with many beams}, heads of the lists of road and of non-ground returns for each square (point numbers plus
// one, 0: the end; `next_entry` continues), the number of returns of each direction of each sensor, and ROOM point numbers
// for each direction.

#define RETURNS 0
#define USED 1
#define RULE 2
#define PASSED 3
#define LONE 4
#define MANY_BEAMS 5
#define ROAD_LISTS 6
#define NON_GROUND_LISTS (ROAD_LISTS + SQUARES * SQUARES)
#define COUNTS (NON_GROUND_LISTS + SQUARES * SQUARES)
#define MEMBERS (COUNTS + SENSORS * DIRECTIONS)

// `views`: the borders of directions (angle, cosine and sine of each), then for each slot the rotation and sensor origins.
#define BORDER_WORDS (3 * (DIRECTIONS + 1))
#define VIEW_WORDS (9 + 3 * SENSORS)

// A return as seen from its sensor: horizontal range and height, m.
typedef struct {
    real range, height;
} Polar;

typedef struct {
    real x, y, z;
} Level;

FUNCTION real along(GLOBAL const real *axis, real x, real y, real z) {
    return axis[0] * x + axis[1] * y + axis[2] * z;
}

FUNCTION Level level_position(GLOBAL const real *rotation, float4 p) {
    Level level = {along(rotation, p.x, p.y, p.z), along(rotation + 3, p.x, p.y, p.z), along(rotation + 6, p.x, p.y, p.z)};
    return level;
}

FUNCTION int square_of(real x, real radius) {
    return (int)floor(fmin(fmax(x / (WIDER * radius), -FARTHEST_SQUARE), FARTHEST_SQUARE));
}

FUNCTION int list_of(int column, int row) { return (row & (SQUARES - 1)) * SQUARES + (column & (SQUARES - 1)); }

FUNCTION void add_to_list(int i, Level own, real radius, GLOBAL int *heads, GLOBAL int *next_entry) {
    int square = list_of(square_of(own.x, radius), square_of(own.y, radius));
    next_entry[i] = ATOMIC_EXCHANGE(&heads[square], i + 1);
}

// A search: the lists, the radius, the height difference, and the number of neighbours that is enough.
typedef struct {
    GLOBAL const real *rotation;
    GLOBAL const float4 *points;
    GLOBAL const int *heads, *next_entry;
    real radius, height;
    int enough;
} Search;

// The number of neighbours in one of the nine squares around a return; counting stops at `enough`.
FUNCTION int near_in_square(Level own, const Search *l, int k) {
    int column = square_of(own.x, l->radius) + k % 3 - 1, row = square_of(own.y, l->radius) + k / 3 - 1, found = 0;
    for (int i = l->heads[list_of(column, row)]; i > 0 && found < l->enough; i = l->next_entry[i - 1]) {
        Level other = level_position(l->rotation, l->points[i - 1]);
        real x = other.x - own.x, y = other.y - own.y;
        found += x * x + y * y < l->radius * l->radius && fabs(other.z - own.z) < l->height;
    }
    return found;
}

// On a GPU nine work-items search for a point, one in each square around it; on a CPU device one searches all.
#if LANES > 1
#define PER_POINT 9
#define FOR_EACH_SEARCH(begin, count) \
    for (int begin = GROUP_ID * (GROUP / PER_POINT); begin < (count); begin += GROUP_COUNT * (GROUP / PER_POINT))
#else
#define PER_POINT 1
#define FOR_EACH_SEARCH(begin, count) FOR_EACH(begin, count)
#endif

// The point that a work-item searches for, or -1.
FUNCTION int searched_point(int begin, int count) {
    int i = begin + LOCAL_ID / PER_POINT;
    return LOCAL_ID < GROUP / PER_POINT * PER_POINT && i < count ? i : -1;
}

// Whether a return has enough neighbours; 0 without `searches`. All work-items of a group must call it.
FUNCTION int has_neighbours(int searches, Level own, const Search *l, LOCAL int *found) {
#if LANES > 1
    int point = LOCAL_ID / PER_POINT;
    if (LOCAL_ID <= GROUP / PER_POINT) found[LOCAL_ID] = 0;
    BARRIER();
    int here = searches ? near_in_square(own, l, LOCAL_ID % PER_POINT) : 0;
    if (here) ATOMIC_ADD(&found[point], here);
    BARRIER();
    int all = found[point];
    BARRIER();
    return all >= l->enough;
#else
    int all = 0;
    for (int k = 0; searches && k < 9 && all < l->enough; ++k) all += near_in_square(own, l, k);
    return all >= l->enough;
#endif
}
