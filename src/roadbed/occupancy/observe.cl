// SPDX-License-Identifier: Apache-2.0
// The observation grids of a scan's sensors: points to polar tables and cell counts, counts to probabilities.
//
// Minima, whole-number sums and bits do not depend on the order of the points. Tables and counts are left as they were
// found, empty, for the next scan. SLOT is a sensor.

#define GROUND_SEEN 0x10000u  // in a cell's marks, above the bits of its subcells

// The ground's layers to where they are near: cells read them in no order, and the ground's may lie in host memory.
KERNEL take_layers(GLOBAL const View *views, GLOBAL const float *layers_in, GLOBAL float *layers) {
    GLOBAL const float *from = AT(float, views->layers, layers_in);
    FOR_EACH(i, 4 * views->ground_columns * views->ground_rows) layers[i] = from[i];
}

// Every point into the table of its sensor and into its cell. `doubted` holds frames: see faces.cl.
KERNEL collect(GLOBAL const View *views, GLOBAL const float *points_in, GLOBAL const float *heights,
               GLOBAL const uchar *belongs, GLOBAL const float *layers, GLOBAL const uint *lowest,
               GLOBAL const uint *highest, GLOBAL const int *doubted, GLOBAL uint *table, GLOBAL uint *cover,
               GLOBAL int *weights, GLOBAL uint *marks) {
    GLOBAL const float *points = AT(float, views->points, points_in);
    int count = views->count;
#if LANES > 1
    LOCAL_ARRAY float tile[3 * GROUP];
    for (int begin = GROUP_ID * GROUP; begin < count; begin += GROUP_COUNT * GROUP) {
        BARRIER();
        read_points(points, begin, count, tile);
        BARRIER();
        int i = begin + LOCAL_ID;
        if (i >= count) continue;
        float px = tile[3 * LOCAL_ID], py = tile[3 * LOCAL_ID + 1], pz = tile[3 * LOCAL_ID + 2];
#else
    FOR_EACH(i, count) {
        float px = points[3 * i], py = points[3 * i + 1], pz = points[3 * i + 2];
#endif
        int sensor = sensor_of(views, belongs, i, px, py, pz);
        if (sensor < 0) continue;
        GLOBAL const View *v = &views[sensor];
        Place p = placed(v, px, py, pz);
        float height = AT(float, v->heights, heights)[i];
        double over;
        if (v->face > 0 && is_on_face(v, p, height, lowest, highest, &over)) height = (float)over;
        int known = is_finite(height);
        double dz = known ? height : p.z - plane_at(v, p.x, p.y);
        if (dz <= -v->low_outlier || p.distance < v->min_range) continue;

        // The last range bin whose centre the beam passed, a margin before its end.
        int last = whole((p.distance - v->range_margin) / v->grid_spacing - 0.5) - 1;
        if (last >= 0) {
            int ray = v->table + azimuth_bin(p.dx, p.dy, v->azimuth_bins) * v->range_bins;
            uint slope = ordered((float)((p.z - v->origin[2]) / p.distance));
            GLOBAL uint *passed = &table[ray + min(last, v->range_bins - 1)];
            if (slope < *passed) ATOMIC_MIN(passed, slope);
            int end = whole(p.distance / v->grid_spacing);
            if (v->beneath < 1 && v->obstacle_height < dz && dz < v->underside && end < v->range_bins)
                ATOMIC_MIN(&cover[ray + end], slope);
        }

        double gx = p.x - v->grid_x, gy = p.y - v->grid_y;
        double fine_x = floor((v->grid_cosine * gx + v->grid_sine * gy) * SUBCELLS / v->grid_spacing);
        double fine_y = floor((v->grid_cosine * gy - v->grid_sine * gx) * SUBCELLS / v->grid_spacing);
        if (fine_x < 0 || fine_y < 0 || fine_x >= SUBCELLS * v->grid_columns || fine_y >= SUBCELLS * v->grid_rows)
            continue;
        int column = (int)fine_x, row = (int)fine_y;
        int cell = v->cells + row / SUBCELLS * v->grid_columns + column / SUBCELLS, weight = 0;
        uint mark = known && dz <= v->obstacle_height ? GROUND_SEEN : 0u;
        if (v->obstacle_height - (known ? SOFT_SIGMAS * v->obstacle_height_sigma : 0.0) < dz && dz < v->clearance) {
            // An uncertain ground makes the step from ground to obstacle softer.
            double uncertain = v->ground_sigma * v->ground_sigma;
            int node = known ? nearest_node(v, p.x, p.y) : -1;
            if (node >= 0 && (v->face <= 0 || doubted[v->nodes + node] != v->frame)) {
                float variance = layers[3 * v->ground_columns * v->ground_rows + node];
                if (is_finite(variance)) uncertain = fmin((double)variance, uncertain);
            }
            double variance = v->obstacle_height_sigma * v->obstacle_height_sigma + uncertain;
            weight = (int)(1 / (1 + exp(-(dz - v->obstacle_height) / sqrt(variance))) * WEIGHT_ONE + 0.5);
        }
        if (weight > MARKING_WEIGHT) mark |= 1u << (row % SUBCELLS * SUBCELLS + column % SUBCELLS);
        if (weight > 0 && weights[cell] < MOST_WEIGHT) ATOMIC_ADD(&weights[cell], weight);
        if (mark & ~marks[cell]) ATOMIC_OR(&marks[cell], mark);
    }
}

// What stands low in a bin covers the next bins behind it: there is room for its body.
typedef struct {
    float slope;
    int until;  // the last bin it covers
} Cover;

// The slope that covers bin k; what was `found` in it covers those behind.
FUNCTION float covered_by(Cover *cover, float found, int k, int bins) {
    float here = k <= cover->until ? cover->slope : -NO_BEAM;
    if (found < NO_BEAM) {
        cover->slope = k <= cover->until ? fmax(cover->slope, found) : found;
        cover->until = k + bins;
    }
    return here;
}

// The slope under which a beam passes beneath something in its ray, or in as many beside it.
FUNCTION float covered_at(GLOBAL const View *v, GLOBAL const float *beneath, int azimuth, int bin) {
    int rays = v->azimuth_bins;
    float slope = beneath[v->table + azimuth * v->range_bins + bin];
    for (int k = 1; k <= v->rays_beside; ++k) {
        float left = beneath[v->table + (azimuth + rays - k) % rays * v->range_bins + bin];
        slope = fmax(slope, fmax(left, beneath[v->table + (azimuth + k) % rays * v->range_bins + bin]));
    }
    return slope;
}

// From near to far, a tile of the ray at a time: one work-item walks it in local memory, if there is anything in it.
// `until` is the last bin that is covered so far, or in which something is.
FUNCTION void spread_cover(GLOBAL const View *v, GLOBAL uint *found_in, GLOBAL float *beneath, LOCAL float *tile,
                           LOCAL int *until) {
    Cover cover = {-NO_BEAM, -1};
#if LANES > 1
    if (LOCAL_ID == 0) *until = -1;
    BARRIER();
    for (int begin = 0; begin < v->range_bins; begin += RAY_GROUP) {
        int k = begin + LOCAL_ID, inside = k < v->range_bins;
        if (inside) {
            uint found = found_in[k];
            tile[LOCAL_ID] = unordered(found);
            if (found != ordered(NO_BEAM)) {
                found_in[k] = ordered(NO_BEAM);
                ATOMIC_MAX(until, k);
            }
        }
        BARRIER();
        int walked = *until >= begin;  // which the walk below leaves true
        if (LOCAL_ID == 0 && walked) {
            for (int j = 0; j < min(RAY_GROUP, v->range_bins - begin); ++j)
                tile[j] = covered_by(&cover, tile[j], begin + j, v->underside_bins);
            ATOMIC_MAX(until, cover.until);
        }
        BARRIER();
        if (inside) beneath[k] = walked ? tile[LOCAL_ID] : -NO_BEAM;
    }
#else
    for (int k = 0; k < v->range_bins; ++k) {
        float found = unordered(found_in[k]);
        found_in[k] = ordered(NO_BEAM);
        beneath[k] = covered_by(&cover, found, k, v->underside_bins);
    }
#endif
}

// From far to near: a beam that ended further out passed every nearer bin of its azimuth. One work-group per ray.
KERNEL sweep_rays(GLOBAL const View *views, GLOBAL uint *table, GLOBAL uint *cover, GLOBAL uint *lowest,
                  GLOBAL uint *highest, GLOBAL float *passing, GLOBAL float *beneath) {
    GLOBAL const View *v = &views[SLOT];
    LOCAL_ARRAY float tile[RAY_GROUP];
    LOCAL_ARRAY int until;
    int ray = v->table + GROUP_ID * v->range_bins;
    if (v->beneath < 1) spread_cover(v, cover + ray, beneath + ray, tile, &until);
    if (v->face > 0)
        for (int k = LOCAL_ID; k < v->range_bins; k += LOCAL_SIZE) {
            lowest[ray + k] = NO_LOWEST;
            highest[ray + k] = NO_HIGHEST;
        }
#if LANES > 1
    LOCAL_ARRAY uint scratch[RAY_GROUP];
    uint beyond = ordered(NO_BEAM);
    for (int end = v->range_bins; end > 0; end -= RAY_GROUP) {
        int k = end - 1 - LOCAL_ID;
        uint least = ordered(NO_BEAM);
        if (k >= 0) {
            least = table[ray + k];
            table[ray + k] = ordered(NO_BEAM);
        }
        scratch[LOCAL_ID] = least;
        BARRIER();
        for (int reach = 1; reach < RAY_GROUP; reach *= 2) {
            uint other = LOCAL_ID >= reach ? scratch[LOCAL_ID - reach] : least;
            BARRIER();
            least = min(least, other);
            scratch[LOCAL_ID] = least;
            BARRIER();
        }
        if (k >= 0) passing[ray + k] = unordered(min(least, beyond));
        beyond = min(beyond, scratch[RAY_GROUP - 1]);
        BARRIER();
    }
#else
    uint least = ordered(NO_BEAM);
    for (int k = v->range_bins - 1; k >= 0; --k) {
        least = min(least, table[ray + k]);
        table[ray + k] = ordered(NO_BEAM);
        passing[ray + k] = unordered(least);
    }
#endif
}

// LR_free = P(beam passes | occupied) / P(beam passes | empty) at a clearance over the ground.
FUNCTION double passing_odds(GLOBAL const View *v, double clearance, double ground_sigma, double detection) {
    if (clearance >= FAR_ABOVE) return 1.0;
    double excess = fmax(clearance, 0.0) - v->sure_height, survive = 1.0;
    // The ground's own uncertainty adds to the scatter of obstacle heights.
    if (excess > 0)
        survive = exp(-excess * excess / (2 * (v->height_spread * v->height_spread + ground_sigma * ground_sigma)));
    return 1 - detection * survive;
}

typedef struct {
    double surface, sigma;
    int known;
} Under;

// Height of the ground, its uncertainty, and whether it is known; else that of the vehicle's plane.
FUNCTION Under surface_at(GLOBAL const View *v, GLOBAL const float *layers, GLOBAL const int *doubted, double x, double y) {
    Under under = {plane_at(v, x, y), v->ground_sigma, 0};
    int node = nearest_node(v, x, y), nodes = v->ground_columns * v->ground_rows;
    if (node >= 0 && is_finite(layers[node]) && (v->face <= 0 || doubted[v->nodes + node] != v->frame)) {
        float variance = layers[3 * nodes + node];
        if (variance <= v->ground_sigma * v->ground_sigma) {
            under.sigma = (float)sqrt((double)variance);
            under.known = 1;
            under.surface = layers[node];
            float slope_x = layers[nodes + 2 * node], slope_y = layers[nodes + 2 * node + 1];
            if (is_finite(slope_x))
                under.surface += slope_x * (x - (v->ground_x0 + node % v->ground_columns * v->ground_spacing)) +
                                 slope_y * (y - (v->ground_y0 + node / v->ground_columns * v->ground_spacing));
        }
    }
    return under;
}

// p_z and lambda of every cell from the lowest passing beam and the obstacle returns in it.
// A beam that went beneath something, as under a car, hardly shows that the space there is free.
KERNEL judge_cells(GLOBAL const View *RESTRICT views, GLOBAL const float *RESTRICT layers,
                   GLOBAL const int *RESTRICT doubted, GLOBAL const float *RESTRICT passing,
                   GLOBAL const float *RESTRICT beneath, GLOBAL int *RESTRICT weights, GLOBAL uint *RESTRICT marks,
                   GLOBAL float *RESTRICT probability, GLOBAL float *RESTRICT observedness,
                   GLOBAL ushort *RESTRICT surface) {
    GLOBAL const View *v = &views[SLOT];
    FOR_EACH(cell, v->grid_columns * v->grid_rows) {
        double gx = (cell % v->grid_columns + 0.5) * v->grid_spacing;
        double gy = (cell / v->grid_columns + 0.5) * v->grid_spacing;
        double x = v->grid_x + v->grid_cosine * gx - v->grid_sine * gy;
        double y = v->grid_y + v->grid_sine * gx + v->grid_cosine * gy;
        double dx = x - v->origin[0], dy = y - v->origin[1], distance = sqrt(dx * dx + dy * dy);

        int here = v->cells + cell, bin = whole(distance / v->grid_spacing);
        float lowest = NO_BEAM, covered = -NO_BEAM;
        if (bin < v->range_bins) {
            int azimuth = azimuth_bin(dx, dy, v->azimuth_bins);
            if (v->beneath < 1) covered = covered_at(v, beneath, azimuth, bin);
            lowest = passing[v->table + azimuth * v->range_bins + bin];
        }
        uint mark = marks[here];
        double n_o = fmin((double)weights[here] / WEIGHT_ONE, v->hits);
        int ground_seen = (mark & GROUND_SEEN) != 0u;
        double p = 0.5, seen = 0.0;
        if (lowest < NO_BEAM || n_o > 0 || ground_seen) {
            double odds = 1.0, trust = lowest < covered ? v->beneath : 1.0;
            Under under = surface_at(v, layers, doubted, x, y);
            if (ground_seen) {
                // The beam that ended here on the ground may itself have come from beneath.
                if (under.surface - v->origin[2] < covered * distance) trust = v->beneath;
                odds = passing_odds(v, 0.0, 0.0, trust * v->ground_detection);
            } else if (lowest < NO_BEAM) {
                double detection = under.known ? v->detection : v->detection * v->unknown_ground;
                odds = passing_odds(v, v->origin[2] + lowest * distance - under.surface, under.sigma, trust * detection);
            }
            p = odds / (1 + odds);
            seen = 1 - odds;
            if (n_o > 0) {
                double log_occupied = n_o * v->log_hit_ratio, kappa = n_o >= MIXED_HITS ? v->mixed_free : 1.0;
                p = 1 / (1 + exp(-log_occupied - kappa * log(fmax(odds, LEAST_ODDS))));
                seen = 1 - exp(-log_occupied) * odds;
            }
            if (seen < LEAST_SEEN) p = 0.5, seen = 0.0;
            p = fmin(fmax(p, v->clip), 1 - v->clip);
        }
        probability[here] = (float)p;
        observedness[here] = (float)seen;
        surface[here] = (ushort)(mark & HITS_IN_CELL);
        if (mark) marks[here] = 0u;
        if (n_o > 0) weights[here] = 0;
    }
}
