// SPDX-License-Identifier: Apache-2.0
// Intel's CPU runtime 2026.2 under QEMU 7.2 with -cpu max aborts: Cannot select: v2f64 = X86ISD::VRNDSCALE
__kernel void bad(__global const double *a, __global int *b) {
    int i = get_global_id(0);
    b[i] = (int)floor(fmin(a[i], 3.0));
}
