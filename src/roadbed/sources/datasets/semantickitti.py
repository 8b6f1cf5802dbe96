# SPDX-License-Identifier: Apache-2.0
"""KITTI odometry and SemanticKITTI sequences: velodyne/; optional labels/, poses, times, calib.txt, rig.yaml."""

import json
from pathlib import Path

import numpy as np

from roadbed.core.errors import InputError, errors_at
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.core.tracked_objects import Box
from roadbed.io.files import read_text
from roadbed.sources.datasets.rig import on_rig, read_mounts
from roadbed.sources.formats.bin import KittiSource, label_file, read_bin
from roadbed.sources.formats.files import file_in
from roadbed.sources.poses import Trajectory, read_calibration


class SemanticKittiSource(KittiSource):
    """A sequence folder. With `Tr` in calib.txt the poses are those of the left camera and are converted."""

    name = "semantickitti"
    folder = "velodyne"

    def attach(self) -> None:
        super().attach()
        folder = Path(self.path)
        if self.trajectory is not None:
            self.trajectory = lidar_trajectory(self.trajectory, folder / "calib.txt")
        self._mounts = read_mounts(folder)
        objects = folder / "objects.jsonl"
        self._objects = read_annotations(objects) if objects.is_file() else None

    def poses_file(self, folder: Path) -> Path | None:
        """poses.txt of SemanticKITTI, or poses/NN.txt next to sequences/ of KITTI odometry."""
        resolved = folder.resolve()
        return super().poses_file(folder) or file_in(resolved.parent.parent / "poses", f"{resolved.name}.txt")

    def read(self, path: Path) -> Scan:
        return on_rig(read_bin(path, self.layout, label_file(path)), Path(self.path), self._mounts)

    def objects(self, index: int) -> tuple[Box, ...]:
        """Annotated boxes of scan `index`, from objects.jsonl; empty where there are none."""
        number = range(len(self))[index]
        return () if self._objects is None else self._objects.get(number, ())


def lidar_trajectory(trajectory: Trajectory, calibration: Path) -> Trajectory:
    """Camera poses to LiDAR poses by `Tr` (camera from LiDAR); unchanged where the sequence has none."""
    if not calibration.is_file():
        return trajectory
    values = read_calibration(calibration).get("Tr")
    if values is None:
        return trajectory
    if values.shape != (12,):
        raise InputError(f"{calibration}: Tr: found {values.size} numbers, expected 12 (a 3x4 row)")
    with errors_at(f"{calibration}: Tr"):
        T_camera_lidar = Pose.from_matrix(values.reshape(3, 4))
    T_lidar_camera = T_camera_lidar.inverse()
    poses = tuple(T_lidar_camera @ pose @ T_camera_lidar for pose in trajectory.poses)
    return Trajectory(poses, trajectory.times, trajectory.where)


def read_annotations(path: Path) -> dict[int, tuple[Box, ...]]:
    """Annotated boxes by frame number, of objects.jsonl: one JSON line per frame; frames without a line have none."""
    frames: dict[int, tuple[Box, ...]] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            frames[int(entry["frame"])] = tuple(_box(item) for item in entry["objects"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise InputError(
                f"{path}: line {number}: expected frame and objects with id, kind, footprint (4x2), z, height; "
                f"found {type(error).__name__} {error}"
            ) from None
    return frames


def _box(item: dict) -> Box:
    footprint = np.array(item["footprint"], np.float64)
    if footprint.shape != (4, 2):
        raise ValueError(f"footprint of shape {footprint.shape}")
    z, height = float(item["z"]), float(item["height"])
    if not np.isfinite([*footprint.ravel(), z, height]).all():
        raise ValueError("numbers that are not finite")
    return Box(str(item["id"]), str(item["kind"]), footprint, z, height)
