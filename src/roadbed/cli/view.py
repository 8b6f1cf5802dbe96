# SPDX-License-Identifier: Apache-2.0
"""`roadbed view`: the web viewer with live parameters."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from roadbed.cli.options import Request
from roadbed.cli.screen import Json, print_json
from roadbed.cli.spread import spread
from roadbed.cli.stopping import until_stopped
from roadbed.cli.warm_up import prepare


@spread
def view(
    request: Request,
    host: Annotated[str, typer.Option(help="Address to serve on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to serve on; 0 takes any that is free.")] = 8080,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Another name under which the page may be opened, e.g. behind a proxy; may be repeated."),
    ] = None,
    save_as: Annotated[
        Path | None, typer.Option(help="Where 'Save configuration' writes; roadbed.yaml, or the next free name.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the configuration at --save-as.")] = False,
    occupancy: Annotated[bool, typer.Option(help="Run the occupancy filter too.")] = True,
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in the default browser.")] = False,
    record: Annotated[
        Path | None, typer.Option(help="Also write the scans of a live source into this .mcap or .bag.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Serve a page that shows a source and tunes it live. Stop it with Ctrl+C."""
    serve(request, host, port, allow_host or (), save_as, force, occupancy, browser, record, as_json)


def serve(
    request: Request,
    host: str = "127.0.0.1",
    port: int = 8080,
    allow_host: Sequence[str] = (),
    save_as: Path | None = None,
    force: bool = False,
    occupancy: bool = True,
    browser: bool = False,
    record: Path | None = None,
    as_json: bool = False,
) -> None:
    """Serve the page until interrupted; says where it is once it answers."""
    import webbrowser

    from roadbed.outputs.folder import claim_configuration, unused_name
    from roadbed.viewer import Viewer

    settings = request.settings()
    scans: Any = request.scans()
    save_as = claim_configuration(save_as, force) if save_as else unused_name(Path("roadbed.yaml"))
    prepare(request.source, settings, occupancy=occupancy)
    with until_stopped() as stopped, ExitStack() as open_:
        if record is not None:
            from roadbed.outputs.recorder import Recorder

            scans = recorder = open_.enter_context(Recorder(scans, record, force=force))
        viewer = open_.enter_context(
            Viewer(
                scans,
                settings,
                host=host,
                port=port,
                title=request.source,
                save_as=save_as,
                occupancy=occupancy,
                allow_hosts=allow_host,
            )
        )
        reach = "whoever has this address can steer it" if viewer.is_open else "only this machine can reach it"
        if as_json:
            print_json({"address": viewer.address, "source": request.source, "save_as": str(save_as)})
        else:
            print(f"viewer at {viewer.address} ({reach}); Ctrl+C stops it")
        sys.stdout.flush()
        if browser:
            webbrowser.open(viewer.address)
        stopped.wait()
    if record is not None:
        print(f"{record}: {recorder.count} scans" if recorder.count else f"{record}: no scan came, nothing was written")
