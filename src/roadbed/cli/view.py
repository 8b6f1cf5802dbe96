# SPDX-License-Identifier: Apache-2.0
"""`roadbed view`: the web viewer with live parameters."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from roadbed.cli.options import Occupancy, Request, expand_options, prepare
from roadbed.cli.screen import Json, print_json, until_stopped

_SETTLED = 15  # frames after which velocities are known


def opening_frame(scans: Any) -> int:
    """The frame to open a recording at, so that moving objects are shown; 0 for a live source and single scans."""
    from roadbed.sources.source import is_live

    return 0 if is_live(scans) or not scans.sequential else min(_SETTLED, len(scans) - 1)


@expand_options
def view(
    request: Request,
    host: Annotated[str, typer.Option(help="Address to serve on; 0.0.0.0: all interfaces.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to serve on; 0: any free one.")] = 8080,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another host name that serves the page, e.g. a proxy; repeatable.")
    ] = None,
    save_as: Annotated[
        Path | None, typer.Option(help="File for 'Save configuration'; roadbed.yaml by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of --save-as.")] = False,
    occupancy: Occupancy = True,
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in the default browser.")] = False,
    record: Annotated[
        Path | None, typer.Option(help="Record the scans of a live source into this .mcap or .bag.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a source in the browser and tune parameters live. Ctrl+C stops it."""
    import webbrowser

    from roadbed.outputs.folder import claim_configuration, unused_name
    from roadbed.viewer import Viewer

    settings = request.settings()
    scans: Any = request.scans()
    save_as = claim_configuration(save_as, force) if save_as else unused_name(Path("roadbed.yaml"))
    prepare(request.source, settings, occupancy=occupancy)
    with until_stopped() as stopped, ExitStack() as open_:
        if record is not None:
            from roadbed.outputs.bag import Recorder

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
                allow_hosts=allow_host or (),
                frame=opening_frame(scans) if occupancy else 0,
            )
        )
        reach = "anyone with this address can control it" if viewer.is_open else "only this machine can reach it"
        if as_json:
            print_json({"address": viewer.address, "source": request.source, "save_as": str(save_as)})
        else:
            print(f"viewer at {viewer.address} ({reach}); Ctrl+C stops it")
        sys.stdout.flush()
        if browser:
            webbrowser.open(viewer.address)
        stopped.wait()
    if record is not None:
        print(f"{record}: {recorder.count} scans" if recorder.count else f"{record}: no scan received, nothing written")
