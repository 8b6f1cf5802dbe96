# SPDX-License-Identifier: Apache-2.0
"""Ports and other numbers that no other test on this machine has at the same time, whichever process it runs in."""

import socket
from collections.abc import Iterable

# Below what the system hands out by itself: nobody gets one of them by chance between here and its use.
_PORTS = range(20_000, 32_000)
_held: dict[str, socket.socket] = {}


def reserved(what: str, numbers: Iterable[int]) -> int:
    """One of the numbers, which this process has until it ends."""
    for number in numbers:
        name = f"roadbed-tests {what} {number}"
        if name in _held:
            continue
        # A socket's name outside of the file system: one process can have it, and it is free again when that is gone.
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(f"\0{name}")
        except OSError:
            mark.close()
            continue
        _held[name] = mark
        return number
    raise AssertionError(f"no {what} is left")


def free_port(kind: int = socket.SOCK_STREAM) -> int:
    """A port on loopback for a program that cannot be told to take any and to say which."""
    while True:
        port = reserved("port", _PORTS)
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:  # of a program that is no test
                continue
        return port
