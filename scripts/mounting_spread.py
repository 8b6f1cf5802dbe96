# SPDX-License-Identifier: Apache-2.0
"""How much an estimated mounting differs from scan to scan of a drive, and what finer cells and more planes change.

`python scripts/mounting_spread.py SOURCE...` with drives of one sensor each, e.g. $DATA/kitti-raw-0005.
"""

from __future__ import annotations

import sys
from time import process_time

import numpy as np

import roadbed
from roadbed.config.ground import MountingConfig
from roadbed.ground.mounting.estimator import MountingEstimator

SCANS = 20
SETTINGS = ((1.0, 150), (0.5, 300))  # m per cell, planes tried


def main() -> None:
    for location in sys.argv[1:]:
        source = roadbed.open(location)
        clouds = [source[index].points for index in range(min(SCANS, len(source)))]
        for cell, trials in SETTINGS:
            estimator = MountingEstimator(MountingConfig(cell=cell, trials=trials))
            estimator.estimate(clouds[0])  # compiles
            begin = process_time()
            heights = [estimator.estimate(points)[0].height for points in clouds]
            each = 1e3 * (process_time() - begin) / len(clouds)
            print(
                f"{location}: cell {cell:g} m, {trials} planes: height {np.median(heights):.3f} m, "
                f"spread {100 * np.std(heights):.1f} cm over {len(clouds)} scans, {each:.1f} ms of processor time"
            )


if __name__ == "__main__":
    main()
