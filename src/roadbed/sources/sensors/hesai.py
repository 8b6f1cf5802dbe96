# SPDX-License-Identifier: Apache-2.0
"""Hesai packets as the manuals describe them (Pandar40P, Pandar64, PandarXT-32): packets to blocks, blocks to scans.

Angles of the single sensor are in its correction file; without it those of the model are used.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Float64
from roadbed.io.files import read_text
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.sensors.ouster import field_at

_MARK = (b"\xee\xff", b"\xff\xee")
_SEQUENCE = 4  # bytes at the end of a packet, where they are switched on
_ONE_RETURN = (0x33, 0x34, 0x37, 0x38)  # first, second, strongest, last; two blocks per firing otherwise
_SECOND = 1_000_000  # microseconds, the range of the stamp in a packet
_HALF_TURN = 18_000  # hundredths of a degree
_MOST_BLOCKS = 8192  # of a scan: 5 revolutions per second with two returns have 8000


class Model(NamedTuple):
    """Where values lie in the packets of a model (bytes), and its angles (degrees)."""

    name: str
    channels: int
    blocks: int
    header: int
    counts: int  # where the header has the numbers of channels and of blocks; 0 without a header
    unit_mm: int  # where the header has the unit of distances
    mark: int  # bytes in front of the azimuth of a block
    unit: int  # of a channel
    tail: int
    return_mode: int  # in the tail
    stamp: int
    block_us: float  # time between blocks, and from the last block to the stamp
    last_us: float
    angles: Float64  # (channels, 2): elevation, azimuth from that of the block

    @property
    def block(self) -> int:
        return self.mark + 2 + self.channels * self.unit

    @property
    def size(self) -> int:
        return self.header + self.blocks * self.block + self.tail

    def fits(self, packet: bytes) -> bool:
        """Whether a packet of any origin is one of this model."""
        if len(packet) not in (self.size, self.size + _SEQUENCE):
            return False
        if not self.header:
            return all(packet[k * self.block : k * self.block + 2] in _MARK for k in range(self.blocks))
        counts = (packet[self.counts], packet[self.counts + 1])
        return packet[:2] in _MARK and counts == (self.channels, self.blocks) and packet[self.unit_mm] > 0


def _angles(above: list[float], step: float, below: list[float], offsets: list[float], repeated: int) -> Float64:
    """Channels far apart, then `repeated` times those of `offsets` (degrees) `step` apart, then far apart again."""
    dense = [above[-1] - step * k for k in range(1, repeated * len(offsets) + 1)]
    azimuth = [-1.042] * len(above) + offsets * repeated + [-1.042] * len(below)
    return np.stack([np.array(above + dense + below), np.array(azimuth)], axis=1)


MODELS = (
    Model(
        *("Pandar40P", 40, 10, 0, 0, 0, 2, 3, 22, 14, 10, 55.56, 28.58),
        _angles(
            [15, 11, 8, 5, 3, 2], 1 / 3, [-7, -8, -9, -10, -11, -12, -13, -14, -19, -25], [3.125, -5.208, -1.042], 8
        ),
    ),
    Model(
        *("Pandar64", 64, 6, 8, 2, 5, 0, 3, 22, 14, 10, 55.56, 42.58),
        _angles(
            [14.88, 11.03, 8.06, 5.06, 3.04, 2.03],
            8.09 / 48,
            [-7.06, -8.06, -9.06, -10.05, -11.03, -12.01, -12.97, -13.93, -18.89, -24.9],
            [1.042, 3.125, 5.208, -5.208, -3.125, -1.042],
            8,
        ),
    ),
    Model(
        *("PandarXT-32", 32, 8, 12, 6, 9, 0, 4, 24, 10, 19, 50.0, -5.632),
        np.stack([np.arange(15.0, -17.0, -1.0), np.zeros(32)], axis=1),
    ),
)


NAMES = ", ".join(model.name for model in MODELS)
_HEADER = 12  # bytes with the protocol and the number of beams, of models later than those with other headers
_OTHERS = {(1, 64): "PandarQT", (1, 128): "Pandar128", (3, 128): "QT128", (4, 128): "AT128", (6, 16): "PandarXT-16"}


def not_read(packet: bytes) -> str:
    """What the header of a packet says of a Hesai whose packets are not read; empty for other packets."""
    if not packet.startswith(_MARK[0]) or len(packet) < _HEADER:
        return ""
    beams, name = packet[6], _OTHERS.get((packet[2], packet[6]), "")
    return f"Hesai{name and ' ' + name} of {beams} beams (protocol {packet[2]}.{packet[3]}; read are {NAMES})"


def model_of(packet: bytes) -> Model | None:
    return next((model for model in MODELS if model.fits(packet)), None)


def _decode(packet: bytes, model: Model) -> tuple[NDArray, ...]:
    """Of each block: azimuth (1/100 degree), distances (channels, m, 0 without a return), reflectivities, time
    (microseconds in the second of the sensor's clock), and 1 or 2 for the second return."""
    raw = np.frombuffer(packet, np.uint8)
    body = raw[model.header :][: model.blocks * model.block].reshape(model.blocks, model.block)
    units = body[:, model.mark + 2 :].reshape(model.blocks, model.channels, model.unit)
    unit_m = 1e-3 * (packet[model.unit_mm] if model.header else 4)
    distance = field_at(units, 0, "<u2") * unit_m
    tail = packet[model.size - model.tail : model.size]
    returns = 1 if tail[model.return_mode] in _ONE_RETURN else 2
    number = np.arange(model.blocks)
    stamp = int.from_bytes(tail[model.stamp : model.stamp + 4], "little")
    firings_left = (model.blocks - 1 - number) // returns
    echo = (number % returns + 1).astype(np.uint8)
    if returns == 2:  # a single return is sent twice
        distance[1::2][distance[1::2] == distance[::2]] = 0
    azimuth = field_at(body, model.mark, "<u2").astype(np.int64)
    return azimuth, distance, units[..., 2], stamp - model.last_us - model.block_us * firings_left, echo


def scans_of_packets(
    packets: Iterable[tuple[float, bytes]], where: str, calibration: Any = None, cut: bool = True
) -> Iterator[Scan]:
    """Scans of packets with their times (s), cut where the azimuth passes 0.

    The model is that of the first packet; packets of other models and sensors are left out.
    """
    model, host, last, angles = None, 0.0, 0, None if calibration is None else read_angles(calibration)
    waiting: list[tuple[NDArray, ...]] = []
    for time, packet in packets:
        model = model or model_of(packet)
        if model is None or not model.fits(packet):
            continue
        blocks = _decode(packet, model)
        azimuth = blocks[0]
        starts = np.nonzero(np.diff(azimuth, prepend=last) < -_HALF_TURN)[0].tolist() if waiting and cut else []
        begin = 0
        for start in [*starts, model.blocks]:
            if start > begin:
                waiting.append(tuple(values[begin:start] for values in blocks))
                begin, host = start, time
            if start < model.blocks or len(waiting) * model.blocks > _MOST_BLOCKS:
                yield _scan(waiting, model, angles, host, where)
                waiting = []
        last = int(azimuth[-1])
    if waiting and model is not None:
        yield _scan(waiting, model, angles, host, where)


def scan_of_packets(packets: list[tuple[float, bytes]], where: str, calibration: Any = None) -> Scan:
    """One scan of all packets, which a driver has cut into revolutions."""
    for scan in scans_of_packets(packets, where, calibration, cut=False):
        return scan
    raise InputError(f"{where}: found {len(packets)} packets, none of them of a {NAMES}")


def _scan(parts: list[tuple[NDArray, ...]], model: Model, angles: Float64 | None, host: float, where: str) -> Scan:
    azimuth, distance, intensity, stamp, echo = (np.concatenate(values) for values in zip(*parts))
    notes: tuple[str, ...] = ()
    if angles is None:
        angles = model.angles
        notes = (f"nominal angles of a {model.name} are used; give its correction file by ?calibration=FILE.csv",)
    if len(angles) != model.channels:
        raise InputError(f"{where}: correction file: found {len(angles)} channels, expected {model.channels}")
    block, channel = np.nonzero(distance)
    reach, elevation = distance[block, channel], np.radians(angles[channel, 0])
    turned = np.radians(0.01 * azimuth[block] + angles[channel, 1])
    level, half = reach * np.cos(elevation), _SECOND / 2
    fields = {
        "x": (level * np.sin(turned)).astype(np.float32),
        "y": (level * np.cos(turned)).astype(np.float32),
        "z": (reach * np.sin(elevation)).astype(np.float32),
        "intensity": intensity[block, channel],
        "ring": channel.astype(np.uint16),
        "point_time": 1e-6 * ((stamp[block] - stamp[-1] + half) % _SECOND - half),
    }
    if echo.max(initial=1) > 1:
        fields["echo"] = echo[block]
    return scan_from_fields(fields, where, time=host, sensor="hesai", diagnostics=notes)


def read_angles(file: str | Path) -> Float64:
    """Elevation and azimuth (channels, 2) in degrees of a correction file with lines `channel,elevation,azimuth`."""
    rows = {}
    for line in read_text(file).splitlines():
        try:
            number, elevation, azimuth = line.split(",")[:3]
            rows[int(number)] = float(elevation), float(azimuth)
        except ValueError:  # a title
            continue
    found = np.array([rows[number] for number in sorted(rows)])
    if not rows or sorted(rows) != list(range(1, len(rows) + 1)) or not (np.abs(found) <= 90).all():
        raise InputError(f"{file}: expected lines of channel, elevation and azimuth, channels from 1 on in degrees")
    return found
