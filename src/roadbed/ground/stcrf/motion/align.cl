// SPDX-License-Identifier: Apache-2.0
// Alignment: fits the height and tilt of a scan to the prior surface by reweighted least squares over samples of firm nodes.
// The scan's pose is corrected on the device, so that the frame's kernels can follow immediately. Twin: align_cpu.py.

// Samples every stride-th point over a firm node, except non-ground points: how its height over the node's plane changes with
// the slopes of a turn about the sensor, that height, and the node.
KERNEL sample_residuals(GLOBAL const Frame *frames, GLOBAL const float *input_buffer, GLOBAL const uchar *non_ground,
                        GLOBAL const float4 *priors, GLOBAL float4 *samples, GLOBAL int *counts, GLOBAL int *found, int capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
    GLOBAL const float *points = AT(const float, frame->points, input_buffer + 3 * SLOT * capacity);
    GLOBAL const float4 *prior = priors + 3 * (2 * SLOT + frame->prior) * NODES;
    GLOBAL const float *r = frame->rotation, *t = frame->translation;
    for (int k = GLOBAL_ID; k * frame->stride < frame->count; k += GLOBAL_SIZE) {
        int i = k * frame->stride;
        float px = points[3 * i], py = points[3 * i + 1], pz = points[3 * i + 2];
        if (!is_return(px, py, pz) || (frame->has_non_ground && non_ground[SLOT * capacity + i])) continue;
        float x = r[0] * px + r[1] * py + r[2] * pz + t[0], y = r[3] * px + r[4] * py + r[5] * pz + t[1];
        float u = x * (1.0f / SPACING), v = y * (1.0f / SPACING);
        float from_x = x - t[0], from_y = y - t[1];
        if (from_x * from_x + from_y * from_y >= frame->reach * frame->reach) continue;
        if (u < 0.0f || v < 0.0f || u >= COLUMNS || v >= ROWS) continue;
        int column = (int)u, row = (int)v, node = row * COLUMNS + column;
        if (prior[3 * node].x < FIRM) continue;
        float4 plane = prior[3 * node + 2];
        float dx = x - ((float)column + 0.5f) * SPACING, dy = y - ((float)row + 0.5f) * SPACING;
        float z = r[6] * px + r[7] * py + r[8] * pz + t[2];
        float dz = z - (plane.y + plane.z * dx + plane.w * dy);
        ATOMIC_ADD(&found[2 * SLOT + 1], 1);
        if (fabs(dz) >= FARTHEST_SAMPLE) continue;
        ATOMIC_ADD(&counts[SLOT * NODES + node], 1);
        // A turn also shifts a point sideways, by its height over the sensor, and so up or down the slope of its node.
        float from_z = z - t[2];
        float4 sample = FLOAT4(from_x + plane.z * from_z, from_y + plane.w * from_z, dz, FLOAT_OF((uint)node));
        samples[SLOT * capacity + ATOMIC_ADD(&found[2 * SLOT], 1)] = sample;
    }
}

FUNCTION real unaligned(GLOBAL const Frame *frame, int k) {
    return (real)frame->unaligned[0][k] + (real)frame->unaligned[1][k] + (real)frame->unaligned[2][k];
}

// The share of a misalignment of this size that is beyond the dead zone.
FUNCTION real beyond(real size, float dead) { return size > dead ? 1 - dead / size : 0; }

// Number k of the sensor's pose (rotation by rows, translation) and the vehicle's position, turned about the sensor, then
// lowered. Twin: GridPose.corrected.
#define POSES 15
FUNCTION real aligned(GLOBAL const Frame *frame, LOCAL const float *fit, int k) {
    real tilt_x = fit[1], tilt_y = fit[2], lift = fit[0], trust = unaligned(frame, 15);
    real turned = trust * beyond(sqrt(tilt_x * tilt_x + tilt_y * tilt_y), ALIGNMENT_DEAD_TILT);
    real lifted = trust * beyond(fabs(lift), ALIGNMENT_DEAD_LIFT);
    real slope_x = turned * tilt_x, slope_y = turned * tilt_y;
    real up = 1 / sqrt(slope_x * slope_x + slope_y * slope_y + 1), a = -slope_y * up, b = slope_x * up, s = 1 / (1 + up);
    real turn[9] = {1 - b * b * s, a * b * s, b, a * b * s, 1 - a * a * s, -a, -b, a, 1 - (a * a + b * b) * s};
    real pivot[3] = {unaligned(frame, 9), unaligned(frame, 10), unaligned(frame, 11)}, lower[3] = {0, 0, lifted * lift};
    int row = k < 9 ? k / 3 : k % 3, position = k < 12 ? 9 : 12;
    real number = k < 9 ? 0 : pivot[row] - lower[row];
    for (int j = 0; j < 3; ++j)
        number += turn[3 * row + j] * (k < 9 ? unaligned(frame, 3 * j + k % 3) : unaligned(frame, position + j) - pivot[j]);
    return number;
}

