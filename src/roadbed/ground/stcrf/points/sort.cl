// SPDX-License-Identifier: Apache-2.0
// How a scan's points come to their nodes, and from which state each node starts.

// A point in the lattice frame: its place from the middle of its node, its height, and its node (-1: none).
FUNCTION float4 locate_point(GLOBAL const Frame *frame, float x, float y, float z) {
    GLOBAL const float *r = frame->rotation, *t = frame->translation;
    float u = r[0] * x + r[1] * y + r[2] * z + t[0];
    float v = r[3] * x + r[4] * y + r[5] * z + t[1];
    float w = r[6] * x + r[7] * y + r[8] * z + t[2];
    float column = u * (1.0f / SPACING), row = v * (1.0f / SPACING);
    int inside = column >= 0.0f && column < COLUMNS && row >= 0.0f && row < ROWS && fabs(w) < FARTHEST_HEIGHT;
    int node = is_return(x, y, z) && inside ? (int)row * COLUMNS + (int)column : -1;
    return FLOAT4(u - ((float)(int)column + 0.5f) * SPACING, v - ((float)(int)row + 0.5f) * SPACING, w,
                  FLOAT_OF((uint)node));
}

// Points that follow each other in one node are counted there, and ranked, at once.
FUNCTION void rank_run(GLOBAL int *counts, GLOBAL int *rank, int node, int begin, int end) {
    int place = node >= 0 && end > begin ? ATOMIC_ADD(&counts[node], end - begin) : 0;
    for (int i = begin; i < end; ++i) rank[i] = place + i - begin;
}

// Step 1: each point to the lattice frame, to its node, and to its rank among the node's points. The points may lie in
// host memory: this is the only kernel that reads them.
KERNEL locate(GLOBAL const Frame *frames, GLOBAL const float *input_buffer, GLOBAL float4 *located, GLOBAL int *rank,
              GLOBAL int *counts, GLOBAL int *cursors, GLOBAL uint *tallies, int capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
#if LANES > 1
    // While points arrive: what the labels will count starts from zero.
    GLOBAL float4 *quads = (GLOBAL float4 *)(tallies + SLOT * TALLY_WORDS);
    FOR_EACH(k, TALLY_WORDS / 4) quads[k] = FLOAT4(0.0f, 0.0f, 0.0f, 0.0f);
#endif
    for (int k = LOCAL_ID; GROUP_ID == 0 && k < CURSORS; k += LOCAL_SIZE) cursors[CURSORS * SLOT + k] = 0;
    GLOBAL const float *points = AT(const float, frame->points, input_buffer + 3 * SLOT * capacity);
    int count = frame->count;
#if LANES > 1
    LOCAL_ARRAY float tile[3 * GROUP];
    for (int begin = GROUP_ID * LOCAL_SIZE; begin < count; begin += GLOBAL_SIZE) {
        read_points(points, begin, count, tile);
        BARRIER();
        int i = begin + LOCAL_ID;
        float4 point = locate_point(frame, tile[3 * LOCAL_ID], tile[3 * LOCAL_ID + 1], tile[3 * LOCAL_ID + 2]);
        int place = count_into_cell(counts + SLOT * NODES, (int)BITS_OF(point.w));
        if (i < count) {
            located[SLOT * capacity + i] = point;
            rank[SLOT * capacity + i] = place;
        }
        BARRIER();
    }
#else
    located += SLOT * capacity, rank += SLOT * capacity, counts += SLOT * NODES;
    int last = -1, begin = chunk_begin(GLOBAL_ID, count), end = begin;  // of the points in node `last`
    FOR_EACH(i, count) {
        float4 point = locate_point(frame, points[3 * i], points[3 * i + 1], points[3 * i + 2]);
        int node = (int)BITS_OF(point.w);
        if (node != last) {
            rank_run(counts, rank, last, begin, i);
            last = node, begin = i;
        }
        located[i] = point;
        end = i + 1;
    }
    rank_run(counts, rank, last, begin, end);
#endif
}

// The plane that the last frame left at a node, whether its ground was seen or not.
FUNCTION float4 carried_plane(GLOBAL const Frame *frame, GLOBAL const float4 *priors, int node) {
    float4 last = priors[3 * ((2 * SLOT + frame->prior) * NODES + node) + 2];
    return FLOAT4(last.y, last.z, last.w, 0.0f);
}

