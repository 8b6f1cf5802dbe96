// SPDX-License-Identifier: Apache-2.0
// All EM iterations in one launch, for devices whose work-groups can all run at once: work-items stay with their nodes and
// wait for what the neighbours of each found in the iteration before, not for the slowest node of the lattice. What they
// read of their own, points and lists, stays in the near cache. Otherwise each iteration is a launch (em.cl).

#ifdef ROADBED_CUDA
FUNCTION Information told_information(const uint4 *place, uint number) {
    float4 a, b, c;
    do {
        a = look(place);
        b = look(place + 1);
        c = look(place + 2);
    } while (!is_numbered(a, number) || !is_numbered(b, number) || !is_numbered(c, number));
    Information out = {a.x, a.y, a.z, b.x, b.y, b.z, c.x, c.y, c.z};
    return out;
}

// The first three work-items tell a part each; all know the information.
FUNCTION void tell_information(uint4 *place, Information s, int lane, uint number) {
    float x = lane == 0 ? s.p00 : lane == 1 ? s.p11 : s.x0, y = lane == 0 ? s.p01 : lane == 1 ? s.p12 : s.x1;
    float z = lane == 0 ? s.p02 : lane == 1 ? s.p22 : s.x2;
    if (lane < 3) tell(place + lane, x, y, z, number);
}

// What the neighbours of a node knew after iteration `k` - 1: at first in the states, then as messages.
FUNCTION void ask_neighbours(Information *sum, const float4 *from, const uint4 *messages, int node, int k, uint number,
                             int lane, int lanes) {
    int column = node % COLUMNS, row = node / COLUMNS;
    UNROLL for (int other = lane; other < 8; other += lanes) {
        int place = other < 4 ? other : other + 1, i = place % 3 - 1, j = place / 3 - 1;
        if (column + i < 0 || column + i >= COLUMNS || row + j < 0 || row + j >= ROWS) continue;
        if (NEIGHBOURS == 4 && i != 0 && j != 0) continue;
        int beside = node + j * COLUMNS + i;
        Information known = k == 0 ? load_information(from, beside)
                                   : told_information(messages + 3 * ((k - 1) % 2 * NODES + beside), number + k);
        add_transported(sum, known, i * SPACING, j * SPACING, BETA / NEIGHBOURS);
    }
}

// One iteration of one node. Its plane is written and read by the same group.
FUNCTION void iterate_node(int node, int skip, int lane, int lanes, int2 segment, const float4 *from, float4 *to,
                           const float4 *prior, const float4 *expected, const float4 *points, float4 *surface, uchar *seen,
                           float up, int warm, int k, int last, uint4 *messages, uint number, float *scratch) {
    Information sum = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, data = sum;
    float4 some[AT_ONCE], level = expected[node];
    int count = skip ? 0 : segment.y;
    if (count > 0) read_some(points + segment.x, lane, lanes, count, some);
    float own = add_points(&data, points + segment.x, count, some, load_plane(from, node), up, lane, lanes);
    if (!skip) ask_neighbours(&sum, from, messages, node, k, number, lane, lanes);
    if (warm && lane == 0) add_transported(&sum, load_information(prior, node), 0.0f, 0.0f, GAMMA);
    add_transported(&sum, data, 0.0f, 0.0f, 1.0f);
    sum_over_lanes(&sum, lanes, scratch);
    if (SEEN_ONLY && last) own = number_over_lanes(own, lanes, scratch);
    if (skip) return;
    if (!last) {
        uint4 *place = messages + 3 * (k % 2 * NODES + node);
        if (lanes <= WIDE) tell_information(place, sum, lane, number + k + 1);
        else if (lane == 0) UNROLL for (int part = 0; part < 3; ++part) tell_information(place, sum, part, number + k + 1);
    }
    if (lane > 0) return;
    float4 found = solve_plane(sum, level);
    store_node(to, node, sum, found);
    if (!last) return;
    surface[node] = FLOAT4(found.x, found.y, found.z, found.w * VARIANCE_SCALE);
#if SEEN_ONLY
    seen[node] = seen_by(own, warm ? prior[3 * node].x : 0.0f);
#endif
}
#endif

// `even` and `odd` hold the states in turn; the start lies where the last iteration ends in `even`. The groups are dealt
// out as for `iterate`, but the first `few_groups` serve nodes of few points.
KERNEL_DENSE(GROUP, 4) iterate_together(GLOBAL const Frame *frames, GLOBAL float4 *even, GLOBAL float4 *odd,
                                 GLOBAL const float4 *priors, GLOBAL const float4 *expected, GLOBAL const int2 *segments,
                                 GLOBAL const float4 *sorted, GLOBAL const int4 *lists, GLOBAL const int *cursors,
                                 GLOBAL float4 *surface, GLOBAL uchar *seen, GLOBAL uint4 *mail, int few_groups,
                                 int iterations, int warm) {
#ifdef ROADBED_CUDA
    LOCAL_ARRAY float scratch[9 * GROUP];
    uint4 *messages = mail + 1;
    uint number = first_number(messages);
    const float4 *prior = priors + (warm ? 3 * frames->prior * NODES : 0);
    int listed = GROUP_COUNT - few_groups, some = listed / (LIMIT ? 2 : 6), many = listed / (LIMIT ? 4 : 6);
    int few = GROUP_ID < few_groups, at = GROUP_ID - few_groups;
    int kind = few ? -1 : at < some ? 0 : at < some + many ? 1 : 2;
    int member = few ? GROUP_ID : kind == 0 ? at : kind == 1 ? at - some : at - some - many;
    int members = few ? few_groups : kind == 0 ? some : kind == 1 ? many : listed - some - many;
    int lanes = few ? FEWEST_LANES : kind == 0 ? LANES : kind == 1 || LIMIT ? WIDE : GROUP;
    int at_once = members * (GROUP / lanes), first = member * (GROUP / lanes) + LOCAL_ID / lanes;
    int tasks = few ? NODES : cursors[1 + kind];
    const int4 *list = lists + (few ? 0 : kind) * NODES;
    for (int k = 0; k < iterations; ++k) {
        float4 *from = (iterations - k) % 2 ? odd : even, *to = (iterations - k) % 2 ? even : odd;
        float up = !warm && 2 * k < iterations ? UP_EARLY : UP;
        int last = k == iterations - 1;
        for (int begin = 0; begin < tasks; begin += at_once) {
            int task = begin + first;
            int4 entry = few ? INT4(0, 0, 0, 0) : list[min(task, NODES - 1)];
            int node = few ? min(task, NODES - 1) : entry.x;
            int2 segment = few ? segments[node] : INT2(entry.y, entry.z);
            int skip = task >= tasks || (few && segment.y > FEW);
#define ITERATE(lanes)                                                                                                 \
    iterate_node(node, skip, LOCAL_ID % (lanes), lanes, segment, from, to, prior, expected, sorted, surface, seen, up, \
                 warm, k, last, messages, number, scratch)
            if (few) ITERATE(FEWEST_LANES);
            else if (kind == 0) ITERATE(LANES);
            else if (kind == 1 || LIMIT) ITERATE(WIDE);
            else ITERATE(GROUP);
        }
        __syncwarp();
        if (lanes > WIDE) __syncthreads();
    }
    end_launch(messages);
#endif
}
