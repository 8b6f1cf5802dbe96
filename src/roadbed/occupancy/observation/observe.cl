// SPDX-License-Identifier: Apache-2.0
// The observation grids of a scan's sensors: points to polar tables and cell counts, counts to probabilities.
//
// Minima, integer sums and bits do not depend on the order of the points. Kernels leave tables and counts empty for the
// next scan. SLOT is a sensor.

#define GROUND_SEEN 0x10000u  // in a cell's marks, above the bits of its subcells

// Copies the ground's layers to device memory: cells read them in random order, and they may lie in host memory.
KERNEL take_layers(GLOBAL const View *views, GLOBAL const float *layers_in, GLOBAL float *layers) {
    GLOBAL const float *from = AT(float, views->layers, layers_in);
    FOR_EACH(i, 4 * views->ground_columns * views->ground_rows) layers[i] = from[i];
}

// Scatters points into the polar table of their sensor and into cells. `unreliable` holds frames: see vertical_faces.cl.
KERNEL collect(GLOBAL const View *views, GLOBAL const float *points_in, GLOBAL const float *heights,
               GLOBAL const uchar *sensor_index, GLOBAL const float *layers, GLOBAL const uint *lowest,
               GLOBAL const uint *highest, GLOBAL const int *unreliable, GLOBAL uint *table, GLOBAL uint *cover,
               GLOBAL int *weights, GLOBAL uint *marks, GLOBAL uint *least, GLOBAL uint *greatest) {
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
        int sensor = sensor_of(views, sensor_index, i, px, py, pz);
        if (sensor < 0) continue;
        GLOBAL const View *v = &views[sensor];
        Place p = placed(v, px, py, pz);
        float height = AT(float, v->heights, heights)[i];
        real over;
        if (v->face > 0 && is_on_face(v, p, height, lowest, highest, &over)) height = (float)over;
        int known = is_finite(height);
        real dz = known ? height : p.z - plane_at(v, p.x, p.y);
        if (dz <= -v->low_outlier || p.distance < v->min_range) continue;

        // The last range bin whose centre the beam passed, a margin before its end.
        int last = whole((p.distance - v->range_margin) / v->grid_spacing - 0.5) - 1;
        if (last >= 0) {
            int ray = v->table + azimuth_bin(p.dx, p.dy, v->azimuth_bins) * v->range_bins;
            uint slope = float_to_key((float)((p.z - v->origin[2]) / p.distance));
            GLOBAL uint *passed = &table[ray + min(last, v->range_bins - 1)];
            if (slope < ATOMIC_READ(passed)) ATOMIC_MIN(passed, slope);
            int end = whole(p.distance / v->grid_spacing);
            if (v->underpass < 1 && v->obstacle_height < dz && dz < v->underside && end < v->range_bins)
                ATOMIC_MIN(&cover[ray + end], slope);
        }

        real gx = p.x - v->grid_x, gy = p.y - v->grid_y;
        real fine_x = floor((v->grid_cosine * gx + v->grid_sine * gy) * SUBCELLS / v->grid_spacing);
        real fine_y = floor((v->grid_cosine * gy - v->grid_sine * gx) * SUBCELLS / v->grid_spacing);
        if (fine_x < 0 || fine_y < 0 || fine_x >= SUBCELLS * v->grid_columns || fine_y >= SUBCELLS * v->grid_rows)
            continue;
        int column = (int)fine_x, row = (int)fine_y;
        int cell = v->cells + row / SUBCELLS * v->grid_columns + column / SUBCELLS, weight = 0;
        uint mark = known && dz <= v->obstacle_height ? GROUND_SEEN : 0u;
        if (v->obstacle_height - (known ? SOFT_SIGMAS * v->obstacle_height_sigma : 0.0) < dz && dz < v->clearance) {
            // An uncertain ground makes the step from ground to obstacle softer.
            real uncertain = v->ground_sigma * v->ground_sigma;
            int node = known ? nearest_node(v, p.x, p.y) : -1;
            if (node >= 0 && (v->face <= 0 || unreliable[v->nodes + node] != v->frame)) {
                float variance = layers[3 * v->ground_columns * v->ground_rows + node];
                if (is_finite(variance)) uncertain = fmin((real)variance, uncertain);
            }
            real variance = v->obstacle_height_sigma * v->obstacle_height_sigma + uncertain;
            weight = (int)(1 / (1 + exp(-(dz - v->obstacle_height) / sqrt(variance))) * WEIGHT_ONE + 0.5);
        }
        if (weight > MARKING_WEIGHT) {
            mark |= 1u << (row % SUBCELLS * SUBCELLS + column % SUBCELLS);
            uint slope = float_to_key((float)((p.z - v->origin[2]) / p.distance));
            if (slope < ATOMIC_READ(&least[cell])) ATOMIC_MIN(&least[cell], slope);
            if (dz > v->mover_height && slope > ATOMIC_READ(&greatest[cell])) ATOMIC_MAX(&greatest[cell], slope);
        }
        if (weight > 0 && ATOMIC_READ(&weights[cell]) < MOST_WEIGHT) ATOMIC_ADD(&weights[cell], weight);
        if (mark & ~ATOMIC_READ(&marks[cell])) ATOMIC_OR(&marks[cell], mark);
    }
}

