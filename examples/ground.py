# SPDX-License-Identifier: Apache-2.0
"""Ground, obstacles and elevation of every scan of a drive: python examples/ground.py [SOURCE]"""

import sys

import numpy as np

import roadbed

source = sys.argv[1] if len(sys.argv) > 1 else "sim:mountain?sensor=vlp16&frames=5"
ground = roadbed.GroundFilter()
for scan in roadbed.open(source):
    frame = ground(scan)
    height = np.nanmax(frame.elevation) - np.nanmin(frame.elevation)
    print(f"{scan.name}: {len(scan)} points, {frame.is_ground.mean():.0%} ground, {height:.1f} m of relief")
