# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Numba kernels that follow clusters from frame to frame: which object each continues, and what is then known of it.

A cluster that continues no object is the birth of one.
"""

from __future__ import annotations

import math

import numpy as np

from roadbed.core.tracked_objects import TRACK
from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.occupancy.objects.track_filter_cpu import lives, measure, odds_at, predict, start

_GROWS, _SHRINKS = 0.5, 0.02  # shares by which a remembered extent follows a larger and a smaller one
_DRIFT = 1.0  # m/s by which the gate grows while an object is not seen
_VELOCITY_COST = 0.3  # s: a velocity that differs by 1 m/s is as bad as so many metres
_SEEN_AGAIN = 3.0  # by which finding an object multiplies the odds that it exists
_MOST_ODDS = 199.0
_DRIVES = 2.0  # m/s from which something as wide as a vehicle is one, and no group of people
_NARROWEST_FACE, _WIDEST_FACE = 1.4, 2.6  # m, widths of the front and the rear of vehicles
_FLANK = 2.8  # m; a longer side is that of a vehicle
_TURNED = math.sin(math.pi / 4)


@njit(cache=True, error_model="numpy")
def follow_clusters(tracks, counters, things, moment, rule):
    """Continue the tracks, of which `counters` says how many there are and which id comes next, with what is seen now.

    Returns the tracks that were seen, one per thing; there is room for one more of each.
    """
    count = 0
    for k in range(counters[0]):
        if lives(tracks[k], moment.time, rule.keep):
            tracks[count] = tracks[k]
            count += 1
    continued = _assigned(tracks[:count], things, moment.time, rule.gate)
    seen = np.empty(things.shape[0], TRACK)
    for k in range(things.shape[0]):
        thing, number = things[k], continued[k]
        if number < 0:
            number, count = count, count + 1
            _bear(tracks[number], thing, counters[1], moment.time, rule.velocity_variance)
            counters[1] += 1
        else:
            _continue(tracks[number], thing, moment, rule)
        tracks[number].seen, tracks[number].cells = moment.time, thing.cells
        seen[k] = tracks[number]
    counters[0] = count
    return seen


@inner(error_model="numpy")
def _assigned(tracks, things, time, gate):
    """Per thing the track that it continues, or -1: the pair that costs least first."""
    cost = np.empty((tracks.shape[0], things.shape[0]), np.float64)
    continued = np.empty(things.shape[0], np.int64)
    for c in range(things.shape[0]):
        continued[c] = -1
        for t in range(tracks.shape[0]):
            cost[t, c] = _cost(tracks[t], things[c], time, gate)
    while True:
        least, track, thing = np.inf, -1, -1
        for t in range(tracks.shape[0]):
            for c in range(things.shape[0]):
                if cost[t, c] < least:
                    least, track, thing = cost[t, c], t, c
        if track < 0:
            return continued
        continued[thing] = track
        for t in range(tracks.shape[0]):
            cost[t, thing] = np.inf
        for c in range(things.shape[0]):
            cost[track, c] = np.inf


@merged()
def _cost(track, thing, time, gate):
    """Metres from the prediction, and what a different velocity is worth; infinite outside the gate."""
    vx, vy, since = track.state[0], track.state[1], time - track.seen
    distance = math.hypot(track.x + vx * since - thing.x, track.y + vy * since - thing.y)
    if distance > gate + max(thing.length, thing.width) / 2 + _DRIFT * since:
        return np.inf
    return distance + _VELOCITY_COST * math.hypot(vx - thing.vx, vy - thing.vy)


@merged()
def _bear(track, thing, number, time, velocity_variance):
    track.id, track.born, track.odds = number, time, 1.0
    track.x, track.y, track.heading = thing.x, thing.y, thing.heading
    track.length = track.seen_length = thing.length
    track.width = track.seen_width = thing.width
    start(track, thing, velocity_variance)


@inlined(error_model="numpy")
def _continue(track, thing, moment, rule):
    track.odds = min(odds_at(track, moment.time) * _SEEN_AGAIN, _MOST_ODDS)
    predict(track, moment.time - track.seen)
    measure(track, thing, rule.velocity_variance, rule.lag)
    along, across = track.seen_length, track.seen_width
    if abs(math.sin(thing.heading - track.heading)) > _TURNED:
        along, across = across, along
    along, across = _grown(along, thing.length), _grown(across, thing.width)
    track.seen_length, track.seen_width = along, across
    track.x, track.y, track.heading = thing.x, thing.y, thing.heading
    if not math.isnan(moment.x):
        if math.hypot(track.state[0], track.state[1]) >= _DRIVES:
            if _NARROWEST_FACE <= across <= _WIDEST_FACE:
                along = max(along, rule.vehicle_length)
            elif along >= _FLANK:
                across = max(across, rule.vehicle_width)
        _lay_behind(track, thing.length, thing.width, along, across, moment)
    track.length, track.width = along, across


@inlined(error_model="numpy")
def _grown(extent, seen):
    """An extent is as large as it was ever seen."""
    return extent + (_GROWS if seen > extent else _SHRINKS) * (seen - extent)


@merged()
def _lay_behind(track, seen_length, seen_width, along, across, moment):
    """The box laid behind the sides that are seen, which are where it is now, from the place of the moment."""
    cosine, sine = math.cos(track.heading), math.sin(track.heading)
    x, y = track.x - moment.x, track.y - moment.y
    ahead = _hidden(cosine * x + sine * y, seen_length, along)
    aside = _hidden(cosine * y - sine * x, seen_width, across)
    track.x += cosine * ahead - sine * aside
    track.y += sine * ahead + cosine * aside


@inlined(error_model="numpy")
def _hidden(away, seen, whole):
    """How far the middle lies behind that of the part seen, where one side is nearer to the viewer than the other."""
    return math.copysign(0.5, away) * (whole - seen) if abs(away) > seen / 2 else 0.0