// A low obstacle covers the next bins behind it, which its body may fill. Obstacles that reach each other are one.
typedef struct {
    float slope;
    int from, until;  // the bin in which it begins, and the last that it covers; -1: none
} Cover;

FUNCTION Cover cover_of(float found, int k, int bins) {
    Cover cover = {found, k, found < NO_BEAM ? k + bins : -1};
    return cover;
}

// The last cover of both, of which `next` is further out.
FUNCTION Cover followed_by(Cover cover, Cover next) {
    if (next.until < 0) return cover;
    if (next.from <= cover.until) {
        next.slope = fmax(cover.slope, next.slope);
        next.from = cover.from;
    }
    return next;
}

FUNCTION float slope_over(Cover cover, int k) { return k <= cover.until ? cover.slope : -NO_BEAM; }

// A work-group loads a tile of its ray into local memory, and each work-item scans a strip of neighbouring bins: first it
// shares the result of its strip, then it scans again from the result of the strips before. `empty` is written back to the
// bins, and is the value of those beyond the last.
#define RAY_TILE (RAY_GROUP * RAY_STRIP)

#if LANES > 1
FUNCTION void load_tile(GLOBAL uint *ray, int begin, int bins, uint empty, LOCAL uint *tile) {
    uint found[RAY_STRIP];
    UNROLL for (int j = 0; j < RAY_STRIP; ++j) {
        int k = begin + j * RAY_GROUP + LOCAL_ID;
        found[j] = k < bins ? ray[k] : empty;
    }
    UNROLL for (int j = 0; j < RAY_STRIP; ++j) {
        tile[j * RAY_GROUP + LOCAL_ID] = found[j];
        if (found[j] != empty) ray[begin + j * RAY_GROUP + LOCAL_ID] = empty;
    }
    BARRIER();
}

// Stores its slopes, given by their bits.
FUNCTION void store_tile(LOCAL const uint *tile, GLOBAL float *ray, int begin, int bins) {
    BARRIER();
    for (int k = LOCAL_ID; k < min(RAY_TILE, bins - begin); k += RAY_GROUP) ray[begin + k] = FLOAT_OF(tile[k]);
    BARRIER();
}
#endif

// From near to far: the slope of underpasses in each bin. Bins of `found_in` are emptied.
FUNCTION void spread_cover(GLOBAL const View *v, GLOBAL uint *found_in, GLOBAL float *beneath, LOCAL uint *tile,
                           LOCAL Cover *strips) {
    int bins = v->range_bins, reach = v->underside_bins;
    Cover cover = {-NO_BEAM, 0, -1};
#if LANES > 1
    for (int begin = 0; begin < bins; begin += RAY_TILE) {
        load_tile(found_in, begin, bins, float_to_key(NO_BEAM), tile);
        int first = LOCAL_ID * RAY_STRIP;
        Cover own = {-NO_BEAM, 0, -1}, before = cover;
        UNROLL for (int k = first; k < first + RAY_STRIP; ++k)
            own = followed_by(own, cover_of(key_to_float(tile[k]), begin + k, reach));
        strips[LOCAL_ID] = own;
        BARRIER();
        UNROLL_8 for (int j = 0; j < RAY_GROUP; ++j) {
            if (j == LOCAL_ID) before = cover;
            cover = followed_by(cover, strips[j]);
        }
        UNROLL for (int k = first; k < first + RAY_STRIP; ++k) {
            Cover here = cover_of(key_to_float(tile[k]), begin + k, reach);
            tile[k] = BITS_OF(slope_over(before, begin + k));
            before = followed_by(before, here);
        }
        store_tile(tile, beneath, begin, bins);
    }
#else
    for (int k = 0; k < bins; ++k) {
        float found = key_to_float(found_in[k]);
        found_in[k] = float_to_key(NO_BEAM);
        beneath[k] = slope_over(cover, k);
        if (found < NO_BEAM) cover = followed_by(cover, cover_of(found, k, reach));
    }
#endif
}

