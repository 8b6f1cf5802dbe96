# SPDX-License-Identifier: Apache-2.0
"""Ouster's OSF files: scans as compressed images, the metadata of the sensors, and poses where SLAM saved them.

The layout is that of the flatbuffer schemas of ouster-sdk (OSF version 2). Its package pins versions of rosbags and
click that exclude those of Roadbed, so the files are read here.
"""

import io
import zlib
from collections.abc import Iterator
from dataclasses import replace
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError, foreign_errors, needs_extra
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.io.expansion import unpack
from roadbed.io.files import open_regular
from roadbed.io.flatbuffers import Table
from roadbed.sources.poses import given_poses
from roadbed.sources.sensors.ouster import Columns, Ouster, read_metadata, scan_of_columns
from roadbed.sources.source import Source

_MARK = b"OSF$"
_VALID = 2  # status of a file that was finished
_SENSOR, _STREAM = b"ouster/v1/os_sensor/LidarSensor", b"ouster/v1/os_sensor/LidarScanStream"
_NAMES = ("range", "range2", "intensity", "intensity2", "reflectivity", "reflectivity2", "near_ir")
_FIELDS = dict(enumerate(_NAMES, 1))
_TYPES = {1: "<u1", 2: "<u2", 3: "<u4"}
_ZPNG = b"\xf8\xfb"
_FEWEST_BYTES = 64  # of a message: a file cannot hold more messages than this allows


class _Message(NamedTuple):
    """A scan in the file: its host time (ns), its table, and where its chunk starts."""

    time: int
    scan: Table
    chunk: int


