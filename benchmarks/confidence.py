# SPDX-License-Identifier: Apache-2.0
"""Is a wrong mounting or a wrong surface announced? Scenes with a known truth: roads, ramps, decks, rooms, halls,
desks, shelves, tunnels, car parks, sensors below a ceiling, stray returns, no ground.

A mounting is right if the height is within 0.15 m or a tenth of it, and the tilt within 3 degrees. A surface is right
if nine tenths of the cells reported within 20 m lie within 0.2 m of the true ground.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import roadbed
from benchmarks.indoor import Sight, cast, deck, low_objects, room, solid, walls
from roadbed.core.confidence import Mounting
from roadbed.core.frames import GroundFrame, Scan
from roadbed.core.geometry import Pose
from roadbed.simulate.layers import Plane, Ramp
from roadbed.simulate.motion import Fixed
from roadbed.simulate.objects import box, car, column, truck, tunnel
from roadbed.simulate.terrain import Terrain

HEIGHT_ERROR, TILT_ERROR = (0.15, 0.1), 3.0  # m and share of the height; degrees
GIVEN = ("room", "desk", "shelf")  # kinds that are tested with a given mounting, too
SURFACE_ERROR, SURFACE_SHARE, SURFACE_RADIUS = 0.2, 0.9, 20.0  # m; of the cells; m around the sensor


class Case(NamedTuple):
    kind: str
    name: str
    seen: Sight


def cases(seeds: range = range(301, 302)) -> Iterator[Case]:
    """The scenes."""
    roads = product(("city", "parking", "mountain", "highway", "offroad"), ("hdl64e", "hdl32e", "vlp16"), seeds)
    for scene, sensor, seed in roads:
        yield _simulated("road", f"{scene} {sensor} {seed}", f"sim:{scene}?sensor={sensor}&seed={seed}&frames=20", 19)
    for scene, share, seed in product(("city", "parking"), (0.02, 0.05), seeds):
        location = f"sim:{scene}?sensor=hdl64e&seed={seed}&frames=4&multipath={share}"
        yield _simulated("strays", f"{scene} {share} {seed}", location, 3)
    yield from _inside()
    yield from _built()
    yield from _roofed()
    for name, points in _nothing():
        yield Case("no ground", name, Sight(Scan(points.astype(np.float32))))


def _inside() -> Iterator[Case]:
    sensors = {"32 layers": "hdl32e", "16 layers": "vlp16"}
    for (layers, sensor), (size, height) in product(
        sensors.items(), product(((4, 4), (6, 8), (12, 15)), (0.3, 0.6, 1.2))
    ):
        yield Case("room", f"{size[0]} x {size[1]} m, {height} m, {layers}", room(sensor, size, height, seed=size[0]))
    for (layers, sensor), (table, size) in product(
        sensors.items(), product(((1.6, 0.8), (3.0, 1.6)), ((4, 4), (6, 8), (12, 15)))
    ):
        name = f"{table[0]} x {table[1]} m, {size[0]} x {size[1]} m, {layers}"
        yield Case("desk", name, room(sensor, size, 0.85, table))
    for (layers, sensor), top in product(sensors.items(), (1.1, 1.5)):
        yield Case("shelf", f"{top} m, {layers}", room(sensor, (6, 8), top + 0.1, (1.2, 0.4), seed=3, top=top))
    for sensor, height in product(("vlp32c", "vlp16"), (0.31, 0.5)):
        yield Case("low objects", f"{height} m, {sensor}", low_objects(sensor, height, seed=1))


def _built() -> Iterator[Case]:
    for sensor, span in product(("hdl32e", "vlp16"), (5.0, 9.0)):
        through = tunnel(Fixed(0.0, 0.0), span)
        yield Case("tunnel", f"{span} m, {sensor}", cast("tunnel", sensor, [through], 1.8))
    for sensor, slope in product(("hdl32e", "vlp16"), (0.08, 0.15)):
        terrain = Terrain(layers=(Plane(slope_x=slope),))
        yield Case("ramp", f"{slope}, {sensor}", cast("ramp", sensor, [tunnel(Fixed(0.0, 0.0), 9.0)], 1.8, terrain))
    for sensor, (size, level, height) in product(
        ("hdl32e", "vlp16"), (((60, 12), 5.0, 1.8), ((30, 30), 3.0, 1.8), ((8, 6), 1.2, 0.5))
    ):
        yield Case("deck", f"{size[0]} x {size[1]} m, {level} m, {sensor}", deck(sensor, size, level, height))
    for rise in (-3.0, 3.0):  # ahead of a vehicle on level ground
        terrain = Terrain(layers=(Ramp(3.0, 18.0, rise),))
        yield Case("slope ahead", f"{rise:g} m, solid state", cast("slope", "solid_state", [], 1.6, terrain))
    for height in (2.2, 3.2):
        places = product(range(-16, 17, 8), range(-10, 11, 5))
        columns = [column(x, y, 0, 0.3, height) for x, y in places if x or y]
        hall = solid("building", [*walls((40, 30), height), *columns])
        yield Case("hall", f"40 x 30 m, {height} m high, vlp16", cast("hall", "vlp16", [hall], 0.5))


def _roofed() -> Iterator[Case]:
    """Car parks and alleys; and a sensor just below a ceiling, which is taken for one that hangs over a floor."""
    for sensor, height in product(("hdl32e", "vlp16"), (0.9, 1.9)):
        columns = [column(x, y, 0, 0.3, 2.2) for x in range(-20, 21, 8) for y in range(-11, 12, 7)]
        cars = [car(Fixed(x, side * 12.0, np.pi / 2)) for x in np.arange(-18, 18, 2.6) for side in (-1, 1)]
        objects = [solid("building", [*walls((44, 30), 2.2), *columns]), *cars]
        yield Case("car park", f"{height} m, {sensor}", cast("car park", sensor, objects, height))
    for sensor, gap in product(("hdl32e", "vlp16"), (4.0, 8.0)):
        sides = [box(0, side * (gap / 2 + 0.1), 0, 40, 0.2, 4.0) for side in (-1, 1)]
        yield Case("alley", f"{gap:g} m, {sensor}", cast("alley", sensor, [solid("wall", sides)], 1.1))
    for sensor, size, ceiling in product(("hdl32e", "vlp16"), ((4, 5), (14, 20)), (2.5, 4.0)):
        hall = cast("hall", sensor, [solid("building", walls(size, ceiling))], ceiling - 0.3)
        yield Case("below a ceiling", f"{size[0]} x {size[1]} m, {ceiling:g} m high, {sensor}", hall)


def _nothing() -> Iterator[tuple[str, NDArray[Any]]]:
    """Points without ground."""
    random = np.random.default_rng(0)
    yield "ball", random.normal(0, 3, (20_000, 3))
    yield "wall", random.uniform([5, -8, -1], [5.02, 8, 6], (20_000, 3))
    yield "crown", random.uniform([-6, -6, 4], [6, 6, 9], (20_000, 3))
    yield "cloud", random.uniform([-30, -30, -20], [30, 30, 20], (20_000, 3))
    wire, y = random.integers(0, 6, 20_000), random.uniform(-30, 30, 20_000)
    wires = np.stack([1.5 * wire - 4, y, 6 + wire % 3 + 0.002 * y**2], axis=1)
    yield "wires", wires + random.normal(0, 0.03, wires.shape)
    for layers in ((-25, 10), (0, 15)):  # degrees
        azimuth, elevation = random.uniform(0, 2 * np.pi, 2000), np.radians(random.uniform(*layers, 2000))
        across = np.stack([np.cos(azimuth), np.sin(azimuth), np.tan(elevation)], axis=1)
        yield f"rain, {layers[0]} to {layers[1]} degrees", random.exponential(5, (2000, 1)) * across
    for sensor, distance in (("hdl32e", 9.0), ("vlp16", 7.0)):
        seen = cast("lorry", sensor, [truck(Fixed(distance, 2.0, 2.0))], 1.5)
        assert seen.truth is not None
        yield f"lorry, {sensor}", seen.scan.points[~seen.truth.is_ground]


def confidence_rows(seeds: range = range(301, 302)) -> Iterator[dict[str, Any]]:
    """One row per scene, and for scenes indoors one more with the mounting given: there the surface counts alone."""
    for case in cases(seeds):
        yield row_of(case, roadbed.GroundFilter()(case.seen.scan))
        if case.kind in GIVEN:
            given = replace(case.seen.scan, T_vehicle_sensor=case.seen.T_ground_sensor)
            yield row_of(case._replace(kind=f"{case.kind}, given"), roadbed.GroundFilter()(given))


def row_of(case: Case, frame: GroundFrame) -> dict[str, Any]:
    """What a frame says of a scene, and what is true."""
    truth, confidence = case.seen.T_ground_sensor, frame.confidence
    mounting, surface = is_right(frame.mounting, truth), surface_is_right(frame, case.seen)
    return {
        "kind": case.kind,
        "scene": case.name,
        "height_m": None if truth is None else round(truth.xyz[2], 2),
        "found_m": round(frame.mounting.height, 2),
        "mounting": round(confidence.mounting, 2),
        "surface": round(confidence.surface, 2),
        "mounting_right": mounting,
        "surface_right": surface,
        "right": mounting and surface,
        "sure": confidence.is_sure,
    }


def is_right(found: Mounting, T_ground_sensor: Pose | None) -> bool:
    """Whether height and tilt are those of the truth."""
    if T_ground_sensor is None:
        return False
    height = T_ground_sensor.xyz[2]
    cosine = float(found.T_vehicle_sensor.rotation[2] @ T_ground_sensor.rotation[2])
    tilt = np.degrees(np.arccos(min(1.0, max(-1.0, cosine))))
    return bool(abs(found.height - height) <= max(HEIGHT_ERROR[0], HEIGHT_ERROR[1] * height) and tilt <= TILT_ERROR)


def surface_is_right(frame: GroundFrame, seen: Sight) -> bool:
    """Whether nearly all cells reported around the sensor lie on the true ground; False: nothing is reported."""
    x, y = frame.grid.mesh()
    middle = frame.T_grid_sensor.xyz
    reported = np.isfinite(frame.elevation) & (np.hypot(x - middle[0], y - middle[1]) < SURFACE_RADIUS)
    error = np.abs(frame.elevation - seen.elevation(frame.grid, frame.T_grid_sensor))[reported]
    return bool(len(error)) and bool(np.mean(error < SURFACE_ERROR) >= SURFACE_SHARE)


def _simulated(kind: str, name: str, location: str, index: int) -> Case:
    source: Any = roadbed.open(f"{location}&mounting=unknown")
    truth = source.truth(index)
    mounted = truth.T_world_vehicle.inverse() @ truth.T_world_sensor
    return Case(kind, name, Sight(Scan(source[index].points), mounted, truth))
