# SPDX-License-Identifier: Apache-2.0
"""SemanticKITTI `.label` files: one uint32 per point, and the class for each label."""

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import Label
from roadbed.io.atomic import write_file

# Classes that SemanticKITTI's tools colour and score like the labels.
SEMANTICKITTI_CLASS: dict[Label, int] = {
    Label.UNKNOWN: 0,  # unlabeled
    Label.GROUND: 40,  # road
    Label.OBSTACLE: 99,  # other-object
    Label.OVERHANG: 52,  # other-structure
    Label.LOW_OUTLIER: 1,  # outlier
}
_CLASSES = np.array([SEMANTICKITTI_CLASS[label] for label in sorted(SEMANTICKITTI_CLASS)], np.uint32)


def semantickitti_classes(label: ArrayLike) -> NDArray[np.uint32]:
    """`GroundFrame.label` (N,) as classes for `write_label`."""
    return _CLASSES[np.asarray(label)]


def write_label(path: str | Path, labels: ArrayLike) -> None:
    """Write labels (N,) of whole numbers from 0 to 2^32 - 1, in the order of the points."""
    values = np.asarray(labels)
    if values.ndim != 1 or values.dtype.kind not in "iub":
        raise InputError(f"{path}: labels: found {values.dtype} of shape {values.shape}, expected whole numbers (N,)")
    if values.size and (int(values.min()) < 0 or int(values.max()) > 0xFFFFFFFF):
        raise InputError(f"{path}: labels: found {values.min()} to {values.max()}, expected 0 to {0xFFFFFFFF}")
    write_file(path, values.astype("<u4").tobytes())
