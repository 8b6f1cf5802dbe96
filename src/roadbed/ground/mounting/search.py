# SPDX-License-Identifier: Apache-2.0
"""Candidate frames of the ground where it is not below a nearly level sensor: any tilt, upside down, far away.

RANSAC over planes through random triples of points, once per orientation of the sensor. The estimator fits the ground
again in each candidate frame.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from roadbed.core.geometry import Float32, Float64, Pose, rotation_to_level

_POINTS = 3000  # sampled
_TRIALS = 600
_PLANES_PER_BLOCK = 32  # planes
_NEAR = 0.2  # m from a plane
_BELOW_PENALTY = 0.5
_LEAST_SHARE = 0.05  # of the votes, for a candidate
_FARTHEST_HEIGHT = 15.0  # m over the ground; beyond, the origin is not a sensor's
_WITHIN = np.cos(np.radians(50))
UPRIGHT, UPSIDE_DOWN, CAMERA = "upright", "upside down", "camera axes"
_ORIENTATIONS = {  # of a sensor: rotation from its axes to forward, left, up
    UPRIGHT: np.eye(3),
    UPSIDE_DOWN: np.diag([1.0, -1.0, -1.0]),
    CAMERA: np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]),
}


@dataclass(frozen=True, eq=False)
class Candidate:
    """A frame in which the ground may be near level below the origin."""

    T_level_sensor: Pose
    orientation: str
    far: bool  # the origin was moved to the points: no sensor is at their origin


def candidate_frames(points: Float32) -> Iterator[Candidate]:
    """At most one candidate per orientation; none where no plane has enough votes."""
    chosen = _voxel_sample(points)
    if len(chosen) < 50:
        return
    centre = np.median(chosen, axis=0)
    near_origin = np.linalg.norm(chosen - centre, axis=1)
    far = bool(np.linalg.norm(centre) > 3 * np.median(near_origin))
    offset = centre if far else np.zeros(3)
    moved = chosen - offset
    weight = 1 / (1 + (moved**2).sum(axis=1) / 200.0)
    normals, heights = _planes(moved)
    if not len(normals):  # all points within centimetres, or on one line
        return
    scores = _scores(moved, weight, normals, heights) / weight.sum()
    _, wide, deep = np.ptp(np.quantile(moved, [0.05, 0.95], axis=0), axis=0)
    for orientation, axes in _ORIENTATIONS.items():
        if orientation == CAMERA and wide >= deep:  # scenes are wider than high: a wall, where y is not vertical
            continue
        candidates = np.where((normals @ axes[2] > _WITHIN) & (far | (heights > 0.02)), scores, -np.inf)
        best = int(np.argmax(candidates))
        if candidates[best] < _LEAST_SHARE:
            continue
        rotation = _level(axes @ normals[best]) @ axes
        height = heights[best]
        moved_away = far or height > _FARTHEST_HEIGHT
        lift = np.array([0.0, 0.0, height - 2.0 if moved_away else 0.0])  # 2 m over the plane, as a sensor would be
        yield Candidate(Pose(rotation, lift - rotation @ offset), orientation, moved_away)


def _voxel_sample(points: Float32) -> Float64:
    """One return per voxel, of a size that leaves enough of them."""
    usable = points[np.isfinite(points).all(axis=1) & (np.abs(points).max(axis=1) < 1e7)].astype(np.float64)
    usable = usable[(usable != 0).any(axis=1)]
    usable = usable[:: max(1, len(usable) // 30_000)]
    if len(usable) < 3:
        return usable
    from_corner, size = np.ascontiguousarray((usable - usable.min(axis=0)).T), 0.2
    while True:
        x, y, z = np.floor(from_corner / size).astype(np.int64)
        box = x + (y << 20) + (z << 40)
        if np.count_nonzero(np.diff(np.sort(box))) < _POINTS:  # as many as that and one: a tenth of what `unique` takes
            return usable[np.unique(box, return_index=True)[1]]
        size *= 1.3


def _planes(points: Float64) -> tuple[Float64, Float64]:
    """Normals and heights of the origin over planes through random triples, each from both sides."""
    random = np.random.default_rng(0)
    a, b, c = (points[random.integers(0, len(points), _TRIALS)] for _ in range(3))
    normal = np.cross(b - a, c - a)
    length = np.linalg.norm(normal, axis=1)
    wide = length > 2.0  # m^2: a narrow triple does not determine the tilt
    normal = normal[wide] / length[wide, None]
    height = -(normal * a[wide]).sum(axis=1)
    return np.concatenate([normal, -normal]), np.concatenate([height, -height])


def _scores(points: Float64, weight: Float64, normals: Float64, heights: Float64) -> Float64:
    """Weighted votes of the points for each plane: points on it count, points below it count against it.

    In blocks of planes that stay in the cache, and without matrix products, for which NumPy would wake its threads.
    """
    scores = np.empty(len(normals))
    x, y, z = points.T[:, :, np.newaxis]
    for first in range(0, len(normals), _PLANES_PER_BLOCK):
        some = slice(first, first + _PLANES_PER_BLOCK)
        over = x * normals[some, 0]
        over += y * normals[some, 1]
        over += z * normals[some, 2]
        over += heights[some]
        below = over < -_NEAR
        over /= _NEAR
        over *= over
        votes = np.subtract(1, over, out=over)
        np.maximum(votes, 0, out=votes)
        votes -= _BELOW_PENALTY * below
        votes *= weight[:, np.newaxis]
        scores[some] = votes.sum(axis=0)
    return scores


def _level(normal: Float64) -> Float64:
    """The smallest rotation that takes a normal to z."""
    return np.reshape(rotation_to_level(-normal[0] / normal[2], -normal[1] / normal[2]), (3, 3))
