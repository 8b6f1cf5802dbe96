# SPDX-License-Identifier: Apache-2.0
"""How a source is to be opened: which part of it, with which poses and mounting. One object for every command."""

from __future__ import annotations

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
    """Everything about reading a source but its location."""

    kind: str | None = None  # of source, where the path alone does not tell
    start: int = 0
    stride: int = 1
    frames: int | None = None  # at most so many
    mounting: tuple[float, float, float, float, float, float] | None = None  # x y z m, roll pitch yaw degrees
    height: float | None = None  # m of the sensor; the configuration takes it, here it is held against the source
    odometry: str | None = None  # kiss-icp, a file, a topic of a bag, none; None: the source's own
    deskew: bool = True

    def open(self, location: str) -> Source:
        """The scans from `start` on, every `stride`-th, at most `frames`, with their poses and mounting."""
        topic = {"odometry": self.odometry} if self._names_topic() else {}
        source = open_source(location, self.kind, **topic)
        if not topic and self.odometry != ESTIMATED:  # a file's poses belong to the whole source
            source = with_odometry(source, self.odometry)
        if self.mounting is not None and self.height is not None:
            raise InputError("--mounting and --height: expected one of them, found both")
        if (self.start, self.stride, self.frames, self.mounting) != (0, 1, None, None):
            source = part_of(source, self.start, self.stride, self.frames, self.T_vehicle_sensor())
        if self.height is not None and _brings_mounting(source):
            raise InputError(f"{location}: --height: these scans bring their mounting; --mounting replaces it")
        if self.odometry == ESTIMATED:
            source = with_odometry(source, ESTIMATED)
        return Deskewed(source, ahead=not is_live(source)) if self.deskew else source

    def T_vehicle_sensor(self) -> Pose | None:
        """The mounting asked for; None where none was."""
        if self.mounting is None:
            return None
        x, y, z, *angles = self.mounting
        roll, pitch, yaw = map(radians, angles)
        return Pose.from_euler(x, y, z, roll=roll, pitch=pitch, yaw=yaw)

    def _names_topic(self) -> bool:
        return self.odometry is not None and self.odometry.startswith("/") and not Path(self.odometry).exists()


def _brings_mounting(source: Source) -> bool:
    return not is_live(source) and source[0].T_vehicle_sensor is not None


def files_of(source: Source) -> list[str]:
    """What a source reads from: its own path, and those of its options that name files. Results stay off them."""
    named = [source.path, *(str(value) for value in source.options.values())]
    return [path for path in named if os.path.exists(path)]
