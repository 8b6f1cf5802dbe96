# SPDX-License-Identifier: Apache-2.0
"""A cloud for commands to work on."""

import numpy as np
import pytest

from roadbed.core.frames import Scan
from roadbed.outputs.pcd import write_pcd


@pytest.fixture
def cloud(tmp_path):
    """A road with a box on it, and a channel that must survive."""
    rng = np.random.default_rng(0)
    road = np.column_stack([rng.uniform(-20, 20, (20_000, 2)), rng.normal(-1.7, 0.01, 20_000)])
    box = np.column_stack([rng.uniform(5, 7, (2_000, 2)), rng.uniform(-1.6, -0.2, 2_000)])
    points = np.concatenate([road, box])
    scan = Scan(points, intensity=rng.random(len(points), np.float32), channels={"echo": np.arange(len(points))})
    path = tmp_path / "cloud.pcd"
    write_pcd(path, scan)
    return path
