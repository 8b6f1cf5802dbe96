# SPDX-License-Identifier: Apache-2.0
"""The index of a map: node spacing, frame, and surface parameters; one file, map.json."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np

from roadbed.core.errors import InputError
from roadbed.core.geometry import Pose
from roadbed.io.atomic import write_file
from roadbed.io.files import read_text
from roadbed.mapping.information import SurfaceParameters

_FORMAT = 1
_NAME = "map.json"


@dataclass(frozen=True)
class MapIndex:
    spacing: float  # m between nodes
    T_map_world: Pose  # from the odometry's world frame to the frame of the tiles
    surface: SurfaceParameters

    @classmethod
    def read(cls, folder: Path, spacing: float | None = None) -> Self | None:
        """The index in a folder, None where there is none; another spacing than `spacing` is an error."""
        path = folder / _NAME
        if not path.exists():
            return None
        try:
            index = json.loads(read_text(path))
            found, version = float(index["spacing"]), index["version"]
            T_map_world = Pose.from_matrix(np.array(index["T_lattice_world"], float))
            surface = SurfaceParameters(**{name: float(value) for name, value in index.get("surface", {}).items()})
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise InputError(f"{path}: expected the index of a map ({error})") from None
        expected = found if spacing is None else spacing
        if version != _FORMAT or found != expected or not 0 < found < np.inf:
            raise InputError(
                f"{path}: expected version {_FORMAT} and spacing {expected:g} m, "
                f"found version {version} and spacing {found:g} m"
            )
        return cls(found, T_map_world, surface)

    @classmethod
    def of(cls, folder: Path) -> Self:
        """The index of an existing map."""
        index = cls.read(folder)
        if index is None:
            found = "no such folder" if not folder.is_dir() else f"found no {_NAME}"
            raise InputError(f"{folder}: {found}, expected a folder that roadbed run --map wrote")
        return index

    def write(self, folder: Path) -> None:
        content = {
            "version": _FORMAT,
            "spacing": self.spacing,
            "T_lattice_world": self.T_map_world.matrix.tolist(),
            "surface": asdict(self.surface),
        }
        write_file(folder / _NAME, json.dumps(content))
