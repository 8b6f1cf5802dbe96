# SPDX-License-Identifier: Apache-2.0
"""nuScenes scans: headerless float32 x, y, z, intensity, ring (`.pcd.bin`), one file or a folder of them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.io.files import read_rows
from roadbed.sources.formats.files import FileSource, scan_name


class NuScenesSource(FileSource):
    """`.pcd.bin` files. Points stay in the LIDAR_TOP frame: x to the right, y to the front."""

    name = "nuscenes"
    suffixes = (".pcd.bin",)

    def read(self, path: Path) -> Scan:
        return read_nuscenes(path)


def read_nuscenes(path: str | Path) -> Scan:
    """One scan; the float32 ring column becomes uint16."""
    path = Path(path)
    rows = read_rows(path, 5)
    ring = rows[:, 4]
    with np.errstate(invalid="ignore"):
        good = (ring >= 0) & (ring < 65536) & (ring == np.floor(ring))
    if not good.all():
        found = ring[~good][0]
        raise InputError(f"{path}: ring: found {found:g}, expected whole numbers from 0 to 65535 in the fifth column")
    return Scan(
        rows[:, :3],
        intensity=rows[:, 3].copy(),
        ring=ring.astype(np.uint16),
        name=scan_name(path),
        front=math.pi / 2,
    )
