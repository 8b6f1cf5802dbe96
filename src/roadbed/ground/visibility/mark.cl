// SPDX-License-Identifier: Apache-2.0
// Opaque ground: the returns of one direction against each other, by a work-group in local memory; a CPU device's is a lone
// work-item. On the CPU: `mark_standing` of directions_cpu.py.

// A direction's returns: their numbers, where they were seen, the slopes of their beams, and which of them stand.
typedef struct {
    LOCAL int *order, *stands;
    LOCAL double *range, *height, *slope;
} Direction;

// What the counts say: dense, or by which rules its directions are looked at.
FUNCTION int rule_of(int returns, int used) {
    int directions = max(used, 1);
    if (returns > LAYERED * directions) return DENSE;
    return returns <= DENSEST * directions ? SPARSE_RULE : LAYERED_RULE;
}

#define EACH(a, n) for (int a = LOCAL_ID; a < (n); a += LOCAL_SIZE)

FUNCTION void read_return(Direction d, GLOBAL const Seen *seen, int a) {
    Seen one = seen[d.order[a]];
    d.range[a] = one.range;
    d.height[a] = one.height;
    d.slope[a] = one.height / one.range;
    d.stands[a] = 0;
}

#if LANES > 1

// In the order of their beams' slopes, or of their numbers: each finds its own place, by those before it.
FUNCTION void sort_returns(Direction d, GLOBAL const int *held, GLOBAL const Seen *seen, int n, int by_slope) {
    EACH(a, n) {
        d.order[a] = held[a];
        d.slope[a] = by_slope ? seen[held[a]].height / seen[held[a]].range : 0.0;
    }
    BARRIER();
    EACH(a, n) {
        int before = 0;
        for (int b = 0; b < n; ++b)
            before += d.slope[b] < d.slope[a] || (d.slope[b] == d.slope[a] && d.order[b] < d.order[a]);
        d.stands[before] = d.order[a];
    }
    BARRIER();
    EACH(a, n) {
        d.order[a] = d.stands[a];
        read_return(d, seen, a);
    }
    BARRIER();
}

#else

FUNCTION void sort_by_number(LOCAL int *order, GLOBAL const int *held, int n) {
    for (int a = 0; a < n; ++a) {
        int own = held[a], k = a;
        for (; k > 0 && order[k - 1] > own; --k) order[k] = order[k - 1];
        order[k] = own;
    }
}

