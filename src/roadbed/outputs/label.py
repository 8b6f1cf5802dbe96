# SPDX-License-Identifier: Apache-2.0
"""SemanticKITTI `.label` files: one uint32 per point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from roadbed.atomic import atomic_write
from roadbed.errors import InputError


def write_label(path: str | Path, labels: ArrayLike) -> None:
    """Write labels (N,) of whole numbers from 0 to 2^32 - 1, in the order of the points."""
    values = np.asarray(labels)
    if values.ndim != 1 or values.dtype.kind not in "iub":
        raise InputError(f"{path}: labels: found {values.dtype} of shape {values.shape}, expected whole numbers (N,)")
    if values.size and (int(values.min()) < 0 or int(values.max()) > 0xFFFFFFFF):
        raise InputError(f"{path}: labels: found {values.min()} to {values.max()}, expected 0 to {0xFFFFFFFF}")
    with atomic_write(path) as file:
        file.write(values.astype("<u4").tobytes())
