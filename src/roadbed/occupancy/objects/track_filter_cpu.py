# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The Kalman filter of a track: existence odds; position, velocity and acceleration.

It measures the delayed velocities of cells, and of what is as small and slow as a person the middle of its box. The box
of a vehicle says less: its middle moves as other sides come into view. A track dies when it was not seen for `keep`
seconds, or when its odds are too low.
"""

import math

import numpy as np

from roadbed.kernels.jit import inlined, inner, merged
from roadbed.kernels.numeric import max

_PERSON_SIZE, _PERSON_SPEED = 1.0, 3.0  # m and m/s, at most
_PLACE_DEVIATION = 0.3  # m, of the middle of a person's box; errors of successive frames are alike
_START_ACCELERATION = 1.5  # m/s^2, how fast an object may be changing its velocity when it is first seen
_JERK = 4.0  # m/s^2 per square root of a second, how its acceleration wanders
_ACCELERATION_MEMORY = 1.0  # s after which an acceleration has died away
_PERSON_JERK, _PERSON_ACCELERATION_MEMORY = 3.0, 0.3  # people change their velocity within a step or two
_FACE, _FLANK = 0.4, 4.0  # m across, and times that along its motion: of what so little is seen only a flank is seen
_SLIDING = 0.3  # share of its speed by which that of a flank is uncertain along itself
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
    for i in range(2, 6):
        state[i] = 0.0
        for j in range(2, 6):
            covariance[i, j] = 0.0
        covariance[i, i] = _START_ACCELERATION**2
    state[2], state[3] = detection.vx, detection.vy
    covariance[2, 2], covariance[2, 3], covariance[3, 3] = _error(detection, velocity_variance)
    covariance[3, 2] = covariance[2, 3]
    _place(state, covariance, detection)


@inlined(error_model="numpy")
def _error(detection, velocity_variance):
    """Covariance xx, xy, yy of a detection's velocity.

    Of a flank alone nobody sees how fast it slides along itself: its ends may be those of what the sensor sees.
    """
    sliding = 0.0
    if detection.width <= _FACE and detection.length >= _FLANK * detection.width:
        sliding = (_SLIDING * math.hypot(detection.vx, detection.vy)) ** 2
    cosine, sine = math.cos(detection.heading), math.sin(detection.heading)
    xx = detection.xx + velocity_variance + sliding * cosine * cosine
    return xx, detection.xy + sliding * cosine * sine, detection.yy + velocity_variance + sliding * sine * sine


@inner(error_model="numpy")
def _place(state, covariance, detection):
    """The position is that of the detection, whatever it was before."""
    state[0], state[1] = detection.x, detection.y
    for i in range(2):
        for j in range(6):
            covariance[i, j] = covariance[j, i] = 0.0
        covariance[i, i] = _PLACE_DEVIATION**2


@inlined(error_model="numpy")
def _is_person(track):
    """Whether it may be one: as small and as slow."""
    slow = math.hypot(track.state[2], track.state[3]) <= _PERSON_SPEED
    return slow and max(track.seen_length, track.seen_width) <= _PERSON_SIZE


@inner(error_model="numpy")
def predict(track, dt):
    """Positions change by the velocity, velocities by the acceleration, which decays."""
    person = _is_person(track)
    jerk = _PERSON_JERK if person else _JERK
    fade = math.exp(-dt / (_PERSON_ACCELERATION_MEMORY if person else _ACCELERATION_MEMORY))
    state, covariance = track.state, track.covariance
    for i in range(2):
        v, a = i + 2, i + 4
        state[i] += dt * (state[v] + dt / 2 * state[a])
        state[v] += dt * state[a]
        state[a] *= fade
        for j in range(6):  # the rows of step P step^T, and its columns below
            covariance[i, j] += dt * (covariance[v, j] + dt / 2 * covariance[a, j])
            covariance[v, j] += dt * covariance[a, j]
            covariance[a, j] *= fade
    for i in range(2):
        v, a = i + 2, i + 4
        for j in range(6):
            covariance[j, i] += dt * (covariance[j, v] + dt / 2 * covariance[j, a])
            covariance[j, v] += dt * covariance[j, a]
            covariance[j, a] *= fade
        covariance[v, v] += jerk**2 * dt * dt * dt / 3
        covariance[a, a] += jerk**2 * dt


@inner(error_model="numpy")
def measure(track, detection, velocity_variance, lag):
    """Cells measure the velocity of `lag` seconds ago: particles need that long to follow a change."""
    state, covariance = track.state, track.covariance
    xx, xy, yy = _error(detection, velocity_variance)
    _correct(state, covariance, 2, lag, detection.vx, detection.vy, xx, xy, yy)
    if _is_person(track):
        variance = _PLACE_DEVIATION**2
        _correct(state, covariance, 0, 0.0, detection.x, detection.y, variance, 0.0, variance)
    else:
        _place(state, covariance, detection)


@inner(error_model="numpy")
def _correct(state, covariance, first, lag, x, y, xx, xy, yy):
    """By a measurement (x, y) with a covariance: of two elements of the state, less `lag` times their derivatives."""
    late, gain = np.empty((6, 2)), np.empty((6, 2))
    for i in range(6):
        for j in range(2):  # P H^T
            late[i, j] = covariance[i, first + j] - lag * covariance[i, first + j + 2]
    xx += late[first, 0] - lag * late[first + 2, 0]
    xy += late[first, 1] - lag * late[first + 2, 1]
    yy += late[first + 1, 1] - lag * late[first + 3, 1]
    determinant = xx * yy - xy * xy
    x -= state[first] - lag * state[first + 2]
    y -= state[first + 1] - lag * state[first + 3]
    for i in range(6):
        gain[i, 0] = (late[i, 0] * yy - late[i, 1] * xy) / determinant
        gain[i, 1] = (late[i, 1] * xx - late[i, 0] * xy) / determinant
        state[i] += gain[i, 0] * x + gain[i, 1] * y
        for j in range(6):
            covariance[i, j] -= gain[i, 0] * late[j, 0] + gain[i, 1] * late[j, 1]
