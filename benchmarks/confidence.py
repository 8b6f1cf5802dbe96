# SPDX-License-Identifier: Apache-2.0
"""Is a wrong mounting announced? Scenes with a known mounting: roads, rooms, desks, tunnels, stray returns, no ground.

A result is right if the height is within 0.15 m or a tenth of it, and the tilt within 3 degrees. It is sure if no
diagnostic doubts the mounting.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import roadbed
from roadbed.core.frames import Mounting, Scan
from roadbed.core.geometry import Pose
from roadbed.simulate.motion import Fixed
from roadbed.simulate.objects import SceneObject, box, tunnel
from roadbed.simulate.sensors import Mount, Rig, Sensor, load_rig
from roadbed.simulate.sequence import SimulatedSequence
from roadbed.simulate.terrain import Terrain
from roadbed.simulate.world import Scene
from roadbed.sources.simulator import SimulatorSource

DOUBTS = ("is doubtful", "not found", "upside down", "no ground", "camera axes", "millimetres", "no sensor")
HEIGHT_ERROR, TILT_ERROR = (0.15, 0.1), 3.0  # m and share of the height; degrees
CEILING = 2.5  # m


class Case(NamedTuple):
    kind: str
    name: str
    points: np.ndarray
    T_ground_sensor: Pose | None  # None: there is no ground


def cases(seeds: range = range(301, 303)) -> Iterator[Case]:
    """The scenes."""
    roads = product(("city", "parking", "mountain", "highway", "offroad"), ("hdl64e", "hdl32e", "vlp16"), seeds)
    for scene, sensor, seed in roads:
        yield _simulated("road", f"{scene} {sensor} {seed}", f"sim:{scene}?sensor={sensor}&seed={seed}&frames=20", 19)
    for scene, share, seed in product(("city", "parking"), (0.02, 0.05), seeds):
        location = f"sim:{scene}?sensor=hdl64e&seed={seed}&frames=4&multipath={share}"
        yield _simulated("strays", f"{scene} {share} {seed}", location, 3)
    indoor = {"32 layers": "hdl32e", "16 layers": "vlp16"}
    for (layers, sensor), (size, height) in product(
        indoor.items(), product(((4, 4), (6, 8), (12, 15)), (0.3, 0.6, 1.2))
    ):
        yield _inside("room", f"{size[0]} x {size[1]} m, {height} m, {layers}", sensor, size, height, seed=size[0])
    for (layers, sensor), (desk, size) in product(indoor.items(), product(((1.6, 0.8), (3.0, 1.6)), ((4, 4), (6, 8)))):
        yield _inside("desk", f"{desk[0]} x {desk[1]} m, {size[0]} x {size[1]} m, {layers}", sensor, size, 0.85, desk)
    for sensor, span in product(("hdl32e", "vlp16"), (5.0, 9.0)):
        through = tunnel(Fixed(0.0, 0.0), span)
        yield _cast(
            "tunnel", f"{span} m, {sensor}", sensor, Scene("tunnel", Terrain(), (through,), Fixed(0, 0), 1.0), 1.8
        )
    random = np.random.default_rng(0)
    yield Case("no ground", "ball", random.normal(0, 3, (20_000, 3)), None)
    wall = random.uniform([5, -8, -1], [5.02, 8, 6], (20_000, 3))
    yield Case("no ground", "wall", wall, None)
    yield Case("no ground", "crown", random.uniform([-6, -6, 4], [6, 6, 9], (20_000, 3)), None)


def confidence_rows(seeds: range = range(301, 303)) -> Iterator[dict[str, Any]]:
    """One row per scene."""
    for case in cases(seeds):
        frame = roadbed.GroundFilter()(Scan(case.points.astype(np.float32)))
        yield {
            "kind": case.kind,
            "scene": case.name,
            "height_m": None if case.T_ground_sensor is None else round(case.T_ground_sensor.xyz[2], 2),
            "found_m": round(frame.mounting.height, 2),
            "confidence": round(frame.mounting.quality, 2),
            "right": is_right(frame.mounting, case.T_ground_sensor),
            "sure": not any(doubt in note for note in frame.diagnostics for doubt in DOUBTS),
        }


def is_right(found: Mounting, T_ground_sensor: Pose | None) -> bool:
    """Whether height and tilt are those of the truth."""
    if T_ground_sensor is None:
        return False
    height = T_ground_sensor.xyz[2]
    cosine = float(found.T_vehicle_sensor.rotation[2] @ T_ground_sensor.rotation[2])
    tilt = np.degrees(np.arccos(min(1.0, max(-1.0, cosine))))
    return bool(abs(found.height - height) <= max(HEIGHT_ERROR[0], HEIGHT_ERROR[1] * height) and tilt <= TILT_ERROR)


def _simulated(kind: str, name: str, location: str, index: int) -> Case:
    source: Any = roadbed.open(f"{location}&mounting=unknown")
    truth = source.truth(index)
    return Case(kind, name, source[index].points, truth.T_world_vehicle.inverse() @ truth.T_world_sensor)


def _inside(
    kind: str,
    name: str,
    sensor: str,
    size: tuple[float, float],
    height: float,
    desk: tuple[float, float] | None = None,
    seed: int = 0,
) -> Case:
    """A room with cupboards and tables; with a `desk` (m) the sensor stands on it, 0.1 m over a top at 0.75 m."""
    (length, width), random = size, np.random.default_rng(seed)
    parts = [
        box(0, 0, CEILING, length + 1, width + 1, 0.2),
        *(box(side * (length / 2 + 0.1), 0, 0, 0.2, width + 0.4, CEILING) for side in (-1, 1)),
        *(box(0, side * (width / 2 + 0.1), 0, length + 0.4, 0.2, CEILING) for side in (-1, 1)),
    ]
    for _ in range(int(length * width / 6)):
        x, y = random.uniform(-0.5, 0.5, 2) * (length - 1, width - 1)
        if max(abs(x), abs(y)) > 1.2:
            parts.append(box(x, y, 0, 0.8, 0.4, random.choice((0.45, 1.2, 1.8))))
    if desk:
        parts.append(box(0, 0, 0.72, *desk, 0.03))
        parts += [box(0.3, side * 0.3, 0.75, 0.2, 0.2, 0.15) for side in (-1, 1)]  # a cup and a notebook
    room = SceneObject("building", tuple(parts), Fixed(0.0, 0.0), length, width, CEILING)
    return _cast(kind, name, sensor, Scene("room", Terrain(), (room,), Fixed(0.0, 0.0), 1.0), height)


def _cast(kind: str, name: str, sensor: str, scene: Scene, height: float) -> Case:
    """One scan of a level sensor at this height."""
    model: Sensor = load_rig(sensor).sensors[0].with_changes(mount=Mount(z=height), range_min=0.1)
    source = SimulatorSource.of(SimulatedSequence(scene, Rig.of(model), frames=1, seed=1))
    return Case(kind, name, source[0].points, Pose.from_euler(z=height))
