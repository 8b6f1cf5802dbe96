// SPDX-License-Identifier: Apache-2.0
// The EM iteration of em.cl for CPU devices, whose compilers do not vectorise over work-items: a work-item processes some
// rows of the lattice, and each number of eight nodes in a row is one vector. The sums over neighbours along x are computed
// once and used for three rows.

#if LANES == 1
#define BLOCKS ((COLUMNS + 7) / 8)

// Information of eight nodes in a row, and four numbers of eight nodes or points.
typedef struct {
    float8 p00, p01, p02, p11, p12, p22, x0, x1, x2;
} EightInformation;

typedef struct {
    float8 x, y, z, w;
} Eight;

SOLVE(solve_eight, float8, EightInformation, Eight)

#define LOW_PAIRS(a, b) (float8)(a.s0, b.s0, a.s1, b.s1, a.s4, b.s4, a.s5, b.s5)
#define HIGH_PAIRS(a, b) (float8)(a.s2, b.s2, a.s3, b.s3, a.s6, b.s6, a.s7, b.s7)
#define LOW_HALVES(a, b) (float8)(a.s01, b.s01, a.s45, b.s45)
#define HIGH_HALVES(a, b) (float8)(a.s23, b.s23, a.s67, b.s67)

// Reads eight float4, `stride` apart, in any address space, and transposes them by vector shuffles.
#define READ_EIGHT(memory, stride)                                                                                     \
    transposed((float8)((memory)[0], (memory)[4 * stride]), (float8)((memory)[stride], (memory)[5 * stride]),     \
                    (float8)((memory)[2 * stride], (memory)[6 * stride]),                                              \
                    (float8)((memory)[3 * stride], (memory)[7 * stride]))

FUNCTION Eight transposed(float8 a, float8 b, float8 c, float8 d) {
    float8 ab = LOW_PAIRS(a, b), cd = LOW_PAIRS(c, d), ab_high = HIGH_PAIRS(a, b), cd_high = HIGH_PAIRS(c, d);
    Eight out = {LOW_HALVES(ab, cd), HIGH_HALVES(ab, cd), LOW_HALVES(ab_high, cd_high), HIGH_HALVES(ab_high, cd_high)};
    return out;
}

// The opposite: writes the first `count` float4, `stride` apart.
FUNCTION void write_eight(GLOBAL float4 *memory, int stride, int count, float8 x, float8 y, float8 z, float8 w) {
    float8 xy = LOW_PAIRS(x, y), zw = LOW_PAIRS(z, w), xy_high = HIGH_PAIRS(x, y), zw_high = HIGH_PAIRS(z, w);
    float8 a = LOW_HALVES(xy, zw), b = HIGH_HALVES(xy, zw);
    float8 c = LOW_HALVES(xy_high, zw_high), d = HIGH_HALVES(xy_high, zw_high);
    float4 all[8] = {a.lo, b.lo, c.lo, d.lo, a.hi, b.hi, c.hi, d.hi};
    if (count == 8) UNROLL for (int k = 0; k < 8; ++k) memory[k * stride] = all[k];
    else for (int k = 0; k < count; ++k) memory[k * stride] = all[k];
}

FUNCTION float4 sums_of_eight(float8 a, float8 b, float8 c, float8 d) {
    float8 ab = LOW_PAIRS(a, b) + HIGH_PAIRS(a, b), cd = LOW_PAIRS(c, d) + HIGH_PAIRS(c, d);
    float8 all = LOW_HALVES(ab, cd) + HIGH_HALVES(ab, cd);
    return all.lo + all.hi;
}

#define EIGHT_NODES_AT(memory) information_from(READ_EIGHT(memory, 3), READ_EIGHT(memory + 1, 3), READ_EIGHT(memory + 2, 3))

FUNCTION EightInformation information_from(Eight a, Eight b, Eight c) {
    EightInformation out = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x};
    return out;
}

FUNCTION Information information_at(GLOBAL const float4 *state, int row, int column) {
    Information nothing = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    return column >= 0 && column < COLUMNS ? load_information(state, row * COLUMNS + column) : nothing;
}

// Columns outside of the lattice have no information.
FUNCTION EightInformation information_along(GLOBAL const float4 *state, int row, int column) {
    GLOBAL const float4 *first = state + 3 * (row * COLUMNS + column);
    if (column + 8 <= COLUMNS) return EIGHT_NODES_AT(first);
    float4 some[24];
    for (int k = 0; k < 24; ++k) some[k] = column + k / 3 < COLUMNS ? first[k] : (float4)(0.0f);
    return EIGHT_NODES_AT(some);
}