// From far to near: a beam that ended further out passed every nearer bin of its ray. Bins of `ended_in` are emptied.
FUNCTION void pass_beams(GLOBAL const View *v, GLOBAL uint *ended_in, GLOBAL float *passing, LOCAL uint *tile,
                         LOCAL uint *strips) {
    int bins = v->range_bins;
    uint beyond = float_to_key(NO_BEAM);
#if LANES > 1
    for (int begin = (bins - 1) / RAY_TILE * RAY_TILE; begin >= 0; begin -= RAY_TILE) {
        load_tile(ended_in, begin, bins, float_to_key(NO_BEAM), tile);
        int first = LOCAL_ID * RAY_STRIP;
        uint own = float_to_key(NO_BEAM), least = beyond;
        UNROLL for (int k = first; k < first + RAY_STRIP; ++k) own = min(own, tile[k]);
        strips[LOCAL_ID] = own;
        BARRIER();
        UNROLL_8 for (int j = 0; j < RAY_GROUP; ++j) {
            beyond = min(beyond, strips[j]);
            if (j > LOCAL_ID) least = min(least, strips[j]);
        }
        UNROLL for (int k = first + RAY_STRIP - 1; k >= first; --k) {
            least = min(least, tile[k]);
            tile[k] = BITS_OF(key_to_float(least));
        }
        store_tile(tile, passing, begin, bins);
    }
#else
    for (int k = bins - 1; k >= 0; --k) {
        beyond = min(beyond, ended_in[k]);
        ended_in[k] = float_to_key(NO_BEAM);
        passing[k] = key_to_float(beyond);
    }
#endif
}

// One work-group per ray.
KERNEL sweep_rays(GLOBAL const View *views, GLOBAL uint *table, GLOBAL uint *cover, GLOBAL uint *lowest,
                  GLOBAL uint *highest, GLOBAL float *passing, GLOBAL float *beneath) {
    GLOBAL const View *v = &views[SLOT];
    LOCAL_ARRAY uint tile[RAY_TILE];
    LOCAL_ARRAY Cover covers[RAY_GROUP];
    LOCAL_ARRAY uint slopes[RAY_GROUP];
    int ray = v->table + GROUP_ID * v->range_bins;
    if (v->underpass < 1) spread_cover(v, cover + ray, beneath + ray, tile, covers);
    pass_beams(v, table + ray, passing + ray, tile, slopes);
    if (v->face > 0)
        for (int k = LOCAL_ID; k < v->range_bins; k += LOCAL_SIZE) {
            lowest[ray + k] = NO_LOWEST;
            highest[ray + k] = NO_HIGHEST;
        }
}

// LR_free = P(beam passes | occupied) / P(beam passes | empty) at a clearance over the ground.
FUNCTION real passing_odds(GLOBAL const View *v, real clearance, real ground_sigma, real detection) {
    if (clearance >= FAR_ABOVE) return 1.0;
    real excess = fmax(clearance, 0.0) - v->sure_height, survive = 1.0;
    // The ground's uncertainty adds to the spread of obstacle heights.
    if (excess > 0)
        survive = exp(-excess * excess / (2 * (v->height_spread * v->height_spread + ground_sigma * ground_sigma)));
    return 1 - detection * survive;
}

typedef struct {
    real surface, sigma;
    int known;
} Under;

