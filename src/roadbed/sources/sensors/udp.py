# SPDX-License-Identifier: Apache-2.0
"""Sensors on the wire: `velodyne:2368`, `hesai:2368?calibration=FILE.csv`, `ouster:HOST`, `ouster:PORT?metadata=FILE`.

One socket each, on loopback unless the location names another address.
"""

import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, groupby
from typing import Any, ClassVar

import numpy as np

from roadbed.config.text import load_text
from roadbed.core.errors import DeviceError, InputError, foreign_errors
from roadbed.core.frames import Scan
from roadbed.sources.sensors import hesai
from roadbed.sources.sensors.ouster import Columns, FrameAssembler, read_metadata
from roadbed.sources.sensors.velodyne import PacketClock, model_of, velodyne_decoder, velodyne_scan
from roadbed.sources.source import Source

_WAKE_S = 0.2
_BUFFER = 2**22  # bytes of the receive buffer: sensors send bursts of a few hundred packets
_VOTES = 32  # packets, of which more than half decide on the model: 42 ms of a VLP-16
_WITHOUT_POINTS = 512  # bytes of the GPS and telemetry packets of Velodyne and Hesai
_METADATA = "/api/v1/sensor/metadata"
_TIMEOUT_S, _LARGEST_ANSWER = 3.0, 1 << 20
_FRAME_VOTES = 16  # packets, of which more than half decide on the frame number of an Ouster
_FRAMES_LOST = 16  # in a row, after which packets still continue the frame number


class UdpSource(Source):
    """A live sensor without a known end; `close` from another thread ends the iteration."""

    sequential = False  # a sensor alone has no odometry
    foreign_packets = 0  # packets that are not this sensor's, ignored

    @classmethod
    def matches(cls, location: str) -> bool:
        return location.startswith(f"{cls.name}:")

    def listen(self, host: str, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise DeviceError(f"{self.path}: cannot listen at {host}:{port} ({error.strerror})") from None
        self._socket.settimeout(_WAKE_S)
        self.port = int(self._socket.getsockname()[1])
        self.address = f"UDP {host}:{self.port}"

    def close(self) -> None:
        self._socket.close()

    def ignore(self, reason: str) -> None:
        """Count a foreign packet; the 1st, 10th, 100th, ... is reported on standard error."""
        self.foreign_packets += 1
        if str(self.foreign_packets).strip("0") == "1":
            print(
                f"roadbed: {self.path}: {self.foreign_packets} packets ignored: {reason}", file=sys.stderr, flush=True
            )

    def _packets(self) -> Iterator[bytes]:
        while True:
            try:
                yield self._socket.recv(65536)
            except TimeoutError:
                continue
            except OSError:  # closed
                return

    def _runs(self, model_of: Callable[[bytes], str | None]) -> Iterator[Iterator[tuple[str, float, bytes]]]:
        """Model, time of reading (s) and packet, of the model that most of the last packets have: a run per model.

        Decoders keep the model of their first packet, so one foreign packet would silence them.
        """
        return (run for _, run in groupby(self._voted_packets(model_of), key=lambda found: found[0]))

    def _voted_packets(self, model_of: Callable[[bytes], str | None]) -> Iterator[tuple[str, float, bytes]]:
        recent = deque[str](maxlen=_VOTES)
        waiting = deque[tuple[str, float, bytes]](maxlen=_VOTES)  # until the model is known
        chosen = None
        for packet in self._packets():
            model = model_of(packet)
            if model is None:
                if len(packet) != _WITHOUT_POINTS:
                    self.ignore(f"{len(packet)} bytes that are no packet of a known {self.name.capitalize()}")
                continue
            recent.append(model)
            waiting.append((model, time.time(), packet))
            most, votes = Counter(recent).most_common(1)[0]
            if len(recent) == _VOTES and 2 * votes > _VOTES:
                chosen = most
            while chosen is not None and waiting:
                found = waiting.popleft()
                if found[0] == chosen:
                    yield found
                else:
                    self.ignore(f"from a {found[0]}, most are from a {chosen}")


def listening_address(path: str, sensor: str) -> tuple[str, int]:
    """Host and port of `SENSOR:PORT` (loopback) or `SENSOR:ADDRESS:PORT`; 0.0.0.0 is every interface."""
    host, _, port = path.removeprefix(f"{sensor}:").rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise InputError(f"{path}: expected {sensor}:PORT or {sensor}:ADDRESS:PORT, e.g. {sensor}:2368")
    return host or "127.0.0.1", int(port)


class VelodyneSource(UdpSource):
    """Scans of a Velodyne sensor; `velodyne:192.168.1.100:2368` listens on that interface."""

    name = "velodyne"

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        self._decoder, self._config = velodyne_decoder(self.path)
        self.listen(*listening_address(self.path, self.name))

    def __iter__(self) -> Iterator[Scan]:
        number, clock = count(), PacketClock()
        for run in self._runs(model_of):
            decoder = self._decoder.StreamDecoder(self._config)
            for _, read_at, packet in run:
                turn = None
                try:
                    with foreign_errors(self.path, "Velodyne packet"):
                        turn = decoder.decode(clock.stamp(packet, read_at), packet, as_pcl_structs=True)
                except InputError as error:
                    self.ignore(str(error))
                if turn is not None:
                    name = f"velodyne_{next(number):06d}"
                    yield velodyne_scan(turn[1], self.path, time=turn[0].host, name=name, sensor="velodyne")


class HesaiSource(UdpSource):
    """Scans of a Hesai sensor, cut where its azimuth passes 0."""

    name = "hesai"
    accepts: ClassVar[tuple[str, ...]] = ("calibration",)

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        self.listen(*listening_address(self.path, self.name))

    def __iter__(self) -> Iterator[Scan]:
        number = count()
        for run in self._runs(lambda packet: getattr(hesai.model_of(packet), "name", None)):
            packets = ((read_at, packet) for _, read_at, packet in run)
            for scan in hesai.scans_of_packets(packets, self.path, self.options.get("calibration")):
                yield replace(scan, name=f"hesai_{next(number):06d}")


class OusterSource(UdpSource):
    """Scans of an Ouster sensor: `ouster:HOST` asks it for its metadata, `ouster:PORT?metadata=FILE` reads them."""

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
        for packet in self._packets():
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
        self._recent = deque[int](maxlen=_FRAME_VOTES)

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
    from http.client import HTTPConnection, HTTPException  # with OpenSSL, which no other source needs

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
