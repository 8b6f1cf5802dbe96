# SPDX-License-Identifier: Apache-2.0
"""What the device programs of the occupancy share: definitions from constants, records from rules, launch sizes.

Kernels compute exactly, in double precision where the CPU's do and the device has it, so that cells are equal. Grids
and rules come with the frame: one build serves every configuration.
"""

from types import ModuleType
from typing import Any, get_type_hints

import numpy as np

from roadbed.occupancy import model
from roadbed.runtime.backend import Backend

GROUP = 256  # work-items per group over points and cells

_NUMBERS = {int: np.int32, bool: np.int32, float: np.float64}


def members_of(values: Any, prefix: str = "") -> list[tuple[str, type]]:
    """The members of a NamedTuple of numbers, as a record holds them."""
    return [(prefix + name, _NUMBERS[kind]) for name, kind in get_type_hints(values).items()]


def definitions(*modules: ModuleType) -> dict[str, Any]:
    """The public numbers of the shared model and of a stage's, Python floats as doubles."""
    found = {name: value for module in (model, *modules) for name, value in vars(module).items() if name[0] != "_"}
    numbers = {name: value for name, value in found.items() if isinstance(value, int | float | np.number)}
    return {name: np.float64(n) if isinstance(n, float) else n for name, n in numbers.items()}


def groups_over(backend: Backend, items: int) -> int:
    """Work-groups over points or cells: enough to fill the device, each takes several tiles of a large array."""
    device = backend.device
    return max(1, min(-(-items // GROUP), (4 if device.lanes > 1 else 16) * device.units))
