# SPDX-License-Identifier: Apache-2.0
"""Starts viser's server behind the guard, and checks host and port."""

from __future__ import annotations

import socket
import threading
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from roadbed.core.errors import DeviceError, missing_extra
from roadbed.io.web_guard import Guard, resolved

_starting = threading.Lock()


def start_server(host: str, port: int, guard: Guard) -> Any:
    """Start viser's server with every request checked by `guard`.

    viser has no hook for requests, but passes its handler to `websockets.asyncio.server.serve`, which is replaced while
    the server starts. If a release of viser starts in another way, the server is stopped at once.
    """
    try:
        import viser
        from viser.infra import WebsockServer
        from websockets.asyncio import server as websockets_server
    except ImportError:
        raise missing_extra("viser", "view", "the viewer") from None
    _check_port(host, port)
    serve, guarded = websockets_server.serve, False

    def serve_guarded(handler: Any, *args: Any, **settings: Any) -> Any:
        nonlocal guarded
        if handler.__module__ == WebsockServer.__module__:  # another thread may start its own server
            guarded = True
            settings["process_request"] = guard.around(settings["process_request"])
        return serve(handler, *args, **settings)

    with _starting, without_banner():
        websockets_server.serve = serve_guarded  # type: ignore[assignment, misc]
        try:
            server = viser.ViserServer(host=host, port=port, label="Roadbed", verbose=False)
        finally:
            websockets_server.serve = serve  # type: ignore[misc]
    if not guarded:
        server.stop()
        raise DeviceError(
            f"viser {viser.__version__} cannot be protected from foreign pages, expected a release like 1.1"
        )
    return server


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
