// SPDX-License-Identifier: Apache-2.0
// Oclgrind 21.10 with --uninitialized: segmentation fault when the kernel runs.
__kernel void bad(__global const float2 *a, __global float4 *b) { b[0] = (float4)(a[0], a[1]); }
