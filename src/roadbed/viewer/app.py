# SPDX-License-Identifier: Apache-2.0
"""The viewer: a web page for a source, served until it is stopped."""

from __future__ import annotations

import socket
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from roadbed.config import Config
from roadbed.errors import DeviceError, missing_extra
from roadbed.viewer.controls import Controls
from roadbed.viewer.player import Player, Shown
from roadbed.viewer.scene import Scene
from roadbed.viewer.tuning import Tuning

HOST, PORT = "127.0.0.1", 8080


class Viewer:
    """Serves a page that shows `source`; any number of browsers see and steer the same view."""

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
    ) -> None:
        try:
            import viser
        except ImportError:
            raise missing_extra("viser", "view", "the viewer") from None
        _check_port(host, port)
        self._player = Player(source, config or Config(), occupancy)
        with _without_banner():
            self._server = viser.ViserServer(host=host, port=port, label="Roadbed", verbose=False)
        self.host, self.port = host, self._server.get_port()
        self._server.gui.configure_theme(show_logo=False, show_share_button=False, control_width="large")
        self._server.gui.set_panel_label("Roadbed")
        self._server.initial_camera.position = (-24.0, -10.0, 15.0)
        self._server.initial_camera.look_at = (6.0, 0.0, 0.0)
        self._scene = Scene(self._server.scene)
        self._controls = Controls(
            self._server, self._player, self._scene, title or str(getattr(source, "location", ""))
        )
        with self._controls.tuning_tab():
            self._tuning = Tuning(self._server, self._player, Path(save_as))
        self._player.on_frame = self._show
        self._player.on_error = self._controls.show_error
        self._player.on_state = self._controls.show_state
        self._player.start()

    @property
    def address(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}"

    @property
    def player(self) -> Player:
        return self._player

    def _show(self, shown: Shown) -> None:
        with self._server.atomic():
            self._scene.show(shown.result)
            self._controls.set_span(*self._player.scans.span())
            self._controls.show(shown)
        self._server.flush()

    def wait(self) -> None:
        """Serve until interrupted."""
        self._server.sleep_forever()

    def close(self) -> None:
        self._player.close()
        with _without_banner():
            self._server.stop()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _without_banner() -> redirect_stdout[StringIO]:
    """The server prints a box about itself; the command line says the same in one line."""
    return redirect_stdout(StringIO())


def _check_port(host: str, port: int) -> None:
    """One line with the alternative, instead of a page that appears somewhere else."""
    if _is_free(host, port):
        return
    free = next((other for other in range(port + 1, port + 100) if _is_free(host, other)), None)
    instead = f"try --port {free}" if free else "no other port nearby is free either"
    raise DeviceError(f"port {port} on {host} is in use or not allowed: {instead}")


def _is_free(host: str, port: int) -> bool:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror:
        raise DeviceError(f"host {host!r}: expected an address of this machine, e.g. 127.0.0.1 or 0.0.0.0") from None
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError:
            return False
    return True
