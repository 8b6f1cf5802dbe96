# SPDX-License-Identifier: Apache-2.0
"""Records without a header: `?columns=x,y,z,intensity&dtype=uint16&scale=0.005&offset=-100`, or recognised."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.sources.fields import RING_NAMES
from roadbed.sources.formats.column_count import count_columns, name_columns

RAW_OPTIONS = ("columns", "dtype", "scale", "offset")
DTYPES = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SKIPPED = "_"
KITTI = ("x", "y", "z", "intensity")
NUSCENES = (*KITTI, "ring")
_MOST_COLUMNS = 256
_LARGEST_RING = 65535


@dataclass(frozen=True)
class Layout:
    """The columns of a record, all little-endian. Coordinates in m are number * scale + offset."""

    names: tuple[str, ...]
    dtypes: tuple[np.dtype, ...]
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    recognised: bool = False

    @property
    def record_size(self) -> int:
        return sum(dtype.itemsize for dtype in self.dtypes)

    def __str__(self) -> str:
        kinds = list(dict.fromkeys(dtype.name for dtype in self.dtypes))
        kind = kinds[0] if len(kinds) == 1 else ",".join(dtype.name for dtype in self.dtypes)
        return f"{len(self.names)} x {kind}: {', '.join(self.names)}"

    def fields(self, data: bytes, where: str) -> dict[str, NDArray]:
        """The columns of a file by name."""
        size = self.record_size
        if len(data) % size:
            kinds = {dtype.name for dtype in self.dtypes}
            made_of = f"{len(self.names)} x {kinds.pop()}" if len(kinds) == 1 else f"{len(self.names)} columns"
            raise InputError(
                f"{where}: length: found {len(data)} bytes, expected a multiple of {size} ({made_of}); "
                f"{len(data) // size} whole points and {len(data) % size} bytes"
            )
        record = np.dtype([(str(k), dtype) for k, dtype in enumerate(self.dtypes)])
        table = np.frombuffer(data, record)
        return self.named({name: table[str(k)].copy() for k, name in enumerate(self.names) if name != SKIPPED}, where)

    def named(self, fields: dict[str, NDArray], where: str) -> dict[str, NDArray]:
        """Scaled coordinates, and whole numbers for rings."""
        for axis, scale, offset in zip("xyz", self.scale, self.offset):
            if (scale, offset) != (1.0, 0.0):
                fields[axis] = fields[axis] * np.float64(scale) + offset
        for name, values in fields.items():
            if name in RING_NAMES and values.dtype.kind == "f":
                fields[name] = _rings(values, f"{where}: {name}")
        return fields


def _rings(values: NDArray, where: str) -> NDArray[np.uint16]:
    with np.errstate(invalid="ignore"):
        good = (values >= 0) & (values <= _LARGEST_RING) & (values == np.floor(values))
    if not good.all():
        raise InputError(f"{where}: found {values[~good][0]:g}, expected whole numbers from 0 to {_LARGEST_RING}")
    return values.astype(np.uint16)


def given_layout(options: Mapping[str, Any], where: str, default: tuple[str, ...] | None = None) -> Layout | None:
    """The layout of the options, with `default` names; None where neither names the columns."""
    names = default
    if "columns" in options:
        names = _names(str(options["columns"]), where)
    if names is None:
        return None
    words = str(options.get("dtype", "float32")).split(",")
    for word in words:
        if word not in DTYPES:
            raise InputError(f"{where}: dtype {word[:24]!r}: expected one of {', '.join(DTYPES)}")
    if len(words) not in (1, len(names)):
        raise InputError(f"{where}: dtype: found {len(words)} types, expected one, or {len(names)} (one per column)")
    dtypes = tuple(np.dtype(word).newbyteorder("<") for word in (words * len(names) if len(words) == 1 else words))
    return Layout(names, dtypes, _factors(options, "scale", 1.0, where), _factors(options, "offset", 0.0, where))


def recognised_layout(data: bytes, options: Mapping[str, Any], where: str) -> Layout | None:
    """The layout by the numbers of a file; None where they do not determine it."""
    if "," in str(options.get("dtype", "")):
        raise InputError(f"{where}: dtype: found several types, expected ?columns= with a name for each")
    single = given_layout(options, where, ("x",))
    assert single is not None
    dtype = single.dtypes[0]
    values = np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
    columns = count_columns(values)
    if columns is None:
        return None
    names = name_columns(values[: len(values) // columns * columns].reshape(-1, columns))
    if names is None:
        return None
    return Layout(tuple(names), (dtype,) * columns, single.scale, single.offset, recognised=True)


def _names(text: str, where: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    kept = [name for name in names if name != SKIPPED]
    good = all(re.fullmatch(r"\w{1,64}", name) for name in names) and len(set(kept)) == len(kept) <= _MOST_COLUMNS
    if not good or not {"x", "y", "z"} <= set(names):
        raise InputError(
            f"{where}: columns {text[:60]!r}: expected names like x,y,z,intensity, each once, with x, y and z; "
            f"{SKIPPED} skips a column"
        )
    return names


def _factors(options: Mapping[str, Any], name: str, default: float, where: str) -> tuple[float, float, float]:
    """One number for x, y and z, or three."""
    text = str(options.get(name, default))
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 3) or not np.isfinite(numbers).all() or (name == "scale" and 0.0 in numbers):
        raise InputError(f"{where}: {name} {text[:40]!r}: expected one finite number, or three for x, y and z")
    x, y, z = numbers * (3 // len(numbers))
    return x, y, z
