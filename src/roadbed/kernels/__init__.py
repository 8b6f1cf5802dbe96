# SPDX-License-Identifier: Apache-2.0
"""Tools for CPU kernels: njit, SIMD vectors, parallel loops, the cache of compiled code."""
