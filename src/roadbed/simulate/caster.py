# SPDX-License-Identifier: Apache-2.0
"""One sweep of one sensor: a ray per firing against ground and solids, then the errors of a real scanner."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float64, Pose
from roadbed.kernels.jit import merged, njit
from roadbed.kernels.numeric import NO, YES, max, min
from roadbed.kernels.parallel import parallel_for
from roadbed.kernels.scratch import scratch
from roadbed.simulate import heightfield
from roadbed.simulate.ground_ray import Bounds, meet_ground
from roadbed.simulate.rng import make_key, normal, uniform
from roadbed.simulate.sensors import Sensor
from roadbed.simulate.solids import Movements, SolidIndex, Solids, facing_of, meet_solids

GROUND, NOTHING = -1, -2  # values of `Sweep.part` that are not rows of the solids
_GROUND_REFLECTIVITY = 0.25
_RAYS = np.int64(1)  # stream of the keys of rays
# Numbers of the draws of a ray; a normal number uses two.
_DEPTH, _DROPOUT, _DETECTION, _RANGE, _MULTIPATH, _DETOUR, _AZIMUTH, _ELEVATION = map(
    np.int64, (0, 1, 2, 3, 5, 6, 8, 10)
)


class Sweep(NamedTuple):
    """One entry per return, in firing order. Points lie in the sensor frame of their firing."""

    points: NDArray[np.float32]  # (N, 3) m, as measured
    exact: NDArray[np.float64]  # (N, 3) m, in the world at the firing's instant, where the ray truly ended
    part: NDArray[np.int32]  # row of the solids, or GROUND
    spurious: NDArray[np.bool_]  # a multipath return: measured below the ground
    intensity: NDArray[np.float32]  # 0 to 1
    ring: NDArray[np.uint16]
    column: NDArray[np.int32]


class _Firings(NamedTuple):
    azimuths: Float64  # (columns,)
    elevations: Float64  # (layers,)
    lags: Float64  # (columns,) s
    rotations: Float64  # (columns, 3, 3)
    origins: Float64  # (columns, 3)


class CastScene(NamedTuple):
    """What rays can hit at one instant."""

    field: heightfield.Field
    bounds: Bounds
    solids: Solids
    movements: Movements
    grid: SolidIndex


class _Errors(NamedTuple):
    range_noise: float
    angle_noise: float  # rad
    dropout: float
    multipath: float
    detection: bool  # whether weak echoes are lost
    range_10_percent: float
    range_min: float
    range_max: float


def cast_sweep(
    sensor: Sensor,
    T_world_sensor: Pose,
    velocity: Float64,
    rate: Float64,
    scene: CastScene,
    *,
    key: np.uint64,
    distortion: bool = False,
    multipath: float = 0.0,
    losses: bool = True,
) -> Sweep:
    """Cast every firing. `velocity` (world, m/s) and `rate` (sensor frame, rad/s) act only with `distortion`."""
    lags = sensor.lags() if distortion else np.zeros(sensor.columns)
    firings = _Firings(
        sensor.azimuths(),
        np.radians(sensor.elevations),
        lags,
        T_world_sensor.rotation @ _turns(rate, lags),
        T_world_sensor.translation + lags[:, None] * velocity,
    )
    errors = _Errors(
        sensor.range_noise,
        math.radians(sensor.angle_noise),
        sensor.dropout if losses else 0.0,
        multipath,
        losses,
        sensor.range_10_percent,
        sensor.range_min,
        sensor.range_max,
    )
    columns, layers = len(firings.azimuths), len(firings.elevations)
    points, exact = (np.zeros((columns, layers, 3), number) for number in (np.float32, np.float64))
    part, spurious = np.full((columns, layers), NOTHING, np.int32), np.zeros((columns, layers), np.bool_)
    returns = points, exact, part, spurious, np.zeros((columns, layers), np.float32)  # of every firing, as in `Sweep`
    parallel_for(_cast, columns, firings, scene, errors, key, returns)
    kept = np.flatnonzero(part.ravel() != NOTHING)
    found: list[Any] = [values.reshape(-1, *values.shape[2:])[kept] for values in returns]
    return Sweep._make([*found, (kept % layers).astype(np.uint16), (kept // layers).astype(np.int32)])


def _turns(rate: Float64, lags: Float64) -> Float64:
    """(n, 3, 3) rotations by `rate * lag` (Rodrigues)."""
    speed = float(np.linalg.norm(rate))
    if speed < 1e-12:
        return np.broadcast_to(np.eye(3), (len(lags), 3, 3))
    x, y, z = rate / speed
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    angle = (speed * lags)[:, None, None]
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * (cross @ cross)


@merged()
def _detection_chance(reflectivity, cosine, distance, range_10_percent):
    """9 of 10 echoes of a 10 % target at `range_10_percent` are seen; grazing surfaces still scatter some back."""
    strength = reflectivity / 0.1 * math.sqrt(cosine) * (range_10_percent / distance) ** 2
    return 1.0 - 10.0 ** (-strength)


@merged()
def _facing_ground(field, origin, ray, distance):
    """Cosine of the angle at which the ray meets the ground."""
    _, h_x, h_y = heightfield.height(field, origin[0] + distance * ray[0], origin[1] + distance * ray[1], YES, YES)
    facing_up = h_x * ray[0] + h_y * ray[1] - ray[2]
    return abs(facing_up) / math.sqrt(1.0 + h_x * h_x + h_y * h_y)


@merged()
def _is_under_ground(field, origin, ray, distance):
    """Whether a point on the ray lies well below the ground."""
    x, y = origin[0] + distance * ray[0], origin[1] + distance * ray[1]
    return origin[2] + distance * ray[2] < heightfield.height(field, x, y, NO, YES)[0] - 0.2


@njit(cache=True, nogil=True)
def _cast(first, last, firings, scene, errors, sweep_key, returns):
    azimuths, elevations, lags, rotations, origins = firings
    field, bounds, solids, movements, grid = scene
    points, exact, part, spurious, intensity = returns
    layers, ray = elevations.size, scratch(3, np.float64)
    for column in range(first, last):
        origin, rotation = origins[column], rotations[column]
        for layer in range(layers):
            key = make_key(np.int64(sweep_key), _RAYS, column * layers + layer)
            azimuth, elevation = azimuths[column], elevations[layer]
            if errors.angle_noise > 0.0:
                azimuth += errors.angle_noise * normal(key, _AZIMUTH)
                elevation += errors.angle_noise * normal(key, _ELEVATION)
            x, y = math.cos(elevation) * math.cos(azimuth), math.cos(elevation) * math.sin(azimuth)
            z = math.sin(elevation)
            for axis in range(3):
                ray[axis] = rotation[axis, 0] * x + rotation[axis, 1] * y + rotation[axis, 2] * z

            # The true end of the ray.
            ground = meet_ground(field, bounds, origin, ray, errors.range_max)
            limit = min(ground, errors.range_max)
            distance, hit = meet_solids(solids, movements, grid, origin, ray, lags[column], limit, uniform(key, _DEPTH))
            if hit < 0 and ground >= errors.range_max:
                continue
            if hit >= 0:
                cosine = facing_of(
                    solids, movements, hit, lags[column], origin[0], origin[1], origin[2], ray[0], ray[1], ray[2]
                )
                if solids.density[hit] < math.inf:
                    cosine = 0.7  # leaves face everywhere
                reflectivity = solids.reflectivity[hit]
            else:
                hit, reflectivity = GROUND, _GROUND_REFLECTIVITY
                cosine = _facing_ground(field, origin, ray, distance)

            # The errors of the scanner.
            if distance < errors.range_min or uniform(key, _DROPOUT) < errors.dropout:
                continue
            if errors.detection and uniform(key, _DETECTION) >= _detection_chance(
                reflectivity, cosine, distance, errors.range_10_percent
            ):
                continue
            measured = distance + errors.range_noise * normal(key, _RANGE)
            if hit == GROUND and ray[2] < 0.0 and uniform(key, _MULTIPATH) < errors.multipath:
                # The light took a detour: the point appears behind the surface, on the beam, below the ground.
                detour = distance + (0.3 + 1.7 * uniform(key, _DETOUR)) / max(-ray[2], 1e-3)
                if detour < errors.range_max and _is_under_ground(field, origin, ray, detour):
                    measured = detour
                    spurious[column, layer] = True
            points[column, layer, 0] = measured * x
            points[column, layer, 1] = measured * y
            points[column, layer, 2] = measured * z
            for axis in range(3):
                exact[column, layer, axis] = origin[axis] + distance * ray[axis]
            part[column, layer] = hit
            intensity[column, layer] = min(1.0, reflectivity * (0.3 + 0.7 * cosine))
