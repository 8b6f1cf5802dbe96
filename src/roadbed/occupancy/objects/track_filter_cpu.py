# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The Kalman filter of a track: existence odds; velocity and acceleration from the delayed velocities of cells.

A track dies when it was not seen for `keep` seconds, or when its odds are too low.
"""

import math

import numpy as np

from roadbed.kernels.jit import inlined, inner, merged

_START_ACCELERATION = 1.5  # m/s^2, how fast an object may be changing its velocity when it is first seen
_JERK = 4.0  # m/s^2 per square root of a second, how its acceleration wanders
_ACCELERATION_MEMORY = 1.0  # s after which an acceleration has died away
_UNSEEN_FADE = 0.5  # s in which the odds fall by a factor of e while the object is not seen
_LEAST_ODDS = 0.02


@inlined(error_model="numpy")
def is_alive(track, time, keep):
    return time - track.seen <= keep and odds_at(track, time) >= _LEAST_ODDS


@inlined(error_model="numpy")
def odds_at(track, time):
    return track.odds * math.exp(-(time - track.seen) / _UNSEEN_FADE)


@merged()
def start(track, detection, velocity_variance):
    """State of an object that is seen for the first time."""
    state, covariance = track.state, track.covariance
    for i in range(4):
        state[i] = 0.0
        for j in range(4):
            covariance[i, j] = 0.0
        covariance[i, i] = velocity_variance if i < 2 else _START_ACCELERATION**2
    state[0], state[1] = detection.vx, detection.vy
    covariance[0, 0] += detection.xx
    covariance[1, 1] += detection.yy
    covariance[0, 1] = covariance[1, 0] = detection.xy


@inner(error_model="numpy")
def predict(track, dt):
    """Velocities change by the acceleration, which decays."""
    fade = math.exp(-dt / _ACCELERATION_MEMORY)
    state, covariance = track.state, track.covariance
    for i in range(2):
        a = i + 2
        state[i] += dt * state[a]
        state[a] *= fade
        for j in range(4):  # the rows of step P step^T, and its columns below
            covariance[i, j] += dt * covariance[a, j]
            covariance[a, j] *= fade
    for i in range(2):
        a = i + 2
        for j in range(4):
            covariance[j, i] += dt * covariance[j, a]
            covariance[j, a] *= fade
        covariance[i, i] += _JERK**2 * dt * dt * dt / 3
        covariance[a, a] += _JERK**2 * dt


@inner(error_model="numpy")
def measure(track, detection, velocity_variance, lag):
    """Cells measure the velocity of `lag` seconds ago: particles need that long to follow a change."""
    state, covariance = track.state, track.covariance
    late, gain = np.empty((4, 2)), np.empty((4, 2))
    for i in range(4):
        for j in range(2):
            late[i, j] = covariance[i, j] - lag * covariance[i, j + 2]  # P H^T, of H = (1, -lag)
    xx = late[0, 0] - lag * late[2, 0] + detection.xx + velocity_variance
    xy = late[0, 1] - lag * late[2, 1] + detection.xy
    yy = late[1, 1] - lag * late[3, 1] + detection.yy + velocity_variance
    determinant = xx * yy - xy * xy
    x = detection.vx - state[0] + lag * state[2]
    y = detection.vy - state[1] + lag * state[3]
    for i in range(4):
        gain[i, 0] = (late[i, 0] * yy - late[i, 1] * xy) / determinant
        gain[i, 1] = (late[i, 1] * xx - late[i, 0] * xy) / determinant
        state[i] += gain[i, 0] * x + gain[i, 1] * y
        for j in range(4):
            covariance[i, j] -= gain[i, 0] * late[j, 0] + gain[i, 1] * late[j, 1]
