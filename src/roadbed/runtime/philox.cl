// SPDX-License-Identifier: Apache-2.0
// Random numbers as defined in `runtime/philox.py`. CPU twin: philox_cpu.py.

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

// Strictly between 0 and 1: adding half a step can round to 1, hence the limit.
FUNCTION float uniform_of(uint word) {
    return fmin((float)(word >> UNIFORM_SHIFT) * UNIFORM_STEP + UNIFORM_FIRST, UNIFORM_LAST);
}

// Four uniform numbers.
FUNCTION float4 uniforms(uint seed, uint frame, uint stream, uint index) {
    uint4 words = random_words(seed, frame, stream, index);
    return FLOAT4(uniform_of(words.x), uniform_of(words.y), uniform_of(words.z), uniform_of(words.w));
}

// Logarithm of a number between 0 and 1, by sums and products alone (as cosine and sine below), so that normal numbers are
// the same on every machine. Needs an exact program.
FUNCTION float logarithm(float u) {
    int bits = (int)BITS_OF(u), exponent = (bits >> 23) - 126;
    float mantissa = FLOAT_OF((uint)((bits & 0x7fffff) | 0x3f000000));  // in [0.5, 1)
    int small = mantissa < ROOT_HALF;
    exponent -= small;
    float m = (small ? mantissa + mantissa : mantissa) - 1.0f, square = m * m, e = (float)exponent;
    float p = LOG_0 * m;
    p = (p + LOG_1) * m;
    p = (p + LOG_2) * m;
    p = (p + LOG_3) * m;
    p = (p + LOG_4) * m;
    p = (p + LOG_5) * m;
    p = (p + LOG_6) * m;
    p = (p + LOG_7) * m;
    p = (p + LOG_8) * m;
    p = p * square;
    p = p + e * LOG_2_LOW;
    p = p - 0.5f * square;
    return (m + p) + e * LOG_2_HIGH;
}

// Cosine and sine of an angle in turns, between 0 and 1.
FUNCTION void cos_sin_turns(float u, float *x, float *y) {
    float quarters = floor(4.0f * u + 0.5f), angle = TWO_PI * (u - 0.25f * quarters), z = angle * angle;
    float sine = ((SINE_0 * z + SINE_1) * z + SINE_2) * z * angle + angle;
    float cosine = ((COSINE_0 * z + COSINE_1) * z + COSINE_2) * z * z - 0.5f * z + 1.0f;
    int quadrant = (int)quarters & 3;
    float along = quadrant & 1 ? sine : cosine, across = quadrant & 1 ? cosine : sine;
    *x = quadrant == 1 || quadrant == 2 ? -along : along;
    *y = quadrant & 2 ? -across : across;
}

// Four standard normal numbers (Box-Muller).
FUNCTION float4 normals(uint seed, uint frame, uint stream, uint index) {
    float4 u = uniforms(seed, frame, stream, index);
    float radius0 = sqrt(-2.0f * logarithm(u.x)), radius1 = sqrt(-2.0f * logarithm(u.z));
    float x0, y0, x1, y1;
    cos_sin_turns(u.y, &x0, &y0);
    cos_sin_turns(u.w, &x1, &y1);
    return FLOAT4(radius0 * x0, radius0 * y0, radius1 * x1, radius1 * y1);
}
