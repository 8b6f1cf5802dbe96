# SPDX-License-Identifier: Apache-2.0
"""Static and moving objects: composites of boxes, cylinders and ellipsoids with real dimensions."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from roadbed.core.errors import ConfigError
from roadbed.core.geometry import Pose
from roadbed.simulate.motion import Path
from roadbed.simulate.rng import RandomStream
from roadbed.simulate.solids import BOX, CYLINDER, ELLIPSOID, Solids

HARD = math.inf

# SemanticKITTI class of a kind, static and moving.
SEMANTICS = {
    "car": (10, 252),
    "truck": (18, 258),
    "cyclist": (31, 253),
    "pedestrian": (30, 254),
    "building": (50, 50),
    "wall": (50, 50),
    "fence": (51, 51),
    "bridge": (52, 52),
    "tree": (71, 71),
    "bush": (70, 70),
    "pole": (80, 80),
    "obstacle": (99, 99),
}
_CROWN = 70


@dataclass(frozen=True)
class Part:
    """One solid of an object, in the object's frame (x forward, z up, origin on the ground)."""

    shape: int  # BOX, CYLINDER (along its z axis) or ELLIPSOID
    centre: tuple[float, float, float]
    half: tuple[float, float, float]  # half sizes or radii, m
    pitch: float = 0.0  # rad, applied after roll
    roll: float = 0.0
    density: float = HARD  # 1/m, chance per metre to stop a ray
    reflectivity: float = 0.4
    semantic: int = 0  # 0: that of the object

    def __post_init__(self) -> None:
        if min(self.half) <= 0:
            raise ConfigError(f"part half sizes {self.half}: expected numbers above 0 m")
        if not self.density > 0:
            raise ConfigError(f"part density {self.density}: expected a number above 0 per metre")


@dataclass(frozen=True)
class SceneObject:
    """A composite with an identity and a path. Its frame follows the ground."""

    kind: str
    parts: tuple[Part, ...]
    path: Path
    length: float  # m, of its footprint
    width: float
    height: float
    leans: bool = False  # with the slope under it; else it is upright

    def __post_init__(self) -> None:
        if self.kind not in SEMANTICS:
            raise ConfigError(f"object of kind {self.kind!r}: expected one of {', '.join(SEMANTICS)}")

    @property
    def base(self) -> tuple[float, float]:
        """Length and width of the base it rests on, m."""
        return max(0.6 * self.length, 0.4), max(0.8 * self.width, 0.4)

    @cached_property
    def solids(self) -> Solids:
        """The parts as arrays, in the object's frame."""
        poses = [Pose.from_euler(*part.centre, pitch=part.pitch, roll=part.roll) for part in self.parts]
        return Solids(
            np.array([part.shape for part in self.parts], np.int8),
            np.array([pose.translation for pose in poses]),
            np.array([pose.rotation.T for pose in poses]),
            np.array([part.half for part in self.parts], np.float64),
            np.array([part.density for part in self.parts], np.float64),
            np.array([part.reflectivity for part in self.parts], np.float64),
            np.zeros(len(self.parts), np.int32),
            np.array([part.semantic or SEMANTICS[self.kind][0] for part in self.parts], np.uint16),
        )


def strewn(rng: RandomStream, first: float, last: float, gap: tuple[float, float], density: float) -> Iterator[float]:
    """Random places along x, the more the higher the `density`; gaps (m) are those at a density of 1."""
    x = first
    while density > 0 and x < last:
        x += rng.uniform(*gap) / density
        yield x


def box(x: float, y: float, z: float, length: float, width: float, height: float, **values: float) -> Part:
    """A box whose bottom middle is at (x, y, z)."""
    return Part(BOX, (x, y, z + height / 2), (length / 2, width / 2, height / 2), **values)  # type: ignore[arg-type]


def column(x: float, y: float, z: float, radius: float, height: float, **values: float) -> Part:
    """An upright cylinder whose bottom middle is at (x, y, z)."""
    return Part(CYLINDER, (x, y, z + height / 2), (radius, radius, height / 2), **values)  # type: ignore[arg-type]


def ball(x: float, y: float, z: float, a: float, b: float, c: float, **values: float) -> Part:
    """An ellipsoid around (x, y, z)."""
    return Part(ELLIPSOID, (x, y, z), (a, b, c), **values)  # type: ignore[arg-type]


def _wheel(x: float, y: float, radius: float, width: float) -> Part:
    return Part(CYLINDER, (x, y, radius), (radius, radius, width / 2), roll=math.pi / 2, reflectivity=0.1)


