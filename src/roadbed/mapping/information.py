# SPDX-License-Identifier: Apache-2.0
"""Information about planes: per node P = (p00 p01 p02 p11 p12 p22) and X = P (h, sx, sy), nine layers in this order."""

from __future__ import annotations

import numpy as np

from roadbed.geometry import Float32


def lower(information: Float32, by: float) -> None:
    """Count heights from a base that lies `by` metres higher: X - P (by, 0, 0), in place on (rows, 9, columns)."""
    for x, p in ((6, 0), (7, 1), (8, 2)):
        information[:, x] -= np.float32(by) * information[:, p]
