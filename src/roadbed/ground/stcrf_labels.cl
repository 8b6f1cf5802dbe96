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

// Four consecutive points per work-item, so that outputs leave the device as whole words; buffers hold a multiple of four.
KERNEL label(GLOBAL const Frame *frames, GLOBAL const float4 *located, GLOBAL const float4 *surface,
             GLOBAL uchar *labels, GLOBAL float *probabilities, GLOBAL float *heights, GLOBAL float *layers,
             int capacity) {
    GLOBAL const Frame *frame = &frames[SLOT];
    int count = frame->count, wanted = frame->wanted;
    GLOBAL uint *words = (GLOBAL uint *)AT(uchar, frame->label, labels + SLOT * capacity);
    GLOBAL float4 *probability = (GLOBAL float4 *)AT(float, frame->probability, probabilities + SLOT * capacity);
    GLOBAL float4 *height = (GLOBAL float4 *)AT(float, frame->height, heights + SLOT * capacity);
    if (wanted & LAYERS)
        describe(surface + SLOT * NODES, AT(float, frame->layers, layers + 4 * SLOT * NODES), frame->base);
    for (int word = GLOBAL_ID; 4 * word < count; word += GLOBAL_SIZE) {
        uint four = 0;
        float chance[4], over[4];
        for (int k = 0; k < 4; ++k) {
            float4 point = located[SLOT * capacity + min(4 * word + k, count - 1)];
            int node = (int)BITS_OF(point.w);
            uint kind = UNKNOWN;
            chance[k] = 0.0f;
            over[k] = NOT_A_NUMBER;
            if (node >= 0) {
                float4 plane = surface[SLOT * NODES + node];
                float dz = point.z - (plane.x + plane.y * point.x + plane.z * point.y);
                over[k] = dz;
                chance[k] = ground_probability(dz);
                kind = dz < -LOW_OUTLIER_DEPTH ? LOW_OUTLIER
                     : dz >= CLEARANCE         ? OVERHANG
                     : dz < THRESHOLD          ? GROUND
                                               : OBSTACLE;
            }
            four |= kind << (8 * k);
        }
        words[word] = four;
        if (wanted & PROBABILITY) probability[word] = FLOAT4(chance[0], chance[1], chance[2], chance[3]);
        if (wanted & HEIGHT) height[word] = FLOAT4(over[0], over[1], over[2], over[3]);
    }
}
