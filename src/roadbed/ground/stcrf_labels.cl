// SPDX-License-Identifier: Apache-2.0
// Labels of the STCRF from the height over the surface (the paper's preset: thresholds only).

#define UNKNOWN 0
#define GROUND 1
#define OBSTACLE 2
#define OVERHANG 3
#define LOW_OUTLIER 4

FUNCTION float ground_probability(float dz) { return EXP2(dz * dz * (dz >= 0.0f ? UP : DOWN)); }

// The surface as the caller's layers; unknown where its variance is too large.
FUNCTION void describe(GLOBAL const float4 *surface, GLOBAL float *layers, float base) {
    for (int node = GLOBAL_ID; node < NODES; node += GLOBAL_SIZE) {
        float4 plane = surface[node];
        int known = plane.w <= KNOWN_VARIANCE;
        layers[node] = known ? plane.x + base : NOT_A_NUMBER;
        layers[NODES + 2 * node] = known ? plane.y : NOT_A_NUMBER;
        layers[NODES + 2 * node + 1] = known ? plane.z : NOT_A_NUMBER;
        layers[3 * NODES + node] = plane.w;
    }
}

// Four consecutive points per work-item, so that labels leave the device as whole words.
KERNEL label(GLOBAL const Frame *frames, GLOBAL const float4 *located, GLOBAL const float4 *surface,
             GLOBAL uchar *labels, GLOBAL float *probabilities, GLOBAL float *heights, GLOBAL float *layers, int capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
    int count = frame->count, wanted = frame->wanted;
    GLOBAL uint *words = (GLOBAL uint *)AT(uchar, frame->label, labels + SLOT * capacity);
    GLOBAL float *probability = AT(float, frame->probability, probabilities + SLOT * capacity);
    GLOBAL float *height = AT(float, frame->height, heights + SLOT * capacity);
    if (wanted & LAYERS)
        describe(surface + SLOT * NODES, AT(float, frame->layers, layers + 4 * SLOT * NODES), frame->base);
    for (int word = GLOBAL_ID; 4 * word < count; word += GLOBAL_SIZE) {
        uint four = 0;
        for (int k = 0; k < 4; ++k) {
            int i = 4 * word + k;
            if (i >= count) break;
            float4 point = located[SLOT * capacity + i];
            int node = (int)BITS_OF(point.w);
            uint kind = UNKNOWN;
            float dz = NOT_A_NUMBER, c = 0.0f;
            if (node >= 0) {
                float4 plane = surface[SLOT * NODES + node];
                dz = point.z - (plane.x + plane.y * point.x + plane.z * point.y);
                c = ground_probability(dz);
                kind = dz < -LOW_OUTLIER_DEPTH ? LOW_OUTLIER
                     : dz >= CLEARANCE         ? OVERHANG
                     : dz < THRESHOLD          ? GROUND
                                               : OBSTACLE;
            }
            if (wanted & PROBABILITY) probability[i] = c;
            if (wanted & HEIGHT) height[i] = dz;
            four |= kind << (8 * k);
        }
        words[word] = four;
    }
}
