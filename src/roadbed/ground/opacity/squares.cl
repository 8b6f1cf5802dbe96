// SPDX-License-Identifier: Apache-2.0
// What the kernels of opaque ground share: where returns lie, and lists of them by the square of the plane they lie in.
//
// A slot's table: {returns in directions, directions that hold any, the rule that follows from it, nothing}, then the first
// of each square's road and of each square's standing returns (a point's number plus one, 0 at the end; `following` tells
// the next), how many returns each direction of each sensor holds, and room for ROOM of each.
// Twin: beside_cpu.py. Which returns are near another does not depend on the order in which they are listed.

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

// Whether enough of the listed points lie within `aside` and `height` of a place.
FUNCTION int are_near(Level own, double aside, double height, int enough, GLOBAL const double *rotation,
                      GLOBAL const float4 *points, GLOBAL const int *first, GLOBAL const int *following) {
    int column = square_along(own.x, aside), row = square_along(own.y, aside), found = 0;
    for (int k = 0; k < 9; ++k)
        for (int i = first[head_of(column + k % 3 - 1, row + k / 3 - 1)]; i > 0; i = following[i - 1]) {
            Level other = level_place(rotation, points[i - 1]);
            double x = other.x - own.x, y = other.y - own.y;
            found += x * x + y * y < aside * aside && fabs(other.z - own.z) < height;
            if (found >= enough) return 1;
        }
    return 0;
}
