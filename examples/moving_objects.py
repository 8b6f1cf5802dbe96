# SPDX-License-Identifier: Apache-2.0
"""What moves, where and how fast: python examples/moving_objects.py [SOURCE]"""

import sys

import numpy as np

import roadbed

source = sys.argv[1] if len(sys.argv) > 1 else "sim:highway?sensor=hdl32e&frames=12"
pipeline = roadbed.Pipeline()
for result in pipeline.run(roadbed.open(source)):
    for thing in result.occupancy.objects:
        speed = np.hypot(*thing.velocity)
        print(f"{result.occupancy.time:.1f} s: object {thing.id} at {thing.position.round(1)}, {speed:.1f} m/s")
