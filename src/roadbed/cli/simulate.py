# SPDX-License-Identifier: Apache-2.0
"""`roadbed simulate`: write a simulated drive with its truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roadbed.cli.options import Force, Output, command_line
from roadbed.cli.screen import Json, print_json, progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roadbed.simulate.truth import FrameTruth


def simulate(
    scene: Annotated[
        str,
        typer.Argument(help="city, mountain, highway, parking, offroad, lowobstacles or standstart; options after ?."),
    ],
    output: Output = Path("simulated"),
    force: Force = False,
    frames: Annotated[int | None, typer.Option(help="Sweeps to write (100).")] = None,
    sensor: Annotated[str | None, typer.Option(help="Name of a sensor, or a YAML file (hdl64e).")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same bytes (0).")] = None,
    reach: Annotated[float, typer.Option(help="Metres around the vehicle that the truth layers cover.")] = 30.0,
    spacing: Annotated[float, typer.Option(help="Metres between the truth layers' cells.")] = 0.2,
    picture: Annotated[bool, typer.Option(help="Also draw the first scan from above and from the side.")] = True,
    as_json: Json = False,
) -> None:
    """Write a SemanticKITTI-style folder: velodyne, labels, poses, times, and truth layers of every frame."""
    from roadbed.outputs.drive_folder import PARTS, record_drive
    from roadbed.outputs.folder import OutputFolder
    from roadbed.outputs.pictures.scan import draw_scan
    from roadbed.sources.simulator import SimulatorSource

    source = SimulatorSource(f"sim:{scene.removeprefix('sim:')}", frames=frames, sensor=sensor, seed=seed)
    folder = OutputFolder(output, (*PARTS, "first-scan.png"), command=command_line(), force=force)
    written = record_drive(source.drive, folder, reach, spacing)
    points = sum(len(scan) for scan in progress(written, "simulating", len(source)))
    if picture:
        draw_scan(source[0], _labels(source.truth(0)), folder.file("first-scan.png"), title=source.location)
    facts = {
        "folder": str(output),
        "scene": source.drive.scene.name,
        "sensor": [item.name for item in source.drive.rig.sensors],
        "seed": source.drive.seed,
        "frames": len(source),
        "points": points,
        "points_per_frame": round(points / len(source)),
        "rate_hz": source.drive.rig.rate,
    }
    if as_json:
        print_json(facts)
    else:
        print(f"{facts['frames']} frames, {facts['points_per_frame']} points each on average: {output}/")
        print(f"read them with roadbed.open({str(output)!r}) or roadbed run {output}")


def _labels(truth: FrameTruth) -> NDArray[np.uint8]:
    """What the points are, as labels for a picture."""
    import numpy as np

    from roadbed.core.frames import Label

    known = np.where(truth.is_ground, Label.GROUND, Label.OBSTACLE)
    return np.where(truth.spurious, Label.LOW_OUTLIER, known).astype(np.uint8)
