// SPDX-License-Identifier: Apache-2.0
// Shared by the kernels of the occlusion filter: positions of returns, and lists of them by square of the plane.
//
// A slot's table: {returns in directions, directions that hold any, the rule that follows from it, nothing}, then the first
// of each square's road and of each square's non_ground returns (a point's number plus one, 0 at the end; `following` has
// the next), how many returns each direction of each sensor holds, and room for ROOM of each.
// On the CPU: neighbours_cpu.py. Which returns are near another does not depend on the order in which they are listed.

#define RETURNS 0
#define USED 1
#define RULE 2
#define ROADS 4
#define STANDING (ROADS + SQUARES * SQUARES)
#define COUNTS (STANDING + SQUARES * SQUARES)
#define HELD (COUNTS + SENSORS * DIRECTIONS)

// The borders of directions (angle, cosine and sine of each), then each slot's rotation and the places of its sensors.
#define BORDERS (3 * (DIRECTIONS + 1))
#define SIGHT (9 + 3 * SENSORS)

// A return from its sensor: m along the plane, and above it.
typedef struct {
    double range, height;
} Seen;

typedef struct {
    double x, y, z;
} Level;

FUNCTION double along(GLOBAL const double *axis, double x, double y, double z) {
    return axis[0] * x + axis[1] * y + axis[2] * z;
}

FUNCTION Level level_place(GLOBAL const double *rotation, float4 p) {
    Level level = {along(rotation, p.x, p.y, p.z), along(rotation + 3, p.x, p.y, p.z), along(rotation + 6, p.x, p.y, p.z)};
    return level;
}

FUNCTION int square_along(double place, double aside) {
    return (int)floor(fmin(fmax(place / (WIDER * aside), -FARTHEST_SQUARE), FARTHEST_SQUARE));
}

FUNCTION int head_of(int column, int row) { return (row & (SQUARES - 1)) * SQUARES + (column & (SQUARES - 1)); }

FUNCTION void list_place(int i, Level own, double aside, GLOBAL int *first, GLOBAL int *following) {
    int head = head_of(square_along(own.x, aside), square_along(own.y, aside));
    following[i] = ATOMIC_EXCHANGE(&first[head], i + 1);
}

// Listed points, and how many of them within `aside` and `height` of a place are enough.
typedef struct {
    GLOBAL const double *rotation;
    GLOBAL const float4 *points;
    GLOBAL const int *first, *following;
    double aside, height;
    int enough;
} Listed;

// So many of them in one of the nine squares around a place, or enough.
FUNCTION int near_in_square(Level own, const Listed *l, int k) {
    int column = square_along(own.x, l->aside) + k % 3 - 1, row = square_along(own.y, l->aside) + k / 3 - 1, found = 0;
    for (int i = l->first[head_of(column, row)]; i > 0 && found < l->enough; i = l->following[i - 1]) {
        Level other = level_place(l->rotation, l->points[i - 1]);
        double x = other.x - own.x, y = other.y - own.y;
        found += x * x + y * y < l->aside * l->aside && fabs(other.z - own.z) < l->height;
    }
    return found;
}

// On a GPU nine work-items ask about a point, one for each square around it; on a CPU device one does.
#if LANES > 1
#define ASKING 9
#define FOR_EACH_ASKED(begin, count) \
    for (int begin = GROUP_ID * (GROUP / ASKING); begin < (count); begin += GROUP_COUNT * (GROUP / ASKING))
#else
#define ASKING 1
#define FOR_EACH_ASKED(begin, count) FOR_EACH(begin, count)
#endif

// The point that a work-item asks about, or -1.
FUNCTION int asked_about(int begin, int count) {
    int i = begin + LOCAL_ID / ASKING;
    return LOCAL_ID < GROUP / ASKING * ASKING && i < count ? i : -1;
}

// Whether enough listed points are near a place, if that is `asked`. Called by all work-items of a group.
FUNCTION int are_near(int asked, Level own, const Listed *l, LOCAL int *found) {
#if LANES > 1
    int point = LOCAL_ID / ASKING;
    if (LOCAL_ID <= GROUP / ASKING) found[LOCAL_ID] = 0;
    BARRIER();
    int here = asked ? near_in_square(own, l, LOCAL_ID % ASKING) : 0;
    if (here) ATOMIC_ADD(&found[point], here);
    BARRIER();
    int all = found[point];
    BARRIER();
    return all >= l->enough;
#else
    int all = 0;
    for (int k = 0; asked && k < 9 && all < l->enough; ++k) all += near_in_square(own, l, k);
    return all >= l->enough;
#endif
}
