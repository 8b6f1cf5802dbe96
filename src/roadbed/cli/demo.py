# SPDX-License-Identifier: Apache-2.0
"""`roadbed demo`: simulate a sequence, process it and show the results."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from roadbed.cli.options import Force, Output, command_line, prepare
from roadbed.cli.run import print_summary, run_facts
from roadbed.cli.screen import Json, print_json, progress
from roadbed.simulate.scenes import SCENES

OVERVIEW = "overview.png"
NEXT = """
look at   {overview}   raw scan, ground, static and moving obstacles
read      {report}   times, scores and every frame
next:
  {roadbed} simulate city --frames 6 --sensor vlp16 -o drive
  {roadbed} segment drive/velodyne/000000.bin -o labelled
  {roadbed} run drive -o results
"""
OWN = "In place of drive give your own scan or a folder of scans: .pcd .ply .bin .npy .csv, KITTI."
WITH_EXTRAS = f"  {{roadbed}} view drive\n{OWN[:-1]}, a bag, LAS, LAZ or pcap."
WITHOUT_EXTRAS = f"""{OWN}
Bags, LAS, LAZ, pcap (io) and `view` in the browser (view) need more packages:
  {{python}} -m pip install -e '{{checkout}}[io,view]'"""


def demo(
    output: Output = Path("out"),
    force: Force = False,
    scene: Annotated[str, typer.Option(help=f"What is simulated: {', '.join(SCENES)}.")] = "city",
    frames: Annotated[int, typer.Option(min=1, help="Number of scans.")] = 20,
    as_json: Json = False,
) -> None:
    """Run the whole pipeline on simulated data: images and a report."""
    from roadbed import Config, Pipeline
    from roadbed import open as open_source
    from roadbed.io.atomic import write_file
    from roadbed.outputs.folder import OutputFolder
    from roadbed.outputs.images import overview_figure, png_bytes
    from roadbed.outputs.images.scene3d import corner_camera, motion_score
    from roadbed.outputs.recording import RunFolder
    from roadbed.outputs.report import ReportImage

    location = f"sim:{scene}?frames={frames}"
    out = OutputFolder(output, (*RunFolder.PARTS, OVERVIEW), command=command_line(), force=force)
    config = Config()
    prepare(location, config)
    scans = open_source(location)
    pipeline = Pipeline(config)
    folder = RunFolder(out, location, config, layers=False)
    best, most = None, -1.0
    for result in progress(pipeline.run(scans), "processing", frames):
        folder.add(result)
        assert result.occupancy is not None
        if (score := motion_score(result.ground, result.occupancy)) >= most:
            best, most = result, score
    assert best is not None
    assert best.occupancy is not None
    overview = png_bytes(overview_figure(best.ground, best.occupancy, corner_camera(best.ground)))
    write_file(out.file(OVERVIEW), overview)
    summary = folder.finish([ReportImage("From the raw scan to moving objects", overview)])
    if as_json:
        print_json(run_facts(summary, output))
    else:
        print_summary(summary)
        print(_next_steps(output))


def _next_steps(output: Path) -> str:
    """Files to open and commands to run next; the commands work as printed, from any folder and environment."""
    import roadbed

    python, found = Path(sys.executable), shutil.which("roadbed")
    program = python.with_name("roadbed")
    command = "roadbed" if found and Path(found).parent == python.parent else str(program)
    has_extras = all(map(find_spec, ("rosbags", "laspy", "velodyne_decoder", "viser")))
    return (NEXT + (WITH_EXTRAS if has_extras else WITHOUT_EXTRAS)).format(
        overview=output / OVERVIEW,
        report=output / "report.html",
        roadbed=command if program.exists() else f"{python} -m roadbed",
        python=python,
        checkout=Path(roadbed.__file__).parents[2],
    )