// Height of the ground, its uncertainty, and whether it is known; else the height of the vehicle's plane.
FUNCTION Under surface_at(GLOBAL const View *v, GLOBAL const float *layers, GLOBAL const int *unreliable, real x,
                          real y) {
    Under under = {plane_at(v, x, y), v->ground_sigma, 0};
    int node = nearest_node(v, x, y), nodes = v->ground_columns * v->ground_rows;
    if (node >= 0 && is_finite(layers[node]) && (v->face <= 0 || unreliable[v->nodes + node] != v->frame)) {
        float variance = layers[3 * nodes + node];
        if (variance <= v->ground_sigma * v->ground_sigma) {
            under.sigma = (float)sqrt((real)variance);
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

// The lowest beam that passed a bin in the next ray on one side (1 or -1), NO_BEAM if all ended before; -NO_BEAM if
// neither that ray nor the one after it has a beam: columns of a sparse sensor are further apart than rays. A cell is
// wider than its own ray: at grazing incidence that ray passes a wall which ends the next.
FUNCTION float passed_beside(GLOBAL const View *v, GLOBAL const float *passing, int azimuth, int side, int bin) {
    int rays = v->azimuth_bins;
    for (int k = 1; k <= RAYS_BESIDE; ++k) {
        GLOBAL const float *ray = passing + v->table + (azimuth + k * side + rays) % rays * v->range_bins;
        if (ray[0] < NO_BEAM) return ray[bin];
    }
    return -NO_BEAM;
}

// A cell as the sensor sees it, and the lowest beam that passed it, NO_BEAM: none did.
typedef struct {
    real x, y, distance;
    int azimuth, bin;
    float lowest;
} Sight;

FUNCTION Sight sight_of(GLOBAL const View *v, GLOBAL const float *passing, int cell) {
    real gx = (cell % v->grid_columns + 0.5) * v->grid_spacing;
    real gy = (cell / v->grid_columns + 0.5) * v->grid_spacing;
    Sight s;
    s.x = v->grid_x + v->grid_cosine * gx - v->grid_sine * gy;
    s.y = v->grid_y + v->grid_sine * gx + v->grid_cosine * gy;
    real dx = s.x - v->origin[0], dy = s.y - v->origin[1];
    s.distance = sqrt(dx * dx + dy * dy);
    s.azimuth = azimuth_bin(dx, dy, v->azimuth_bins);
    s.bin = whole(s.distance / v->grid_spacing);
    s.lowest = NO_BEAM;
    if (s.bin >= v->range_bins) return s;
    s.lowest = passing[v->table + s.azimuth * v->range_bins + s.bin];
    if (v->whole_cells && s.lowest < NO_BEAM)
        s.lowest = fmax(s.lowest, fmax(passed_beside(v, passing, s.azimuth, -1, s.bin),
                                       passed_beside(v, passing, s.azimuth, 1, s.bin)));
    return s;
}

// The slope under which a beam passes beneath an obstacle in a cell's ray, or in the neighbouring rays.
FUNCTION float covered_at(GLOBAL const View *v, GLOBAL const float *beneath, Sight s) {
    if (s.bin >= v->range_bins || v->underpass >= 1) return -NO_BEAM;
    int rays = v->azimuth_bins;
    float slope = beneath[v->table + s.azimuth * v->range_bins + s.bin];
    for (int k = 1; k <= v->neighbour_rays; ++k) {
        float left = beneath[v->table + (s.azimuth + rays - k) % rays * v->range_bins + s.bin];
        slope = fmax(slope, fmax(left, beneath[v->table + (s.azimuth + k) % rays * v->range_bins + s.bin]));
    }
    return slope;
}

// The subcells in which beams returned. Returns of one layer, or low ones alone, are no surface: the place where a ring
// meets a guard rail or a bank moves with the sensor. Nor are those far beneath which beams passed: they hang, as the crown of a tree. But beams
// that passed beneath something low before the cell, as a parked car, do not show that: it hides the rest.
KERNEL find_surfaces(GLOBAL const View *RESTRICT views, GLOBAL const float *RESTRICT passing,
                     GLOBAL const float *RESTRICT beneath, GLOBAL const uint *RESTRICT marks,
                     GLOBAL const uint *RESTRICT least, GLOBAL const uint *RESTRICT greatest,
                     GLOBAL ushort *RESTRICT surface) {
    GLOBAL const View *v = &views[SLOT];
    FOR_EACH(cell, v->grid_columns * v->grid_rows) {
        uint hits = marks[v->cells + cell] & HITS_IN_CELL;
        if (hits && v->layers_apart > 0) {
            int row = cell / v->grid_columns, column = cell % v->grid_columns, reach = v->layers_within;
            uint low = NO_LOWEST, high = NO_HIGHEST;
            for (int r = max(row - reach, 0); r < min(row + reach + 1, v->grid_rows); ++r)
                for (int c = max(column - reach, 0); c < min(column + reach + 1, v->grid_columns); ++c) {
                    int at = v->cells + r * v->grid_columns + c;
                    low = min(low, least[at]);
                    high = max(high, greatest[at]);
                }
            float apart = key_to_float(high) - key_to_float(low);
            if (apart < v->layers_apart) hits = 0u;
        }
        if (hits) {
            Sight s = sight_of(v, passing, cell);
            real apart = ((real)key_to_float(least[v->cells + cell]) - s.lowest) * s.distance;
            real cover = ((real)covered_at(v, beneath, s) - s.lowest) * s.distance;
            if (apart >= v->passage && !(0 < cover && cover < v->standing)) hits = 0u;
        }
        surface[v->cells + cell] = (ushort)hits;
    }
}

// p_z and lambda of every cell from the lowest passing beam and the obstacle returns in it.
// A beam that passed beneath an obstacle, as under a car, does not show that the cell is free.
KERNEL apply_sensor_model(GLOBAL const View *RESTRICT views, GLOBAL const float *RESTRICT layers,
                          GLOBAL const int *RESTRICT unreliable, GLOBAL const float *RESTRICT passing,
                          GLOBAL const float *RESTRICT beneath, GLOBAL int *RESTRICT weights, GLOBAL uint *RESTRICT marks,
                          GLOBAL uint *RESTRICT least, GLOBAL uint *RESTRICT greatest,
                          GLOBAL float *RESTRICT probability, GLOBAL float *RESTRICT observedness) {
    GLOBAL const View *v = &views[SLOT];
    FOR_EACH(cell, v->grid_columns * v->grid_rows) {
        Sight s = sight_of(v, passing, cell);
        int here = v->cells + cell;
        real distance = s.distance;
        float lowest = s.lowest, covered = covered_at(v, beneath, s);
        uint mark = marks[here];
        real n_o = fmin((real)weights[here] / WEIGHT_ONE, v->hits);
        int ground_seen = (mark & GROUND_SEEN) != 0u;
        real p = 0.5, seen = 0.0;
        if (lowest < NO_BEAM || n_o > 0 || ground_seen) {
            real odds = 1.0, trust = lowest < covered ? v->underpass : 1.0;
            Under under = surface_at(v, layers, unreliable, s.x, s.y);
            if (ground_seen) {
                // The beam of the ground return may itself have passed beneath an obstacle.
                if (under.surface - v->origin[2] < covered * distance) trust = v->underpass;
                odds = passing_odds(v, 0.0, 0.0, trust * v->ground_detection);
            } else if (lowest < NO_BEAM) {
                real detection = under.known ? v->detection : v->detection * v->unknown_ground;
                odds = passing_odds(v, v->origin[2] + lowest * distance - under.surface, under.sigma, trust * detection);
            }
            p = odds / (1 + odds);
            seen = 1 - odds;
            if (n_o > 0) {
                real log_occupied = n_o * v->log_hit_ratio, kappa = n_o >= MIXED_HITS ? v->mixed_free : 1.0;
                p = 1 / (1 + exp(-log_occupied - kappa * log(fmax(odds, LEAST_ODDS))));
                seen = 1 - exp(-log_occupied) * odds;
            }
            if (seen < LEAST_SEEN) p = 0.5, seen = 0.0;
            p = fmin(fmax(p, v->clip), 1 - v->clip);
        }
        probability[here] = (float)p;
        observedness[here] = (float)seen;
        if (mark & HITS_IN_CELL) least[here] = NO_LOWEST, greatest[here] = NO_HIGHEST;
        if (mark) marks[here] = 0u;
        if (n_o > 0) weights[here] = 0;
    }
}
