# SPDX-License-Identifier: Apache-2.0
"""An Ouster sensor on the wire: `ouster:HOST` (asks the sensor for its metadata) or `ouster:PORT?metadata=FILE`."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from typing import Any, ClassVar

import numpy as np

from roadbed.config.text import load_text
from roadbed.core.errors import DeviceError, InputError
from roadbed.core.frames import Scan
from roadbed.sources.sensors.ouster import Columns, FrameAssembler, read_metadata
from roadbed.sources.sensors.udp import UdpSource, listening_address

_METADATA = "/api/v1/sensor/metadata"
_TIMEOUT_S, _LARGEST_ANSWER = 3.0, 1 << 20
_VOTES = 16  # packets, of which more than half decide on the frame number
_FRAMES_LOST = 16  # in a row, after which packets still continue the frame number


class OusterSource(UdpSource):
    """Scans of an Ouster sensor, assembled from its packets."""

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
            self._sensor = read_metadata(_request_metadata(self.path, name, http_port), f"http://{name}{_METADATA}")
            host, port = _local_address(self.path, name), self._sensor.port
        self.listen(host, port)

    def __iter__(self) -> Iterator[Scan]:
        assembler, vote = FrameAssembler(self._sensor), FrameVote()
        for packet in self._packets:
            if len(packet) != self._sensor.packet_bytes:
                self.ignore(f"{len(packet)} bytes, expected {self._sensor.packet_bytes}")
                continue
            columns = self._sensor.decode(packet)
            known = vote.frame is not None
            if not self._is_plausible(columns) or not vote.add(columns.frame):
                self.ignore("measurement or frame numbers that do not continue those of the sensor")
                continue
            if known and vote.restarted:
                assembler = FrameAssembler(self._sensor, assembler.number)
            scan = assembler.add(columns, time.time(), self.path)
            if scan is not None:
                yield scan

    def _is_plausible(self, columns: Columns) -> bool:
        """A packet has neighbouring columns, in their order."""
        number = columns.number
        return len(number) < 2 or bool((np.diff(number) > 0).all() and np.ptp(number) < self._sensor.columns_per_packet)


class FrameVote:
    """Accepts packets that continue the frame number, or whose frame number most of the last packets have.

    One foreign packet with a number ahead would otherwise make the sensor's own packets late ones, for up to an hour.
    """

    def __init__(self) -> None:
        self.frame: int | None = None
        self.restarted = False  # the last accepted packet did not continue the frame number
        self._recent = deque[int](maxlen=_VOTES)

    def add(self, frame: int) -> bool:
        self._recent.append(frame)
        self.restarted = self.frame is None or not _is_near(frame, self.frame)
        if self.restarted and 2 * sum(_is_near(frame, other) for other in self._recent) <= len(self._recent):
            return False
        self.frame = frame
        return True


def _is_near(frame: int, other: int) -> bool:
    return (frame - other + _FRAMES_LOST) % (1 << 16) <= 2 * _FRAMES_LOST


def _request_metadata(path: str, host: str, port: str) -> str:
    """Ask the sensor for its metadata."""
    if not host or (port and not port.isdecimal()) or host.isdecimal():
        raise InputError(f"{path}: expected ouster:HOST, or ouster:PORT?metadata=FILE")
    connection = HTTPConnection(host, int(port or 80), timeout=_TIMEOUT_S)
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


def _local_address(path: str, host: str) -> str:
    """The address of this machine on the sensor's network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))  # sends nothing
        except OSError as error:
            raise DeviceError(f"{path}: {host}: no way there ({error.strerror})") from None
        return str(probe.getsockname()[0])
