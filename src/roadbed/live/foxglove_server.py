# SPDX-License-Identifier: Apache-2.0
"""Foxglove's websocket server behind access control, which its SDK does not have."""

from __future__ import annotations

from collections.abc import Iterable
from secrets import token_urlsafe
from typing import Any

from roadbed.core.errors import DeviceError, missing_extra
from roadbed.io.web_guard import Guard, is_loopback, reachable_name

try:
    import foxglove

    from roadbed.io.web_relay import Relay, hidden_address
except ImportError:
    raise missing_extra("foxglove-sdk and websockets", "live", "Foxglove") from None

_APP = ("https://app.foxglove.dev", "file://")  # in the browser; on the desktop, an Electron page


class FoxgloveServer:
    """Serves a context's channels at `host`:`port`, to programs and to the pages in `origins` and of the Foxglove app.

    The SDK's server listens at a random loopback address; accepted connections are relayed to it. For a client that
    reads slowly the SDK drops its oldest messages.
    """

    def __init__(self, host: str, port: int, context: Any, origins: Iterable[str] = ()) -> None:
        token = "" if is_loopback(host) else token_urlsafe(16)
        try:
            self._relay = Relay(host, port, Guard(host, token=token, origins=(*_APP, *origins)), "foxglove.sdk.v1")
            behind = hidden_address()
            self._inner = foxglove.start_server(name="Roadbed", host=behind, port=0, context=context)
        except (DeviceError, RuntimeError, OSError) as error:
            raise DeviceError(f"Foxglove at {host}:{port}: cannot listen there ({error})") from None
        self._relay.start((behind, self._inner.port))
        name = reachable_name(host)
        name = f"[{name}]" if ":" in name else name
        self.is_open = bool(token)  # to other machines
        self.address = f"ws://{name}:{self._relay.port}" + (f"/?token={token}" if token else "")

    def close(self) -> None:
        self._inner.stop()
        self._relay.close()
