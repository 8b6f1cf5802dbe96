# SPDX-License-Identifier: Apache-2.0
"""Scoring protocols: which points count, and which of them are ground. The choice alone moves F1 by several points."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan

Mask = NDArray[np.bool_]

# SemanticKITTI classes.
GROUND_CLASSES = (40, 44, 48, 49, 60, 72)  # road, parking, sidewalk, other ground, lane marking, terrain
VEGETATION = 70
UNLABELLED = (0, 1)
LOW_VEGETATION_Z = -1.30  # m, sensor frame


def patchwork_plusplus(scan: Scan) -> tuple[Mask, Mask]:
    """(is ground, is scored): vegetation and unlabelled points are not scored."""
    classes = _classes(scan)
    return np.isin(classes, GROUND_CLASSES), ~np.isin(classes, (VEGETATION, *UNLABELLED))


def patchwork(scan: Scan) -> tuple[Mask, Mask]:
    """(is ground, is scored): vegetation counts too, as ground where it is low in the sensor frame."""
    classes = _classes(scan)
    low_vegetation = (classes == VEGETATION) & (scan.points[:, 2] < LOW_VEGETATION_Z)
    return np.isin(classes, GROUND_CLASSES) | low_vegetation, ~np.isin(classes, UNLABELLED)


PROTOCOLS: dict[str, Callable[[Scan], tuple[Mask, Mask]]] = {
    "patchwork++": patchwork_plusplus,
    "patchwork": patchwork,
}


def protocol(name: str) -> Callable[[Scan], tuple[Mask, Mask]]:
    if name not in PROTOCOLS:
        raise InputError(f"protocol {name!r}: expected one of {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]


def _classes(scan: Scan) -> NDArray[np.uint32]:
    if scan.classes is None:
        raise InputError(f"scan {scan.name}: scoring needs a true class per point, this source has none")
    return scan.classes.astype(np.uint32) & np.uint32(0xFFFF)
