# SPDX-License-Identifier: Apache-2.0
"""Constants of the occlusion filter shared by the CPU and devices, its directions, and its program."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from roadbed.core.geometry import Float64
from roadbed.ground.stcrf.model import FRAME
from roadbed.runtime.program import Program

# Returns of one direction against each other.
NEAREST = 0.2  # m of range: what is nearer lies straight below, in no direction
GAP, GAP_GROWTH = 0.5, 0.02  # m, and per m of range: how much farther a beam must have gone
BENEATH = 0.15  # m under a return at which it passed
NEAR = 0.25  # m of range within which returns stand above each other
RISE, STEEP = 0.04, 1.2  # m of height and per m of range from which they do
BETWEEN = 0.02  # m: what lies between two such returns, or this much beside, stands too
FAR, FAR_STEEP = 20.0, 0.4  # m of range from which, and height per range at which, the next beam above shows the same
BEHIND, BEHIND_LOWER = 0.8, 0.45  # m farther and lower than one that stands, up to which a return is its underside
BEAM = 0.003  # of height per range: returns that differ by less are of one beam
FAR_APART = 0.015  # two beams that differ by more leave a large gap between them
WALL, WALL_RISE = 3.0, 0.2  # height per range and m from which two returns are of one wall
RANGE_NOISE = 0.05  # m
GROUND_SHARE = 0.03  # of the gap between two beams in which the ground before the wall may lie
AZIMUTH_ERROR = 2e-5  # radians
MOST = 4  # times as many returns as a sparse direction holds, and it is left alone: seen well enough

# Returns beside each other.
GROW, GROW_HEIGHT = 0.6, 0.08  # m aside and in height within which
GROW_FROM = 8  # returns that stand make one stand that shows nothing by itself
FOOT_BEFORE, FOOT_NEAR = 0.05, 0.5  # m of range before what is above it, on average and at most, at which the road ends
FOOT, FOOT_HEIGHT = 2.0, 0.05  # m aside and in height within which
FOOT_FROM = 8  # returns that do not stand are the same road
SQUARES = 64  # to each side, over which the plane is wrapped to find what lies beside; a power of two
WIDER = 1.01  # than how far one looks, is a square: then it never looks beyond the next, however numbers are rounded
FARTHEST_SQUARE = 1e6  # what lies beyond is counted there

# How scans are looked at, and which rules a device then follows.
DENSE, LAYERED_RULE, SPARSE_RULE = 0, 1, 2

_NUMBERS = {name: n for name, n in globals().items() if name.isupper() and isinstance(n, int | float)}
CONSTANTS = {name: np.float64(n) if isinstance(n, float) else n for name, n in _NUMBERS.items()}
GROUP, DIRECTION_GROUP = 256, 64  # work-items over points, and for a direction's returns


class VisibilityModel(NamedTuple):
    """Which scans are filtered, by the mean number of returns per direction of a sensor."""

    directions: int = 655  # of 0.55 degrees; returns within one are compared with each other
    densest: int = 20  # up to which a scan is sparse: a few layers
    layered: int = 120  # up to which its beams are far apart: sixteen or thirty-two layers

    @property
    def room(self) -> int:
        """Returns of a direction that are compared at most."""
        return MOST * max(self.densest, self.layered)


MOST_RETURNS = 1024  # of a direction, for which devices have local memory


@cache
def borders(directions: int) -> Float64:
    """(directions + 1, 3): the angles at which directions begin, from straight behind on, their cosines and sines."""
    angle = (2 * np.arange(directions + 1) / directions - 1) * math.pi
    return np.stack([angle, np.cos(angle), np.sin(angle)], axis=1)


def table_words(config: VisibilityModel, sensors: int) -> int:
    """Numbers per slot that kernels count and list in: see directions.cl."""
    return 4 + 2 * SQUARES**2 + sensors * config.directions * (1 + config.room)


def program(config: VisibilityModel, sensors: int = 1) -> Program:
    """Exact and in double precision, as the CPU's kernels are: every point stands there or nowhere."""
    files = tuple(f"ground/visibility/{name}.cl" for name in ("squares", "directions", "mark", "neighbours"))
    definitions = {
        **CONSTANTS,
        "GROUP": GROUP,
        "PI": np.float64(math.pi),
        "DIRECTIONS": config.directions,
        "DENSEST": config.densest,
        "LAYERED": config.layered,
        "ROOM": config.room,
        "SENSORS": sensors,
        "TABLE_WORDS": table_words(config, sensors),
    }
    return Program(files, definitions, {"Frame": FRAME}, exact=True)
