# SPDX-License-Identifier: Apache-2.0
"""KITTI tracking: velodyne/0000/*.bin of a sequence beside calib/, oxts/ and label_02/ with tracked boxes."""

from functools import cached_property
from pathlib import Path

import numpy as np

from roadbed.core.errors import InputError, errors_at
from roadbed.core.geometry import FARTHEST_M, Float64, Pose
from roadbed.core.tracked_objects import Box
from roadbed.io.files import read_text
from roadbed.sources.datasets.kitti_raw import OXTS_NUMBERS, poses_from_oxts
from roadbed.sources.formats.bin import RawSource
from roadbed.sources.formats.columns import KITTI
from roadbed.sources.formats.files import cloud_files
from roadbed.sources.poses import Trajectory, given_poses, read_calibration, read_table, read_times

_PERIOD = 0.1  # s between frames
_LABEL_WORDS = 17  # frame, track, kind, 3 flags, 4 of the image's box, h w l, x y z, turn about the camera's y
_UNLABELLED = "DontCare"


class KittiTrackingSource(RawSource):
    """The folder of a sequence's scans, which are named by the number of their frame."""

    name = "kitti-tracking"
    usual = KITTI

    @classmethod
    def matches(cls, location: str) -> bool:
        path = Path(location)
        return path.is_dir() and path.resolve().parent.name == "velodyne" and _beside(path, "calib").is_file()

    def list_files(self, path: Path) -> list[Path]:
        files = cloud_files(path, self.suffixes)
        if wrong := [file for file in files if not (file.stem.isascii() and file.stem.isdigit())]:
            raise InputError(f"{wrong[0]}: expected the number of a frame as name")
        return files

    def attach(self) -> None:
        folder, self._frames = Path(self.path), [int(file.stem) for file in self.files]
        times = self.options.get("times")
        self.times = _PERIOD * np.array(self._frames) if times is None else read_times(times, len(self))
        self._calibration = _beside(folder, "calib")
        self.trajectory = given_poses(self.options, self)
        oxts = _beside(folder, "oxts")
        if self.trajectory is None and oxts.is_file():
            self.trajectory = self._oxts_trajectory(oxts)

    def _oxts_trajectory(self, path: Path) -> Trajectory:
        """Poses in axes east, north, up; one packet per frame, also of frames without a scan."""
        rows = read_table(path, (OXTS_NUMBERS,), f"{OXTS_NUMBERS} (a GPS/IMU packet)")
        if len(rows) <= max(self._frames):
            raise InputError(f"{path}: packets: found {len(rows)}, expected {max(self._frames) + 1} (one per frame)")
        T_imu_lidar = _transform(self._calibration, "Tr_imu_velo").inverse()
        with errors_at(str(path)):
            poses = poses_from_oxts(rows)
        return Trajectory(tuple(poses[frame] @ T_imu_lidar for frame in self._frames), None, str(path))

    def objects(self, index: int) -> tuple[Box, ...]:
        """Annotated boxes of scan `index`: those in view of the left camera."""
        return self._boxes.get(self._frames[index], ())

    @cached_property
    def _boxes(self) -> dict[int, tuple[Box, ...]]:
        labels = _beside(Path(self.path), "label_02")
        if not labels.is_file():
            raise InputError(f"{labels}: found no labels, expected those of the training sequences")
        T_rectified_camera = _transform(self._calibration, "R_rect")
        T_lidar_rectified = (T_rectified_camera @ _transform(self._calibration, "Tr_velo_cam")).inverse()
        return read_labels(labels, T_lidar_rectified)


def _beside(folder: Path, name: str) -> Path:
    """The file of a sequence in another folder: training/NAME/0000.txt for training/velodyne/0000."""
    folder = folder.resolve()
    return folder.parent.parent / name / f"{folder.name}.txt"


def _transform(path: Path, name: str) -> Pose:
    """A calibration of 9 numbers (a rotation) or 12 (a 3x4 row)."""
    values = read_calibration(path).get(name, np.empty(0))
    if values.shape not in ((9,), (12,)):
        raise InputError(f"{path}: {name}: found {values.size} numbers, expected 9 or 12")
    with errors_at(f"{path}: {name}"):
        if len(values) == 9:
            return Pose(values.reshape(3, 3), np.zeros(3))
        return Pose.from_matrix(values.reshape(3, 4))


def read_labels(path: Path, T_lidar_camera: Pose) -> dict[int, tuple[Box, ...]]:
    """Boxes by frame. The camera looks along z with y down; a box is given by the middle of its bottom."""
    frames: dict[int, tuple[Box, ...]] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        words = line.split()
        if not words or _UNLABELLED in words:
            continue
        try:
            frame, track, kind = int(words[0]), int(words[1]), words[2]
            height, width, length, x, y, z, turn = numbers = [float(word) for word in words[10:_LABEL_WORDS]]
            if not all(abs(value) <= FARTHEST_M for value in numbers):  # NaN is not
                raise ValueError(f"numbers that are not within {FARTHEST_M:g}")
        except (ValueError, IndexError) as error:
            raise InputError(
                f"{path}: line {number}: expected {_LABEL_WORDS} words of a tracked box, found {error}"
            ) from None
        corners = T_lidar_camera @ (np.array([x, y, z]) + _ground_corners(length, width, turn))
        box = Box(str(track), kind, corners[:, :2], float(corners[:, 2].mean()), height)
        frames[frame] = (*frames.get(frame, ()), box)
    return frames


def _ground_corners(length: float, width: float, turn: float) -> Float64:
    """(4, 3) corners of the bottom around its middle, in the axes of the camera."""
    along, across = 0.5 * length * np.array([1, 1, -1, -1]), 0.5 * width * np.array([1, -1, -1, 1])
    x, z = np.cos(turn) * along + np.sin(turn) * across, -np.sin(turn) * along + np.cos(turn) * across
    return np.column_stack([x, np.zeros(4), z])
