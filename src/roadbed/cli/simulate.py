# SPDX-License-Identifier: Apache-2.0
"""`roadbed simulate`: write a simulated sequence with its ground truth."""

import shlex
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from roadbed.cli.options import Force, Output, command_line
from roadbed.cli.screen import Json, print_json, progress, until_stopped
from roadbed.simulate.scenes import SCENES


def simulate(
    scene: Annotated[str, typer.Argument(help=f"One of {', '.join(SCENES)}; options follow ?, as in city?density=2.")],
    output: Output = Path("simulated"),
    force: Force = False,
    frames: Annotated[int | None, typer.Option(help="Number of scans; default: 100.")] = None,
    sensor: Annotated[
        str | None, typer.Option(help="Sensor by name or YAML file, see docs/simulator.md; default: hdl64e.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed; default: 0.")] = None,
    reach: Annotated[float, typer.Option(help="How far truth layers reach around the vehicle, m.")] = 30.0,
    spacing: Annotated[float, typer.Option(help="Cell size of the truth layers, m.")] = 0.2,
    as_json: Json = False,
) -> None:
    """Simulate a sequence with its ground truth.

    Writes a SemanticKITTI-style folder: velodyne, labels, poses, times, truth layers.
    """
    from roadbed.outputs.folder import OutputFolder
    from roadbed.outputs.sequence_folder import PARTS, record_sequence
    from roadbed.sources.simulator import SimulatorSource

    source = SimulatorSource(f"sim:{scene.removeprefix('sim:')}", frames=frames, sensor=sensor, seed=seed)
    folder = OutputFolder(output, PARTS, command=command_line(), force=force)
    counts: list[int] = []
    with until_stopped() as stopped, closing(record_sequence(source.sequence, folder, reach, spacing)) as written:
        for scan in progress(written, "simulating", len(source)):
            counts.append(len(scan))
            if stopped.is_set():
                break
    done, points = len(counts), sum(counts)
    facts = {
        "folder": str(output),
        "scene": source.sequence.scene.name,
        "sensor": [item.name for item in source.sequence.rig.sensors],
        "seed": source.sequence.seed,
        "frames": done,
        "points": points,
        "points_per_frame": round(points / done),
        "rate_hz": source.sequence.rig.rate,
    }
    note = f"interrupted after {done} of {len(source)} frames, which are complete" if stopped.is_set() else ""
    if as_json:
        print_json({**facts, "diagnostics": [note] if note else []})
    else:
        print(f"{facts['frames']} frames, {facts['points_per_frame']} points each on average: {output}/")
        print(f"read them with roadbed.open({str(output)!r}) or roadbed run {shlex.quote(str(output))}")
        if note:
            print(f"note: {note}")
    if note:
        raise typer.Exit(130)
