# SPDX-License-Identifier: Apache-2.0
"""Hits as registration sees them: outlines of boxes in an observation, and what was registered at a place."""

import numpy as np

from roadbed.occupancy.arrays import Cells, Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.registration.register import Registration
from tests.occupancy.models import registration_model

SHAPE, SPACING = (60, 80), 0.2
SUBCELL = SPACING / 4


def seen(points, shape=SHAPE, spacing=SPACING, hidden=None):
    """An observation with returns at places (N, 2) in metres; the rest is free, except where it is hidden."""
    surface = np.zeros(shape, np.uint16)
    fine = np.floor(np.asarray(points) / (spacing / 4)).astype(int)
    for x, y in fine:
        if 0 <= y < 4 * shape[0] and 0 <= x < 4 * shape[1]:
            surface[y // 4, x // 4] |= 1 << (4 * (y % 4) + x % 4)
    probability = np.where(surface > 0, 0.9, 0.1).astype(np.float32)
    observedness = np.full(shape, 0.9, np.float32)
    if hidden is not None:
        probability[hidden & (surface == 0)] = 0.5
        observedness[hidden & (surface == 0)] = 0
    return Observation(probability, observedness, surface)


def rectangle(x, y, length, width, sides="nesw", step=0.05):
    """Returns along the sides of a box with its lower left corner at (x, y)."""
    along, across = np.arange(0, length, step), np.arange(0, width, step)
    lines = {
        "s": (along, 0 * along), "n": (along, 0 * along + width),
        "w": (0 * across, across), "e": (0 * across + length, across),
    }  # fmt: skip
    return np.vstack([np.column_stack(lines[side]) for side in sides]) + np.array([x, y])


def velocity_at(found, x, y):
    """What was registered in the cell at a place."""
    component = found.label[int(y / SPACING), int(x / SPACING)]
    return None if component < 0 or np.isnan(found.velocity[component, 0]) else found.velocity[component]


def registered(bitmaps, config=None, dt=0.1, motion=None, maturity=None):
    registration = Registration(Cells(*SHAPE, SPACING), config or registration_model())
    for bitmap in bitmaps:
        found = registration(bitmap, dt, motion or GridMotion(), maturity)
    return found
