# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""A Numba kernel for what tracked objects hide: the inside of a car that no beam has passed is not free."""

import math

from roadbed.kernels.jit import njit
from roadbed.kernels.numeric import max, min

_UNSEEN = 0.49  # p_z from which no beam has passed a cell


@njit(cache=True, error_model="numpy")
def withdraw_free(free, tracks, observation, grid):
    """Set `free` (rows, columns) to zero where the observation does not show that the box of a track is free.

    A filter remembers such cells as free: they were, before the object came.
    """
    for t in range(tracks.shape[0]):
        track = tracks[t]
        cosine, sine = math.cos(track.heading), math.sin(track.heading)
        length, width = track.length / 2, track.width / 2
        x, y = track.x - grid.x0, track.y - grid.y0
        reach_x = length * abs(cosine) + width * abs(sine)
        reach_y = length * abs(sine) + width * abs(cosine)
        first, last = max(math.ceil((x - reach_x) / grid.spacing), 0), math.floor((x + reach_x) / grid.spacing)
        for row in range(
            max(math.ceil((y - reach_y) / grid.spacing), 0),
            min(math.floor((y + reach_y) / grid.spacing) + 1, grid.rows),
        ):
            aside = row * grid.spacing - y
            for column in range(first, min(last + 1, grid.columns)):
                ahead = column * grid.spacing - x
                inside = abs(cosine * ahead + sine * aside) <= length and abs(cosine * aside - sine * ahead) <= width
                if inside and observation[row, column] > _UNSEEN:
                    free[row, column] = 0.0
