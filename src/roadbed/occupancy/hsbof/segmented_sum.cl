// SPDX-License-Identifier: Apache-2.0
// Sums over the particles of every cell, in their order, as the CPU adds them up.
//
// Particles of neighbouring cells lie side by side. On a GPU the work-group of some cells takes all their particles, a chunk
// at a time: what is to be added is computed by all work-items and left in local memory, where each adds up its cell's.

#define CHUNK 256

// Every item once; the work-items of a group go through it together, and some of them may lie beyond the last.
#if LANES > 1
#define FOR_EACH_TOGETHER(i, count) for (int i = GLOBAL_ID; i - LOCAL_ID < (count); i += GLOBAL_SIZE)
#else
#define FOR_EACH_TOGETHER(i, count) FOR_EACH(i, count)
#endif

// The first particle of a work-group's cells, and the one after the last.
FUNCTION int2 run_of_group(int2 run, LOCAL int *bounds) {
#if LANES > 1
    BARRIER();
    if (LOCAL_ID == 0) bounds[0] = 0x7fffffff, bounds[1] = 0;
    BARRIER();
    if (run.x < run.y) {
        ATOMIC_MIN(&bounds[0], run.x);
        ATOMIC_MAX(&bounds[1], run.y);
    }
    BARRIER();
    return INT2(min(bounds[0], bounds[1]), bounds[1]);
#else
    return run;
#endif
}

// Adds the terms of a cell's particles to its sums, `columns` of them: TERMS(crowd, i, terms) computes those of particle i.
// A crowd knows the `run` of the own cell, the `whole` of the group's, and local memory for `terms` of a chunk.
#if LANES > 1
#define ADD_UP(TERMS, columns, crowd, sums)                                                                      \
    for (int chunk = (crowd)->whole.x; chunk < (crowd)->whole.y; chunk += CHUNK) {                               \
        int last = min(chunk + CHUNK, (crowd)->whole.y);                                                         \
        BARRIER();                                                                                               \
        for (int i = chunk + LOCAL_ID; i < last; i += LOCAL_SIZE) {                                              \
            real terms[columns];                                                                                 \
            TERMS(crowd, i, terms);                                                                              \
            UNROLL for (int k = 0; k < (columns); ++k) (crowd)->terms[k * CHUNK + i - chunk] = terms[k];         \
        }                                                                                                        \
        BARRIER();                                                                                               \
        UNROLL_8 for (int i = max((crowd)->run.x, chunk); i < min((crowd)->run.y, last); ++i)                       \
            UNROLL for (int k = 0; k < (columns); ++k) sums[k] += (crowd)->terms[k * CHUNK + i - chunk];         \
    }
#else
#define ADD_UP(TERMS, columns, crowd, sums)                                                                      \
    for (int i = (crowd)->run.x; i < (crowd)->run.y; ++i) {                                                      \
        real terms[columns];                                                                                     \
        TERMS(crowd, i, terms);                                                                                  \
        for (int k = 0; k < (columns); ++k) sums[k] += terms[k];                                                 \
    }
#endif
