# SPDX-License-Identifier: Apache-2.0
"""Per-point times as drivers write them, in seconds relative to the scan's time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# A sweep lasts far less than this; a clock that counts from a start or an epoch shows far more.
_LONGEST_SWEEP_S = 10.0
# Seconds since 1970 (or since the GPS epoch) are beyond this, a clock since the sensor's start is not.
_EPOCH_CLOCK_S = 1e8
# Greater numbers than the first are an absolute clock in units of the second.
_CLOCK_UNITS_S = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))


@np.errstate(invalid="ignore", over="ignore")
def sweep_time(values: NDArray, scan_time: float | None) -> tuple[NDArray, float | None] | None:
    """Seconds relative to the scan's time (N,), and that time; None where the numbers make no sense as such.

    Integers count nanoseconds (Ouster, Livox). Absolute clocks are told by their size, in s, ms, us or ns; a zero
    among stamps since an epoch marks a missing return and becomes NaN.
    """
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        return None
    known = np.isfinite(values)
    if not known.any():
        return values.astype(np.float64), scan_time
    last = float(values[known].max())
    unit = 1e-9 if values.dtype.kind in "iu" else _clock_unit(last)
    if last * unit <= _LONGEST_SWEEP_S:
        return _relative(values, known, unit, scan_time)

    if last * unit > _EPOCH_CLOCK_S:
        known &= values != 0
    first = values[known].min()
    if (last - float(first)) * unit > _LONGEST_SWEEP_S:
        return None
    # Subtracted before the change to float64, which does not resolve nanoseconds since 1970.
    seconds = np.full(len(values), np.nan)
    seconds[known] = (values[known] - first).astype(np.float64) * unit
    start = float(first) * unit
    if scan_time is None:
        return seconds, start
    same_clock = abs(start - scan_time) < _LONGEST_SWEEP_S
    return (seconds + (start - scan_time) if same_clock else seconds), scan_time


def _clock_unit(last: float) -> float:
    return next((unit for limit, unit in _CLOCK_UNITS_S if last > limit), 1.0)


def _relative(
    values: NDArray, known: NDArray[np.bool_], unit: float, scan_time: float | None
) -> tuple[NDArray, float | None] | None:
    if float(values[known].min()) * unit < -_LONGEST_SWEEP_S:
        return None
    return (values if unit == 1.0 else values.astype(np.float64) * unit), scan_time
