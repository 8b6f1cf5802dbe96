# SPDX-License-Identifier: Apache-2.0
"""KITTI raw drives: velodyne_points/data/*.bin with timestamps, and the GPS/IMU packets in oxts/ as poses."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from roadbed.core.errors import InputError, errors_at
from roadbed.core.geometry import Float64, Pose
from roadbed.io.files import read_text
from roadbed.sources.formats.bin import KittiSource
from roadbed.sources.poses import Trajectory, given_poses, make_trajectory, read_calibration, read_table, read_times

_EARTH_RADIUS_M = 6378137.0
OXTS_NUMBERS = 30


class KittiRawSource(KittiSource):
    """A drive folder. The IMU calibration calib_imu_to_velo.txt is in the drive or in the day's folder."""

    name = "kitti-raw"
    folder = "velodyne_points/data"

    def attach(self) -> None:
        drive = Path(self.path)
        self.times = self._scan_times(drive)
        self.trajectory = given_poses(self.options, self)
        if self.trajectory is None and (drive / "oxts" / "data").is_dir():
            self.trajectory = self._oxts_trajectory(drive)
            self.trajectory.check_count(len(self))

    def _scan_times(self, drive: Path) -> Float64 | None:
        """File names are line numbers of timestamps.txt, because synchronised drives skip lost scans."""
        if "times" in self.options:
            return read_times(self.options["times"], len(self))
        file = drive / "velodyne_points" / "timestamps.txt"
        if not file.is_file():
            return None
        stamps = read_timestamps(file)
        lines = [int(path.stem) if _is_number(path.stem) else k for k, path in enumerate(self.files)]
        if max(lines) >= len(stamps):
            raise InputError(f"{file}: times: found {len(stamps)}, expected {max(lines) + 1} (one per scan)")
        return stamps[lines]

    def _oxts_trajectory(self, drive: Path) -> Trajectory:
        """Poses in axes east, north, up with the origin at the first packet."""
        folder = drive / "oxts" / "data"
        packets = sorted(folder.glob("*.txt"))
        if not packets:
            raise InputError(f"{folder}: found no packets, expected one .txt per scan")
        rows = np.concatenate([_read_packet(path) for path in packets])
        T_body_sensor = _imu_from_lidar(drive)
        with errors_at(str(folder)):
            poses = [pose @ T_body_sensor for pose in poses_from_oxts(rows)]
        stamps_file = drive / "oxts" / "timestamps.txt"
        if self.times is None or not stamps_file.is_file():
            return Trajectory(tuple(poses), None, str(folder))
        stamps = read_timestamps(stamps_file)
        if len(stamps) != len(poses):
            raise InputError(f"{stamps_file}: times: found {len(stamps)}, expected {len(poses)} (one per packet)")
        return make_trajectory(poses, stamps.tolist(), str(folder))


def _is_number(text: str) -> bool:
    """ASCII digits only; str.isdigit accepts superscripts."""
    return text.isascii() and text.isdigit()


def poses_from_oxts(rows: Float64) -> list[Pose]:
    """T_world_imu per packet by the Mercator projection KITTI uses: latitude, longitude, altitude, roll, pitch, yaw."""
    latitude, longitude = np.radians(rows[:, 0]), np.radians(rows[:, 1])
    scale = np.cos(latitude[0])
    east = scale * _EARTH_RADIUS_M * longitude
    north = scale * _EARTH_RADIUS_M * np.log(np.tan(np.pi / 4 + latitude / 2))
    position = np.column_stack([east, north, rows[:, 2]])
    position -= position[0]
    return [
        Pose.from_euler(*place, roll=row[3], pitch=row[4], yaw=row[5])
        for place, row in zip(position, rows, strict=True)
    ]


def read_timestamps(path: Path) -> Float64:
    """Lines like `2011-09-26 13:02:25.594360375` as seconds since 1970."""
    stamps = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        whole, _, fraction = line.strip().partition(".")
        try:
            seconds = datetime.strptime(whole, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
            if fraction and not _is_number(fraction):
                raise ValueError(fraction)
            stamps.append(seconds + float(f"0.{fraction}0"))
        except (ValueError, OverflowError):
            raise InputError(
                f"{path}: line {number}: found {line[:40]!r}, expected a time like 2011-09-26 13:02:25.594360375"
            ) from None
    return np.array(stamps)


def _read_packet(path: Path) -> Float64:
    """One packet of at least latitude, longitude, altitude, roll, pitch, yaw."""
    rows = read_table(path, (OXTS_NUMBERS,), f"{OXTS_NUMBERS} (a GPS/IMU packet)")
    if len(rows) != 1 or not abs(rows[0, 0]) < 89:
        raise InputError(
            f"{path}: found {len(rows)} rows, latitude {rows[0, 0]:g}; expected one row, within 89 degrees"
        )
    return rows


def _imu_from_lidar(drive: Path) -> Pose:
    """T_imu_lidar; the identity without a calibration."""
    for folder in (drive, drive.resolve().parent):
        file = folder / "calib_imu_to_velo.txt"
        if not file.is_file():
            continue
        values = read_calibration(file)
        rotation, translation = values.get("R", np.empty(0)), values.get("T", np.empty(0))
        if rotation.shape != (9,) or translation.shape != (3,):
            raise InputError(f"{file}: found {rotation.size} numbers R and {translation.size} T, expected 9 and 3")
        with errors_at(str(file)):
            return Pose(rotation.reshape(3, 3), translation).inverse()
    return Pose.identity()