class OsfSource(Source):
    """Scans of one sensor; `sensor` names its serial number where the file has several."""

    name = "osf"
    accepts: ClassVar[tuple[str, ...]] = ("poses", "sensor")

    @classmethod
    def matches(cls, location: str) -> bool:
        path = Path(location)
        return path.suffix.lower() == ".osf" and path.is_file()

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        self.file = Path(self.path)
        with foreign_errors(self.file, "OSF file"):
            with open_regular(self.file) as file:
                self._raw = mmap(file.fileno(), 0, access=ACCESS_READ)
            self._sensor, self._messages = self._index()
            has_poses = any(len(message.scan.structures(6, 8)) for message in self._messages[:2])
        self._intact: int | None = None
        self.trajectory = given_poses(self.options, self)
        self.sequential = has_poses or self.trajectory is not None

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: int) -> Scan:
        with foreign_errors(self.file, "OSF file"):
            message = self._messages[index]
            self._check(message.chunk)
            scan, pose = self._scan(message, f"{self.file.stem}_{index:06d}")
        if self.trajectory is not None:
            return self.trajectory.place(scan, index, len(self))
        if pose is None and self.sequential:
            pose = Pose.identity()
        return replace(scan, T_world_sensor=pose)

    def close(self) -> None:
        self._raw.close()

    def details(self) -> dict[str, Any]:
        return {
            "brand": f"Ouster {self._sensor.model}".strip(),
            "serial_numbers": [sensor.serial_number for sensor in self._sensors.values()],
        }

    def _index(self) -> tuple[Ouster, list[_Message]]:
        """The chosen sensor, and its scans in order of time."""
        raw = self._raw
        if raw[8:12] != _MARK:
            raise InputError(f"{self.file}: found bytes {raw[8:12].hex()}, expected {_MARK.hex()} of an OSF file")
        header = Table.root(raw, 4)
        size, begin = header.number(3, "<Q"), header.number(2, "<Q")
        if header.number(1, "<B") != _VALID or size > len(raw):
            raise InputError(f"{self.file}: found an unfinished recording of {len(raw)} bytes, expected a closed file")
        metadata = Table.root(raw, begin + 4)
        entries = {entry.number(0, "<I"): (entry.content(1), entry.content(2)) for entry in metadata.tables(4)}
        self._sensors = {
            number: read_metadata(Table.root(data, 4).content(0).decode(), f"{self.file}: metadata", packets=False)
            for number, (kind, data) in entries.items()
            if kind == _SENSOR
        }
        streams = {
            number: Table.root(data, 4).number(0, "<I") for number, (kind, data) in entries.items() if kind == _STREAM
        }
        chosen = self._choose()
        chunks = 8 + int.from_bytes(raw[:4], "little")
        messages = []
        for place in metadata.structures(3, 24):
            chunk = chunks + int.from_bytes(raw[place + 16 : place + 24], "little")
            for message in Table.root(raw, chunk + 4).tables(0):
                if streams.get(message.number(1, "<I")) == chosen:
                    data = message.structures(2, 1)
                    messages.append(_Message(message.number(0, "<Q"), Table.root(raw, data.start + 4), chunk))
            if len(messages) * _FEWEST_BYTES > len(raw):
                raise InputError(f"{self.file}: found more than {len(messages)} messages in {len(raw)} bytes")
        if not messages:
            raise InputError(f"{self.file}: found no scans, expected at least one")
        return self._sensors[chosen], sorted(messages, key=lambda message: message.time)

    def _choose(self) -> int:
        names = {sensor.serial_number: number for number, sensor in self._sensors.items()}
        wanted = self.options.get("sensor")
        if wanted is None and len(self._sensors) == 1:
            return next(iter(self._sensors))
        if wanted not in names:
            found = ", ".join(names) or "none"
            raise InputError(f"{self.file}: sensor: found {found}; choose one by ?sensor=SERIAL_NUMBER")
        return names[wanted]

    def _check(self, chunk: int) -> None:
        """Compare the checksum of a chunk, once in a row."""
        if chunk == self._intact:
            return
        end = chunk + 4 + int.from_bytes(self._raw[chunk : chunk + 4], "little")
        if zlib.crc32(self._raw[chunk:end]) != int.from_bytes(self._raw[end : end + 4], "little"):
            raise InputError(f"{self.file}: found a damaged chunk at byte {chunk}, expected its checksum to agree")
        self._intact = chunk

    def _scan(self, message: _Message, name: str) -> tuple[Scan, Pose | None]:
        table, sensor = message.scan, self._sensor
        width = sensor.columns_per_frame
        values = dict(self._images(table, (len(sensor.altitude), width)))
        if "range" not in values:
            raise InputError(f"{self.file}: {name}: found no ranges, expected the field RANGE")
        stamp = np.frombuffer(table.content(2, 8), "<u8").astype(np.int64)
        status = np.frombuffer(table.content(4, 4), "<u4")
        if len(stamp) != width or len(status) != width:
            raise InputError(f"{self.file}: {name}: found {len(stamp)} columns, expected {width}")
        number = np.flatnonzero(status & 1)
        if not len(number):
            number = np.arange(width)
        arrival = np.frombuffer(table.content(7, 8), "<u8")
        time = 1e-9 * max(int(arrival.max()) if len(arrival) else 0, message.time)
        columns = Columns(0, number, stamp[number], {field: image.T[number] for field, image in values.items()})
        scan = scan_of_columns(sensor, [columns], time, str(self.file), name)
        if left_out := [field.content(0).decode() for field in table.tables(8)]:
            scan = replace(scan, diagnostics=(*scan.diagnostics, f"fields left out: {', '.join(left_out)[:200]}"))
        poses = np.frombuffer(table.content(6, 8), "<f8").reshape(-1, 4, 4)
        if len(poses) != width:
            return scan, None
        last = poses[number[-1]]
        if np.any(last[3, :3]):  # by columns, as older versions wrote them
            last = last.T
        return scan, Pose.from_matrix(last) @ Pose.from_matrix(sensor.T_body_sensor)

    def _images(self, scan: Table, shape: tuple[int, int]) -> Iterator[tuple[str, NDArray[np.uint32]]]:
        """Name and image (beams, columns) of every known field."""
        kinds = np.frombuffer(scan.content(1, 2), np.uint8).reshape(-1, 2)
        for (field, kind), channel in zip(kinds.tolist(), scan.tables(0)):
            if field in _FIELDS and kind in _TYPES:
                data = channel.content(0)
                if data[:2] == _ZPNG:
                    image = _zpng(data, shape, np.dtype(_TYPES[kind]), str(self.file))
                else:  # stored with the rows shifted, as a picture of the scene
                    column = (np.arange(shape[1]) + self._sensor.pixel_shift[:, None]) % shape[1]
                    image = np.take_along_axis(_png(data, shape), column, axis=1)
                yield _FIELDS[field], image.astype(np.uint32)


def _zpng(data: bytes, shape: tuple[int, int], dtype: np.dtype, where: str) -> NDArray:
    """An image of Zpng: zstd of differences along each row, of 4 bytes as planes of differences of colours."""
    with needs_extra("rosbags", "io", f"reading {where}"):
        from rosbags.rosbag2.storage_mcap import zstd
    height, width, size = *shape, dtype.itemsize
    content = np.frombuffer(unpack(zstd.ZstdDecompressor, data[8:], where), np.uint8)
    if len(content) != height * width * size:
        raise ValueError(f"an image of {len(content)} bytes, expected {width} x {height} x {size}")
    if size == 4:
        blue, green, red, alpha = content.reshape(4, height, width)
        green = green + blue
        steps = np.stack([green - red, green, blue, alpha], axis=-1)
    else:
        steps = content.reshape(height, width, size)
    return np.ascontiguousarray(np.cumsum(steps, axis=1, dtype=np.uint8)).view(dtype)[..., 0]


def _png(data: bytes, shape: tuple[int, int]) -> NDArray:
    """A PNG of grey values, or of colours that are the bytes of a number."""
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
        if image.size != shape[::-1]:
            raise ValueError(f"an image of {image.size}, expected {shape[::-1]}")
        pixels = np.asarray(image)
    if pixels.ndim == 2:
        return pixels
    number = np.zeros((*shape, 4), np.uint8)
    number[..., : pixels.shape[2]] = pixels
    return number.view("<u4")[..., 0]
