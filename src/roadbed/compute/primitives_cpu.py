# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Parts of algorithms that kernels of several methods share on the CPU."""

from __future__ import annotations

from roadbed.compute.kernels import inner


@inner()
def begin_cells(count, start):
    """Counting sort: from `count` (slices, cells) where each cell begins, and in `count` there each slice."""
    slices, cells = count.shape
    total = 0
    for cell in range(cells):
        start[cell] = total
        for s in range(slices):
            here = count[s, cell]
            count[s, cell] = total
            total += here
    start[cells] = total
