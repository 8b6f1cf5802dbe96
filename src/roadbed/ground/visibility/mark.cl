// SPDX-License-Identifier: Apache-2.0
// Occlusion filter: compares the returns of one direction with each other, in the local memory of a work-group (one
// work-item on a CPU device). Twin: `mark_directions` of directions_cpu.py.

// The returns of a direction: point numbers, which of them are non-ground, range and height, and slopes of their beams.
typedef struct {
    LOCAL int *order, *marked;
    GLOBAL const uchar *ignored;  // by point number: its beam shows nothing of the returns above it; 0: none
    LOCAL real *range, *height, *slope;
} Direction;

// The rule for a scan, by the mean number of returns per direction.
FUNCTION int rule_of(int returns, int used) {
    int directions = max(used, 1);
    if (returns > LAYERED * directions) return DENSE;
    return returns <= DENSEST * directions ? SPARSE_RULE : LAYERED_RULE;
}

#define EACH(a, n) for (int a = LOCAL_ID; a < (n); a += LOCAL_SIZE)

FUNCTION void read_return(Direction d, GLOBAL const Polar *seen, int a) {
    Polar one = seen[d.order[a]];
    d.range[a] = one.range;
    d.height[a] = one.height;
    d.slope[a] = one.height / one.range;
    d.marked[a] = 0;
}

#if LANES > 1

// Sorts the returns by the slopes of their beams, or by number: the rank of each is the number of returns before it.
FUNCTION void sort_returns(Direction d, GLOBAL const int *members, GLOBAL const Polar *seen, int n, int by_slope) {
    EACH(a, n) {
        d.order[a] = members[a];
        d.slope[a] = by_slope ? seen[members[a]].height / seen[members[a]].range : 0.0;
    }
    BARRIER();
    EACH(a, n) {
        int before = 0;
        for (int b = 0; b < n; ++b)
            before += d.slope[b] < d.slope[a] || (d.slope[b] == d.slope[a] && d.order[b] < d.order[a]);
        d.marked[before] = d.order[a];
    }
    BARRIER();
    EACH(a, n) {
        d.order[a] = d.marked[a];
        read_return(d, seen, a);
    }
    BARRIER();
}

#else

FUNCTION void sort_by_number(LOCAL int *order, GLOBAL const int *members, int n) {
    for (int a = 0; a < n; ++a) {
        int own = members[a], k = a;
        for (; k > 0 && order[k - 1] > own; --k) order[k] = order[k - 1];
        order[k] = own;
    }
}