def car(path: Path, *, scale: float = 1.0, reflectivity: float = 0.5) -> SceneObject:
    """A hatchback of 4.2 x 1.78 x 1.5 m: body 0.18 m above the road, narrower cabin, bonnet and boot, four wheels."""
    length, width, height = 4.2 * scale, 1.78 * scale, 1.5 * scale
    wheel, axle, track = 0.31 * scale, 1.28 * scale, 0.76 * scale
    parts = (
        box(0.0, 0.0, 0.18 * scale, length, width * 0.96, 0.34 * scale, reflectivity=reflectivity),
        box(0.0, 0.0, 0.52 * scale, length * 0.97, width, 0.26 * scale, reflectivity=reflectivity),
        box(0.95 * scale, 0.0, 0.78 * scale, 1.5 * scale, width * 0.9, 0.12 * scale, reflectivity=reflectivity),
        box(-0.45 * scale, 0.0, 0.78 * scale, 2.5 * scale, width * 0.9, 0.3 * scale, reflectivity=0.3),
        box(-0.5 * scale, 0.0, 1.08 * scale, 1.8 * scale, width * 0.82, height - 1.08 * scale, reflectivity=0.3),
        *(_wheel(x, y, wheel, 0.2 * scale) for x in (-axle, axle) for y in (-track, track)),
    )
    return SceneObject("car", parts, path, length, width, height, leans=True)


def truck(path: Path) -> SceneObject:
    """A box truck of 7.6 x 2.4 x 3.2 m: cab, load box 0.9 m above the road, six wheels."""
    parts = (
        box(2.85, 0.0, 0.45, 1.7, 2.2, 2.0),
        box(-0.95, 0.0, 0.9, 5.7, 2.4, 2.3, reflectivity=0.6),
        box(-0.5, 0.0, 0.55, 6.0, 0.8, 0.3, reflectivity=0.2),
        *(_wheel(x, y, 0.45, 0.3) for x in (-2.6, -1.5, 2.6) for y in (-1.0, 1.0)),
    )
    return SceneObject("truck", parts, path, 7.6, 2.4, 3.2, leans=True)


def cyclist(path: Path) -> SceneObject:
    """A bicycle with its rider, 1.75 x 0.55 x 1.75 m."""
    parts = (
        _wheel(-0.52, 0.0, 0.34, 0.04),
        _wheel(0.52, 0.0, 0.34, 0.04),
        Part(BOX, (0.0, 0.0, 0.55), (0.5, 0.03, 0.06), pitch=-0.2),
        Part(CYLINDER, (-0.02, 0.12, 0.62), (0.07, 0.07, 0.4), pitch=0.2),
        Part(CYLINDER, (-0.02, -0.12, 0.62), (0.07, 0.07, 0.4), pitch=-0.1),
        Part(BOX, (0.0, 0.0, 1.22), (0.14, 0.22, 0.32), pitch=0.55),
        Part(BOX, (0.32, 0.0, 1.15), (0.25, 0.25, 0.06), pitch=0.5),
        ball(0.22, 0.0, 1.62, 0.12, 0.1, 0.14),
    )
    return SceneObject("cyclist", parts, path, 1.75, 0.55, 1.76, leans=True)


def pedestrian(path: Path, *, height: float = 1.72) -> SceneObject:
    """A walking person: legs apart, body, arms, head."""
    scale = height / 1.72
    parts = (
        Part(CYLINDER, (0.12 * scale, 0.1, 0.42 * scale), (0.08, 0.08, 0.43 * scale), pitch=-0.25),
        Part(CYLINDER, (-0.12 * scale, -0.1, 0.42 * scale), (0.08, 0.08, 0.43 * scale), pitch=0.25),
        Part(CYLINDER, (0.0, 0.0, 1.13 * scale), (0.14, 0.2, 0.32 * scale)),
        Part(CYLINDER, (0.05, 0.25, 1.1 * scale), (0.05, 0.05, 0.3 * scale), pitch=-0.2),
        Part(CYLINDER, (-0.05, -0.25, 1.1 * scale), (0.05, 0.05, 0.3 * scale), pitch=0.2),
        ball(0.0, 0.0, 1.58 * scale, 0.11, 0.09, 0.14 * scale),
    )
    return SceneObject("pedestrian", parts, path, 0.55, 0.6, height)


