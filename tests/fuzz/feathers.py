# SPDX-License-Identifier: Apache-2.0
"""Feather files as Arrow writes them, with columns of the right and of every other kind."""

import io
from random import Random
from typing import Any

import numpy as np
import pyarrow as arrow
from pyarrow import feather

from tests.fuzz.clouds import numbers, odd

_KINDS = ("<f2", "<f4", "<f8", "<i1", "<u1", "<i2", "<u4", "<i8")


def sweep(rng: Random) -> bytes:
    """x, y, z and more, or not quite."""
    rows = rng.choice((0, 1, 4, 20))
    names = ["x", "y", "z", *rng.sample(("intensity", "laser_number", "offset_ns", "other", ""), rng.randint(0, 5))]
    return _table(rng, rows, {name: _column(rng, rows) for name in names})


def poses(rng: Random) -> bytes:
    """The table of poses, or the calibration, which names its sensors."""
    rows = rng.choice((0, 1, 3))
    columns = {name: _column(rng, rows) for name in ("qx", "qy", "qz", "qw", "tx_m", "ty_m", "tz_m")}
    columns["timestamp_ns"] = odd(rng, arrow.array(np.arange(rows) * 10**8), _column(rng, rows))
    if rng.random() < 0.5:
        columns["sensor_name"] = arrow.array([rng.choice(("up_lidar", "down_lidar", "\n", "")) for _ in range(rows)])
    return _table(rng, rows, columns)


def _column(rng: Random, rows: int) -> Any:
    if rng.random() < 0.03:
        return rng.choice(_ODD)(rows)
    values = numbers(rng, np.dtype(rng.choice(_KINDS)), (rows,))
    gaps = np.array([rng.random() < 0.3 for _ in range(rows)], bool) if rng.random() < 0.05 else None
    return arrow.array(values, mask=gaps)


_ODD = (
    lambda rows: arrow.nulls(rows),
    lambda rows: arrow.array(["text"] * rows),
    lambda rows: arrow.array(["text"] * rows).dictionary_encode(),
    lambda rows: arrow.array([[1.0, 2.0]] * rows),
    lambda rows: arrow.array([{"a": 1}] * rows),
    lambda rows: arrow.array([True] * rows),
    lambda rows: arrow.array(np.arange(rows).astype("M8[ns]")),
    lambda rows: arrow.array([b"bytes"] * rows),
)


def _table(rng: Random, rows: int, columns: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    kept = {name: values for name, values in columns.items() if rng.random() > 0.01}
    chunk = rng.choice((None, None, 2)) if rows else None
    packed = rng.choice(("uncompressed", "lz4", "zstd"))
    feather.write_feather(arrow.table(kept), stream, compression=packed, chunksize=chunk)
    return stream.getvalue()
