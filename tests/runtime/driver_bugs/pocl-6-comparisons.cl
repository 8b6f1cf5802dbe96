// SPDX-License-Identifier: Apache-2.0
// PoCL 6.0 with -cl-fast-relaxed-math: LLVM ERROR: Instruction Combining did not reach a fixpoint after 1 iterations
__kernel void bad(__global const int4 *a, __global int *b) {
    int all = 0, x = 0, y = 0;
    for (int k = 0; k < a[0].w; ++k) all += a[k].x, y += a[k].y, x += a[k].z;
    int more = x - y;
    int nearly = (float)x > 0.8f * (float)all || b[1];
    int enough = more > 40 || (more > 20 && nearly);
    if (!(x > y && enough)) return;
    b[0] = 1;
}
