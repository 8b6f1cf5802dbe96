// SPDX-License-Identifier: Apache-2.0
// A scan's height and tilt against the prior surface: samples over firm nodes, then reweighted least squares.

#define FIRM 3.0f         // effective points a node must hold to be trusted
#define NODE_LIMIT 10.0f  // samples of one node count as no more than this many
#define STEPS 5

// Every stride-th point over a firm node: x and y from the sensor, height over the node's plane, and the node.
KERNEL sample_residuals(GLOBAL const Frame *frames, GLOBAL const float *intake, GLOBAL const float4 *priors,
                        GLOBAL float4 *samples, GLOBAL int *counts, GLOBAL int *found, int capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
    GLOBAL const float *points = AT(const float, frame->points, intake + 3 * SLOT * capacity);
    GLOBAL const float4 *prior = priors + 3 * (2 * SLOT + frame->prior) * NODES;
    GLOBAL const float *r = frame->rotation, *t = frame->translation;
    for (int k = GLOBAL_ID; k * frame->stride < frame->count; k += GLOBAL_SIZE) {
        int i = k * frame->stride;
        float px = points[3 * i], py = points[3 * i + 1], pz = points[3 * i + 2];
        if (!is_return(px, py, pz)) continue;
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
        if (fabs(dz) >= 1.0f) continue;
        ATOMIC_ADD(&counts[SLOT * NODES + node], 1);
        samples[SLOT * capacity + ATOMIC_ADD(&found[SLOT], 1)] = FLOAT4(from_x, from_y, dz, FLOAT_OF((uint)node));
    }
}

// The sum over the work-group, known to all of it.
FUNCTION float sum_over_group(float value, LOCAL float *scratch) {
    BARRIER();
    scratch[LOCAL_ID] = value;
    for (int reach = GROUP / 2; reach > 0; reach /= 2) {
        BARRIER();
        if (LOCAL_ID < reach) scratch[LOCAL_ID] += scratch[LOCAL_ID + reach];
    }
    BARRIER();
    return scratch[0];
}

// dz = lift + a x + b y over the samples, by one work-group. fit: {lift, a, b, share of the samples near, samples}.
KERNEL fit_tilt(GLOBAL const float4 *samples, GLOBAL int *counts, GLOBAL int *found, GLOBAL float *fit, int capacity) {
    LOCAL_ARRAY float scratch[GROUP];
    int n = found[SLOT];
    float lift = 0.0f, a = 0.0f, b = 0.0f, share = 0.0f;
    for (int step = 0; step < STEPS; ++step) {
        float sigma = step == 0 ? 0.3f : step == 1 ? 0.15f : step == 2 ? 0.1f : 0.05f;
        float factor = -0.72134752f / (sigma * sigma);  // log2(e) / 2
        float total = 0.0f, near = 0.0f, w00 = 0.0f, w01 = 0.0f, w02 = 0.0f, w11 = 0.0f, w12 = 0.0f, w22 = 0.0f;
        float y0 = 0.0f, y1 = 0.0f, y2 = 0.0f;
        for (int k = LOCAL_ID; k < n; k += GROUP) {
            float4 s = samples[SLOT * capacity + k];
            float rest = s.z - (lift + a * s.x + b * s.y);
            float limited = fmin(1.0f, NODE_LIMIT / counts[SLOT * NODES + (int)BITS_OF(s.w)]);
            float w = limited * EXP2(factor * rest * rest);
            total += limited;
            near += fabs(rest) < 0.1f ? limited : 0.0f;
            w00 += w, w01 += w * s.x, w02 += w * s.y;
            w11 += w * s.x * s.x, w12 += w * s.x * s.y, w22 += w * s.y * s.y;
            y0 += w * s.z, y1 += w * s.z * s.x, y2 += w * s.z * s.y;
        }
        w00 = sum_over_group(w00, scratch) + 1e-6f, w01 = sum_over_group(w01, scratch), w02 = sum_over_group(w02, scratch);
        w11 = sum_over_group(w11, scratch) + 1.0f, w12 = sum_over_group(w12, scratch);
        w22 = sum_over_group(w22, scratch) + 1.0f;
        y0 = sum_over_group(y0, scratch), y1 = sum_over_group(y1, scratch), y2 = sum_over_group(y2, scratch);
        total = sum_over_group(total, scratch), near = sum_over_group(near, scratch);
        float l1 = w01 / w00, l2 = w02 / w00, d1 = w11 - l1 * w01, t = w12 - l1 * w02, l3 = t / d1;
        float second = y1 - l1 * y0;
        b = (y2 - l2 * y0 - l3 * second) / (w22 - l2 * w02 - l3 * t);
        a = second / d1 - l3 * b;
        lift = y0 / w00 - l1 * a - l2 * b;
        share = near / fmax(total, 1e-9f);
    }
    BARRIER();
    for (int k = LOCAL_ID; k < n; k += GROUP) counts[SLOT * NODES + (int)BITS_OF(samples[SLOT * capacity + k].w)] = 0;
    if (LOCAL_ID == 0) {
        GLOBAL float *out = fit + 5 * SLOT;
        out[0] = lift, out[1] = a, out[2] = b, out[3] = share, out[4] = (float)n;
        found[SLOT] = 0;
    }
}
