# SPDX-License-Identifier: Apache-2.0
"""Steep faces seen by a low sensor: returns above each other at one range are of an object, however low it is.

A low sensor sees objects from the side, so that its beams stack on their faces, and the heights of these returns are
exact to millimetres: range noise counts only by the slope of the beam.
"""

from roadbed.ground.visibility import model
from roadbed.ground.visibility.directions_cpu import find_directions, sort_by_direction
from roadbed.kernels.jit import inner, njit
from roadbed.kernels.numeric import min
from roadbed.kernels.tasks import barrier, first_chunk, next_chunk

FIND, SORT, MARK, PHASES = range(4)


@inner()
def _is_foot(r, z, gap, front_r, front_z):
    """Whether the lowest return of a face is the face's, not the ground's just before it: ground there would take a
    small share of the gap to the next beam, or it is higher than the return in front."""
    noise = -z / r * model.RANGE_NOISE
    return (
        noise < model.FACE_GROUND_SHARE * gap * r
        or z - front_z > model.FACE_FOOT + noise + model.FACE_GROUND_SLOPE * (r - front_r)
    )


@inner()
def _mark_faces(begin, end, order, ranges, heights, non_ground):
    """Mark the returns of one direction that lie above another one on a steep face, and the feet of such faces."""
    for a in range(begin, end):
        r, z = ranges[a], heights[a]
        slope, gap, is_below_face = z / r, 1.0, False
        front_r, front_z = 0.0, z
        for b in range(begin, end):
            rise, apart, steeper = heights[b] - z, abs(ranges[b] - r), heights[b] / ranges[b] - slope
            if rise > model.RISE and apart < model.NEAR and rise > model.STEEP * apart:
                non_ground[order[b]] = True
                is_below_face = is_below_face or apart < model.RANGE_NOISE
            if steeper > model.BEAM:
                gap = min(gap, steeper)
            elif steeper < -model.BEAM and front_r < ranges[b] < r - model.RANGE_NOISE:
                front_r, front_z = ranges[b], heights[b]
        if is_below_face and slope < 0 and _is_foot(r, z, gap, front_r, front_z):
            non_ground[order[a]] = True


@njit(cache=True, nogil=True)
def mark_steep_faces(tasks, most_chunks, views, work, non_ground):
    """Set `non_ground` (N,), False before, for returns on steep faces; arguments as of `mark_non_ground`."""
    count, cells = non_ground.shape[0], work.start.shape[0] - 1
    for phase in range(PHASES):
        chunks = 1 if phase == SORT else most_chunks
        chunk = first_chunk(tasks, phase)
        while chunk < chunks:
            if phase == FIND:
                first, last = chunk * count // chunks, (chunk + 1) * count // chunks
                find_directions(first, last, views, work.cell, work.range_height, work.level)
            elif phase == SORT:
                work.used[0] = sort_by_direction(work.cell, work.range_height, work.start, work.order, work.seen)
            else:
                for c in range(chunk * cells // chunks, (chunk + 1) * cells // chunks):
                    begin, end = work.start[c], work.start[c + 1]
                    _mark_faces(begin, end, work.order, work.seen[0], work.seen[1], non_ground)
            chunk = next_chunk(tasks, phase)
        barrier(tasks, phase, chunks)
