# SPDX-License-Identifier: Apache-2.0
"""Things that move, followed over time: identity, box, velocity, acceleration, and how sure it is that they exist.

Born with a cluster that continues no object; dead when unseen for `keep` seconds, or when it hardly exists any more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from roadbed.config.occupancy import ObjectsConfig
from roadbed.frames import TrackedObject
from roadbed.geometry import Float64, Pose
from roadbed.occupancy.clusters import Cluster, alike, joined

_START_ACCELERATION = 1.5  # m/s^2, how fast an object may be changing its velocity when it is first seen
_JERK = 4.0  # m/s^2 per square root of a second, how its acceleration wanders
_ACCELERATION_MEMORY = 1.0  # s after which an acceleration has died away
_GROWS, _SHRINKS = 0.5, 0.02  # shares by which a remembered extent follows a larger and a smaller one
_BODY_MARGIN = 0.5  # m around an object's box in which parts of it are looked for
_DRIFT = 1.0  # m/s by which the gate grows while an object is not seen
_VELOCITY_COST = 0.3  # s: a velocity that differs by 1 m/s is as bad as so many metres
_SEEN_AGAIN = 3.0  # by which finding an object multiplies the odds that it exists
_UNSEEN_FADE = 0.5  # s in which these odds fall by e while it is not seen
_MOST_ODDS, _LEAST_ODDS = 199.0, 0.02
_TURNING = 1.0  # m/s under which a yaw rate is not known
_DRIVES = 2.0  # m/s from which something as wide as a vehicle is one, and no group of people
_FACE = (1.4, 2.6)  # m, widths of the front and the rear of vehicles
_FLANK = 2.8  # m; a longer side is that of a vehicle


@dataclass
class _Track:
    """Velocity and acceleration of one object: mean (vx, vy, ax, ay) and covariance; its box; its odds to exist."""

    id: int
    born: float
    seen: float
    position: Float64
    extent: Float64
    heading: float
    state: Float64
    covariance: Float64
    odds: float = 1.0
    whole: Float64 = field(default_factory=lambda: np.zeros(2))  # its extent with the sides that were never seen

    def predicted(self, time: float) -> Float64:
        return self.position + self.state[:2] * (time - self.seen)

    def odds_at(self, time: float) -> float:
        return self.odds * math.exp(-(time - self.seen) / _UNSEEN_FADE)

    def holds(self, place: Float64, time: float) -> bool:
        """Whether a place lies in the box where the object should be now."""
        x, y = place - self.predicted(time)
        cosine, sine = math.cos(self.heading), math.sin(self.heading)
        along, across = abs(cosine * x + sine * y), abs(cosine * y - sine * x)
        return along <= self.whole[0] / 2 + _BODY_MARGIN and across <= self.whole[1] / 2 + _BODY_MARGIN

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

    def grow(self, cluster: Cluster, viewpoint: Float64 | None, vehicle: tuple[float, float]) -> None:
        """The box: as large as the object was ever seen, or as a `vehicle` of which one side is seen, laid behind the
        sides that are seen now."""
        turned = abs(math.sin(cluster.heading - self.heading)) > math.sin(math.pi / 4)
        extent = self.extent[::-1] if turned else self.extent
        larger = cluster.extent > extent
        self.extent = extent + np.where(larger, _GROWS, _SHRINKS) * (cluster.extent - extent)
        self.heading, self.position, self.whole = cluster.heading, cluster.position, self.extent
        if viewpoint is None:
            return
        self.whole = _completed(self.extent, math.hypot(*self.state[:2].tolist()), vehicle)
        axes = np.array(
            [
                [math.cos(self.heading), -math.sin(self.heading)],
                [math.sin(self.heading), math.cos(self.heading)],
            ]
        )
        away = (cluster.position - viewpoint) @ axes  # along each axis
        outside = np.abs(away) > cluster.extent / 2  # where one side is nearer to the viewer than the other
        self.position = self.position + axes @ (
            np.where(outside, np.sign(away), 0.0) * (self.whole - cluster.extent) / 2
        )


class ObjectTracker:
    """Gives the clusters of successive frames stable ids. `width` is what a cluster's point stands for, in metres."""

    def __init__(self, config: ObjectsConfig | None = None, width: float = 0.05) -> None:
        self.config, self.width = config or ObjectsConfig(), width
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
            track.heading -= T_before_now.yaw
            track.state = turn_both @ track.state
            track.covariance = turn_both @ track.covariance @ turn_both.T

    def update(
        self, clusters: list[Cluster], time: float, viewpoint: Float64 | None = None
    ) -> tuple[TrackedObject, ...]:
        """The objects of this frame, seen from `viewpoint`; a cluster continues the nearest object within the gate."""
        self._tracks = [track for track in self._tracks if self._lives(track, time)]
        clusters = self._whole(clusters, time)
        pairs = sorted(
            (self._cost(track, cluster, time), t, c)
            for t, track in enumerate(self._tracks)
            for c, cluster in enumerate(clusters)
        )
        found: dict[int, _Track] = {}
        taken: set[int] = set()
        for cost, t, c in pairs:
            if cost < math.inf and t not in taken and c not in found:
                found[c] = self._tracks[t]
                taken.add(t)
        return tuple(self._follow(cluster, found.get(c), time, viewpoint) for c, cluster in enumerate(clusters))

    def _lives(self, track: _Track, time: float) -> bool:
        return time - track.seen <= self.config.keep and track.odds_at(time) >= _LEAST_ODDS

    def _whole(self, clusters: list[Cluster], time: float) -> list[Cluster]:
        """Clusters that lie in the box of one known object and move as it does are parts of it."""
        left = list(clusters)
        whole = []
        for track in sorted(self._tracks, key=lambda track: -track.odds):
            parts = [c for c in left if track.holds(c.position, time) and alike(c.velocity, track.state[:2])]
            if len(parts) > 1:
                whole.append(joined(parts, self.width))
                left = [c for c in left if c not in parts]
        return whole + left

    def _cost(self, track: _Track, cluster: Cluster, time: float) -> float:
        """Metres from the prediction, and what a different velocity is worth; infinite outside the gate."""
        distance = math.dist(track.predicted(time).tolist(), cluster.position.tolist())
        gate = self.config.gate + float(cluster.extent.max()) / 2 + _DRIFT * (time - track.seen)
        different = math.dist(track.state[:2].tolist(), cluster.velocity.tolist())
        return distance + _VELOCITY_COST * different if distance <= gate else math.inf

    def _follow(self, cluster: Cluster, track: _Track | None, time: float, viewpoint: Float64 | None) -> TrackedObject:
        spread = cluster.covariance + np.eye(2) * self.config.velocity_noise**2
        if track is None:
            start = np.zeros((4, 4))
            start[:2, :2], start[2:, 2:] = spread, np.eye(2) * _START_ACCELERATION**2
            state = np.concatenate([cluster.velocity, np.zeros(2)])
            box = cluster.position, cluster.extent, cluster.heading
            track = _Track(self._next_id, time, time, *box, state, start, whole=cluster.extent)
            self._next_id += 1
            self._tracks.append(track)
        else:
            track.odds = min(track.odds_at(time) * _SEEN_AGAIN, _MOST_ODDS)
            track.predict(time - track.seen)
            track.measure(cluster.velocity, spread, self.config.lag)
            track.grow(cluster, viewpoint, (self.config.vehicle_length, self.config.vehicle_width))
            track.seen = time
        velocity, acceleration = track.state[:2].copy(), track.state[2:].copy()
        speed2 = float(velocity @ velocity)
        turning = velocity[0] * acceleration[1] - velocity[1] * acceleration[0]
        return TrackedObject(
            id=track.id,
            position=track.position.copy(),
            extent=track.whole.copy(),
            heading=track.heading,
            velocity=velocity,
            velocity_covariance=track.covariance[:2, :2].copy(),
            cells=cluster.cells,
            age=time - track.born,
            existence=track.odds / (1 + track.odds),
            acceleration=acceleration,
            yaw_rate=float(turning / speed2) if speed2 > _TURNING**2 else 0.0,
        )


def _completed(extent: Float64, speed: float, vehicle: tuple[float, float]) -> Float64:
    """An extent as it was seen; where that is one side of something that drives, with the usual other side."""
    (along, across), (length, width) = extent.tolist(), vehicle
    if speed < _DRIVES:
        return extent
    if _FACE[0] <= across <= _FACE[1]:
        return np.array([max(along, length), across])
    return np.array([along, max(across, width)]) if along >= _FLANK else extent
