# SPDX-License-Identifier: Apache-2.0
"""Foxglove's websocket server behind access control, which its SDK does not have."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from random import SystemRandom
from secrets import token_urlsafe
from typing import Any

from roadbed.core.errors import DeviceError, missing_extra
from roadbed.io.web_guard import Guard, is_loopback, reachable_name, resolved

try:
    import foxglove
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import connect
    from websockets.sync.server import serve
    from websockets.typing import Subprotocol
except ImportError:
    raise missing_extra("foxglove-sdk and websockets", "live", "Foxglove") from None

_APP = ("https://app.foxglove.dev", "file://")  # in the browser; on the desktop, an Electron page
_PROTOCOL = Subprotocol("foxglove.sdk.v1")


class FoxgloveServer:
    """Serves a context's channels at `host`:`port`, to programs and to the pages in `origins` and of the Foxglove app.

    The SDK's server listens at a random loopback address; accepted connections are relayed to it.
    """

    def __init__(self, host: str, port: int, context: Any, origins: Iterable[str] = ()) -> None:
        a, b, c = (SystemRandom().randrange(1, 255) for _ in range(3))
        token = "" if is_loopback(host) else token_urlsafe(16)
        guard = Guard(host, token=token, origins=(*_APP, *origins))
        family, *_, address = resolved(host, port)[0]
        try:
            listening = socket.create_server(address[:2], family=family)
            self._inner = foxglove.start_server(name="Roadbed", host=f"127.{a}.{b}.{c}", port=0, context=context)
        except (RuntimeError, OSError) as error:
            raise DeviceError(f"Foxglove at {host}:{port}: cannot listen there ({error})") from None
        self._relayed_to = f"ws://127.{a}.{b}.{c}:{self._inner.port}"
        self._server = serve(
            self._relay,
            sock=listening,
            process_request=guard.around(lambda connection, request: None),
            subprotocols=[_PROTOCOL],
            compression=None,
            logger=_quiet(),
        )
        name = reachable_name(host)
        name = f"[{name}]" if ":" in name else name
        self.is_open = bool(token)  # to other machines
        self.address = f"ws://{name}:{listening.getsockname()[1]}" + (f"/?token={token}" if token else "")
        self._thread = threading.Thread(target=self._server.serve_forever, name="roadbed-foxglove", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._inner.stop()  # ends the relayed connections
        self._server.shutdown()
        self._thread.join()

    def _relay(self, client: Any) -> None:
        """A client that reads slowly is not read for; the SDK then drops its oldest messages."""
        with (
            suppress(OSError, WebSocketException),
            connect(self._relayed_to, subprotocols=[_PROTOCOL], compression=None, max_size=None, proxy=None) as inner,
        ):
            back = threading.Thread(target=_copy, args=(client, inner), daemon=True)
            back.start()
            _copy(inner, client)
            client.close()
            back.join()


def _copy(source: Any, target: Any) -> None:
    """All messages until one side closes; then both are closed."""
    with suppress(OSError, WebSocketException):
        for message in source:
            target.send(message)
    with suppress(OSError, WebSocketException):
        target.close()


def _quiet() -> logging.Logger:
    """Refused and broken connections are no errors of this program."""
    quiet = logging.getLogger("roadbed.foxglove")
    quiet.setLevel(logging.CRITICAL)
    return quiet