// Sums for eight nodes of a row: over the neighbours to the west and east for the row itself, and these with the nodes
// themselves for the next rows. Rows outside of the lattice have no information.
typedef struct {
    EightInformation own_row, next_rows;
} Row;

FUNCTION void read_row(GLOBAL const float4 *state, int row, int column, Row *out) {
    if (row < 0 || row >= ROWS) {
#define CLEAR(n) out->own_row.n = out->next_rows.n = 0.0f;
        FOR_EACH_NUMBER(CLEAR)
#undef CLEAR
        return;
    }
    EightInformation own = information_along(state, row, column), sum, rise;
    Information before = information_at(state, row, column - 1), after = information_at(state, row, column + 8);
#define ADD_SIDES(n)                                                                                                  \
    {                                                                                                                  \
        float8 west = (float8)(before.n, own.n.s0123, own.n.s456), east = (float8)(own.n.s1234, own.n.s567, after.n);  \
        sum.n = west + east;                                                                                           \
        rise.n = east - west;                                                                                          \
    }
    FOR_EACH_NUMBER(ADD_SIDES)
#undef ADD_SIDES
    // F^T P F and F^T X of both, as in add_transported.
    sum.p11 += SPACING * (SPACING * sum.p00 + 2.0f * rise.p01);
    sum.p01 += SPACING * rise.p00;
    sum.p12 += SPACING * rise.p02;
    sum.x1 += SPACING * rise.x0;
#define SET_ROW(n) out->own_row.n = sum.n, out->next_rows.n = NEIGHBOURS == 8 ? own.n + sum.n : own.n;
    FOR_EACH_NUMBER(SET_ROW)
#undef SET_ROW
}

// Adds `share` of each neighbour in the row itself and in the rows before and after.
FUNCTION void add_rows(EightInformation *sum, const Row *south_row, const Row *here, const Row *north_row, float8 share) {
    const EightInformation *south = &south_row->next_rows, *north = &north_row->next_rows;
    float8 lever = share * SPACING;
#define ADD(n) sum->n += share * (here->own_row.n + south->n + north->n);
    FOR_EACH_NUMBER(ADD)
#undef ADD
    sum->p02 += lever * (north->p00 - south->p00);
    sum->p12 += lever * (north->p01 - south->p01);
    sum->p22 += lever * (SPACING * (north->p00 + south->p00) + 2.0f * (north->p02 - south->p02));
    sum->x2 += lever * (north->x0 - south->x0);
}

// E-step and data term of one node, eight points at a time. Points beyond the last one have no weight: those of other nodes,
// or the SPARE ones at the end of the buffer.
FUNCTION void sum_points(GLOBAL const float4 *points, int count, float4 plane, float up, float4 *sums) {
    float h = plane.y;
    float sx = fmin(fmax(plane.z, -SLOPE_LIMIT), SLOPE_LIMIT), sy = fmin(fmax(plane.w, -SLOPE_LIMIT), SLOPE_LIMIT);
    float8 w = 0.0f, wx = 0.0f, wy = 0.0f, wxx = 0.0f, wxy = 0.0f, wyy = 0.0f, wz = 0.0f, wzx = 0.0f, wzy = 0.0f;
    for (int first = 0; first < count; first += 8) {
        Eight p = READ_EIGHT(points + first, 1);
        float8 dz = p.z - (h + sx * p.x + sy * p.y);
        float8 c = exp2_of_eight(dz * dz * select((float8)(up), (float8)(DOWN), dz < 0.0f));
#ifdef PULL
        c = select(c, fmax(c, PULL / (1.0f + dz * dz * PULL_REACH)), dz < 0.0f);
#endif
        c = select((float8)(0.0f), c, (int8)(0, 1, 2, 3, 4, 5, 6, 7) < (int8)(count - first));
        float8 cx = c * p.x, cy = c * p.y;
        w += c;
        wx += cx;
        wy += cy;
        wxx += cx * p.x;
        wxy += cx * p.y;
        wyy += cy * p.y;
        wz += c * p.z;
        wzx += cx * p.z;
        wzy += cy * p.z;
    }
    sums[0] = ALPHA * sums_of_eight(w, wx, wy, wxx);
    sums[1] = ALPHA * sums_of_eight(wxy, wyy, wz, wzx);
    sums[2] = ALPHA * sums_of_eight(wzy, wzy, wzy, wzy);
}

