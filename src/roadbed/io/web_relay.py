# SPDX-License-Identifier: Apache-2.0
"""A guard in front of a web server of this process that has no access control: it listens, checks and relays."""

import logging
import socket
import threading
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from random import SystemRandom
from typing import Any

from websockets.datastructures import Headers
from websockets.exceptions import WebSocketException
from websockets.http11 import Request, Response
from websockets.sync.client import connect
from websockets.sync.server import serve

from roadbed.core.errors import DeviceError
from roadbed.io.web_guard import Guard, resolved

_PASSED_ON = ("Accept", "Accept-Encoding", "If-None-Match")  # headers of a page's request


def hidden_address() -> str:
    """A random loopback address for the server behind the relay."""
    return "127." + ".".join(str(SystemRandom().randrange(1, 255)) for _ in range(3))


class Relay:
    """Listens at `host`:`port`; `start` makes it serve what `inner` serves, to requests that `guard` accepts.

    Both ends of a websocket speak the first protocol offered that begins with `protocol`.
    """

    def __init__(self, host: str, port: int, guard: Guard, protocol: str) -> None:
        family, *_, address = resolved(host, port)[0]
        try:
            self._listening = socket.create_server(address[:2], family=family)
        except OSError as error:
            raise DeviceError(f"{host}:{port}: cannot listen there ({error.strerror or error})") from None
        self.port: int = self._listening.getsockname()[1]
        self._guard, self._protocol = guard, protocol

    def start(self, inner: tuple[str, int], has_pages: bool = False) -> None:
        """Begin to serve; `has_pages`: also pages, and not websockets alone."""
        self._inner = inner
        answer = self._page if has_pages else lambda connection, request: None
        self._server = serve(
            self._relay,
            sock=self._listening,
            process_request=self._guard.around(answer),
            select_subprotocol=lambda _, offered: next((p for p in offered if p.startswith(self._protocol)), None),
            compression=None,
            max_size=None,
            logger=_quiet(),
        )
        self._thread = threading.Thread(target=self._server.serve_forever, name="roadbed-relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; call it after the inner server was stopped, which ends the relayed connections."""
        self._server.shutdown()
        self._thread.join()

    def abandon(self) -> None:
        """Stop listening before `start`."""
        self._listening.close()

    def _page(self, connection: Any, request: Request) -> Response | None:
        if "Upgrade" in request.headers:
            return None
        asked = HTTPConnection(*self._inner, timeout=60)
        try:
            headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
            asked.request("GET", request.path, headers=headers)
            found = asked.getresponse()
            return Response(found.status, found.reason, Headers(found.getheaders()), found.read())
        except (OSError, HTTPException):
            return connection.respond(502, "the server has ended\n")
        finally:
            asked.close()

    def _relay(self, client: Any) -> None:
        """A client that reads slowly is not read for."""
        if client.subprotocol is None:
            return
        inner, kinds = f"ws://{self._inner[0]}:{self._inner[1]}", [client.subprotocol]
        with (
            suppress(OSError, WebSocketException),
            connect(inner, subprotocols=kinds, compression=None, max_size=None, proxy=None) as source,
        ):
            back = threading.Thread(target=_copy, args=(client, source), daemon=True)
            back.start()
            _copy(source, client)
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
    quiet = logging.getLogger("roadbed.web")
    quiet.setLevel(logging.CRITICAL)
    return quiet