FUNCTION void store_pose(GLOBAL Frame *frame, LOCAL const real *poses) {
    for (int k = 0; k < 9; ++k) frame->rotation[k] = (float)poses[k];
    for (int k = 0; k < 3; ++k) frame->translation[k] = (float)poses[9 + k];
    frame->vehicle_x = (float)poses[12];
    frame->vehicle_y = (float)poses[13];
    frame->road = (float)poses[14];
}

#define SUMS 11

// Adds up the sums of all work-items of a group into the first element of each row of `scratch`.
FUNCTION void sum_over_group(const float *sums, LOCAL float *scratch) {
#ifdef ROADBED_CUDA
    for (int k = 0; k < SUMS; ++k) {
        float sum = sums[k];
        for (int offset = 16; offset > 0; offset /= 2) sum += EXCHANGE_FLOAT(sum, offset, scratch);
        if (LOCAL_ID % 32 == 0) scratch[k * GROUP + LOCAL_ID / 32] = sum;
    }
    BARRIER();
    if (LOCAL_ID < SUMS)
        for (int warp = 1; warp < GROUP / 32; ++warp) scratch[LOCAL_ID * GROUP] += scratch[LOCAL_ID * GROUP + warp];
#else
    for (int k = 0; k < SUMS; ++k) scratch[k * GROUP + LOCAL_ID] = sums[k];
    for (int reach = LOCAL_SIZE / 2; reach > 0; reach /= 2) {
        BARRIER();
        if (LOCAL_ID < reach)
            for (int k = 0; k < SUMS; ++k) scratch[k * GROUP + LOCAL_ID] += scratch[k * GROUP + LOCAL_ID + reach];
    }
#endif
    BARRIER();
}

// Solves the sums of all work-groups, added in order, for the fit {lift, a, b, share of near samples}.
FUNCTION void solve(GLOBAL const float *parts, LOCAL float *scratch, LOCAL float *sums, LOCAL float *fit) {
    BARRIER();
    for (int k = LOCAL_ID; k < SUMS * FIT_GROUPS; k += LOCAL_SIZE) scratch[k] = parts[k];
    BARRIER();
    for (int k = LOCAL_ID; k < SUMS; k += LOCAL_SIZE) {
        float sum = 0.0f;
        UNROLL_8 for (int group = 0; group < FIT_GROUPS; ++group) sum += scratch[group * SUMS + k];
        sums[k] = sum;
    }
    BARRIER();
    if (LOCAL_ID == 0) {
        float w00 = sums[0] + 1e-6f, w11 = sums[3] + 1.0f, w22 = sums[5] + 1.0f;
        float l1 = sums[1] / w00, l2 = sums[2] / w00, d1 = w11 - l1 * sums[1], t = sums[4] - l1 * sums[2], l3 = t / d1;
        float second = sums[7] - l1 * sums[6], b = (sums[8] - l2 * sums[6] - l3 * second) / (w22 - l2 * sums[2] - l3 * t);
        float a = second / d1 - l3 * b;
        fit[0] = sums[6] / w00 - l1 * a - l2 * b;
        fit[1] = a;
        fit[2] = b;
        fit[3] = sums[10] / fmax(sums[9], 1e-9f);
    }
    BARRIER();
}

// A sample with its weight, which limits the total weight of the samples of one node.
typedef struct {
    float x, y, dz, limited;
} Sample;

FUNCTION Sample sample_at(GLOBAL const float4 *samples, GLOBAL const int *counts, int k) {
    float4 s = samples[k];
    Sample sample = {s.x, s.y, s.z, fmin(1.0f, NODE_LIMIT / counts[(int)BITS_OF(s.w)])};
    return sample;
}

