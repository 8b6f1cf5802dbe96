# SPDX-License-Identifier: Apache-2.0
"""An Ouster sensor on the wire: `ouster:HOST`, which asks it for its metadata, or `ouster:PORT?metadata=FILE`."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from typing import Any, ClassVar

import numpy as np

from roadbed.config.text import load_text
from roadbed.core.errors import DeviceError, InputError
from roadbed.core.frames import Scan
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.sensors.ouster import Columns, Ouster, read_metadata
from roadbed.sources.sensors.udp import UdpSource, listening_address

_METADATA = "/api/v1/sensor/metadata"
_PATIENCE_S, _LARGEST_ANSWER = 3.0, 1 << 20
_HALF_OF_FRAMES = 1 << 15  # frame numbers have 16 bits: one that seems so much newer is older


class OusterSource(UdpSource):
    """Scans of an Ouster sensor, put together from its packets."""

    name = "ouster"
    accepts: ClassVar[tuple[str, ...]] = ("metadata",)

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        if "metadata" in self.options:
            file = str(self.options["metadata"])
            self._sensor = read_metadata(load_text(file), file)
            host, port = listening_address(self.path, self.name)
        else:
            name, _, http_port = self.path.removeprefix("ouster:").partition(":")
            self._sensor = read_metadata(_asked(self.path, name, http_port), f"http://{name}{_METADATA}")
            host, port = _facing(self.path, name), self._sensor.port
        self.listen(host, port)

    def __iter__(self) -> Iterator[Scan]:
        turn = Turn(self._sensor)
        for packet in self._packets:
            if len(packet) != self._sensor.packet_bytes:
                self.foreign_packets += 1
                continue
            scan = turn.add(self._sensor.decode(packet), time.time(), self.path)
            if scan is not None:
                yield scan


class Turn:
    """Columns until those of the next turn come; what comes late belongs to none."""

    def __init__(self, sensor: Ouster) -> None:
        self._sensor, self._number, self._host = sensor, 0, 0.0
        self._frame: int | None = None
        self._columns: list[Columns] = []

    def add(self, columns: Columns, host_time: float, where: str) -> Scan | None:
        """The scan that these columns end, if they do; its time is when its last packet came, by this computer."""
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

    def _scan(self, where: str) -> Scan | None:
        if not self._columns:
            return None
        number = np.concatenate([part.number for part in self._columns])
        stamp = np.concatenate([part.stamp for part in self._columns])
        values = {
            name: np.concatenate([part.values[name] for part in self._columns]) for name in self._columns[0].values
        }
        lag = 1e-9 * (stamp - stamp.max()).astype(np.float64)
        returns = [
            _of_return(self._sensor, number, lag, values, which) for which in ("", "2") if f"range{which}" in values
        ]
        fields = {name: np.concatenate([part[name] for part in returns]) for name in returns[0]}
        self._number += 1
        return scan_from_fields(fields, where, time=self._host, name=f"ouster_{self._number - 1:06d}", sensor="ouster")


def _of_return(sensor: Ouster, number: Any, lag: Any, values: dict[str, Any], which: str) -> dict[str, Any]:
    """Named values of every pixel from which something came back, as the first or the second echo."""
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


def _asked(path: str, host: str, port: str) -> str:
    """The metadata that the sensor itself gives."""
    if not host or (port and not port.isdecimal()) or host.isdecimal():
        raise InputError(f"{path}: expected ouster:HOST, or ouster:PORT?metadata=FILE")
    connection = HTTPConnection(host, int(port or 80), timeout=_PATIENCE_S)
    try:
        connection.request("GET", _METADATA)
        answer = connection.getresponse()
        text = answer.read(_LARGEST_ANSWER)
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DeviceError(f"{path}: no answer to http://{host}{_METADATA} ({reason})") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise DeviceError(f"{path}: http://{host}{_METADATA}: found status {answer.status}, expected 200")
    return text.decode("utf-8", "replace")


def _facing(path: str, host: str) -> str:
    """The address of this machine that the sensor sees."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))  # sends nothing
        except OSError as error:
            raise DeviceError(f"{path}: {host}: no way there ({error.strerror})") from None
        return str(probe.getsockname()[0])
