# SPDX-License-Identifier: Apache-2.0
"""The viewer: a web page that shows a source, served until it is stopped."""

import socket
from collections.abc import Iterable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from roadbed.config import Config
from roadbed.core.closing import Closing
from roadbed.core.errors import DeviceError, needs_extra
from roadbed.io.web_guard import Guard, address_of, is_loopback, resolved
from roadbed.viewer.controls import Controls
from roadbed.viewer.player import Player
from roadbed.viewer.runner import Shown
from roadbed.viewer.scene import Scene, keep_above
from roadbed.viewer.tuning import Tuning

HOST, PORT = "127.0.0.1", 8080


class Viewer(Closing):
    """Serves a page that shows `source`, opened at `frame`; all connected browsers share one view.

    The page is served under its own address and the names of `allow_hosts`; other machines need the token.
    """

    def __init__(
        self,
        source: Any,
        config: Config | None = None,
        *,
        host: str = HOST,
        port: int = PORT,
        title: str = "",
        save_as: str | Path = "roadbed.yaml",
        occupancy: bool = True,
        allow_hosts: Iterable[str] = (),
        frame: int = 0,
    ) -> None:
        self._token = "" if is_loopback(host) else token_urlsafe(16)
        self._server, self._relay = _start_server(host, port, Guard(host, allow_hosts, self._token))
        try:
            self.player = Player(source, config or Config(), occupancy)
            if frame:
                self.player.seek(frame)
        except Exception:
            self._stop_server()
            raise
        self.host, self.port = host, self._relay.port
        self._server.gui.configure_theme(show_logo=False, show_share_button=False, control_width="large")
        self._server.gui.set_panel_label("Roadbed")
        self._server.initial_camera.position = (-24.0, -10.0, 15.0)
        self._server.initial_camera.look_at = (6.0, 0.0, 0.0)
        self._scene = Scene(self._server.scene)
        self._server.on_client_connect(lambda client: client.camera.on_update(self._keep_above))
        self._controls = Controls(self._server, self.player, self._scene, title or str(getattr(source, "location", "")))
        with self._controls.tuning_tab:
            self._tuning = Tuning(self._server, self.player, Path(save_as))
        self.player.on_frame = self._show
        self.player.on_error = self._controls.show_error
        self.player.on_state = self._controls.show_state
        self.player.start()

    @property
    def address(self) -> str:
        """URL of the page, with the token if one is needed."""
        return address_of("http", self.host, self.port, self._token)

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach the page."""
        return bool(self._token)

    def _show(self, shown: Shown) -> None:
        with self._scene.drawing, self._server.atomic():
            self._scene.show(shown.result)
            self._controls.set_bounds(*self.player.scans.bounds())
            self._controls.show(shown)
        self._server.flush()
        for client in self._server.get_clients().values():
            self._keep_above(client.camera)

    def _keep_above(self, camera: Any) -> None:
        keep_above(camera, self._scene.height)

    def wait(self) -> None:
        """Serve until interrupted."""
        self._server.sleep_forever()

    def close(self) -> None:
        self.player.close()
        self._stop_server()

    def _stop_server(self) -> None:
        with _without_banner():
            self._server.stop()
        self._relay.close()


def _start_server(host: str, port: int, guard: Guard) -> tuple[Any, Any]:
    """viser's server at a random loopback address, and the relay in front of it that checks every request by `guard`.

    viser has no hook for requests.
    """
    with needs_extra("viser", "view", "the viewer"):
        import viser

        from roadbed.io.web_relay import Relay, hidden_address
    _check_port(host, port)
    relay, behind = Relay(host, port, guard, "viser-v"), hidden_address()
    try:
        with _without_banner():
            server = viser.ViserServer(host=behind, port=0, label="Roadbed", verbose=False)
    except BaseException:
        relay.abandon()
        raise
    relay.start((behind, server.get_port()), has_pages=True)
    return server, relay


def _without_banner() -> redirect_stdout[StringIO]:
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
