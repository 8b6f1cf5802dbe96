# SPDX-License-Identifier: Apache-2.0
"""LZF, the compression inside binary_compressed PCD files (format of Marc Lehmann's liblzf).

Control byte c < 32: c + 1 literal bytes follow. Otherwise a copy: length (c >> 5) + 2, where 7 + 2 is extended by a
further byte, from a distance of 1 + ((c & 31) << 8 | next byte) behind the end of the output.
"""

import numpy as np
from numpy.typing import NDArray

from roadbed.kernels.jit import njit

_LONGEST_LITERAL = 32


@njit(cache=True)
def decompress(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> int:
    """Fill `target`; returns the number of bytes written, -1 where the source is no LZF or does not fit."""
    read, written = 0, 0
    while read < source.size:
        control = np.int64(source[read])
        read += 1
        if control < _LONGEST_LITERAL:
            length = control + 1
            if read + length > source.size or written + length > target.size:
                return -1
            for _ in range(length):
                target[written] = source[read]
                read += 1
                written += 1
            continue
        length = control >> 5
        if length == 7:
            if read >= source.size:
                return -1
            length += np.int64(source[read])
            read += 1
        length += 2
        if read >= source.size:
            return -1
        origin = written - 1 - (((control & 31) << 8) | np.int64(source[read]))
        read += 1
        if origin < 0 or written + length > target.size:
            return -1
        # Byte by byte: a copy may overlap its own output.
        for _ in range(length):
            target[written] = target[origin]
            origin += 1
            written += 1
    return written