// Sensors report beams from the top or from the bottom, so the input is a few monotonic runs, which are merged.
FUNCTION void sort_by_slope(LOCAL int *order, LOCAL real *slope, LOCAL int *spare_order, LOCAL real *spare, int n) {
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

FUNCTION void sort_returns(Direction d, GLOBAL const int *members, GLOBAL const Polar *seen, int n, int by_slope) {
    sort_by_number(d.order, members, n);
    if (by_slope) {
        for (int a = 0; a < n; ++a) d.slope[a] = seen[d.order[a]].height / seen[d.order[a]].range;
        sort_by_slope(d.order, d.slope, d.marked, d.range, n);
    }
    for (int a = 0; a < n; ++a) read_return(d, seen, a);
}

#endif

// On a CPU device a group is one work-item: it needs no barriers.
#if LANES > 1
#define TOGETHER() BARRIER()
#else
#define TOGETHER()
#endif

FUNCTION int is_undercut(real r, real z, real other_r, real other_z) {
    return other_r - r > GAP + GAP_GROWTH * r && z - r * other_z / other_r > BENEATH;
}

// Whether no other return of a direction or the next ones is at the range and height of a return of that direction.
FUNCTION int is_lone(Polar own, int cell, GLOBAL const Polar *seen, GLOBAL const int *table) {
    int first = cell - cell % DIRECTIONS, found = 0;
    for (int side = DIRECTIONS - 1; side <= DIRECTIONS + 1; ++side) {
        int other = first + (cell - first + side) % DIRECTIONS, n = table[COUNTS + other];
        GLOBAL const int *members = table + MEMBERS + other * ROOM;
        for (int k = 0; n <= MOST * DENSEST && k < n; ++k)
            found += fabs(seen[members[k]].range - own.range) < LONE_RANGE * own.range &&
                     fabs(seen[members[k]].height - own.height) < LONE_HEIGHT;
    }
    return found < 2;  // it finds itself
}

// Whether return b of a direction is of a beam of which no other return of it was counted: it has none just below.
FUNCTION int begins_beam(GLOBAL const int *members, int n, int b, GLOBAL const Polar *seen) {
    real slope = seen[members[b]].height / seen[members[b]].range;
    int lowest = 1;
    for (int a = 0; a < n; ++a) {
        real below = slope - seen[members[a]].height / seen[members[a]].range;
        lowest &= !((below > 0 && below < BEAM) || (below == 0 && members[a] < members[b]));
    }
    return lowest;
}

// Of the returns of a sparse scan whose beam passed below another of their direction: marks those that ended alone, and
// counts both, and the directions with many beams.
KERNEL find_lone(GLOBAL const Frame *frames, GLOBAL const Polar *seen, GLOBAL uchar *non_ground, GLOBAL int *tables,
                 int capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
    GLOBAL int *table = tables + SLOT * TABLE_WORDS;
    if (!frame->has_non_ground || rule_of(table[RETURNS], table[USED]) != SPARSE_RULE) return;
    seen += SLOT * capacity, non_ground += SLOT * capacity;
    LOCAL_ARRAY int beams[1];
    int passing = 0, alone = 0, many = 0;
    for (int cell = GROUP_ID; cell < frame->sensors * DIRECTIONS; cell += GROUP_COUNT) {
        GLOBAL const int *members = table + MEMBERS + cell * ROOM;
        int n = table[COUNTS + cell], compared = n > 1 && n <= MOST * DENSEST ? n : 0;
        if (LOCAL_ID == 0) beams[0] = 0;
        TOGETHER();
        EACH(b, compared) {
            if (begins_beam(members, n, b, seen)) ATOMIC_ADD(&beams[0], 1);
            Polar own = seen[members[b]];
            int passed = 0;
            for (int a = 0; a < n && !passed; ++a)
                passed = is_undercut(seen[members[a]].range, seen[members[a]].height, own.range, own.height);
            int lone = passed && is_lone(own, cell, seen, table);
            non_ground[members[b]] = (uchar)lone;
            passing += passed, alone += lone;
        }
        TOGETHER();
        many += LOCAL_ID == 0 && beams[0] > BEAMS;
        TOGETHER();
    }
    if (many) ATOMIC_ADD(&table[MANY_BEAMS], many);
    if (passing) ATOMIC_ADD(&table[PASSED], passing);
    if (alone) ATOMIC_ADD(&table[LONE], alone);
}

// Marks returns that a beam passed below, and returns above each other with all between them.
FUNCTION void mark_above(Direction d, int n) {
    EACH(a, n) {
        real r = d.range[a], z = d.height[a];
        for (int b = 0; b < n; ++b) {
            real other_r = d.range[b], other_z = d.height[b];
            int counts = !d.ignored || !d.ignored[d.order[b]];
            if (counts && is_undercut(r, z, other_r, other_z)) d.marked[a] = 1;
            real rise = other_z - z, apart = fabs(other_r - r);
            if (rise <= RISE || apart >= NEAR || rise <= STEEP * apart) continue;
            real low_r = fmin(r, other_r) - NEAR, high_r = fmax(r, other_r) + NEAR;
            for (int c = 0; c < n; ++c)
                if (z - BETWEEN <= d.height[c] && d.height[c] <= other_z + BETWEEN && low_r <= d.range[c] && d.range[c] <= high_r)
                    d.marked[c] = 1;
        }
    }
}

// Marks far returns below a steep step: two beams hit a car at bonnet and window, less steep than a wall.
FUNCTION void mark_far(Direction d, int n) {
    EACH(a, n) {
        if (d.range[a] < FAR) continue;
        real nearest = 0.0, rise = 0.0, apart = 0.0;
        for (int b = 0; b < n; ++b) {
            real above = d.slope[b] - d.slope[a];
            if (above <= BEAM || (nearest > 0.0 && above >= nearest)) continue;
            nearest = above, rise = d.height[b] - d.height[a], apart = d.range[b] - d.range[a];
        }
        if (apart > 0.0 && rise > FAR_STEEP * apart) d.marked[a] = 1;
    }
}

// Whether a return is just behind and below a marked one: the underside or a wheel of an object.
FUNCTION int is_underside(Direction d, int a, int n) {
    int found = 0;
    for (int b = 0; b < n && !found; ++b) {
        real behind = d.range[a] - d.range[b], lower = d.height[b] - d.height[a];
        found = d.marked[b] && 0 < behind && behind < BEHIND && 0 < lower && lower < BEHIND_LOWER;
    }
    return found;
}

// Whether a falling beam has met a wall at this range.
FUNCTION int meets_wall(Direction d, real range, int n) {
    for (int b = 0; b < n && d.slope[b] < 0; ++b)
        if (d.marked[b] && fabs(d.range[b] - range) < NEAR) return 1;
    return 0;
}

// Marks returns on a wall whose next return is right above them, where beams are far apart: those of falling beams, then
// those of `rising` ones, which meet ceilings, too, so that they need the wall that a falling one has met.
FUNCTION void mark_foot(Direction d, int n, int rising) {
    EACH(a, n) {
        real slope = d.slope[a], apart = -1.0, rise = 0.0;
        if ((slope >= 0) != rising) continue;
        int b = a + 1;
        while (b < n && d.slope[b] < slope + BEAM) ++b;
        if (b == n || d.slope[b] - slope <= FAR_APART) continue;
        real gap = d.slope[b] - slope;
        for (; b < n && d.slope[b] < slope + gap + BEAM; ++b) {
            real off = fabs(d.range[b] - d.range[a]);
            if (apart < 0.0 || off < apart) apart = off, rise = d.height[b] - d.height[a];
        }
        real ground = -slope * (apart + RANGE_NOISE) / d.range[a];  // slopes of beams that end before it
        int wall = apart < NEAR && rise > WALL_RISE + WALL * apart && ground < GROUND_SHARE * gap;
        if (wall && (!rising || meets_wall(d, d.range[a], n))) d.marked[a] = 1;
    }
}

// Unmarked returns of sparse scans are listed as road, for `release_road`.
KERNEL mark_directions(GLOBAL const Frame *frames, GLOBAL const real *views, GLOBAL const float4 *located,
                       GLOBAL const Polar *seen, GLOBAL uchar *non_ground, GLOBAL int *next_entry, GLOBAL int *tables,
                       int capacity) {
    LOCAL_ARRAY int order[ROOM], marked[ROOM];
    LOCAL_ARRAY real range[ROOM], height[ROOM], slope[ROOM];
    Direction d = {order, marked, 0, range, height, slope};
    GLOBAL const Frame *frame = &frames[SLOT];
    if (!frame->has_non_ground) return;
    GLOBAL const real *view = views + BORDER_WORDS + SLOT * VIEW_WORDS;
    GLOBAL int *table = tables + SLOT * TABLE_WORDS;
    located += SLOT * capacity, seen += SLOT * capacity, non_ground += SLOT * capacity, next_entry += SLOT * capacity;
    int rule = rule_of(table[RETURNS], table[USED]), lone = table[LONE];
    if (rule == SPARSE_RULE && (real)table[MANY_BEAMS] > MANY_SHARE * (real)table[USED]) rule = LAYERED_RULE;
    int most = MOST * (rule == SPARSE_RULE ? DENSEST : LAYERED);
    if (lone >= LONE_FEWEST && (real)lone > LONE_SHARE * (real)table[PASSED]) d.ignored = non_ground;
    if (GLOBAL_ID == 0) table[RULE] = rule;
    if (rule == DENSE) return;
    for (int cell = GROUP_ID; cell < frame->sensors * DIRECTIONS; cell += GROUP_COUNT) {
        GLOBAL int *members = table + MEMBERS + cell * ROOM;
        int n = table[COUNTS + cell], compared = n > 1 && n <= most, some = compared ? n : 0;  // all reach every barrier
        sort_returns(d, members, seen, some, rule == LAYERED_RULE);
        if (rule == SPARSE_RULE) mark_above(d, some);
        TOGETHER();
        if (rule == SPARSE_RULE) mark_far(d, some);
        else mark_foot(d, some, 0);
        TOGETHER();
        if (rule == LAYERED_RULE) mark_foot(d, some, 1);
        TOGETHER();
        EACH(a, some) {
            members[a] = order[a];
            non_ground[order[a]] = (uchar)(marked[a] || (rule == SPARSE_RULE && is_underside(d, a, some)));
        }
        if (rule == SPARSE_RULE)
            EACH(a, min(n, ROOM)) {
                int own = compared ? order[a] : members[a];
                if (compared && non_ground[own]) continue;
                add_to_list(own, level_position(view, located[own]), FOOT, table + ROAD_LISTS, next_entry);
            }
        TOGETHER();
    }
}
