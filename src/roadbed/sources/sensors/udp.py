# SPDX-License-Identifier: Apache-2.0
"""UDP packets of sensors: one socket, on loopback unless the location names another address."""

from __future__ import annotations

import socket
import sys
from collections import Counter, deque
from collections.abc import Iterator

from roadbed.core.errors import DeviceError, InputError
from roadbed.sources.source import Source

_WAKE_S = 0.2
VOTES = 32  # packets, of which more than half decide on the model: 42 ms of a VLP-16
_BUFFER = 2**22  # bytes of the receive buffer: sensors send bursts of a few hundred packets


class UdpListener:
    """Listens at `host`:`port`; `close` from another thread ends the iteration over packets."""

    def __init__(self, where: str, host: str, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise DeviceError(f"{where}: cannot listen at {host}:{port} ({error.strerror})") from None
        self._socket.settimeout(_WAKE_S)
        self.port = int(self._socket.getsockname()[1])
        self.address = f"UDP {host}:{self.port}"

    def __iter__(self) -> Iterator[bytes]:
        while True:
            try:
                yield self._socket.recv(65536)
            except TimeoutError:
                continue
            except OSError:  # closed
                return

    def close(self) -> None:
        self._socket.close()


class ModelVote:
    """The sensor model that most of the last packets name; packets of other models are not decoded.

    Decoders keep the model of their first packet, so one foreign packet would silence them.
    """

    def __init__(self) -> None:
        self.model: int | str = -1
        self._recent = deque[int | str](maxlen=VOTES)

    def add(self, model: int | str) -> bool:
        """Whether the model has changed by this packet; no model is chosen before the first full count."""
        self._recent.append(model)
        model, votes = Counter(self._recent).most_common(1)[0]
        if len(self._recent) < VOTES or model == self.model or 2 * votes <= VOTES:
            return False
        self.model = model
        return True


class UdpSource(Source):
    """A live sensor without a known end; `close` from another thread ends the iteration."""

    sequential = False  # a sensor alone has no odometry
    foreign_packets = 0  # packets that are not this sensor's, ignored

    @classmethod
    def matches(cls, location: str) -> bool:
        return location.startswith(f"{cls.name}:")

    def listen(self, host: str, port: int) -> None:
        self._packets = UdpListener(self.path, host, port)
        self.port, self.address = self._packets.port, self._packets.address

    def close(self) -> None:
        self._packets.close()

    def ignore(self, reason: str) -> None:
        """Count a foreign packet; the 1st, 10th, 100th, ... is reported on standard error."""
        self.foreign_packets += 1
        if str(self.foreign_packets).strip("0") == "1":
            print(
                f"roadbed: {self.path}: {self.foreign_packets} packets ignored: {reason}", file=sys.stderr, flush=True
            )


def listening_address(path: str, sensor: str) -> tuple[str, int]:
    """Host and port of `SENSOR:PORT` (loopback) or `SENSOR:ADDRESS:PORT`; 0.0.0.0 is every interface."""
    host, _, port = path.removeprefix(f"{sensor}:").rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise InputError(f"{path}: expected {sensor}:PORT or {sensor}:ADDRESS:PORT, e.g. {sensor}:2368")
    return host or "127.0.0.1", int(port)
