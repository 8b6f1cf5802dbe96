# SPDX-License-Identifier: Apache-2.0
"""How a source is read: which scans, with which poses and mounting. Shared by all commands."""

import os
from dataclasses import dataclass
from math import radians
from pathlib import Path

from roadbed.core.errors import InputError
from roadbed.core.geometry import Pose
from roadbed.sources.odometry import ESTIMATED, Deskewed, with_odometry
from roadbed.sources.registry import open_source
from roadbed.sources.source import Source, is_live, part_of


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading a source, apart from its location."""

    kind: str | None = None  # of source, where the path alone is ambiguous
    start: int = 0
    stride: int = 1
    frames: int | None = None  # at most this many scans
    mounting: tuple[float, float, float, float, float, float] | None = None  # x y z m, roll pitch yaw degrees
    height: float | None = None  # m of the sensor, used by the configuration; an error where the source has a mounting
    odometry: str | None = None  # kiss-icp, a file, a topic of a bag, none; None: the source's own
    deskew: bool = True

    def open(self, location: str) -> Source:
        """The scans from `start` on, every `stride`-th, at most `frames`, with their poses and mounting."""
        names_topic = self.odometry is not None and self.odometry.startswith("/") and not Path(self.odometry).exists()
        topic = {"odometry": self.odometry} if names_topic else {}
        source = open_source(location, self.kind, **topic)
        if not topic and self.odometry != ESTIMATED:  # the poses of a file are those of the whole source
            source = with_odometry(source, self.odometry)
        if self.mounting is not None and self.height is not None:
            raise InputError("--mounting and --height: expected one of them, found both")
        if (self.start, self.stride, self.frames, self.mounting) != (0, 1, None, None):
            source = part_of(source, self.start, self.stride, self.frames, self.T_vehicle_sensor())
        if self.height is not None and not is_live(source) and source[0].T_vehicle_sensor is not None:
            raise InputError(f"{location}: --height: these scans have a mounting; --mounting replaces it")
        if self.odometry == ESTIMATED:
            source = with_odometry(source, ESTIMATED)
        return Deskewed(source, ahead=not is_live(source)) if self.deskew else source

    def T_vehicle_sensor(self) -> Pose | None:
        """The pose of --mounting; None without it."""
        if self.mounting is None:
            return None
        x, y, z, *angles = self.mounting
        roll, pitch, yaw = map(radians, angles)
        return Pose.from_euler(x, y, z, roll=roll, pitch=pitch, yaw=yaw)


def files_of(source: Source) -> list[str]:
    """Input files of a source: its path, and options that name files. Outputs must not overwrite them."""
    named = [source.path, *(str(value) for value in source.options.values())]
    return [path for path in named if os.path.exists(path)]
