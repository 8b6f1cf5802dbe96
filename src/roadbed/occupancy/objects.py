# SPDX-License-Identifier: Apache-2.0
"""Moving cells grouped into objects with position, extent, velocity and covariance, followed over time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roadbed.config.occupancy import ObjectsConfig
from roadbed.frames import TrackedObject
from roadbed.geometry import Float32, Float64, Lattice, Pose
from roadbed.occupancy.objects_cpu import label_components

_CELL_VARIANCE = 0.05  # m^2/s^2 added to every cell's covariance: cells of one object are not independent
_START_ACCELERATION = 1.5  # m/s^2, how fast an object may be changing its velocity when it is first seen
_JERK = 4.0  # m/s^2 per square root of a second, how its acceleration wanders
_ACCELERATION_MEMORY = 1.0  # s after which an acceleration has died away


@dataclass
class _Track:
    """Velocity and acceleration of one object: mean (vx, vy, ax, ay) and covariance."""

    id: int
    born: float
    seen: float
    position: Float64
    state: Float64
    covariance: Float64

    def predicted(self, time: float) -> Float64:
        return self.position + self.state[:2] * (time - self.seen)

    def predict(self, dt: float) -> None:
        fade = math.exp(-dt / _ACCELERATION_MEMORY)
        step = np.eye(4)
        step[:2, 2:] = np.eye(2) * dt
        step[2:, 2:] = np.eye(2) * fade
        self.state = step @ self.state
        noise = np.zeros((4, 4))
        noise[:2, :2] = np.eye(2) * _JERK**2 * dt**3 / 3
        noise[2:, 2:] = np.eye(2) * _JERK**2 * dt
        self.covariance = step @ self.covariance @ step.T + noise

    def measure(self, velocity: Float64, spread: Float64, lag: float) -> None:
        """What the cells say is the velocity of `lag` seconds ago: particles need that long to follow a change."""
        model = np.hstack([np.eye(2), -lag * np.eye(2)])
        gain = self.covariance @ model.T @ np.linalg.inv(model @ self.covariance @ model.T + spread)
        self.state = self.state + gain @ (velocity - model @ self.state)
        kept = np.eye(4) - gain @ model
        self.covariance = kept @ self.covariance @ kept.T + gain @ spread @ gain.T


@dataclass(frozen=True, eq=False)
class Cluster:
    """One group of moving cells in one frame."""

    position: Float64  # (2,) m, middle of its box
    extent: Float64  # (2,) m along and across the heading
    velocity: Float64  # (2,) m/s
    covariance: Float64  # (2, 2)
    cells: int


def mean_velocity(velocity: Float64, covariance: Float64) -> tuple[Float64, Float64]:
    """Information-weighted mean of cells' velocities (N, 2) with covariances (N, 3), and its covariance.

    Cells on a smooth face hardly know their speed along it; their large covariance makes them count little there.
    """
    xx = covariance[:, 0] + _CELL_VARIANCE
    xy = covariance[:, 1]
    yy = covariance[:, 2] + _CELL_VARIANCE
    det = xx * yy - xy * xy
    w_xx, w_xy, w_yy = yy / det, -xy / det, xx / det
    information = np.array([[w_xx.sum(), w_xy.sum()], [w_xy.sum(), w_yy.sum()]])
    weighted = np.array(
        [
            (w_xx * velocity[:, 0] + w_xy * velocity[:, 1]).sum(),
            (w_xy * velocity[:, 0] + w_yy * velocity[:, 1]).sum(),
        ]
    )
    spread = np.linalg.inv(information)
    return spread @ weighted, spread


def find_clusters(
    lattice: Lattice,
    moving: NDArray[np.bool_],
    velocity: Float32,
    covariance: Float32,
    config: ObjectsConfig | None = None,
) -> list[Cluster]:
    """Groups of moving cells that lie within `join` metres of each other."""
    config = config or ObjectsConfig()
    rows, columns = np.nonzero(moving)
    if not len(rows):
        return []
    reach = max(1, round(config.join / lattice.spacing))
    component = label_components(rows, columns, reach)
    clusters = []
    for label in np.unique(component):
        chosen = component == label
        if np.count_nonzero(chosen) < config.min_cells:
            continue
        r, c = rows[chosen], columns[chosen]
        mean, spread = mean_velocity(velocity[r, c].astype(np.float64), covariance[r, c].astype(np.float64))
        x, y = lattice.x0 + c * lattice.spacing, lattice.y0 + r * lattice.spacing
        position, extent = _box(np.column_stack([x, y]), mean, lattice.spacing)
        clusters.append(Cluster(position, extent, mean, spread, len(r)))
    return clusters


def _box(centres: Float64, velocity: Float64, spacing: float) -> tuple[Float64, Float64]:
    """Middle and size of the box around cell centres, aligned with the velocity."""
    along = velocity / max(float(np.linalg.norm(velocity)), 1e-9)
    across = np.array([-along[1], along[0]])
    projected = centres @ np.column_stack([along, across])
    low, high = projected.min(axis=0) - spacing / 2, projected.max(axis=0) + spacing / 2
    middle = (low + high) / 2
    return middle[0] * along + middle[1] * across, high - low


class ObjectTracker:
    """Gives the clusters of successive frames stable ids."""

    def __init__(self, config: ObjectsConfig | None = None) -> None:
        self.config = config or ObjectsConfig()
        self._tracks: list[_Track] = []
        self._next_id = 1

    def reset(self) -> None:
        """Forget the objects; ids are never given twice."""
        self._tracks.clear()

    def move(self, T_before_now: Pose) -> None:
        """The grid's axes turned and moved; objects stay where they are in the world, and go on as they went."""
        turn = T_before_now.rotation[:2, :2].T
        turn_both = np.kron(np.eye(2), turn)  # velocity and acceleration
        for track in self._tracks:
            track.position = turn @ (track.position - T_before_now.translation[:2])
            track.state = turn_both @ track.state
            track.covariance = turn_both @ track.covariance @ turn_both.T

    def update(self, clusters: list[Cluster], time: float) -> tuple[TrackedObject, ...]:
        """The objects of this frame; a cluster continues the nearest object predicted within the gate."""
        self._tracks = [track for track in self._tracks if time - track.seen <= self.config.keep]
        pairs = sorted(
            (float(np.linalg.norm(track.predicted(time) - cluster.position)), t, c)
            for t, track in enumerate(self._tracks)
            for c, cluster in enumerate(clusters)
        )
        found: dict[int, _Track] = {}
        taken: set[int] = set()
        for distance, t, c in pairs:
            reach = self.config.gate + float(clusters[c].extent.max()) / 2
            if distance <= reach and t not in taken and c not in found:
                found[c] = self._tracks[t]
                taken.add(t)
        return tuple(self._follow(cluster, found.get(c), time) for c, cluster in enumerate(clusters))

    def _follow(self, cluster: Cluster, track: _Track | None, time: float) -> TrackedObject:
        spread = cluster.covariance + np.eye(2) * self.config.velocity_noise**2
        if track is None:
            start = np.zeros((4, 4))
            start[:2, :2], start[2:, 2:] = spread, np.eye(2) * _START_ACCELERATION**2
            state = np.concatenate([cluster.velocity, np.zeros(2)])
            track = _Track(self._next_id, time, time, cluster.position, state, start)
            self._next_id += 1
            self._tracks.append(track)
        else:
            track.predict(time - track.seen)
            track.measure(cluster.velocity, spread, self.config.lag)
            track.position, track.seen = cluster.position, time
        velocity = track.state[:2].copy()
        return TrackedObject(
            track.id, cluster.position, cluster.extent, float(np.arctan2(velocity[1], velocity[0])), velocity,
            track.covariance[:2, :2].copy(), cluster.cells, time - track.born,
        )  # fmt: skip
