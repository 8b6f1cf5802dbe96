# SPDX-License-Identifier: Apache-2.0
"""Ouster lidar packets as the manual describes them: the sensor's metadata, packets to columns, columns to scans."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Float64
from roadbed.io.files import read_text
from roadbed.sources.fields import scan_from_fields

_MOST_PIXELS, _MOST_COLUMNS = 256, 4096
_HALF_OF_FRAMES = 1 << 15  # frame numbers have 16 bits: a larger step forward is a step back


class Profile(NamedTuple):
    """The packet layout of one `udp_profile_lidar`: sizes in bytes, and where values lie."""

    pixel: int
    fields: dict[str, tuple[int, str, int, int]]  # offset, type, mask, bits to shift left
    packet_header: int = 32
    column_header: int = 12
    column_footer: int = 0
    packet_footer: int = 32
    frame: tuple[str, int] = ("packet", 2)  # where the frame number is: "packet" or "column", and the offset
    status: tuple[str, int] = ("header", 10)  # where the valid bit is: "header" or "footer" of the column, the offset

    def column_bytes(self, beams: int) -> int:
        return self.column_header + beams * self.pixel + self.column_footer

    def packet_bytes(self, beams: int, columns: int) -> int:
        return self.packet_header + columns * self.column_bytes(beams) + self.packet_footer


_19_BITS, _ALL = 0x0007FFFF, -1
_SINGLE_RETURN = {"reflectivity": (4, "<u1", _ALL, 0), "intensity": (6, "<u2", _ALL, 0), "near_ir": (8, "<u2", _ALL, 0)}
PROFILES = {
    "LEGACY": Profile(
        12, {"range": (0, "<u4", 0x000FFFFF, 0), **_SINGLE_RETURN}, 0, 16, 4, 0, ("column", 10), ("footer", 0)
    ),
    "RNG19_RFL8_SIG16_NIR16": Profile(12, {"range": (0, "<u4", _19_BITS, 0), **_SINGLE_RETURN}),
    "RNG19_RFL8_SIG16_NIR16_DUAL": Profile(
        16,
        {
            "range": (0, "<u4", _19_BITS, 0),
            "reflectivity": (3, "<u1", _ALL, 0),
            "range2": (4, "<u4", _19_BITS, 0),
            "reflectivity2": (7, "<u1", _ALL, 0),
            "intensity": (8, "<u2", _ALL, 0),
            "intensity2": (10, "<u2", _ALL, 0),
            "near_ir": (12, "<u2", _ALL, 0),
        },
    ),
    "RNG15_RFL8_NIR8": Profile(
        4, {"range": (0, "<u2", 0x7FFF, 3), "reflectivity": (2, "<u1", _ALL, 0), "near_ir": (3, "<u1", _ALL, 4)}
    ),
}

PACKET_SIZES = {layout.packet_bytes(beams, 16) for layout in PROFILES.values() for beams in (16, 32, 64, 128)}


@dataclass(frozen=True, eq=False)
class Columns:
    """The valid columns of one packet; values by name are (columns, pixels)."""

    frame: int
    number: NDArray[np.int64]  # of each column in its frame
    stamp: NDArray[np.int64]  # ns
    values: dict[str, NDArray]


@dataclass(frozen=True, eq=False)
class Ouster:
    """A sensor as its metadata describes it."""

    profile: Profile
    columns_per_frame: int
    columns_per_packet: int
    altitude: Float64  # rad of each beam
    azimuth: Float64  # rad
    T_lidar_beam: Float64  # (4, 4), mm
    T_sensor_lidar: Float64  # (4, 4), mm
    port: int
    pixel_shift: NDArray[np.int64]  # columns by which each row is moved in images
    T_body_sensor: Float64  # (4, 4), m; the body whose poses Ouster's tools save
    serial_number: str
    model: str

    @property
    def packet_bytes(self) -> int:
        return self.profile.packet_bytes(len(self.altitude), self.columns_per_packet)

    @property
    def _column_bytes(self) -> int:
        return self.profile.column_bytes(len(self.altitude))

    def decode(self, packet: bytes) -> Columns:
        """The columns of a packet of the right size."""
        layout = self.profile
        raw = np.frombuffer(packet, np.uint8)[layout.packet_header :][: self.columns_per_packet * self._column_bytes]
        column = raw.reshape(self.columns_per_packet, self._column_bytes)
        stamp, number = field_at(column, 0, "<u8"), field_at(column, 8, "<u2")
        kind, offset = layout.frame
        frames = np.frombuffer(packet, "<u2", 1, offset) if kind == "packet" else field_at(column, offset, "<u2")
        end = self._column_bytes - layout.column_footer
        place, offset = layout.status
        status = field_at(column, offset if place == "header" else end + offset, "<u2")
        valid = (status & 1 == 1) & (number < self.columns_per_frame)
        pixels = column[:, layout.column_header : end].reshape(self.columns_per_packet, -1, layout.pixel)[valid]
        values = {}
        for name, (offset, dtype, mask, shift) in layout.fields.items():
            found = field_at(pixels, offset, dtype)
            values[name] = (found & found.dtype.type(mask) if mask != _ALL else found).astype(np.uint32) << shift
        return Columns(int(frames[0]), number[valid].astype(np.int64), stamp[valid].astype(np.int64), values)

    def points(self, number: NDArray[np.int64], range_mm: NDArray) -> NDArray[np.float32]:
        """(columns, pixels, 3) in the sensor frame, m, by the manual's formula."""
        direction, offset = self._beams
        reach = range_mm.astype(np.float64)[..., None]
        return (1e-3 * (reach * direction[number] + offset[number])).astype(np.float32)

    @cached_property
    def _beams(self) -> tuple[Float64, Float64]:
        """Direction and offset (mm) of every column and pixel: a point is range * direction + offset."""
        encoder = 2 * np.pi * (1 - np.arange(self.columns_per_frame) / self.columns_per_frame)[:, None]
        along, up = self.T_lidar_beam[0, 3], self.T_lidar_beam[2, 3]
        turned = encoder - self.azimuth
        level = np.cos(self.altitude)
        height = np.broadcast_to(np.sin(self.altitude), turned.shape)
        direction = np.stack([np.cos(turned) * level, np.sin(turned) * level, height], axis=-1)
        flat = np.broadcast_to(encoder, turned.shape)
        origin = np.stack([along * np.cos(flat), along * np.sin(flat), np.full(turned.shape, up)], axis=-1)
        offset = origin - np.hypot(along, up) * direction
        turn, move = self.T_sensor_lidar[:3, :3], self.T_sensor_lidar[:3, 3]
        return direction @ turn.T, offset @ turn.T + move


