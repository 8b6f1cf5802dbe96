# SPDX-License-Identifier: Apache-2.0
"""KITTI odometry and SemanticKITTI sequences: velodyne/; optional labels/, poses, times, calib.txt, rig.yaml."""

from __future__ import annotations

from pathlib import Path

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.core.tracked_objects import Box
from roadbed.sources.datasets.annotations import read_annotations
from roadbed.sources.datasets.rig import on_rig, read_mounts
from roadbed.sources.formats.bin import RawSource, label_file, read_bin
from roadbed.sources.formats.columns import KITTI
from roadbed.sources.formats.files import cloud_files
from roadbed.sources.poses import Trajectory, read_calibration, read_poses, read_times


class SemanticKittiSource(RawSource):
    """A sequence folder. With `Tr` in calib.txt the poses are those of the left camera and are converted."""

    name = "semantickitti"
    usual = KITTI

    @classmethod
    def matches(cls, location: str) -> bool:
        return (Path(location) / "velodyne").is_dir()

    def list_files(self, path: Path) -> list[Path]:
        if not path.is_dir():
            raise InputError(f"{path}: no such folder")
        return cloud_files(path / "velodyne", self.suffixes)

    def attach(self) -> None:
        folder = Path(self.path)
        times = Path(self.options.get("times") or folder / "times.txt")
        self.times = read_times(times, len(self)) if times.is_file() or "times" in self.options else None
        poses = self._poses_file(folder)
        self.trajectory = None if poses is None else lidar_trajectory(read_poses(poses), folder / "calib.txt")
        if self.trajectory is not None:
            self.trajectory.check_count(len(self))
        self._mounts = read_mounts(folder)
        objects = folder / "objects.jsonl"
        self._objects = read_annotations(objects) if objects.is_file() else None

    def _poses_file(self, folder: Path) -> Path | None:
        """The option `poses`, poses.txt of SemanticKITTI, or poses/NN.txt next to sequences/ of KITTI odometry."""
        if "poses" in self.options:
            return Path(self.options["poses"])
        resolved = folder.resolve()
        candidates = (folder / "poses.txt", resolved.parent.parent / "poses" / f"{resolved.name}.txt")
        return next((file for file in candidates if file.is_file()), None)

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
    try:
        T_camera_lidar = Pose.from_matrix(values.reshape(3, 4))
    except InputError as error:
        raise InputError(f"{calibration}: Tr: {error}") from None
    T_lidar_camera = T_camera_lidar.inverse()
    poses = tuple(T_lidar_camera @ pose @ T_camera_lidar for pose in trajectory.poses)
    return Trajectory(poses, trajectory.times, trajectory.where)
