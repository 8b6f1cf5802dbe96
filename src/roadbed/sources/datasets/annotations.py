# SPDX-License-Identifier: Apache-2.0
"""Annotated boxes of a sequence (objects.jsonl): one JSON line per frame."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from roadbed.core.errors import InputError
from roadbed.core.tracked_objects import Box
from roadbed.io.files import read_text


def read_annotations(path: Path) -> dict[int, tuple[Box, ...]]:
    """Boxes by frame number; frames without a line have no annotation."""
    frames: dict[int, tuple[Box, ...]] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            frames[int(entry["frame"])] = tuple(_box(item) for item in entry["objects"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise InputError(
                f"{path}: line {number}: expected frame and objects with id, kind, footprint (4x2), z, height; "
                f"found {type(error).__name__} {error}"
            ) from None
    return frames


def _box(item: dict) -> Box:
    footprint = np.array(item["footprint"], np.float64)
    if footprint.shape != (4, 2):
        raise ValueError(f"footprint of shape {footprint.shape}")
    z, height = float(item["z"]), float(item["height"])
    if not np.isfinite([*footprint.ravel(), z, height]).all():
        raise ValueError("numbers that are not finite")
    return Box(str(item["id"]), str(item["kind"]), footprint, z, height)
