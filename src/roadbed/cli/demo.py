# SPDX-License-Identifier: Apache-2.0
"""`roadbed demo`: simulate a drive, perceive it, and show what came out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roadbed.cli.options import Force, Output, Request, command_line
from roadbed.cli.run import print_summary, run_facts
from roadbed.cli.screen import Json, print_json, progress

if TYPE_CHECKING:
    from roadbed.outputs.folder import OutputFolder
    from roadbed.outputs.report import Picture

SCENES_SHOWN = ("city", "mountain", "highway", "parking", "offroad")


def demo(
    output: Output = Path("out"),
    force: Force = False,
    scene: Annotated[str, typer.Option(help="city, mountain, highway, parking or offroad")] = "city",
    frames: Annotated[int, typer.Option(min=1, help="Length of the drive.")] = 20,
    view: Annotated[bool, typer.Option("--view", help="Then open the viewer on the same drive.")] = False,
    as_json: Json = False,
) -> None:
    """A simulated drive through the whole chain: a table here, pictures and a report under the output folder."""
    from roadbed import Config, Pipeline
    from roadbed import open as open_source
    from roadbed.outputs.folder import OutputFolder
    from roadbed.outputs.recording import RunFolder

    location = f"sim:{scene}?frames={frames}"
    scans = open_source(location)
    parts = (*RunFolder.PARTS, *(_picture_name(name) for name in SCENES_SHOWN))
    out = OutputFolder(output, parts, command=command_line(), force=force)
    config = Config()
    pipeline = Pipeline(config)
    folder = RunFolder(out, location, config, layers=False)
    for result in progress(pipeline.run(scans), "driving", frames):
        folder.add(result)
    summary = folder.finish(_scene_pictures(out))
    if as_json:
        print_json(run_facts(summary, output))
    else:
        print_summary(summary)
        print(f"open {output / 'report.html'} and the pictures under {output}/")
    if view:
        from roadbed.cli.view import serve

        serve(Request(location))


def _picture_name(scene: str) -> str:
    return f"scene-{scene}.png"


def _scene_pictures(out: OutputFolder) -> list[Picture]:
    """One frame of every scene, from above and from the side."""
    from roadbed import GroundFilter
    from roadbed import open as open_source
    from roadbed.outputs.pictures import save_frame_picture
    from roadbed.outputs.report import Picture

    pictures = []
    for name in progress(SCENES_SHOWN, "drawing"):
        path = out.file(_picture_name(name))
        scan = open_source(f"sim:{name}?frames=40")[20]
        save_frame_picture(path, GroundFilter()(scan))
        pictures.append(Picture(f"sim:{name}", path.read_bytes()))
    return pictures
