# SPDX-License-Identifier: Apache-2.0
"""Per-point times of various drivers, converted to seconds relative to the scan's time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# A sweep is much shorter; a clock since a start or an epoch shows much more.
_LONGEST_SWEEP_S = 10.0
# Seconds since 1970 (or since the GPS epoch) are beyond this, a clock since the sensor's start is not.
_EPOCH_CLOCK_S = 1e8
# Values above the first number are an absolute clock in units of the second number.
_CLOCK_UNITS_S = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))


@np.errstate(invalid="ignore", over="ignore")
def sweep_time(values: NDArray, scan_time: float | None) -> tuple[NDArray, float | None] | None:
    """Seconds relative to the scan's time (N,), and that time; None where the values are not plausible.

    Integers are nanoseconds (Ouster, Livox). The unit of absolute clocks (s, ms, us, ns) follows from their size; a
    zero among stamps since an epoch marks a missing return and becomes NaN.
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
    # Subtract before converting to float64, which does not resolve nanoseconds since 1970.
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