def building(path: Path, length: float, width: float, height: float) -> SceneObject:
    """A house with a plinth, protruding window bays and a flat roof; it reaches below the ground."""
    bays = max(1, int(length // 6))
    bay_y = [box((i + 0.5) * length / bays - length / 2, 0.0, 3.0, 2.2, width + 0.8, height - 4.5) for i in range(bays)]
    parts = (box(0.0, 0.0, -3.0, length, width, height + 3.0, reflectivity=0.35), *bay_y)
    return SceneObject("building", parts, path, length, width, height)


def wall(path: Path, length: float, height: float = 2.0, thickness: float = 0.25) -> SceneObject:
    return SceneObject("wall", (box(0.0, 0.0, -1.0, length, thickness, height + 1.0),), path, length, thickness, height)


def guard_rail(path: Path, length: float = 4.0) -> SceneObject:
    """A rail 0.45-0.75 m above the ground on posts every two metres."""
    rail = box(0.0, 0.0, 0.45, length, 0.06, 0.3, reflectivity=0.7)
    posts = [box(x, 0.0, -0.5, 0.08, 0.08, 1.2) for x in (-length / 4, length / 4)]
    return SceneObject("fence", (rail, *posts), path, length, 0.1, 0.75, leans=True)


def pole(path: Path, height: float = 6.0, radius: float = 0.09) -> SceneObject:
    """A lamp post with its arm."""
    parts = (column(0.0, 0.0, -0.5, radius, height + 0.5, reflectivity=0.5), box(0.5, 0.0, height, 1.3, 0.12, 0.1))
    return SceneObject("pole", parts, path, 2 * radius, 2 * radius, height)


def sign(path: Path) -> SceneObject:
    """A road sign: a thin post with a plate from 2.1 m."""
    parts = (column(0.0, 0.0, -0.3, 0.04, 2.9), box(0.05, 0.0, 2.1, 0.03, 0.6, 0.6, reflectivity=0.95))
    return SceneObject("pole", parts, path, 0.1, 0.6, 2.7)


def tree(path: Path, height: float = 8.0, crown: float = 2.6) -> SceneObject:
    """A trunk under a loose crown that overhangs from about 2.6 m."""
    trunk = column(0.0, 0.0, -0.5, 0.04 * crown + 0.07, height * 0.55 + 0.5, semantic=71, reflectivity=0.35)
    middle = 2.6 + (height - 2.6) / 2
    loose = {"density": 0.9, "semantic": _CROWN, "reflectivity": 0.5}
    parts = (
        trunk,
        ball(0.0, 0.0, middle, crown, crown, (height - 2.6) / 2, **loose),
        ball(0.5 * crown, 0.3 * crown, middle - 0.3, 0.6 * crown, 0.6 * crown, 0.5 * crown, **loose),
    )
    return SceneObject("tree", parts, path, 2 * crown, 2 * crown, height)


def bush(path: Path, radius: float = 0.8, height: float = 1.1) -> SceneObject:
    shape = ball(0.0, 0.0, height * 0.4, radius, radius, height * 0.6, density=3.0, reflectivity=0.5)
    return SceneObject("bush", (shape,), path, 2 * radius, 2 * radius, height)


def bridge(path: Path, span: float, width: float = 9.0, clearance: float = 4.6) -> SceneObject:
    """A deck across the path with abutments and parapets; the road passes under it between them."""
    parts = (
        box(0.0, 0.0, clearance, width, span + 4.0, 0.9, reflectivity=0.35),
        box(0.0, span / 2 + 1.0, -2.0, width, 2.0, clearance + 2.0, reflectivity=0.35),
        box(0.0, -span / 2 - 1.0, -2.0, width, 2.0, clearance + 2.0, reflectivity=0.35),
        box(width / 2 - 0.15, 0.0, clearance + 0.9, 0.3, span + 4.0, 0.9, reflectivity=0.35),
        box(-width / 2 + 0.15, 0.0, clearance + 0.9, 0.3, span + 4.0, 0.9, reflectivity=0.35),
    )
    return SceneObject("bridge", parts, path, width, span + 4.0, clearance + 1.8)


def tunnel(path: Path, span: float, length: float = 40.0, clearance: float = 4.8) -> SceneObject:
    """Two walls and a ceiling along the path."""
    parts = (
        box(0.0, 0.0, clearance, length, span + 1.0, 0.6, reflectivity=0.3),
        box(0.0, span / 2 + 0.25, -1.0, length, 0.5, clearance + 1.0, reflectivity=0.3),
        box(0.0, -span / 2 - 0.25, -1.0, length, 0.5, clearance + 1.0, reflectivity=0.3),
    )
    return SceneObject("bridge", parts, path, length, span + 1.0, clearance + 0.6, leans=True)


def low_box(path: Path, height: float = 0.3) -> SceneObject:
    """A carton on the road."""
    parts = (box(0.0, 0.0, -0.02, 0.45, 0.35, height + 0.02),)
    return SceneObject("obstacle", parts, path, 0.45, 0.35, height, leans=True)


def stone(path: Path, height: float = 0.25) -> SceneObject:
    """A stone, half sunk: an ellipsoid that shows `height`."""
    parts = (ball(0.0, 0.0, height * 0.4, height * 0.8, height * 0.65, height * 0.6, reflectivity=0.3),)
    return SceneObject("obstacle", parts, path, height * 1.6, height * 1.3, height, leans=True)


def tyre(path: Path) -> SceneObject:
    """A tyre lying flat: 0.62 m across, 0.22 m high."""
    parts = (column(0.0, 0.0, -0.02, 0.31, 0.24, reflectivity=0.15),)
    return SceneObject("obstacle", parts, path, 0.62, 0.62, 0.22, leans=True)


def kerb_stone(path: Path, height: float = 0.2) -> SceneObject:
    """A kerb stone of a metre lying on the road."""
    parts = (box(0.0, 0.0, -0.02, 1.0, 0.25, height + 0.02, reflectivity=0.4),)
    return SceneObject("obstacle", parts, path, 1.0, 0.25, height, leans=True)
