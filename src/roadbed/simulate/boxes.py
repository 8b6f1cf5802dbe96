# SPDX-License-Identifier: Apache-2.0
"""Boxes of road users, as data sets annotate them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from roadbed.simulate.truth import FrameTruth

ANNOTATED = ("car", "truck", "cyclist", "pedestrian")  # kinds that get a box


def annotate(truth: FrameTruth) -> Iterator[dict[str, Any]]:
    """Boxes of road users in the sensor frame, as objects.jsonl holds them, with their velocity there."""
    T_sensor_world = truth.T_world_sensor.inverse()
    for item in truth.objects():
        if item.kind not in ANNOTATED:
            continue
        corners = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * item.size[:2] / 2
        bottom = (T_sensor_world @ item.T_world_object) @ np.column_stack([corners, np.zeros(4)])
        yield {
            "id": str(item.id),
            "kind": item.kind,
            "footprint": np.round(bottom[:, :2], 4).tolist(),
            "z": round(float(bottom[:, 2].mean()), 4),
            "height": round(float(item.size[2]), 4),
            "moving": item.moving,
            "velocity": np.round(T_sensor_world.rotation @ item.velocity, 4).tolist(),
        }