// Beams come in turns from the top or from the bottom: runs that rise or fall are merged one after the other.
FUNCTION void sort_by_slope(LOCAL int *order, LOCAL double *slope, LOCAL int *spare_order, LOCAL double *spare, int n) {
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

FUNCTION void sort_returns(Direction d, GLOBAL const int *held, GLOBAL const Seen *seen, int n, int by_slope) {
    sort_by_number(d.order, held, n);
    if (by_slope) {
        for (int a = 0; a < n; ++a) d.slope[a] = seen[d.order[a]].height / seen[d.order[a]].range;
        sort_by_slope(d.order, d.slope, d.stands, d.range, n);
    }
    for (int a = 0; a < n; ++a) read_return(d, seen, a);
}

#endif

// What a beam passed beneath, and what stands above each other with all that lies between.
FUNCTION void mark_above(Direction d, int n) {
    EACH(a, n) {
        double r = d.range[a], z = d.height[a];
        for (int b = 0; b < n; ++b) {
            double other_r = d.range[b], other_z = d.height[b];
            if (other_r - r > GAP + GAP_GROWTH * r && z - r * other_z / other_r > BENEATH) d.stands[a] = 1;
            double rise = other_z - z, apart = fabs(other_r - r);
            if (rise <= RISE || apart >= NEAR || rise <= STEEP * apart) continue;
            double low_r = fmin(r, other_r) - NEAR, high_r = fmax(r, other_r) + NEAR;
            for (int c = 0; c < n; ++c)
                if (z - BETWEEN <= d.height[c] && d.height[c] <= other_z + BETWEEN && low_r <= d.range[c] && d.range[c] <= high_r)
                    d.stands[c] = 1;
        }
    }
}

// Far away two beams meet a car at its bonnet and its window: less steep than a wall, steeper than a hillside.
FUNCTION void mark_far(Direction d, int n) {
    EACH(a, n) {
        if (d.range[a] < FAR) continue;
        double nearest = 0.0, rise = 0.0, apart = 0.0;
        for (int b = 0; b < n; ++b) {
            double above = d.slope[b] - d.slope[a];
            if (above <= BEAM || (nearest > 0.0 && above >= nearest)) continue;
            nearest = above, rise = d.height[b] - d.height[a], apart = d.range[b] - d.range[a];
        }
        if (apart > 0.0 && rise > FAR_STEEP * apart) d.stands[a] = 1;
    }
}

// What a beam met just behind and below the side of something is its underside or a wheel: marked by 2, so that what is
// behind and below it in turn does not follow from it.
FUNCTION void mark_undersides(Direction d, int n) {
    EACH(a, n)
        for (int b = 0; b < n && !d.stands[a]; ++b) {
            double behind = d.range[a] - d.range[b], lower = d.height[b] - d.height[a];
            if (d.stands[b] == 1 && 0 < behind && behind < BEHIND && 0 < lower && lower < BEHIND_LOWER) d.stands[a] = 2;
        }
}

// Returns on a wall whose next return is right above them, where beams are far apart; lowest beam first.
FUNCTION void mark_foot(Direction d, int n) {
    EACH(a, n) {
        double slope = d.slope[a], apart = -1.0, rise = 0.0;
        if (slope >= 0) break;
        int b = a + 1;
        while (b < n && d.slope[b] < slope + BEAM) ++b;
        if (b == n || d.slope[b] - slope <= FAR_APART) continue;
        double gap = d.slope[b] - slope;
        for (; b < n && d.slope[b] < slope + gap + BEAM; ++b) {
            double off = fabs(d.range[b] - d.range[a]);
            if (apart < 0.0 || off < apart) apart = off, rise = d.height[b] - d.height[a];
        }
        double ground = -slope * (apart + RANGE_NOISE) / d.range[a];  // slopes of beams that end on the ground before it
        if (apart < NEAR && rise > WALL_RISE + WALL * apart && ground < GROUND_SHARE * gap) d.stands[a] = 1;
    }
}

// Returns of sparse scans that do not stand are listed as road; those that do are looked at again with it.
KERNEL mark_directions(GLOBAL const Frame *frames, GLOBAL const double *sights, GLOBAL const float4 *located,
                     GLOBAL const Seen *seen, GLOBAL uchar *non_ground, GLOBAL int *following, GLOBAL int *tables, int capacity) {
    LOCAL_ARRAY int order[ROOM], stands[ROOM];
    LOCAL_ARRAY double range[ROOM], height[ROOM], slope[ROOM];
    Direction d = {order, stands, range, height, slope};
    GLOBAL const Frame *frame = &frames[SLOT];
    if (!frame->has_non_ground) return;
    GLOBAL const double *sight = sights + BORDERS + SLOT * SIGHT;
    GLOBAL int *table = tables + SLOT * TABLE_WORDS;
    located += SLOT * capacity, seen += SLOT * capacity, non_ground += SLOT * capacity, following += SLOT * capacity;
    int rule = rule_of(table[RETURNS], table[USED]), most = MOST * (rule == SPARSE_RULE ? DENSEST : LAYERED);
    if (GLOBAL_ID == 0) table[RULE] = rule;
    if (rule == DENSE) return;
    for (int cell = GROUP_ID; cell < frame->sensors * DIRECTIONS; cell += GROUP_COUNT) {
        GLOBAL int *held = table + HELD + cell * ROOM;
        int n = table[COUNTS + cell], marked = n > 1 && n <= most, some = marked ? n : 0;  // every barrier is met by all
        sort_returns(d, held, seen, some, rule == LAYERED_RULE);
        if (rule == SPARSE_RULE) mark_above(d, some);
        BARRIER();
        if (rule == SPARSE_RULE) mark_far(d, some);
        BARRIER();
        if (rule == SPARSE_RULE) mark_undersides(d, some);
        else mark_foot(d, some);
        BARRIER();
        EACH(a, some) {
            held[a] = order[a];
            non_ground[order[a]] = (uchar)(stands[a] != 0);
        }
        if (rule == SPARSE_RULE)
            EACH(a, min(n, ROOM)) {
                int own = marked ? order[a] : held[a];
                if (!marked || !stands[a]) list_place(own, level_place(sight, located[own]), FOOT, table + ROADS, following);
            }
        BARRIER();
    }
}
