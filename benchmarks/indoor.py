# SPDX-License-Identifier: Apache-2.0
"""Simulated rooms, desks, decks and low objects around one sensor, with the truth of mounting, points and elevation."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.frames import Scan
from roadbed.core.geometry import Float64, Grid, Pose
from roadbed.ground import GroundFilter
from roadbed.simulate.motion import Fixed
from roadbed.simulate.objects import Part, SceneObject, box, column
from roadbed.simulate.sensors import Mount, Rig, Sensor, load_rig
from roadbed.simulate.sequence import SimulatedSequence
from roadbed.simulate.terrain import Terrain
from roadbed.simulate.truth import FrameTruth
from roadbed.simulate.world import Scene

CEILING = 2.5  # m
_VLP32C = (
    "-25 -15.639 -11.31 -8.843 -7.254 -6.148 -5.333 -4.667 -4 -3.667 -3.333 -3 -2.667 -2.333 -2 -1.667 -1.333 -1 "
    "-0.667 -0.333 0 0.333 0.667 1 1.333 1.667 2.333 3.333 4.667 7 10.333 15"
)  # degrees of its layers
VLP32C = Sensor(
    name="vlp32c", elevations=tuple(map(float, _VLP32C.split())), columns=1800, range_max=200.0, range_noise=0.02
)


class Deck(NamedTuple):
    """A level surface that the sensor's vehicle drives on, above the terrain."""

    level: float  # m
    length: float  # m along x, around the sensor
    width: float


class Sight(NamedTuple):
    """One scan and its truth; None: there is no ground."""

    scan: Scan
    T_ground_sensor: Pose | None = None
    truth: FrameTruth | None = None
    deck: Deck | None = None

    def elevation(self, grid: Grid, T_grid_sensor: Pose) -> Float64:
        """(rows, columns) m, the true ground at the nodes of a grid; NaN: none."""
        if self.truth is None:
            return np.full(grid.shape, np.nan)
        found = self.truth.elevation(grid, T_grid_sensor)
        if self.deck:  # level, and so is the sensor
            x, y = grid.mesh()
            middle, half = T_grid_sensor.xyz, grid.spacing / 2  # a cell of which a part lies on the deck counts as deck
            along, across = self.deck.length / 2 + half, self.deck.width / 2 + half
            inside = (np.abs(x - middle[0]) < along) & (np.abs(y - middle[1]) < across)
            found = np.where(inside, found + self.deck.level, found)
        return found


def sensor_model(name: str) -> Sensor:
    """A sensor by name; also vlp32c."""
    return VLP32C if name == "vlp32c" else load_rig(name).sensors[0]


def cast(
    name: str, sensor: str, objects: Sequence[SceneObject], height: float, terrain: Terrain | None = None
) -> Sight:
    """One scan of a level sensor at this height."""
    model = sensor_model(sensor).with_changes(mount=Mount(z=height), range_min=0.1)
    scene = Scene(name, terrain or Terrain(), tuple(objects), Fixed(0.0, 0.0), 1.0)
    scan, truth = SimulatedSequence(scene, Rig.of(model), frames=1, seed=1, mounting_known=False).frame(0)
    return Sight(Scan(scan.points), Pose.from_euler(z=height), truth)


def solid(kind: str, parts: Sequence[Part], x: float = 0.0, y: float = 0.0) -> SceneObject:
    """A fixed object of these parts."""
    return SceneObject(kind, tuple(parts), Fixed(x, y), 1.0, 1.0, 1.0)


def walls(size: tuple[float, float], height: float = CEILING) -> list[Part]:
    """Four walls and a ceiling around the origin."""
    length, width = size
    return [
        box(0, 0, height, length + 1, width + 1, 0.2),
        *(box(side * (length / 2 + 0.1), 0, 0, 0.2, width + 0.4, height) for side in (-1, 1)),
        *(box(0, side * (width / 2 + 0.1), 0, length + 0.4, 0.2, height) for side in (-1, 1)),
    ]


