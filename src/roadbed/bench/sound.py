# SPDX-License-Identifier: Apache-2.0
"""Whether a result holds numbers wherever numbers are promised."""

from __future__ import annotations

import numpy as np

from roadbed.frames import GroundFrame, Label, OccupancyFrame


def is_sound(frame: GroundFrame) -> bool:
    """Every variance and probability is a number, and heights are unknown only with their label."""
    known = np.isfinite(frame.elevation)
    numbers = np.isfinite(frame.variance).all() and np.isfinite(frame.ground_probability).all()
    unknown_heights = np.isnan(frame.height_above_ground) <= (frame.label == Label.UNKNOWN)
    return bool(numbers and unknown_heights.all() and np.isfinite(frame.slope[known]).all())


def mass_error(frame: OccupancyFrame) -> float:
    """How far the masses of a cell are from 1 in all, at worst; NaN when one of them is none."""
    total = frame.static.astype(np.float64) + frame.dynamic + frame.free + frame.unknown
    return float(np.abs(total - 1).max())
