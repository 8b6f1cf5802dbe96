// SPDX-License-Identifier: Apache-2.0
// Segmented sum: sums over the particles of every cell, in the order in which the CPU adds them.
//
// Particles are sorted by cell. On a GPU a work-group processes all particles of its cells in chunks: all work-items compute
// the terms into local memory, then each sums those of its own cell.

#define CHUNK 256

// Every item once; the work-items of a group stay in step, so some of them may be beyond the last.
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

// Adds the terms of a cell's particles to its sums, `columns` of them: TERMS(group, i, terms) computes those of particle i.
// `group` has the `run` of the own cell, the `whole` run of the work-group, and local memory for the `terms` of a chunk.
#if LANES > 1
#define SEGMENTED_SUM(TERMS, columns, group, sums)                                                                      \
    for (int chunk = (group)->whole.x; chunk < (group)->whole.y; chunk += CHUNK) {                               \
        int last = min(chunk + CHUNK, (group)->whole.y);                                                         \
        BARRIER();                                                                                               \
        for (int i = chunk + LOCAL_ID; i < last; i += LOCAL_SIZE) {                                              \
            real terms[columns];                                                                                 \
            TERMS(group, i, terms);                                                                              \
            UNROLL for (int k = 0; k < (columns); ++k) (group)->terms[k * CHUNK + i - chunk] = terms[k];         \
        }                                                                                                        \
        BARRIER();                                                                                               \
        UNROLL_8 for (int i = max((group)->run.x, chunk); i < min((group)->run.y, last); ++i)                       \
            UNROLL for (int k = 0; k < (columns); ++k) sums[k] += (group)->terms[k * CHUNK + i - chunk];         \
    }
#else
#define SEGMENTED_SUM(TERMS, columns, group, sums)                                                                      \
    for (int i = (group)->run.x; i < (group)->run.y; ++i) {                                                      \
        real terms[columns];                                                                                     \
        TERMS(group, i, terms);                                                                                  \
        for (int k = 0; k < (columns); ++k) sums[k] += terms[k];                                                 \
    }
#endif