def room(
    sensor: str,
    size: tuple[float, float],
    height: float,
    desk: tuple[float, float] | None = None,
    seed: int = 0,
    top: float = 0.75,
) -> Sight:
    """A room with cupboards and tables; with a `desk` (m), whose `top` is so high, the sensor stands on it."""
    (length, width), random = size, np.random.default_rng(seed)
    parts = walls(size)
    for _ in range(int(length * width / 6)):
        x, y = random.uniform(-0.5, 0.5, 2) * (length - 1, width - 1)
        if max(abs(x), abs(y)) > 1.2:
            parts.append(box(x, y, 0, 0.8, 0.4, random.choice((0.45, 1.2, 1.8))))
    if desk:
        parts.append(box(0, 0, top - 0.03, *desk, 0.03))
        parts += [box(0.3, side * 0.3, top, 0.2, 0.2, 0.15) for side in (-1, 1)]  # a cup and a notebook
    return cast("room", sensor, [solid("building", parts)], height)


def deck(sensor: str, size: tuple[float, float], level: float, height: float) -> Sight:
    """A deck (bridge, upper level of a car park, loading dock) over a yard, with parapets along two sides."""
    length, width = size
    parts = [box(0, 0, level - 0.3, length, width, 0.3)]
    parts += [box(0, side * (width / 2 - 0.1), level, length, 0.2, 0.9) for side in (-1, 1)]
    seen = cast("deck", sensor, [solid("bridge", parts)], level + height)
    return seen._replace(T_ground_sensor=Pose.from_euler(z=height), deck=Deck(level, length, width))


LOW_KINDS = {"box": "obstacle", "legs": "pole", "parapet": "fence"}  # what is scored, and the simulator's class


def low_objects(sensor: str, height: float, seed: int, size: tuple[float, float] = (12.0, 14.0)) -> Sight:
    """A hall with boxes of 0.1 to 0.5 m, chairs and tables on legs, and a parapet of 0.4 m."""
    random = np.random.default_rng(seed)
    objects = [solid("building", walls(size, 4.0)), solid("fence", [box(0, 0, 0, 4.0, 0.2, 0.4)], 0.5, -4.5)]
    taken = [(0.0, 0.0), (0.5, -4.5), (2.0, -4.5), (-1.0, -4.5)]
    for index in range(16):
        for _ in range(100):
            x, y = random.uniform(-0.5, 0.5, 2) * (size[0] - 1.5, size[1] - 1.5)
            if min(np.hypot(x - a, y - b) for a, b in taken) > 1.3:
                break
        taken.append((x, y))
        if index % 2:
            seat, half = random.choice((0.45, 0.72)), random.uniform(0.2, 0.4)
            legs = [column(i * half, j * half, 0, 0.025, seat) for i in (-1, 1) for j in (-1, 1)]
            objects.append(solid("pole", [*legs, box(0, 0, seat, 2 * half + 0.1, 2 * half + 0.1, 0.03)], x, y))
        else:
            tall = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5)[index // 2 % 6]
            objects.append(solid("obstacle", [box(0, 0, 0, *random.uniform(0.2, 0.6, 2), tall)], x, y))
    return cast("hall", sensor, objects, height)


def low_points(seen: Sight) -> dict[str, NDArray[np.bool_]]:
    """(N,) which points lie on low objects, by kind; those of seats and table tops are not among them."""
    truth = seen.truth
    assert truth is not None
    kinds = np.array(["", *(obj.kind for obj in truth.scene.objects)])[truth.object_id]
    is_low = truth.points_world[:, 2] < 0.5
    return {name: is_low & (kinds == kind) for name, kind in LOW_KINDS.items()}


def low_rows(seeds: range = range(1, 3)) -> Iterator[dict[str, Any]]:
    """One row per sensor and height: % of the points on low objects that are not ground, and of the floor that is."""
    for sensor, height in product(("vlp32c", "vlp16", "hdl32e"), (0.31, 0.5)):
        shares: dict[str, list[float]] = {}
        for seed in seeds:
            seen = low_objects(sensor, height, seed)
            assert seen.truth is not None
            is_ground, low = GroundFilter()(seen.scan).is_ground, low_points(seen)
            for kind, points in {**low, "all": np.any(list(low.values()), axis=0)}.items():
                shares.setdefault(kind, []).append(100 * float(np.mean(~is_ground[points])))
            shares.setdefault("floor", []).append(100 * float(np.mean(is_ground[seen.truth.is_ground])))
        yield {
            "sensor": sensor,
            "height_m": height,
            **{kind: round(float(np.mean(v)), 1) for kind, v in shares.items()},
        }
