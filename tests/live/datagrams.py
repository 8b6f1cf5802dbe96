# SPDX-License-Identifier: Apache-2.0
"""Packets to a socket on this machine, none of which is lost: the sender waits for a receiver that is slow."""

import socket
import threading
from itertools import islice
from pathlib import Path

from roadbed.core.frames import Scan
from roadbed.sources.sensors.udp import UdpSource
from tests.live.processes import PATIENCE, wait_until

_FULL = 1 << 16  # bytes; the least that Linux lets a socket hold is more than three times as much


def send(port: int, packet: bytes, out: socket.socket) -> None:
    """As soon as there is room where it goes."""
    wait_until(lambda: _waiting(port) < _FULL)
    out.sendto(packet, ("127.0.0.1", port))


def wait_until_taken(port: int) -> None:
    """Until the receiver has taken every packet, and has done with all but the last."""
    wait_until(lambda: _waiting(port) == 0)


def receive(source: UdpSource, count: int) -> list[Scan]:
    """The next scans of a live source; fewer if they do not arrive."""
    limit = threading.Timer(PATIENCE, source.close)
    limit.start()
    try:
        return list(islice(source, count))
    finally:
        limit.cancel()


def _waiting(port: int) -> int:
    """Bytes that the system holds for whoever listens at the port; none where nobody does."""
    for line in Path("/proc/net/udp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == port:
            return int(fields[4].rpartition(":")[2], 16)
    return 0