// One step of the fit dz = lift + a x + b y; `factor`: of the squared residual in the exponent of the weight. Each work-group
// solves the sums of the step before and adds up its share of this step. found: {samples, points over firm nodes}.
KERNEL fit_tilt(GLOBAL const float4 *samples_all, GLOBAL const int *counts, GLOBAL const int *found, GLOBAL const float *before,
                GLOBAL float *parts, float factor, int step, int capacity) {
    LOCAL_ARRAY float scratch[SUMS * GROUP];
    LOCAL_ARRAY float totals[SUMS];
    LOCAL_ARRAY float fit[4];
    GLOBAL const float4 *samples = samples_all + SLOT * capacity;
    counts += SLOT * NODES;
    int n = found[2 * SLOT];
    Sample s = {0.0f, 0.0f, 0.0f, 0.0f};
    if (GLOBAL_ID < n) s = sample_at(samples, counts, GLOBAL_ID);  // loads while the sums are solved
    solve(before + SLOT * FIT_GROUPS * SUMS, scratch, totals, fit);
    float lift = step ? fit[0] : 0.0f, a = step ? fit[1] : 0.0f, b = step ? fit[2] : 0.0f;
    float sums[SUMS] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int k = GLOBAL_ID; k < n; k += GLOBAL_SIZE) {
        if (k != GLOBAL_ID) s = sample_at(samples, counts, k);
        float rest = s.dz - (lift + a * s.x + b * s.y), w = s.limited * EXP2(factor * rest * rest);
        sums[0] += w, sums[1] += w * s.x, sums[2] += w * s.y;
        sums[3] += w * s.x * s.x, sums[4] += w * s.x * s.y, sums[5] += w * s.y * s.y;
        sums[6] += w * s.dz, sums[7] += w * s.dz * s.x, sums[8] += w * s.dz * s.y;
        sums[9] += s.limited, sums[10] += fabs(rest) < NEAR_SAMPLE ? s.limited : 0.0f;
    }
    sum_over_group(sums, scratch);
    parts += (SLOT * FIT_GROUPS + GROUP_ID) * SUMS;
    for (int k = LOCAL_ID; k < SUMS; k += LOCAL_SIZE) parts[k] = scratch[k * GROUP];
}

// Solves the last step, with one work-group, and corrects the pose. If few points over firm nodes are samples, the scan
// contradicts the prior. result: the fit, whether there are enough samples, and whether the scan fits.
KERNEL correct_pose(GLOBAL Frame *frames, GLOBAL const float4 *samples, GLOBAL int *counts, GLOBAL int *found,
                    GLOBAL const float *parts, GLOBAL float *result, int capacity) {
    LOCAL_ARRAY float scratch[SUMS * GROUP];
    LOCAL_ARRAY float totals[SUMS];
    LOCAL_ARRAY float fit[4];
    LOCAL_ARRAY real poses[POSES];
    int n = found[2 * SLOT];
    solve(parts + SLOT * FIT_GROUPS * SUMS, scratch, totals, fit);
    for (int k = LOCAL_ID; k < POSES; k += LOCAL_SIZE) poses[k] = aligned(&frames[SLOT], fit, k);
    BARRIER();
    if (LOCAL_ID == 0) {
        int over = found[2 * SLOT + 1], contradicts = over >= FEWEST_SAMPLES && (float)n < SMALLEST_OVERLAP * (float)over;
        int fits = !contradicts && fit[3] >= SMALLEST_FIT && fabs(fit[0]) <= LARGEST_LIFT && sqrt(fit[1] * fit[1] + fit[2] * fit[2]) <= LARGEST_TILT;
        if (fits && n >= FEWEST_SAMPLES) store_pose(&frames[SLOT], poses);
        for (int k = 0; k < 3; ++k) result[6 * SLOT + k] = fit[k];
        result[6 * SLOT + 3] = contradicts ? (float)n / (float)over : fit[3];
        result[6 * SLOT + 4] = contradicts || n >= FEWEST_SAMPLES;
        result[6 * SLOT + 5] = (float)fits;
        found[2 * SLOT] = found[2 * SLOT + 1] = 0;
    }
    UNROLL_8 for (int k = LOCAL_ID; k < n; k += LOCAL_SIZE) counts[SLOT * NODES + (int)BITS_OF(samples[SLOT * capacity + k].w)] = 0;
}
