# SPDX-License-Identifier: Apache-2.0
"""`.bin` scans without a header, one file or a folder of them: KITTI, nuScenes, Waymo, NCLT and others."""

import math
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.io.files import read_bytes
from roadbed.sources.datasets.rig import on_rig, read_mounts
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.formats.columns import (
    KITTI,
    NUSCENES,
    RAW_OPTIONS,
    Layout,
    given_layout,
    recognised_layout,
)
from roadbed.sources.formats.files import FileSource, cloud_files, scan_name

_TRIED_FILES = 8
_USUAL_COLUMNS = (3, 4, 5, 6)


class RawSource(FileSource):
    """Files of records whose columns are given by options, or recognised in the first file that shows them.

    `usual` are the columns of a data set, used where the numbers determine none; without it such files are refused.
    """

    suffixes = (".bin",)
    accepts: ClassVar[tuple[str, ...]] = (*FileSource.accepts, *RAW_OPTIONS)
    usual: ClassVar[tuple[str, ...] | None] = None

    @cached_property
    def layout(self) -> Layout:
        layout = given_layout(self.options, self.location)
        if layout is not None:
            return layout
        # Labels next to the folder: a SemanticKITTI sequence, whose number of points is checked by them.
        usual = self.usual or (KITTI if label_file(self.files[0]).is_file() else None)
        size = 0
        for path in self.files[:_TRIED_FILES]:
            data = read_bytes(path)
            size = size or len(data)
            layout = recognised_layout(data, self.options, str(path))
            if layout is not None and len(layout.names) in _USUAL_COLUMNS:
                return layout
            if layout is not None and usual is None:
                raise _unknown(path, f"found records of {len(layout.names)} x {layout.dtypes[0].name}")
        layout = given_layout(self.options, self.location, usual or KITTI)
        assert layout is not None
        number = layout.dtypes[0].itemsize
        fitting = [count for count in _USUAL_COLUMNS if size % (count * number) == 0]
        if usual is None and size and fitting:
            counts = " or ".join(map(str, fitting))
            kind = layout.dtypes[0].name
            raise _unknown(self.files[0], f"found {size} bytes, which fit {counts} {kind} per point but resemble none")
        return layout

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """The columns where they are other than those of KITTI, or of the data set."""
        if not self.layout.recognised or self.layout.names == (self.usual or KITTI):
            return ()
        return (f"columns recognised: {self.layout}; ?columns= names others",)

    def details(self) -> dict[str, Any]:
        return {"columns": str(self.layout)}

    def attach(self) -> None:
        super().attach()
        given_layout(self.options, self.location, self.usual)  # options are refused at once, not at the first scan

    def read(self, path: Path) -> Scan:
        return read_bin(path, self.layout)


def _unknown(path: Path, found: str) -> InputError:
    return InputError(f"{path}: columns: {found}; name them by ?columns=x,y,z,intensity (and ?dtype=, ?scale=)")


class KittiSource(RawSource):
    """The folder of a drive, whose scans lie in its subfolder `folder`."""

    usual = KITTI
    folder: ClassVar[str]

    @classmethod
    def matches(cls, location: str) -> bool:
        return (Path(location) / cls.folder).is_dir()

    def list_files(self, path: Path) -> list[Path]:
        if not path.is_dir():
            raise InputError(f"{path}: no such folder")
        return cloud_files(path / self.folder, self.suffixes)


class BinSource(RawSource):
    """`.bin` files; labels and rig.yaml are read from the parent folder, as in a SemanticKITTI sequence."""

    name = "bin"

    def attach(self) -> None:
        super().attach()
        assert self.layout  # unknown columns are refused at once, too
        self._mounts = read_mounts(self.files[0].parent.parent)

    def read(self, path: Path) -> Scan:
        sequence = path.parent.parent
        return on_rig(read_bin(path, self.layout, label_file(path)), sequence, self._mounts)


class NuScenesSource(RawSource):
    """`.pcd.bin` files. Points stay in the LIDAR_TOP frame: x to the right, y to the front."""

    name = "nuscenes"
    suffixes = (".pcd.bin",)
    usual = NUSCENES

    @cached_property
    def layout(self) -> Layout:
        layout = given_layout(self.options, self.location, self.usual)
        assert layout is not None
        return layout

    def read(self, path: Path) -> Scan:
        return read_bin(path, self.layout, front=math.pi / 2)


def label_file(path: Path) -> Path:
    """labels/NAME.label next to the folder of a scan."""
    return path.parent.parent / "labels" / f"{path.stem}.label"


def read_bin(path: Path, layout: Layout, label_path: Path | None = None, front: float = 0.0) -> Scan:
    """One scan, with its labels where `label_path` exists."""
    fields = layout.fields(read_bytes(path), str(path))
    if label_path is not None and label_path.is_file():
        fields["classes"] = read_labels(label_path, len(fields["x"]))
    return scan_from_fields(fields, str(path), name=scan_name(path), front=front)


def read_labels(path: Path, points: int) -> NDArray[np.uint32]:
    """SemanticKITTI labels: uint32 per point, class in the low 16 bits, instance in the high ones."""
    data = read_bytes(path)
    if len(data) != 4 * points:
        raise InputError(
            f"{path}: labels: found {len(data) / 4:g} ({len(data)} bytes), expected {points} (one uint32 per point)"
        )
    return np.frombuffer(data, "<u4")
