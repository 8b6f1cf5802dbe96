# SPDX-License-Identifier: Apache-2.0
"""`roadbed view`: the web viewer with live parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadbed.cli.options import Backend, ConfigFile, Preset, SourceLocation, load_config


def view(
    source: SourceLocation,
    config: ConfigFile = None,
    preset: Preset = "default",
    backend: Backend = None,
    host: Annotated[str, typer.Option(help="Address to serve on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8080,
    save_as: Annotated[
        Path | None, typer.Option(help="Where 'Save configuration' writes; roadbed.yaml, or the next free name.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the configuration at --save-as.")] = False,
    occupancy: Annotated[bool, typer.Option(help="Run the occupancy filter too.")] = True,
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in the default browser.")] = False,
) -> None:
    """Serve a page that shows a source and tunes it live. Stop it with Ctrl+C."""
    import webbrowser

    from roadbed.outputs.folder import claim_configuration, unused_name
    from roadbed.sources import open_source
    from roadbed.viewer import Viewer

    settings = load_config(config, preset, backend)
    scans = open_source(source)
    save_as = claim_configuration(save_as, force) if save_as else unused_name(Path("roadbed.yaml"))
    with Viewer(scans, settings, host=host, port=port, title=source, save_as=save_as, occupancy=occupancy) as viewer:
        local = host in ("127.0.0.1", "localhost", "::1")
        reach = "only this machine can reach it" if local else "every machine that reaches this address can steer it"
        print(f"viewer at {viewer.address} ({reach}); Ctrl+C stops it", flush=True)
        if browser:
            webbrowser.open(viewer.address)
        viewer.wait()
