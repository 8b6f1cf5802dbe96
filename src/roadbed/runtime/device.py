# SPDX-License-Identifier: Apache-2.0
"""One accelerator and the properties that kernels are compiled for."""

from dataclasses import dataclass
from typing import NamedTuple

GPU_LANES = 8  # work-items that share a small task on a GPU; on most CPU devices one work-item does it alone


class SortLayout(NamedTuple):
    """Sizes of the stable sort by cell (`cell_sort.cl`)."""

    bits: int  # of the cell number per pass
    items: int  # work-items per group
    tile: int  # elements per group

    def definitions(self) -> dict[str, int]:
        return {f"SORT_{name.upper()}": value for name, value in self._asdict().items()}


SORT_BY_STRIPS = SortLayout(bits=8, items=64, tile=64 * 32)
SORT_BY_WARPS = SortLayout(bits=9, items=256, tile=256 * 4)


@dataclass(frozen=True)
class Device:
    """One accelerator as `roadbed info` lists it."""

    backend: str  # "opencl" or "cuda"
    index: int  # among the devices of its backend
    name: str
    kind: str  # "gpu", "cpu" or "other"
    memory: int  # bytes
    units: int  # multiprocessors or cores
    driver: str
    has_double: bool
    largest_group: int = 256  # maximal work-items of a work-group
    native_floats: int = 8  # of a vector; 1: the driver runs work-items side by side in a vector, as a GPU does

    @property
    def lanes(self) -> int:
        return 1 if self.kind == "cpu" and self.native_floats > 1 else GPU_LANES

    @property
    def sort_layout(self) -> SortLayout:
        return SORT_BY_WARPS if self.backend == "cuda" else SORT_BY_STRIPS
