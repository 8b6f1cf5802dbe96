# SPDX-License-Identifier: Apache-2.0
"""Constants of the occlusion filter, shared by the CPU and devices, and its device program."""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from roadbed.core.geometry import Float64
from roadbed.ground.stcrf.model import FRAME
from roadbed.runtime.program import Program

# Comparison of the returns of one direction.
NEAREST = 0.2  # m of range: nearer returns are straight below, in no direction
GAP, GAP_GROWTH = 0.5, 0.02  # m, and per m of range: how much farther a beam must go that passed below a return
BENEATH = 0.15  # m below a return at which that beam must pass
LONE_RANGE, LONE_HEIGHT = 0.1, 0.3  # per m of range, and m: with no other return so near to its end, it ended alone
LONE_SHARE, LONE_FEWEST = 0.1, 8  # share and number of such beams that ended alone in a scan with strays: ignored there
MANY_SHARE = 0.05  # of the directions; more of them with returns of many beams: the sensor has more than a few layers
NEAR = 0.25  # m of range within which returns are above each other
RISE, STEEP = 0.04, 1.2  # height difference in m, and per m of range, from which they are above each other
BETWEEN = 0.02  # m: returns between two such returns, with this margin, are non-ground too
FAR, FAR_STEEP = 20.0, 0.4  # m of range from which the slope (height per range) to the next beam above suffices
BEHIND, BEHIND_LOWER = 0.8, 0.45  # m farther and lower than a non-ground return, within which a return is its underside
BEAM = 0.003  # height per range: returns that differ by less are of one beam
FAR_APART = 0.015  # height per range: two neighbouring beams that differ by more leave a large gap
WALL, WALL_RISE = 3.0, 0.2  # height per range, and m, from which two returns are of one wall
RANGE_NOISE = 0.05  # m
GROUND_SHARE = 0.03  # largest share of the gap between two beams that ground in front of the wall may take
AZIMUTH_ERROR = 2e-5  # radians
# Steep faces of low objects, seen by a low sensor on an even floor.
FACE_RETURNS = 32  # of a direction, on average, that are compared with each other
FACE_GROUND_SHARE = 0.05  # as GROUND_SHARE, for the lowest return of a face
FACE_FOOT, FACE_GROUND_SLOPE = 0.01, 0.05  # m, and per m of range, over the return in front from which it is the face's
MOST = 4  # a direction with this many times the returns of a sparse one is not filtered: it is dense enough

# Comparison with neighbouring returns, found by a hash grid of squares.
GROW, GROW_HEIGHT, GROW_FROM = 0.6, 0.08, 8  # m radius, m height: so many non-ground neighbours make a return one too
FOOT_BEFORE, FOOT_NEAR = 0.05, 0.5  # m of range before the returns above it, on average and at most, where road ends
FOOT, FOOT_HEIGHT, FOOT_FROM = 2.0, 0.05, 8  # m radius, m height: this many road neighbours make a return road
SQUARES = 64  # squares along a side of the hash grid, over which the plane is wrapped; a power of two
WIDER = 1.01  # size of a square in search radii: above 1, so that rounding never needs more than the next square
FARTHEST_SQUARE = 1e6  # limit of square numbers

# The rule for a scan, by its density.
DENSE, LAYERED_RULE, SPARSE_RULE = 0, 1, 2

_NUMBERS = {name: n for name, n in globals().items() if name.isupper() and isinstance(n, int | float)}
CONSTANTS = {name: np.float64(n) if isinstance(n, float) else n for name, n in _NUMBERS.items()}
GROUP, DIRECTION_GROUP = 256, 64  # work-items of a group over points, and over the returns of a direction


class VisibilityModel(NamedTuple):
    """Directions, and limits on the mean number of returns per direction and sensor."""

    directions: int = 655  # of 0.55 degrees; returns of one direction are compared with each other
    densest: int = 20  # up to here a scan of a few layers is sparse
    layered: int = 120  # up to here its beams are far apart: 16 or 32 layers
    beams: int = 5  # of so many the returns of a direction are at most where a sensor has a few layers

    @property
    def room(self) -> int:
        """The largest number of returns of a direction that are compared."""
        return MOST * max(self.densest, self.layered)


@cache
def borders(directions: int) -> Float64:
    """(directions + 1, 3): angle at which each direction begins, from -pi on, with its cosine and sine."""
    angle = (2 * np.arange(directions + 1) / directions - 1) * math.pi
    return np.stack([angle, np.cos(angle), np.sin(angle)], axis=1)


def table_words(config: VisibilityModel, sensors: int) -> int:
    """Words per slot of the table with counts and lists: see squares.cl."""
    return 6 + 2 * SQUARES**2 + sensors * config.directions * (1 + config.room)


def program(config: VisibilityModel, sensors: int = 1) -> Program:
    """An exact program in double precision, like the CPU kernels: the same points are marked."""
    files = tuple(f"ground/visibility/{name}.cl" for name in ("squares", "directions", "mark", "neighbours"))
    definitions = {
        **CONSTANTS,
        "GROUP": GROUP,
        "PI": np.float64(math.pi),
        "DIRECTIONS": config.directions,
        "DENSEST": config.densest,
        "BEAMS": config.beams,
        "LAYERED": config.layered,
        "ROOM": config.room,
        "SENSORS": sensors,
        "TABLE_WORDS": table_words(config, sensors),
    }
    return Program(files, definitions, {"Frame": FRAME}, exact=True)
