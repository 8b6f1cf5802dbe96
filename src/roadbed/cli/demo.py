# SPDX-License-Identifier: Apache-2.0
"""`roadbed demo`: simulate a drive, perceive it, and show what came out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roadbed.cli.options import Force, Output, Request, command_line
from roadbed.cli.run import print_summary, run_facts
from roadbed.cli.screen import Json, print_json, progress
from roadbed.cli.warm_up import prepare

if TYPE_CHECKING:
    from roadbed.outputs.folder import OutputFolder
    from roadbed.outputs.report import Picture

OVERVIEW = "overview.png"
NEXT = """
look at   {overview}   the raw scan, the ground in it, what stands and what moves
read      {report}   times, scores and every scene
then, with your own data:
  roadbed segment scan.pcd -o labelled     one scan (.pcd .ply .las .bin .npy): its ground and the rest as PCD
  roadbed run drive.bag -o results         a drive (bag, mcap, KITTI, folder of scans): labels, layers, objects, report
  roadbed view drive.bag                   the same in the browser, with every parameter under a slider"""
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
    from roadbed.io.atomic import atomic_write
    from roadbed.outputs.folder import OutputFolder
    from roadbed.outputs.pictures import overview_figure, png_bytes
    from roadbed.outputs.pictures.choice import corner_camera, liveliness
    from roadbed.outputs.recording import RunFolder
    from roadbed.outputs.report import Picture

    location = f"sim:{scene}?frames={frames}"
    parts = (*RunFolder.PARTS, OVERVIEW, *(_picture_name(name) for name in SCENES_SHOWN))
    out = OutputFolder(output, parts, command=command_line(), force=force)
    config = Config()
    prepare(location, config)
    scans = open_source(location)
    pipeline = Pipeline(config)
    folder = RunFolder(out, location, config, layers=False)
    best, most = None, -1.0
    for result in progress(pipeline.run(scans), "driving", frames):
        folder.add(result)
        assert result.occupancy is not None
        if (lively := liveliness(result.ground, result.occupancy)) >= most:
            best, most = result, lively
    assert best is not None
    assert best.occupancy is not None
    overview = png_bytes(overview_figure(best.ground, best.occupancy, corner_camera(best.ground)))
    with atomic_write(out.file(OVERVIEW)) as file:
        file.write(overview)
    summary = folder.finish([Picture("From the raw scan to what moves", overview), *_scene_pictures(out)])
    if as_json:
        print_json(run_facts(summary, output))
    else:
        print_summary(summary)
        print(NEXT.format(output=output, overview=output / OVERVIEW, report=output / "report.html"))
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
