# SPDX-License-Identifier: Apache-2.0
"""A Velodyne sensor on the wire: `velodyne:2368`, or `velodyne:192.168.1.100:2368` to listen beyond this machine."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, ClassVar

from roadbed.errors import DeviceError, InputError, missing_extra
from roadbed.frames import Scan
from roadbed.reading.foreign import foreign_errors
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.pcap import decoder_config
from roadbed.sources.registry import Source

_DATA_PACKET, _TELEMETRY_PACKET = 1206, 512  # bytes
_WAKE_S = 0.2
_BUFFER = 2**22  # bytes that may wait: a sensor sends a turn in bursts of a few hundred packets


class VelodyneSource(Source):
    """Scans as they come, without an end; `close` from another thread ends the iteration.

    It listens on loopback unless an address says otherwise; 0.0.0.0 is every interface.
    """

    name = "velodyne"
    accepts: ClassVar[tuple[str, ...]] = ()
    sequential = False  # a sensor alone brings no odometry

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        try:
            import velodyne_decoder
        except ImportError:
            raise missing_extra("velodyne-decoder", "io", self.path) from None
        self._decoder = velodyne_decoder.StreamDecoder(decoder_config())
        host, port = _address(self.path)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise DeviceError(f"{self.path}: cannot listen at {host}:{port} ({error.strerror})") from None
        self._socket.settimeout(_WAKE_S)
        self.port = self._socket.getsockname()[1]
        self.address = f"UDP {host}:{self.port}"
        self.foreign_packets = 0  # of other sizes than a Velodyne's; they are left out

    @classmethod
    def matches(cls, location: str) -> bool:
        return location.startswith("velodyne:")

    def close(self) -> None:
        self._socket.close()

    def __iter__(self) -> Iterator[Scan]:
        for number, (stamp, points) in enumerate(self._turns()):
            fields = {name: points[name].copy() for name in points.dtype.names}
            yield scan_from_fields(fields, self.path, time=stamp, name=f"velodyne_{number:06d}", sensor="velodyne")

    def _turns(self) -> Iterator[tuple[float, Any]]:
        """Stamp of this computer (s) and points of each turn."""
        while True:
            try:
                packet = self._socket.recv(65536)
            except TimeoutError:
                continue
            except OSError:  # closed
                return
            if len(packet) != _DATA_PACKET:
                self.foreign_packets += len(packet) != _TELEMETRY_PACKET
                continue
            with suppress(InputError), foreign_errors(self.path, "Velodyne packet"):
                turn = self._decoder.decode(time.time(), packet, as_pcl_structs=True)
                if turn is not None:
                    yield turn[0].host, turn[1]


def _address(path: str) -> tuple[str, int]:
    """`velodyne:PORT` on loopback, `velodyne:HOST:PORT` there."""
    host, _, port = path.removeprefix("velodyne:").rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise InputError(f"{path}: expected velodyne:PORT or velodyne:ADDRESS:PORT, e.g. velodyne:2368")
    return host or "127.0.0.1", int(port)
