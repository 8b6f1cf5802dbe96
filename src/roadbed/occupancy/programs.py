# SPDX-License-Identifier: Apache-2.0
"""The device programs of observation, fusion and registration, and the records that tell their kernels of a frame.

Everything is exact and in double precision where the CPU's kernels are, so that cells are equal on every backend.
Grids and rules come with the frame: one build serves every configuration.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_type_hints

import numpy as np

from roadbed.core.errors import DeviceError
from roadbed.occupancy.arrays import Between, GridShape
from roadbed.occupancy.model import CONSTANTS, NO_BEAM
from roadbed.occupancy.rules import Laid, RegistrationRule, SensorModel
from roadbed.runtime.backend import Backend
from roadbed.runtime.device import Device
from roadbed.runtime.program import Program

GROUP = 256  # work-items per group over points and cells
RAY_GROUP, RAY_STRIP = 32, 11  # over the bins of a ray, and so many of them each: an odd number, for banks of memory
REGISTER_GROUP = 512  # over the shifts of a component, of which a fast one has tens of thousands, 32 at once

_NUMBERS = {int: np.int32, bool: np.int32, float: np.float64}


def members_of(values: Any, prefix: str = "") -> list[tuple[str, type]]:
    """The members of a NamedTuple of numbers, as a record holds them."""
    return [(prefix + name, _NUMBERS[kind]) for name, kind in get_type_hints(values).items()]


# One sensor's look at the grid. Addresses are 0 where our own buffers are meant.
VIEW = np.dtype(
    [
        ("points", np.uint64),  # (count, 3) float, in the scan's frame
        ("heights", np.uint64),  # (count,) float, m over the ground
        ("belongs", np.uint64),  # (count,) uchar, the sensor of each point
        ("layers", np.uint64),  # (4, nodes) float, where the ground left them
        ("rotation", np.float64, 9),  # takes points to the ground's grid frame
        ("translation", np.float64, 3),
        ("origin", np.float64, 3),  # where the sensor stands there
        ("plane", np.float64, 3),  # to assume where no ground is known
        ("ground_x0", np.float64),  # m, the ground's first node
        ("ground_y0", np.float64),
        ("ground_spacing", np.float64),
        ("ground_columns", np.int32),
        ("ground_rows", np.int32),
        ("count", np.int32),  # points of the scan
        ("all_points", np.int32),  # whether all of them are this sensor's
        ("frame", np.int32),  # number of this frame
        ("table", np.int32),  # where this sensor's polar table begins among all,
        ("cells", np.int32),  # its cells,
        ("nodes", np.int32),  # and its nodes
        *members_of(GridShape, "grid_"),
        *members_of(SensorModel),
    ],
    align=True,
)

# How the sensors' grids are pooled in one step.
POOL = np.dtype(
    [
        ("clip", np.float64),
        ("rule", np.int32),
        ("reports", np.int32),  # sensors that report
        ("silent", np.int32),  # sensors that do not
        ("rows", np.int32),
        ("columns", np.int32),
    ],
    align=True,
)

# One sensor's part in it; what follows `fading` is said of silent ones alone.
OPINION = np.dtype(
    [
        ("trust", np.float64),
        ("grid", np.int32),  # which of the remembered grids is its own
        ("fading", np.float32),
        ("interpolates", np.int32),  # or the grid moved by whole cells
        ("shift_columns", np.int32),
        ("shift_rows", np.int32),
        ("rotation", np.float64, 4),  # cell of now to cell of then
        ("shift", np.float64, 2),
    ],
    align=True,
)

# How the hits of now are laid over those of an older scan.
LAYING = np.dtype(
    [
        *members_of(Between),
        *members_of(Between, "before_"),  # to the grid whose cells' static life is known
        *members_of(RegistrationRule),
        ("now", np.int32),  # places of both among the stored scans
        ("old", np.int32),
        ("rolled", np.int32),  # the grid has moved by whole cells
        ("rows", np.int32),
        ("columns", np.int32),
        ("maturity", np.int32),  # where that static life begins among the layers given
        ("most_components", np.int32),  # room for them in every stored scan
        ("rooms", np.int32),  # for velocities and points: layings that run beside each other have their own
        ("room", np.int32),  # this one's
    ],
    align=True,
)

# Tables where nothing was seen, as unsigned integers in the order of floats.
NO_PASSING = np.uint32(np.float32(NO_BEAM).view(np.uint32) | 0x80000000)
NO_LOWEST, NO_HIGHEST = np.uint32(0xFF800000), np.uint32(0x007FFFFF)  # infinity, and minus infinity

EXACT = {name: np.float64(n) if isinstance(n, float) and name != "NO_BEAM" else n for name, n in CONSTANTS.items()}
_DEFINITIONS = {
    **EXACT,
    "GROUP": GROUP,
    "RAY_GROUP": RAY_GROUP,
    "RAY_STRIP": RAY_STRIP,
    "PI": np.float64(math.pi),
    "NO_LOWEST": NO_LOWEST,
    "NO_HIGHEST": NO_HIGHEST,
}


def _program(files: Sequence[str], structs: dict[str, np.dtype], shared: tuple[str, ...] = ()) -> Program:
    return Program((*shared, *(f"occupancy/{file}.cl" for file in files)), _DEFINITIONS, structs, exact=True)


OBSERVE = _program(("observation/polar", "observation/vertical_faces", "observation/observe"), {"View": VIEW})
FUSE = _program(("fusion/fuse",), {"Pool": POOL, "Opinion": OPINION})
_REGISTER = _program(
    tuple(f"registration/{name}" for name in ("components", "shifts", "register", "refine")),
    {"Laying": LAYING},
    ("runtime/components.cl",),
)


def register_program(group: int = REGISTER_GROUP) -> Program:
    """The registration's kernels; so many work-items try the shifts of a component side by side."""
    layout = {"REGISTER_GROUP": group, "LAYINGS": len(Laid)}
    return replace(_REGISTER, definitions={**_REGISTER.definitions, **layout})


def check_device(device: Device) -> None:
    """Refuse a device that cannot compute what the CPU does."""
    if not device.has_double:
        raise DeviceError(f"{device.name}: the occupancy needs double precision, which this device lacks")


def register_group(device: Device) -> int:
    """Work-items of a group of the registration."""
    return 1 if device.lanes == 1 else min(REGISTER_GROUP, device.largest_group)


def groups_over(backend: Backend, items: int) -> int:
    """Work-groups over points or cells: enough to fill the device, each takes several tiles of a large array."""
    device = backend.device
    return max(1, min(-(-items // GROUP), (4 if device.lanes > 1 else 16) * device.units))