def scans_of_packets(sensor: Ouster, packets: Iterable[tuple[float, bytes]], where: str) -> Iterator[Scan]:
    """Scans of recorded packets with their times (s); packets of another size are not the sensor's."""
    assembler = FrameAssembler(sensor)
    for stamp, packet in packets:
        if len(packet) == sensor.packet_bytes:
            scan = assembler.add(sensor.decode(packet), stamp, where)
            if scan is not None:
                yield scan
    last = assembler.finish(where)
    if last is not None:
        yield last


class FrameAssembler:
    """Collects columns until those of the next frame arrive; late columns are dropped. `first` numbers its scans."""

    def __init__(self, sensor: Ouster, first: int = 0) -> None:
        self._sensor, self.number, self._host = sensor, first, 0.0
        self._frame: int | None = None
        self._columns: list[Columns] = []

    def add(self, columns: Columns, host_time: float, where: str) -> Scan | None:
        """The previous scan if these columns start a new frame; its time is the arrival of its last packet."""
        finished = None
        if self._frame is not None and columns.frame != self._frame:
            if (columns.frame - self._frame) % (1 << 16) > _HALF_OF_FRAMES:
                return None
            finished = self._scan(where)
            self._columns = []
        self._frame, self._host = columns.frame, host_time
        if len(columns.number):
            self._columns.append(columns)
        return finished

    def finish(self, where: str) -> Scan | None:
        """The scan of the columns that are left."""
        finished, self._columns = self._scan(where), []
        return finished

    def _scan(self, where: str) -> Scan | None:
        if not self._columns:
            return None
        self.number += 1
        return scan_of_columns(self._sensor, self._columns, self._host, where, f"ouster_{self.number - 1:06d}")


def scan_of_columns(sensor: Ouster, columns: list[Columns], time: float, where: str, name: str) -> Scan:
    """The returns of some columns; `time` (s) is that of the last one."""
    number = np.concatenate([part.number for part in columns])
    stamp = np.concatenate([part.stamp for part in columns])
    values = {name: np.concatenate([part.values[name] for part in columns]) for name in columns[0].values}
    lag = 1e-9 * (stamp - stamp.max()).astype(np.float64)
    returns = [_return_fields(sensor, number, lag, values, which) for which in ("", "2") if f"range{which}" in values]
    fields = {name: np.concatenate([part[name] for part in returns]) for name in returns[0]}
    return scan_from_fields(fields, where, time=time, name=name, sensor="ouster")


