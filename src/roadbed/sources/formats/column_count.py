# SPDX-License-Identifier: Apache-2.0
"""How many columns a headerless file of numbers has, and what they hold.

Values that are one record apart belong to one column, and columns have distributions of their own: z is flatter than
x and y, intensities are positive. So the mutual information between a value and its position modulo p is large where p
is the record length, the same for multiples of it, and zero for lengths without a common factor. The order of the
points does not matter.
"""

import numpy as np
from numpy.typing import NDArray

_LONGEST_RECORD = 12
_WINDOW = 27_720  # a multiple of 2 to 12: every window starts at the same position of a record
_WINDOWS = 4
_FEWEST_VALUES = 1000
_BINS = 32
# In nats. Real scans have 0.26 to 1.4 at their record length and less than 0.003 at lengths without a common factor.
_LEAST_INFORMATION = 0.1
_STANDARD_ERRORS = 6.0
# Points in the order of firing repeat with the number of beams, a multiple of the record length. Then neighbouring
# points lie in one direction (rad), and x and y of a point and of the next one have similar distributions (nats).
_SAME_BEARING, _OTHER_BEARING = 0.06, 0.2
_OTHER_COLUMN = 0.2
_FARTHEST_M = 1e7  # northings of UTM
_SMALLEST, _LARGEST = 1e-15, 1e12  # other numbers are not float32: integers, the halves of float64, compressed data
_MOST_RINGS = 256
_SAME_RING = 0.05  # share of the variance of the elevation angle that rings leave


def count_columns(values: NDArray) -> int | None:
    """Numbers per record, 3 to 12; None where the values do not determine it."""
    sample = _sample(values)
    if len(sample) < _FEWEST_VALUES or not _is_plausible(sample):
        return None
    sample = np.nan_to_num(sample, nan=0.0, posinf=0.0, neginf=0.0)
    edges = np.unique(np.quantile(sample, np.linspace(0, 1, _BINS + 1)[1:-1]))
    bin_of = np.searchsorted(edges, sample, side="right")
    tables = {length: _table(bin_of, length, len(edges) + 1) for length in range(3, _LONGEST_RECORD + 1)}
    information = {length: _information(table) for length, table in tables.items()}
    best = max(information.values())
    # The standard deviation of a chi-squared distribution with the degrees of freedom of the largest table.
    noise = np.sqrt(2.0 * _LONGEST_RECORD * len(edges)) / (2 * len(sample))
    if best < _LEAST_INFORMATION + _STANDARD_ERRORS * noise:
        return None
    columns = min(length for length, found in information.items() if found > 0.9 * best)
    for shorter in (length for length in range(3, columns) if columns % length == 0):
        if information[shorter] < 0.05 * best:
            continue
        turn = _bearing_step(sample, shorter)
        apart = min(_divergence(tables[columns][axis], tables[columns][axis + shorter]) for axis in (0, 1))
        if turn < _SAME_BEARING and apart < _OTHER_COLUMN:
            columns = shorter
            break
        if turn < _OTHER_BEARING or apart < _OTHER_COLUMN:
            return None
    rivals = [found for length, found in information.items() if length % columns and columns % length]
    return columns if information[columns] > 1.25 * max(rivals, default=0.0) else None


def name_columns(rows: NDArray) -> list[str] | None:
    """Names of the columns of records (N, 3 to 12); None where the first three are not coordinates."""
    with np.errstate(invalid="ignore", over="ignore"):
        known = rows[np.isfinite(rows).all(axis=1)].astype(np.float64)
    if not len(known) or (np.quantile(np.abs(known[:, :3]), 0.99, axis=0) > _FARTHEST_M).any():
        return None
    if (np.ptp(known[:, :2], axis=0) == 0).any():
        return None
    names = ["x", "y", "z"]
    for k in range(3, rows.shape[1]):
        column = known[:, k]
        if "ring" not in names and _is_ring(known[:, :3], column):
            names.append("ring")
        elif "intensity" not in names and column.min() >= 0:
            names.append("intensity")
        else:
            names.append(f"column_{k}")
    return names


def _sample(values: NDArray) -> NDArray[np.float64]:
    """Some windows of the values, evenly over the file."""
    whole = len(values) // _WINDOW
    if whole > _WINDOWS:
        chosen = np.linspace(0, whole - 1, _WINDOWS).astype(int)
        values = values[: whole * _WINDOW].reshape(whole, _WINDOW)[chosen].ravel()
    with np.errstate(invalid="ignore"):  # signalling NaN
        return values.astype(np.float64)


def _is_plausible(sample: NDArray[np.float64]) -> bool:
    size = np.abs(sample[np.isfinite(sample) & (sample != 0)])
    odd = np.count_nonzero((size < _SMALLEST) | (size > _LARGEST))
    return bool(len(size) and odd < 0.01 * len(size))


def _table(bin_of: NDArray[np.int64], length: int, bins: int) -> NDArray[np.float64]:
    """Number of values by position in a record of this length and by bin."""
    rows = len(bin_of) // length
    place = np.arange(length) * bins + bin_of[: rows * length].reshape(rows, length)
    return np.bincount(place.ravel(), minlength=length * bins).reshape(length, bins).astype(np.float64)


def _information(table: NDArray[np.float64]) -> float:
    """Mutual information in nats, without the bias of a finite sample (Miller and Madow)."""
    total = table.sum()
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    seen = table > 0
    information = float(np.sum(table[seen] * np.log(table[seen] / expected[seen])) / total)
    freedom = np.count_nonzero(seen) - np.count_nonzero(expected[0]) - len(table) + 1
    return information - freedom / (2 * total)


def _divergence(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The Jensen-Shannon divergence of two columns, 0 to 0.69 nats."""
    return _information(np.stack([first, second]))


def _bearing_step(sample: NDArray[np.float64], columns: int) -> float:
    """Median angle between the directions of neighbouring points, rad; points at the origin have none."""
    rows = sample[: len(sample) // columns * columns].reshape(-1, columns)
    away = (rows[:, :2] != 0).any(axis=1)
    step = np.diff(np.arctan2(rows[:, 1], rows[:, 0]))[away[1:] & away[:-1]]
    return float(np.median(np.abs((step + np.pi) % (2 * np.pi) - np.pi))) if len(step) > 0.1 * len(rows) else np.pi


def _is_ring(points: NDArray[np.float64], column: NDArray[np.float64]) -> bool:
    """Whether these are numbers of beams: whole, and the points of one have about the same elevation angle."""
    if column.min() < 0 or column.max() >= _MOST_RINGS or (column != np.floor(column)).any() or np.ptp(column) == 0:
        return False
    reach = np.hypot(points[:, 0], points[:, 1])
    far = reach > 1.0
    if np.count_nonzero(far) < 10 * _MOST_RINGS:
        return False
    slope, ring = points[far, 2] / reach[far], column[far].astype(np.int64)
    count = np.maximum(np.bincount(ring), 1)
    middle = np.bincount(ring, slope) / count
    return bool(np.median(np.abs(slope - middle[ring])) < _SAME_RING * np.median(np.abs(slope - np.median(slope))))
