# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Numba kernels that track clusters from frame to frame: association with objects, and update of their state.

A cluster without an associated object becomes a new one.
"""

import math

import numpy as np

from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.kernels.numeric import max, min
from roadbed.occupancy.objects.track_filter_cpu import is_alive, measure, odds_at, predict, start

_GROWS, _SHRINKS = 0.5, 0.02  # shares by which a remembered extent follows a larger and a smaller one
_DRIFT = 1.0  # m/s by which the gate grows while an object is not seen
_VELOCITY_COST = 0.3  # s: a velocity that differs by 1 m/s is as bad as so many metres
_SEEN_AGAIN = 3.0  # factor of the existence odds when an object is found again
_MOST_ODDS = 199.0
_USUAL_CELLS = 20.0  # of an object whose velocity has the error of the rule
_DRIVES = 2.0  # m/s from which an object as wide as a vehicle is one, and no group of people
_NARROWEST_FACE, _WIDEST_FACE = 1.4, 2.6  # m, widths of the front and the rear of vehicles
_FLANK = 2.8  # m; a longer side is that of a vehicle
_NEW_SIDE = 0.05  # share by which a box moves in one frame towards where its nearer sides are seen
_TURNED = math.sin(math.pi / 4)


@njit(cache=True, error_model="numpy")
def track_clusters(tracks, counters, detections, moment, rule):
    """Update the tracks, whose number and next id are `counters`, with the detections of a frame.

    Returns the tracks that were seen, at most one per detection. `tracks` has capacity for all of them.
    """
    count = 0
    for k in range(counters[0]):
        if is_alive(tracks[k], moment.time, rule.keep):
            tracks[count] = tracks[k]
            count += 1
    continued = _assigned(tracks[:count], detections, moment.time, rule.gate)
    for k in range(detections.shape[0]):
        if continued[k] >= 0:
            _update_track(tracks[continued[k]], detections[k], moment, rule)
    known = count
    for k in range(detections.shape[0]):
        if continued[k] < 0 and _is_new(detections[k], tracks[:known], moment.time, rule):
            _start_track(tracks[count], detections[k], counters[1], moment.time, _variance(detections[k], rule))
            count, counters[1] = count + 1, counters[1] + 1
    counters[0] = count
    return tracks[:count][tracks[:count]["seen"] == moment.time]


@merged()
def _is_new(detection, tracks, time, rule):
    """Whether a detection that continues no object is one: enough cells, and not inside of an object that was found."""
    if detection.cells < rule.min_cells:
        return False
    for k in range(tracks.shape[0]):
        track = tracks[k]
        if track.seen == time:
            x, y = detection.x - track.x, detection.y - track.y
            cosine, sine = math.cos(track.heading), math.sin(track.heading)
            along, across = abs(cosine * x + sine * y), abs(cosine * y - sine * x)
            if along <= track.length / 2 and across <= track.width / 2:
                return False
    return True


@inner(error_model="numpy")
def _assigned(tracks, detections, time, gate):
    """Per detection the associated track, or -1: greedily, the cheapest pair first."""
    cost = np.empty((tracks.shape[0], detections.shape[0]), np.float64)
    continued = np.empty(detections.shape[0], np.int64)
    for c in range(detections.shape[0]):
        continued[c] = -1
        for t in range(tracks.shape[0]):
            cost[t, c] = _cost(tracks[t], detections[c], time, gate)
    while True:
        least, track, detection = np.inf, -1, -1
        for t in range(tracks.shape[0]):
            for c in range(detections.shape[0]):
                if cost[t, c] < least:
                    least, track, detection = cost[t, c], t, c
        if track < 0:
            return continued
        continued[detection] = track
        for t in range(tracks.shape[0]):
            cost[t, detection] = np.inf
        for c in range(detections.shape[0]):
            cost[track, c] = np.inf


@merged()
def _cost(track, detection, time, gate):
    """Metres from the prediction, plus the cost of a different velocity; infinite outside the gate.

    The gate counts from the larger of both boxes: a detection may be one end of an object, or show more than its track.
    What moves otherwise has not come from where the object was last seen.
    """
    vx, vy, since = track.state[2], track.state[3], time - track.seen
    x, y = detection.x - track.x - vx * since, detection.y - track.y - vy * since
    cosine, sine = math.cos(track.heading), math.sin(track.heading)
    length, width = _along_heading(track.heading, detection.heading, detection.length, detection.width)
    ahead = max(abs(cosine * x + sine * y) - max(track.length, length) / 2, 0.0)
    aside = max(abs(cosine * y - sine * x) - max(track.width, width) / 2, 0.0)
    change = math.hypot(vx - detection.vx, vy - detection.vy)
    if max(math.hypot(ahead, aside), change * since) > gate + _DRIFT * since:
        return np.inf
    return math.hypot(x, y) + _VELOCITY_COST * change


@inlined(error_model="numpy")
def _along_heading(heading, other, along, across):
    """Extents of a box with the `other` heading, along the axis of the first heading that they are nearer to."""
    return (across, along) if abs(math.sin(other - heading)) > _TURNED else (along, across)


@inlined(error_model="numpy")
def _variance(detection, rule):
    """Common error of the cells' velocities: the more cells an object has, the better its shift is known."""
    return rule.velocity_variance * _USUAL_CELLS / detection.cells


