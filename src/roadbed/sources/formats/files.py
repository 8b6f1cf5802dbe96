# SPDX-License-Identifier: Apache-2.0
"""A file is a source of one scan, a folder of files of one format a source of many."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.io.files import too_large
from roadbed.sources.fields import FAR_FROM_ORIGIN_M
from roadbed.sources.poses import Trajectory, read_poses, read_times
from roadbed.sources.source import Source

# Longest first, so that `a.pcd.bin` does not match `.bin`.
CLOUD_SUFFIXES = (".pcd.bin", ".pcd", ".ply", ".las", ".laz", ".npy", ".npz", ".bin")


class FileSource(Source):
    """Scans in files; a format defines `suffixes` and `read`. Poses come from `poses=` or poses.txt in the folder."""

    suffixes: ClassVar[tuple[str, ...]] = ()
    accepts: ClassVar[tuple[str, ...]] = ("poses", "times", "origin")

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        self.files = self.list_files(Path(self.path))
        origin = self.options.get("origin")
        if origin not in (None, "sensor", "none"):
            raise InputError(f"{self.path}: origin: found {origin!r}, expected sensor or none")
        self._has_origin = None if origin is None else origin == "sensor"  # of the points; None: it is not given
        self.attach()
        self.sequential = self.trajectory is not None or (len(self) > 1 and self.carries_pose(self.files[1]))

    def list_files(self, path: Path) -> list[Path]:
        return cloud_files(path, self.suffixes)

    def attach(self) -> None:
        """Find the times and poses of the files."""
        folder = Path(self.path)
        times = self.options.get("times") or file_in(folder, "times.txt")
        poses = self.options.get("poses") or self.poses_file(folder)
        self.times = None if times is None else read_times(times, len(self.files))
        self.trajectory: Trajectory | None = None if poses is None else read_poses(poses)
        if self.trajectory is not None:
            self.trajectory.check_count(len(self.files))
            if self.times is not None:
                self.trajectory.check_clock(*self.times[[0, -1]])

    def poses_file(self, folder: Path) -> Path | None:
        return file_in(folder, "poses.txt")

    @classmethod
    def matches(cls, location: str) -> bool:
        path = Path(location)
        if path.is_file():
            return cloud_suffix(path) in cls.suffixes
        if not path.is_dir():
            return False
        kinds = Counter(suffix for file in list_folder(path) if (suffix := cloud_suffix(file)))
        others = {kind: count for kind, count in kinds.items() if kind not in cls.suffixes}
        if others and len(others) < len(kinds):
            listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
            raise InputError(f"{path}: holds scans of several kinds ({listed}); name one with source= or --source")
        return bool(kinds) and not others

    def read(self, path: Path) -> Scan:
        """The scan of one file."""
        raise NotImplementedError

    def carries_pose(self, path: Path) -> bool:
        """Whether the file has a pose of its own; checked on the second file, as the first is often the origin."""
        return False

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Scan:
        path = self.files[index]
        try:
            scan = self.read(path)
        except MemoryError:
            raise too_large(path) from None
        time = scan.time if self.times is None else float(self.times[index])
        has_origin = scan.has_origin if self._has_origin is None else self._has_origin
        pose = scan.T_world_sensor
        if self.trajectory is None and pose is None and self.sequential:
            pose = Pose.identity()
        scan = replace(scan, name=scan_name(path), time=time, T_world_sensor=pose, has_origin=has_origin)
        if self.trajectory is None:
            return scan
        _check_sensor_frame(path, pose)
        scan = self.trajectory.place(scan, index, len(self))
        if time is None and self.trajectory.times is not None:
            scan = scan.at(scan.T_world_sensor, float(self.trajectory.times[index]))
        return scan


def _check_sensor_frame(path: Path, pose: Pose | None) -> None:
    """Refuse poses for points in map coordinates (whose pose is a pure shift)."""
    if pose is not None and np.abs(pose.translation).max() > FAR_FROM_ORIGIN_M and (pose.rotation == np.eye(3)).all():
        place = ", ".join(f"{value:.0f}" for value in pose.translation)
        raise InputError(f"{path}: points: found them around ({place}), expected the sensor frame for use with poses")


def cloud_suffix(path: Path) -> str | None:
    """The suffix of a point cloud file; None for every other file."""
    name = path.name.lower()
    if name.startswith("."):
        return None
    return next((suffix for suffix in CLOUD_SUFFIXES if name.endswith(suffix)), None)


def cloud_files(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """`path` itself, or the files with these suffixes in the folder `path`, in natural order."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder")
    files = [file for file in list_folder(path) if cloud_suffix(file) in suffixes and file.is_file()]
    if not files:
        raise InputError(f"{path}: found no {' or '.join(suffixes)} files, expected at least one")
    return sorted(files, key=_natural_order)


def list_folder(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError as error:
        raise InputError(f"{path}: cannot be listed ({error.strerror or error})") from None


def scan_name(path: Path) -> str:
    return path.name[: len(path.name) - len(cloud_suffix(path) or path.suffix)]


def _natural_order(path: Path) -> list[tuple[int, int, str]]:
    parts = re.split(r"([0-9]+)", path.name)
    return [(1, int(part), part) if part.isascii() and part.isdigit() else (0, 0, part) for part in parts]


def file_in(folder: Path, name: str) -> Path | None:
    """The file of this name, if it exists."""
    file = folder / name
    return file if folder.is_dir() and file.is_file() else None
