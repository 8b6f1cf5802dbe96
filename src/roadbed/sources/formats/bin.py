# SPDX-License-Identifier: Apache-2.0
"""`.bin` scans without a header: float32 x, y, z, intensity (KITTI), one file or a folder of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.io.files import read_bytes, read_rows
from roadbed.sources.datasets.rig import on_rig, read_mounts
from roadbed.sources.formats.files import FileSource


class BinSource(FileSource):
    """`.bin` files; labels and rig.yaml are read from the parent folder, as in a SemanticKITTI sequence."""

    name = "bin"
    suffixes = (".bin",)

    def attach(self) -> None:
        super().attach()
        self._mounts = read_mounts(self.files[0].parent.parent)

    def read(self, path: Path) -> Scan:
        sequence = path.parent.parent
        return on_rig(read_bin(path, sequence / "labels" / f"{path.stem}.label"), sequence, self._mounts)


def read_bin(path: Path, label_path: Path | None = None) -> Scan:
    """One scan, with its labels where `label_path` exists."""
    rows = read_rows(path, 4)
    classes = None
    if label_path is not None and label_path.is_file():
        classes = read_labels(label_path, len(rows))
    return Scan(rows[:, :3], intensity=rows[:, 3].copy(), classes=classes, name=path.stem)


def read_labels(path: Path, points: int) -> NDArray[np.uint32]:
    """SemanticKITTI labels: uint32 per point, class in the low 16 bits, instance in the high ones."""
    data = read_bytes(path)
    if len(data) != 4 * points:
        raise InputError(
            f"{path}: labels: found {len(data) / 4:g} ({len(data)} bytes), expected {points} (one uint32 per point)"
        )
    return np.frombuffer(data, "<u4")
