# SPDX-License-Identifier: Apache-2.0
"""A reader for a file format of your own: python examples/own_source.py

A package registers it for all users with an entry point:

    [project.entry-points."roadbed.sources"]
    my-sensor = "my_sensor.source:MySource"
"""

import tempfile
from pathlib import Path

import numpy as np

import roadbed


class MySource(roadbed.Source):
    """Rows of float32 x, y, z, intensity in a `.mine` file."""

    name = "my-sensor"
    accepts = ("gain",)  # options: file.mine?gain=2

    @classmethod
    def matches(cls, location: str) -> bool:
        return location.endswith(".mine")

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> roadbed.Scan:
        rows = np.fromfile(self.path, np.float32).reshape(-1, 4)
        return roadbed.Scan(rows[:, :3], intensity=rows[:, 3] * float(self.options.get("gain", 1)))


roadbed.register_source("my-sensor", MySource)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "scan.mine"
    np.ones((100, 4), np.float32).tofile(path)
    scan = roadbed.open(f"{path}?gain=2")[0]
    print(f"{len(scan)} points, intensity {scan.intensity.max():g}")
