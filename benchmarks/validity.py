# SPDX-License-Identifier: Apache-2.0
"""Whether a result holds numbers wherever numbers are promised."""

import numpy as np

from roadbed.config import Config
from roadbed.core.frames import GroundFrame, Label, OccupancyFrame

KNOWN_SIGMA = Config().ground.stcrf.known_sigma  # m; beyond it an elevation counts as unknown


def is_valid(frame: GroundFrame) -> bool:
    """Ground was found, every variance is a number, every probability lies in 0..1, elevations are missing only where
    the variance is large, and heights only with their label."""
    known = np.isfinite(frame.elevation)
    chances = (frame.ground_probability >= 0) & (frame.ground_probability <= 1)
    numbers = np.isfinite(frame.variance).all() and chances.all()
    unknown_heights = np.isnan(frame.height_above_ground) <= (frame.label == Label.UNKNOWN)
    lost = frame.variance[~known] < 0.99 * KNOWN_SIGMA**2
    return bool(
        known.any() and numbers and not lost.any() and unknown_heights.all() and np.isfinite(frame.slope[known]).all()
    )


def mass_error(frame: OccupancyFrame) -> float:
    """How far the masses of a cell are from 1 in all, at worst; NaN when one of them is none."""
    total = frame.static.astype(np.float64) + frame.dynamic + frame.free + frame.unknown
    return float(np.abs(total - 1).max())
