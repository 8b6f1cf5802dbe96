# SPDX-License-Identifier: Apache-2.0
"""Scenes of nuScenes: the sweeps of LIDAR_TOP with their poses and tracked boxes, as the tables in v1.0-*/ say."""

import json
import math
from bisect import bisect_right
from collections import defaultdict
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from roadbed.core.errors import InputError, foreign_errors
from roadbed.core.geometry import FARTHEST_M, Float64, Pose
from roadbed.core.tracked_objects import Box
from roadbed.io.files import read_text
from roadbed.sources.formats.bin import NuScenesSource
from roadbed.sources.poses import Trajectory

_CHANNEL = "LIDAR_TOP"
_CORNERS = np.array([[0.5, 0.5, -0.5], [0.5, -0.5, -0.5], [-0.5, -0.5, -0.5], [-0.5, 0.5, -0.5]])
Row = dict[str, Any]


class _Annotated(NamedTuple):
    """A box of a sample in the world frame."""

    kind: str
    pose: Pose
    size: Float64  # (3,) length, width, height in m


class NuScenesSceneSource(NuScenesSource):
    """The folder of the data set with one scene of it: `DIR?scene=scene-0061`. Key frames and sweeps, 20 per second."""

    name = "nuscenes-scene"
    accepts: ClassVar[tuple[str, ...]] = ("scene", "origin")

    @classmethod
    def matches(cls, location: str) -> bool:
        return Path(location).is_dir() and any(Path(location).glob("v1.0-*/sample_data.json"))

    def list_files(self, path: Path) -> list[Path]:
        versions = sorted(table.parent for table in path.glob("v1.0-*/sample_data.json"))
        if len(versions) != 1:
            raise InputError(f"{path}: found {len(versions)} folders v1.0-* with tables, expected one")
        self._tables = versions[0]
        with self._readable():
            self._samples = self._samples_of(self._scene_token())
            sweeps = [row for row in self._table("sample_data") if f"/{_CHANNEL}/" in row["filename"]]
            self._sweeps = sorted(
                (row for row in sweeps if row["sample_token"] in self._samples), key=lambda row: row["timestamp"]
            )
            files = [path / _inside(row["filename"]) for row in self._sweeps]
        if missing := [file for file in files if not file.is_file()] or ([] if files else [path / "sweeps" / _CHANNEL]):
            raise InputError(f"{missing[0]}: not found, expected the sweeps of {_CHANNEL}")
        return files

    def attach(self) -> None:
        with self._readable():
            self.times = np.array([float(row["timestamp"] * 1e-6) for row in self._sweeps])
            mounts = {row["token"]: row for row in self._table("calibrated_sensor")}
            wanted = {row["ego_pose_token"] for row in self._sweeps}
            places = {row["token"]: _pose(row) for row in self._table("ego_pose") if row["token"] in wanted}
            poses = [
                places[row["ego_pose_token"]] @ _pose(mounts[row["calibrated_sensor_token"]]) for row in self._sweeps
            ]
        self.trajectory = Trajectory(tuple(poses), None, str(self._tables))

    def objects(self, index: int) -> tuple[Box, ...]:
        """Annotated boxes of sweep `index`: those of the samples before and after it, interpolated."""
        assert self.trajectory is not None
        time, (times, samples) = self._sweeps[index]["timestamp"] * 1e-6, self._annotations
        after = min(bisect_right(times, time), len(times) - 1)
        before = max(after - 1, 0) if times[after] > time else after
        share = 0.0 if before == after else (time - times[before]) / (times[after] - times[before])
        T_sensor_world, found = self.trajectory.poses[index].inverse(), []
        for key, box in samples[before].items():
            if key in samples[after] and 0 <= share <= 1:
                corners = T_sensor_world @ (_between(box.pose, samples[after][key].pose, share) @ (box.size * _CORNERS))
                found.append(Box(key, box.kind, corners[:, :2], float(corners[:, 2].mean()), float(box.size[2])))
        return tuple(found)

    @cached_property
    def _annotations(self) -> tuple[list[float], list[dict[str, _Annotated]]]:
        """Times of the samples, in order, and their boxes by instance."""
        with self._readable():
            categories = {row["token"]: str(row["name"]) for row in self._table("category")}
            kinds = {row["token"]: categories[row["category_token"]] for row in self._table("instance")}
            boxes: dict[str, dict[str, _Annotated]] = defaultdict(dict)
            for row in self._table("sample_annotation"):
                if row["sample_token"] in self._samples:
                    width, length, height = map(float, row["size"])
                    size, instance = np.array([length, width, height]), row["instance_token"]
                    if not (np.abs(size) <= FARTHEST_M).all():
                        raise InputError(f"{self._tables}: size of a box: found {row['size']}, expected metres")
                    boxes[row["sample_token"]][str(instance)] = _Annotated(kinds[instance], _pose(row), size)
        order = sorted(self._samples, key=lambda token: self._samples[token])
        return [self._samples[token] for token in order], [boxes[token] for token in order]

    def _readable(self) -> AbstractContextManager[None]:
        return foreign_errors(self._tables, "set of nuScenes tables")

    def _table(self, name: str) -> list[Row]:
        path = self._tables / f"{name}.json"
        if not path.is_file():
            raise InputError(f"{path}: found no table")
        try:
            rows = json.loads(read_text(path))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: not valid JSON: {error}") from None
        if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
            raise InputError(f"{path}: expected a list of records")
        return rows

    def _scene_token(self) -> str:
        scenes = {str(row["name"]): str(row["token"]) for row in self._table("scene")}
        name = self.options.get("scene") or (next(iter(scenes)) if len(scenes) == 1 else None)
        if name not in scenes:
            known = ", ".join(sorted(scenes)[:10]) + (", ..." if len(scenes) > 10 else "")
            raise InputError(f"{self._tables}: scene: found {name}, expected ?scene= with one of {known}")
        return scenes[name]

    def _samples_of(self, scene: str) -> dict[str, float]:
        """Times of a scene's samples, s, by token."""
        return {row["token"]: row["timestamp"] * 1e-6 for row in self._table("sample") if row["scene_token"] == scene}


def _inside(name: str) -> str:
    """A file's name in a table, which must lie in the folder of the data set."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise InputError(f"found the file {name}, expected one in the folder of the data set")
    return name


def _pose(row: Row) -> Pose:
    w, x, y, z = map(float, row["rotation"])
    return Pose.from_quaternion(np.array(row["translation"], np.float64), (x, y, z, w))


def _between(first: Pose, second: Pose, share: float) -> Pose:
    """The place of an upright box between two others."""
    turn = math.remainder(second.yaw - first.yaw, 2 * math.pi)
    place = first.translation + share * (second.translation - first.translation)
    return Pose.from_euler(*place, yaw=first.yaw + share * turn)
