// SPDX-License-Identifier: Apache-2.0
// Random numbers as `compute/philox.py` defines them. Twin: philox_cpu.py.

// Four words from a counter of four words and a key of two.
FUNCTION uint4 philox(uint4 counter, uint key0, uint key1) {
    for (int round = 0; round < PHILOX_ROUNDS; ++round) {
        uint high0 = MULTIPLY_HIGH(PHILOX_MULTIPLIER_0, counter.x), low0 = PHILOX_MULTIPLIER_0 * counter.x;
        uint high1 = MULTIPLY_HIGH(PHILOX_MULTIPLIER_1, counter.z), low1 = PHILOX_MULTIPLIER_1 * counter.z;
        counter = UINT4(high1 ^ counter.y ^ key0, low1, high0 ^ counter.w ^ key1, low0);
        key0 += PHILOX_WEYL_0;
        key1 += PHILOX_WEYL_1;
    }
    return counter;
}

FUNCTION uint4 random_words(uint seed, uint frame, uint stream, uint index) {
    return philox(UINT4(index, frame, stream, 0u), seed, 0u);
}

// Strictly between 0 and 1. Adding half a step rounds to 1 at the very end, hence the limit.
FUNCTION float uniform_of(uint word) {
    return fmin((float)(word >> UNIFORM_SHIFT) * UNIFORM_STEP + UNIFORM_FIRST, UNIFORM_LAST);
}

// Four uniform numbers.
FUNCTION float4 uniforms(uint seed, uint frame, uint stream, uint index) {
    uint4 words = random_words(seed, frame, stream, index);
    return FLOAT4(uniform_of(words.x), uniform_of(words.y), uniform_of(words.z), uniform_of(words.w));
}

// Four standard normal numbers (Box-Muller).
FUNCTION float4 normals(uint seed, uint frame, uint stream, uint index) {
    float4 u = uniforms(seed, frame, stream, index);
    float radius0 = sqrt(-2.0f * log(u.x)), angle0 = TWO_PI * u.y;
    float radius1 = sqrt(-2.0f * log(u.z)), angle1 = TWO_PI * u.w;
    return FLOAT4(radius0 * cos(angle0), radius0 * sin(angle0), radius1 * cos(angle1), radius1 * sin(angle1));
}
