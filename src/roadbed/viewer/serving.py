# SPDX-License-Identifier: Apache-2.0
"""Starts viser's server behind the guard, and checks host and port."""

from __future__ import annotations

import socket
from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Any

from roadbed.core.errors import DeviceError, missing_extra
from roadbed.io.web_guard import Guard, resolved

if TYPE_CHECKING:
    from roadbed.io.web_relay import Relay


def start_server(host: str, port: int, guard: Guard) -> tuple[Any, Relay]:
    """viser's server at a random loopback address, and the relay in front of it that checks every request by `guard`.

    viser has no hook for requests.
    """
    try:
        import viser

        from roadbed.io.web_relay import Relay, hidden_address
    except ImportError:
        raise missing_extra("viser", "view", "the viewer") from None
    _check_port(host, port)
    relay, behind = Relay(host, port, guard, "viser-v"), hidden_address()
    try:
        with without_banner():
            server = viser.ViserServer(host=behind, port=0, label="Roadbed", verbose=False)
    except BaseException:
        relay.abandon()
        raise
    relay.start((behind, server.get_port()), has_pages=True)
    return server, relay


def without_banner() -> redirect_stdout[StringIO]:
    """Suppress viser's start message."""
    return redirect_stdout(StringIO())


def _check_port(host: str, port: int) -> None:
    """Raise an error that names a free port if this one is taken."""
    if _is_free(host, port):
        return
    free = next((other for other in range(port + 1, port + 100) if _is_free(host, other)), None)
    instead = f"try --port {free}" if free else "no other port nearby is free either"
    raise DeviceError(f"port {port} on {host} is in use or not allowed: {instead}")


def _is_free(host: str, port: int) -> bool:
    family, kind, protocol, _, address = resolved(host, port)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError:
            return False
    return True
