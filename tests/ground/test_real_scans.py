# SPDX-License-Identifier: Apache-2.0
"""Accuracy on real labelled scans, one configuration, mounting unknown (patchwork++ protocol)."""

import numpy as np
import pytest

from roadbed import Config, GroundFilter

_GROUND = (40, 44, 48, 49, 60, 72)
_NOT_SCORED = (0, 1, 70)
SCENES = {
    "00": ("semantickitti/00", (0, 1, 2), 0.5, 99.53),
    "00 projected": ("semantickitti/00-projected", (0, 5, 10, 15, 20), 0.5, 99.28),
    "08, 720": ("semantickitti/08-singles", (720,), 1, 99.51),
    "08, 1500": ("semantickitti/08-singles", (1500,), 1, 99.60),
    "nuScenes": ("nuscenes-projected", (0, 1, 2, 3), 1, 99.11),
    "solid state A": ("solid-state", (0, 1), 1, 98.75),
    "solid state B": ("solid-state", (2, 3), 1, 99.48),
    "solid state C": ("solid-state", (4, 5), 1, 98.42),
}


def read(folder, index):
    points = np.fromfile(folder / "velodyne" / f"{index:06d}.bin", np.float32).reshape(-1, 4)[:, :3]
    classes = np.fromfile(folder / "labels" / f"{index:06d}.label", np.uint32) & 0xFFFF
    return points, classes


def f1(is_ground, classes):
    scored = ~np.isin(classes, _NOT_SCORED)
    truth, found = np.isin(classes, _GROUND)[scored], is_ground[scored]
    both = (truth & found).sum()
    return 200 * both / (truth.sum() + found.sum())


@pytest.fixture(scope="module")
def scores(real_data):
    ground = GroundFilter(Config())
    return {
        name: np.mean(
            [f1(ground(points).is_ground, classes) for points, classes in (read(real_data / folder, i) for i in frames)]
        )
        for name, (folder, frames, _, _) in SCENES.items()
    }


@pytest.mark.parametrize("scene", SCENES)
def test_scene_reaches_its_floor(scores, scene):
    assert scores[scene] >= SCENES[scene][3] - 0.05


def test_mean_over_scenes(scores):
    weights = np.array([scene[2] for scene in SCENES.values()])
    assert np.average(list(scores.values()), weights=weights) >= 99.18