def _return_fields(
    sensor: Ouster, number: NDArray, lag: NDArray, values: dict[str, NDArray], which: str
) -> dict[str, NDArray]:
    """Values by name of every pixel with a return; `which` is "" for the first, "2" for the second return."""
    reach = values[f"range{which}"]
    column, pixel = np.nonzero(reach)
    points = sensor.points(number, reach)[column, pixel]
    fields = {axis: points[:, k] for k, axis in enumerate("xyz")}
    for name in ("intensity", "reflectivity", "near_ir"):
        found = values.get(name + which, values.get(name))
        if found is not None:
            fields[name] = found[column, pixel].astype(np.float32)
    fields["ring"] = pixel.astype(np.uint16)
    fields["point_time"] = lag[column]
    if "range2" in values:
        fields["echo"] = np.full(len(pixel), 2 if which else 1, np.uint8)
    return fields


def metadata_file(recording: Path, given: Any = None) -> Ouster | None:
    """The sensor of a metadata file: the given one, else the JSON file with the name of the recording, if there is."""
    file = recording.with_suffix(".json") if given is None else Path(str(given))
    return read_metadata(read_text(file), str(file)) if given is not None or file.is_file() else None


def read_metadata(text: str, where: str, packets: bool = True) -> Ouster:
    """Parse the JSON of /api/v1/sensor/metadata, or the flat JSON of older firmware.

    Without `packets` the profile may be one whose packets are not read.
    """
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{where}: found no JSON, expected an Ouster's metadata") from None
    if not isinstance(tree, dict):
        raise InputError(f"{where}: found {type(tree).__name__}, expected an Ouster's metadata")
    parts = [tree, *(part for part in tree.values() if isinstance(part, dict))]
    names = {name: value for part in reversed(parts) for name, value in part.items()}
    layout = names.get("data_format") or names.get("lidar_data_format") or {}
    names.update(layout if isinstance(layout, dict) else {})
    profile = str(names.get("udp_profile_lidar") or "LEGACY")
    if packets and profile not in PROFILES:
        raise InputError(f"{where}: udp_profile_lidar: found {profile[:60]!r}, expected one of {', '.join(PROFILES)}")
    altitude = _angles(names, "beam_altitude_angles", where)
    azimuth = _angles(names, "beam_azimuth_angles", where)
    if len(altitude) != len(azimuth):
        raise InputError(f"{where}: found {len(altitude)} altitudes and {len(azimuth)} azimuths, expected one per beam")
    shift = _numbers(names.get("pixel_shift_by_row", np.zeros(len(altitude))), "pixel_shift_by_row", where)
    if shift.shape != altitude.shape or np.abs(shift).max() > _MOST_COLUMNS:
        raise InputError(f"{where}: pixel_shift_by_row: found shape {shift.shape}, expected one shift per beam")
    beam = np.eye(4)
    beam[0, 3] = _number(names, "lidar_origin_to_beam_origin_mm", where, 0.0)
    return Ouster(
        PROFILES.get(profile, PROFILES["LEGACY"]),
        int(_number(names, "columns_per_frame", where, None, _MOST_COLUMNS)),
        int(_number(names, "columns_per_packet", where, 16, 256)),
        altitude,
        azimuth,
        _matrix(names, "beam_to_lidar_transform", where, beam),
        _matrix(names, "lidar_to_sensor_transform", where, np.diag([-1.0, -1.0, 1.0, 1.0])),
        int(_number(names, "udp_port_lidar", where, 7502, 65535)),
        shift.astype(np.int64),
        _matrix(names, "extrinsic", where, np.eye(4)),
        str(names.get("prod_sn", ""))[:60],
        str(names.get("prod_line", ""))[:60],
    )


def field_at(blocks: NDArray[np.uint8], offset: int, dtype: str) -> NDArray:
    """A value of each block, at any alignment."""
    size = np.dtype(dtype).itemsize
    return np.ascontiguousarray(blocks[..., offset : offset + size]).view(dtype)[..., 0]


def _numbers(value: Any, name: str, where: str) -> Float64:
    try:
        found = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        found = np.full(1, np.nan)
    if not np.isfinite(found).all():
        raise InputError(f"{where}: {name}: expected finite numbers")
    return found


def _angles(names: dict[str, Any], name: str, where: str) -> Float64:
    found = _numbers(names.get(name, []), name, where)
    if found.ndim != 1 or not 0 < len(found) <= _MOST_PIXELS:
        raise InputError(f"{where}: {name}: found shape {found.shape}, expected one angle per beam")
    return np.radians(found)


def _matrix(names: dict[str, Any], name: str, where: str, default: Float64) -> Float64:
    if name not in names:
        return default
    found = _numbers(names[name], name, where)
    if found.size != 16:
        raise InputError(f"{where}: {name}: found {found.size} numbers, expected 16")
    return found.reshape(4, 4)


def _number(names: dict[str, Any], name: str, where: str, default: float | None, most: float = 1e6) -> float:
    value = names.get(name, default)
    least = 0.0 if default == 0.0 else 1.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InputError(f"{where}: {name}: found {str(value)[:60]!r}, expected a number from {least:g} to {most:g}")
    return float(value)
