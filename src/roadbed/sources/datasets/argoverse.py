# SPDX-License-Identifier: Apache-2.0
"""Argoverse 2 logs: sensors/lidar/TIMESTAMP_NS.feather with poses and calibration, or loose sweeps.

Sweeps hold the returns of two stacked 32-beam sensors in the egovehicle frame (x forward, y left, z up, on the rear
axle), moved to where the vehicle was at the time in the file's name.
"""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan, SensorMount
from roadbed.core.geometry import FARTHEST_M, Pose
from roadbed.core.tracked_objects import Box
from roadbed.sources.datasets.feather import read_feather
from roadbed.sources.formats.files import FileSource, cloud_files
from roadbed.sources.poses import Trajectory, given_poses, make_trajectory

_SWEEPS = Path("sensors") / "lidar"
_SENSORS = ("up_lidar", "down_lidar")
_LASERS_EACH = 32
# Numbers too large for float32 become infinite and are labelled unknown.
_any_numbers = np.errstate(over="ignore", invalid="ignore")
_NAMES, _SIZE = ("track_uuid", "category"), ("length_m", "width_m", "height_m")
_QUATERNION, _TRANSLATION = ("qx", "qy", "qz", "qw"), ("tx_m", "ty_m", "tz_m")


class ArgoverseSource(FileSource):
    """A log, its folder of sweeps, or one sweep."""

    name = "argoverse"
    suffixes: ClassVar[tuple[str, ...]] = (".feather",)

    @classmethod
    def matches(cls, location: str) -> bool:
        path = Path(location)
        if path.is_dir():
            return (path / _SWEEPS).is_dir() or any(file.stem.isdigit() for file in path.glob("*.feather"))
        return path.name.lower().endswith(".feather") and path.is_file()

    def list_files(self, path: Path) -> list[Path]:
        if (path / _SWEEPS).is_dir():
            path /= _SWEEPS
        if path.is_dir():
            files = sorted((file for file in path.glob("*.feather") if file.stem.isdigit()), key=lambda f: int(f.stem))
            if not files:
                raise InputError(f"{path}: found no sweeps, expected files named by their time in ns and .feather")
            return files
        return cloud_files(path, self.suffixes)

    def attach(self) -> None:
        log = self.files[0].parent.parent.parent
        inside = self.files[0].parent == log / _SWEEPS
        self.times = None
        self._mounts = read_mounts(log / "calibration" / "egovehicle_SE3_sensor.feather") if inside else ()
        poses, self._annotations = log / "city_SE3_egovehicle.feather", log / "annotations.feather"
        self.trajectory = given_poses(self.options, self)
        if self.trajectory is None and inside and poses.is_file():
            self.trajectory = read_city_poses(poses)

    def read(self, path: Path) -> Scan:
        scan = read_sweep(path)
        if not self._mounts or scan.ring is None:
            return scan
        # The sensors are 0.1 m apart, so their order hardly matters.
        index = np.minimum(scan.ring // _LASERS_EACH, len(self._mounts) - 1).astype(np.uint8)
        return replace(scan, mounts=self._mounts, channels={**scan.channels, "sensor_index": index})

    def objects(self, index: int) -> tuple[Box, ...]:
        """Annotated boxes of sweep `index`."""
        return self._boxes.get(int(self.files[index].stem), ())

    @cached_property
    def _boxes(self) -> dict[int, tuple[Box, ...]]:
        return read_annotations(self._annotations)


@_any_numbers
def read_sweep(path: str | Path) -> Scan:
    """One sweep; its file name is the time."""
    path = Path(path)
    columns = read_feather(path, ("x", "y", "z"))
    points = np.stack([columns.pop(axis).astype(np.float32) for axis in "xyz"], axis=1)
    offset = columns.pop("offset_ns", None)
    return Scan(
        points,
        time=int(path.stem) * 1e-9 if path.stem.isdigit() else None,
        intensity=columns.pop("intensity", None),
        ring=columns.pop("laser_number", None),
        point_time=None if offset is None else offset * 1e-9,
        name=path.stem,
        channels=columns,
    )


@_any_numbers
def read_city_poses(path: Path) -> Trajectory:
    """Poses of the vehicle in the city frame, with times."""
    columns = read_feather(path, ("timestamp_ns", *_QUATERNION, *_TRANSLATION))
    return make_trajectory(_poses(path, columns), (columns["timestamp_ns"] * 1e-9).tolist(), str(path))


def read_mounts(path: Path) -> tuple[SensorMount, ...]:
    """Mounting of the two sensors in the egovehicle frame; empty without calibration."""
    if not path.is_file():
        return ()
    columns = read_feather(path, ("sensor_name", *_QUATERNION, *_TRANSLATION), texts=("sensor_name",))
    named = dict(zip(columns["sensor_name"].tolist(), _poses(path, columns)))
    return tuple(SensorMount(name, named[name]) for name in _SENSORS if name in named)


@_any_numbers
def read_annotations(path: Path) -> dict[int, tuple[Box, ...]]:
    """Boxes by the time of their sweep, ns, in the egovehicle frame."""
    if not path.is_file():
        raise InputError(f"{path}: found no annotations, expected those of a training or validation log")
    columns = read_feather(path, ("timestamp_ns", *_NAMES, *_SIZE, *_QUATERNION, *_TRANSLATION), texts=_NAMES)
    sizes = np.stack([columns[name].astype(np.float64) for name in _SIZE], axis=1)
    if not (np.abs(sizes) <= FARTHEST_M).all():
        raise InputError(f"{path}: sizes: expected finite numbers of metres")
    corners = sizes[:, None, :] * np.array([[0.5, 0.5, -0.5], [0.5, -0.5, -0.5], [-0.5, -0.5, -0.5], [-0.5, 0.5, -0.5]])
    frames: dict[int, tuple[Box, ...]] = {}
    for row, (stamp, pose) in enumerate(zip(columns["timestamp_ns"].tolist(), _poses(path, columns))):
        track, kind = (str(columns[name][row]) for name in _NAMES)
        bottom = pose @ corners[row]
        box = Box(track, kind, bottom[:, :2], float(bottom[:, 2].mean()), float(sizes[row, 2]))
        frames[stamp] = (*frames.get(stamp, ()), box)
    return frames


@_any_numbers
def _poses(path: Path, columns: dict[str, NDArray]) -> list[Pose]:
    turns = np.stack([columns[name].astype(np.float64) for name in _QUATERNION], axis=1)
    places = np.stack([columns[name].astype(np.float64) for name in _TRANSLATION], axis=1)
    if not (np.isfinite(turns).all() and np.isfinite(places).all() and (np.abs(turns).sum(axis=1) > 0).all()):
        raise InputError(f"{path}: poses: expected finite numbers and quaternions that are not zero")
    return [Pose.from_quaternion(place, turn) for place, turn in zip(places, turns)]
