# SPDX-License-Identifier: Apache-2.0
"""`roadbed share`: the images of a run as one animation with a caption."""

from pathlib import Path
from typing import Annotated

import typer

from roadbed.cli.screen import Json, print_json
from roadbed.core.errors import InputError, OutputError


def share(
    run: Annotated[Path, typer.Argument(help="Folder of roadbed run or roadbed demo.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write: .gif or .mp4; RUN.gif by default.")
    ] = None,
    caption: Annotated[str | None, typer.Option(help="Text below the images; the source by default.")] = None,
    fps: Annotated[float, typer.Option(min=0.5, max=50, help="Images per second.")] = 5.0,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier animation of Roadbed.")] = False,
    as_json: Json = False,
) -> None:
    """Make a GIF or MP4 with a caption from a run."""
    from roadbed.outputs.images.animation import captioned, is_own_animation, save_animation
    from roadbed.outputs.report.page import read_report

    output = output or Path(f"{run.resolve().name}.gif")
    if output.suffix not in (".gif", ".mp4"):
        raise InputError(f"{output}: expected a name that ends with .gif or .mp4")
    if output.exists():
        if output.is_dir() or not is_own_animation(output):
            raise OutputError(f"{output}: exists and was not made by Roadbed; name another file with -o")
        if not force:
            raise OutputError(f"{output}: exists; name another file with -o, or replace it with --force")
    if not (run / "report.html").is_file():
        raise InputError(f"{run / 'report.html'}: no such file, expected a folder of roadbed run or roadbed demo")
    title, slides, has_cells = read_report(run / "report.html")
    text = title if caption is None else caption
    images = [captioned(image, text, has_cells) for image in slides]
    save_animation(output, images, fps)
    if as_json:
        print_json({"run": str(run), "output": str(output), "images": len(images), "caption": text})
    else:
        print(f"{output}: {len(images)} images, {output.stat().st_size / 1e6:.1f} MB")
