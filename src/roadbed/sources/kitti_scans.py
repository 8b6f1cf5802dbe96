# SPDX-License-Identifier: Apache-2.0
"""KITTI's scans: headerless float32 x, y, z, intensity (`.bin`), one file or a folder of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roadbed.errors import InputError
from roadbed.frames import Scan
from roadbed.reading.files import read_bytes, read_rows
from roadbed.sources.files import FileSource


class KittiScansSource(FileSource):
    """Loose `.bin` scans. Labels in `../labels/NAME.label`, where SemanticKITTI keeps them, become the truth."""

    name = "kitti-scans"
    suffixes = (".bin",)

    def read(self, path: Path) -> Scan:
        return read_kitti_scan(path, path.parent.parent / "labels" / f"{path.stem}.label")


def read_kitti_scan(path: Path, label_path: Path | None = None) -> Scan:
    """One scan, with its labels where `label_path` exists."""
    rows = read_rows(path, 4)
    truth = None
    if label_path is not None and label_path.is_file():
        truth = read_labels(label_path, len(rows))
    return Scan(rows[:, :3], intensity=rows[:, 3].copy(), truth=truth, name=path.stem)


def read_labels(path: Path, points: int) -> NDArray[np.uint32]:
    """SemanticKITTI labels: uint32 per point, class in the low 16 bits, instance in the high ones."""
    data = read_bytes(path)
    if len(data) != 4 * points:
        raise InputError(
            f"{path}: labels: found {len(data) / 4:g} ({len(data)} bytes), expected {points} (one uint32 per point)"
        )
    return np.frombuffer(data, "<u4")