@merged()
def _start_track(track, detection, number, time, velocity_variance):
    track.id, track.born, track.seen, track.odds, track.cells = number, time, time, 1.0, detection.cells
    track.x, track.y, track.heading = detection.x, detection.y, detection.heading
    track.length = track.seen_length = detection.length
    track.width = track.seen_width = detection.width
    start(track, detection, velocity_variance)


@inlined(error_model="numpy")
def _update_track(track, detection, moment, rule):
    track.odds = min(odds_at(track, moment.time) * _SEEN_AGAIN, _MOST_ODDS)
    predict(track, moment.time - track.seen)
    measure(track, detection, _variance(detection, rule), rule.lag)
    along, across = _along_heading(detection.heading, track.heading, track.seen_length, track.seen_width)
    along, across = _grown(along, detection.length), _grown(across, detection.width)
    track.seen_length, track.seen_width = along, across
    if math.isnan(moment.x):
        track.x, track.y = detection.x, detection.y
    else:
        if math.hypot(track.state[2], track.state[3]) >= _DRIVES:
            if _NARROWEST_FACE <= across <= _WIDEST_FACE:
                along = max(along, rule.vehicle_length)
            elif along >= _FLANK:
                across = max(across, rule.vehicle_width)
        _place_box(track, detection, along, across, moment)
    track.length, track.width, track.heading = along, across, detection.heading
    track.seen, track.cells = moment.time, detection.cells


@inlined(error_model="numpy")
def _grown(extent, seen):
    """An extent grows quickly to the largest seen, and shrinks slowly."""
    return extent + (_GROWS if seen > extent else _SHRINKS) * (seen - extent)


@merged()
def _place_box(track, detection, along, across, moment):
    """Move the box to where its nearer sides are, seen from the viewpoint; farther ones may be hidden.

    A nearer side that is not seen any more, because something hides it or a sensor's view ends, stays where it should
    be: the box moves with its velocity, and every frame corrects it by a share.
    """
    cosine, sine = math.cos(detection.heading), math.sin(detection.heading)
    since = moment.time - track.seen
    x, y = track.x + since * track.state[2] - detection.x, track.y + since * track.state[3] - detection.y
    view_x, view_y = detection.x - moment.x, detection.y - moment.y
    before = _along_heading(detection.heading, track.heading, track.length, track.width)
    ahead = _behind_seen(cosine * x + sine * y, cosine * view_x + sine * view_y, before[0], detection.length, along)
    aside = _behind_seen(cosine * y - sine * x, cosine * view_y - sine * view_x, before[1], detection.width, across)
    track.x = detection.x + cosine * ahead - sine * aside
    track.y = detection.y + sine * ahead + cosine * aside


@inlined(error_model="numpy")
def _behind_seen(expected, away, before, seen, whole):
    """Along one axis: the centre of the whole box from that of its visible part, which it covers.

    `expected` is where it should be for the extent that it had `before`, `away` how far the part is from the viewer.
    """
    offset = 0.0
    if abs(away) > seen / 2:  # one side is nearer
        offset = math.copysign(0.5, away) * (whole - seen)
        expected += math.copysign(0.5, away) * (whole - before)
    hidden = abs(whole - seen) / 2
    return min(max(expected + _NEW_SIDE * (offset - expected), -hidden), hidden)