// Arguments as in em.cl, but `lists` has an entry for every node in order. Work-groups of one work-item take some rows each.
KERNEL iterate(GLOBAL const Frame *frames, GLOBAL const float4 *from_all, GLOBAL float4 *to_all,
               GLOBAL const float4 *priors, GLOBAL const float4 *expected_all, GLOBAL const int2 *segments,
               GLOBAL const float4 *sorted, GLOBAL const int4 *lists, GLOBAL const int *cursors,
               GLOBAL float4 *surface_all, GLOBAL uchar *seen_all, int per_slot, int whole_groups, int groups, float up,
               float gamma, int last) {
    GLOBAL const float4 *from = from_all + 3 * SLOT * NODES, *prior = priors;
    int warm = SEEN_ONLY && last ? frames[SLOT].warm : 0;
    if (gamma > 0.0f || warm) prior += 3 * (2 * SLOT + frames[SLOT].prior) * NODES;
    GLOBAL float4 *to = to_all + 3 * SLOT * NODES, *surface = surface_all + SLOT * NODES;
    GLOBAL const float4 *points = sorted + SLOT * per_slot, *expected = expected_all + SLOT * NODES;
    int strip = from_both_ends(GROUP_ID, GROUP_COUNT);
    int first_row = ROWS * strip / GROUP_COUNT, last_row = ROWS * (strip + 1) / GROUP_COUNT;
    Row rows[3][BLOCKS];  // a ring buffer
    for (int block = 0; block < BLOCKS; ++block) {
        read_row(from, first_row - 1, 8 * block, &rows[(first_row + 2) % 3][block]);
        read_row(from, first_row, 8 * block, &rows[first_row % 3][block]);
    }
    for (int row = first_row; row < last_row; ++row)
        for (int block = 0; block < BLOCKS; ++block) {
            int column = 8 * block, node = row * COLUMNS + column, nodes = min(8, COLUMNS - column);
            float4 data[24], level[8];
            for (int k = 0; k < 24; ++k) data[k] = 0.0f;
            for (int k = 0; k < nodes; ++k) {
                int4 entry = lists[3 * SLOT * NODES + node + k];
                if (entry.z) sum_points(points + entry.y, entry.z, from[3 * (node + k) + 2], up, data + 3 * k);
            }
            for (int k = 0; k < 8; ++k) level[k] = expected[node + min(k, nodes - 1)];
            Row *south = &rows[(row + 2) % 3][block], *here = &rows[row % 3][block], *north = &rows[(row + 1) % 3][block];
            read_row(from, row + 1, column, north);
            EightInformation sum = EIGHT_NODES_AT(data);
            float8 share = BETA / NEIGHBOURS;
#ifdef SLOPE_UP
            for (int k = 0; k < 8 && up == SLOPE_UP; ++k) ((float *)&share)[k] *= neighbours_count(level[k], data[3 * k].x);
#endif
            add_rows(&sum, south, here, north, share);
            if (gamma > 0.0f) {
                EightInformation before = information_along(prior, row, column);
#define ADD(n) sum.n += gamma * before.n;
                FOR_EACH_NUMBER(ADD)
#undef ADD
            }
            Eight plane = solve_eight(sum, READ_EIGHT(level, 1), HEIGHT_INFORMATION);
            write_eight(to + 3 * node, 3, nodes, sum.p00, sum.p01, sum.p02, sum.p11);
            write_eight(to + 3 * node + 1, 3, nodes, sum.p12, sum.p22, sum.x0, sum.x1);
            write_eight(to + 3 * node + 2, 3, nodes, sum.x2, plane.x, plane.y, plane.z);
            if (last) write_eight(surface + node, 1, nodes, plane.x, plane.y, plane.z, plane.w * VARIANCE_SCALE);
#if SEEN_ONLY
            for (int k = 0; last && k < nodes; ++k)
                seen_all[SLOT * NODES + node + k] = seen_by(&frames[SLOT], load_plane(to, node + k), level[k], node + k,
                                                            data[3 * k].x, warm ? prior[3 * (node + k)].x : 0.0f);
#endif
        }
}
#endif