// The state from which the EM starts: the prior's information or none, and the plane it gives with what is expected.
FUNCTION void begin_node(GLOBAL const Frame *frame, GLOBAL const float4 *priors, GLOBAL float4 *start,
                         GLOBAL float4 *expected, int node, float4 plane) {
    Information s = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    if (frame->warm) s = load_information(priors + 3 * frame->prior * NODES, node);
    expected[node] = plane;
    store_node(start, node, s, solve_plane(s, plane));
}

// Step 2, per node: room for its points, and the first plane: its own, or that of the
// coarse node of the same number, level or as `carried` from the last frame. Nodes with more than FEW points join the list of their kind: {node, place, count}.
// On a CPU device every node is listed at its own place instead.
// cursors: {next free place; nodes with some points, with many, with more; nodes with points that the prior does not and
// does know}.
KERNEL allocate(GLOBAL const Frame *frames, GLOBAL int *counts, GLOBAL int2 *segments, GLOBAL int *cursors,
                GLOBAL int4 *lists, GLOBAL const float4 *priors, GLOBAL float4 *start, GLOBAL float4 *expected,
                GLOBAL float4 *coarse_start, GLOBAL float4 *coarse_expected, int carried) {
    LOCAL_ARRAY int scratch[GROUP];
    LOCAL_ARRAY int first;
    GLOBAL const Frame *frame = &frames[SLOT];
    int node = GLOBAL_ID;
    int here = node < NODES;
    int count = here ? counts[SLOT * NODES + node] : 0;
    int total;
    int before = group_scan(count, scratch, &total);
    if (LOCAL_ID == 0) first = ATOMIC_ADD(&cursors[CURSORS * SLOT], total);
    int kind = count <= FEW ? -1 : count <= SOME ? 0 : count <= MANY ? 1 : 2;
    if (frame->warm) {
        int known = here && priors[3 * ((2 * SLOT + frame->prior) * NODES + node)].x > KNOWN_PRIOR;
        append_to_list(cursors + CURSORS * SLOT + 4, count > 0 ? known : -1, 2);
    }
    int listed = LANES > 1 ? append_to_list(cursors + CURSORS * SLOT + 1, kind, 3) : 0;
    BARRIER();
    if (!here) return;
    segments[SLOT * NODES + node] = INT2(first + before, count);
    counts[SLOT * NODES + node] = 0;
    if (LANES == 1) lists[3 * SLOT * NODES + node] = INT4(node, first + before, count, 0);
    else if (kind >= 0) lists[(3 * SLOT + kind) * NODES + listed] = INT4(node, first + before, count, 0);
    float4 level = FLOAT4(frame->road, 0.0f, 0.0f, 0.0f);
#if COARSE_START
    if (node < COARSE_NODES) {
        Information nothing = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        if (carried) {  // the last frame's plane in the middle of the wide node
            int row = min(node / COARSE_COLUMNS * RATIO + RATIO / 2, ROWS - 1);
            int column = min(node % COARSE_COLUMNS * RATIO + RATIO / 2, COLUMNS - 1);
            level = carried_plane(frame, priors, row * COLUMNS + column);
        }
        coarse_expected[SLOT * COARSE_NODES + node] = level;
        store_node(coarse_start + 3 * SLOT * COARSE_NODES, node, nothing, level);
    }
#else
    begin_node(frame, priors + 6 * SLOT * NODES, start + 3 * SLOT * NODES, expected + SLOT * NODES, node, level);
#endif
}

// Step 3: points into the order of their nodes. The fourth number is the point's place in the input.
// overlap: the nodes with points that the prior does not and does know, for the host, which goes on while others work.
KERNEL place(GLOBAL const Frame *frames, GLOBAL const float4 *located, GLOBAL const int *rank, GLOBAL const int2 *segments,
             GLOBAL const int *cursors, GLOBAL float4 *sorted, GLOBAL int *overlap, int capacity) {
    if (GLOBAL_ID == 0) {
        overlap[2 * SLOT] = cursors[CURSORS * SLOT + 4];
        overlap[2 * SLOT + 1] = cursors[CURSORS * SLOT + 5];
    }
    int count = frames[SLOT].count;
    FOR_EACH(i, count) {
        float4 point = located[SLOT * capacity + i];
        int node = (int)BITS_OF(point.w);
        if (node < 0) continue;
        point.w = FLOAT_OF((uint)i);
        sorted[SLOT * capacity + segments[SLOT * NODES + node].x + rank[SLOT * capacity + i]] = point;
    }
}
