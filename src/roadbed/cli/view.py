# SPDX-License-Identifier: Apache-2.0
"""`roadbed view`: the web viewer with live parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def view(
    source: Annotated[str, typer.Argument(help="A folder, file, bag or address like sim:city.")],
    config: Annotated[Path | None, typer.Option(help="A YAML file; without it the defaults.")] = None,
    host: Annotated[str, typer.Option(help="Address to serve on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8080,
    save_as: Annotated[Path, typer.Option(help="Where 'Save configuration' writes.")] = Path("roadbed.yaml"),
    occupancy: Annotated[bool, typer.Option(help="Run the occupancy filter too.")] = True,
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in the default browser.")] = False,
) -> None:
    """Serve a page that shows a source and tunes it live. Stop it with Ctrl+C."""
    from roadbed.config import Config
    from roadbed.sources import open_source

    opened = open_source(source)
    serve(opened, Config.load(config) if config else Config(), source, host, port, save_as, occupancy, browser)


def serve(  # shared with `roadbed demo --view`
    source: object,
    config: object,
    title: str,
    host: str = "127.0.0.1",
    port: int = 8080,
    save_as: Path = Path("roadbed.yaml"),
    occupancy: bool = True,
    browser: bool = False,
) -> None:
    """Run the viewer until it is interrupted, saying where it is and who can reach it."""
    import webbrowser

    from roadbed.config import Config
    from roadbed.viewer import Viewer

    assert isinstance(config, Config)
    with Viewer(source, config, host=host, port=port, title=title, save_as=save_as, occupancy=occupancy) as viewer:
        local = host in ("127.0.0.1", "localhost", "::1")
        reach = "only this machine can reach it" if local else "every machine that reaches this address can steer it"
        print(f"viewer at {viewer.address} ({reach}); Ctrl+C stops it", flush=True)
        if browser:
            webbrowser.open(viewer.address)
        viewer.wait()
