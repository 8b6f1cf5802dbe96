# SPDX-License-Identifier: Apache-2.0
"""The picture of docs/occupancy.md: what sensors say, what stands, what moves, on a simulated street."""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import roadbed
from roadbed.outputs.pictures import panels


def main(path: str = "docs/images/occupancy.png", location: str = "sim:city?frames=26") -> None:
    pipeline = roadbed.Pipeline()
    for result in pipeline.run(roadbed.open(location)):
        last = result
    figure, axes = plt.subplots(1, 3, figsize=(21, 5), layout="constrained")
    x, y, _ = last.ground.T_lattice_sensor.translation
    for axis, panel in zip(axes, (panels.observation, panels.probability, panels.motion)):
        panel(axis, last.ground, last.occupancy)
        axis.set_xlim(x - 25, x + 30)
        axis.set_ylim(y - 18, y + 18)
    figure.savefig(path, dpi=60)


if __name__ == "__main__":
    main(*sys.argv[1:])
