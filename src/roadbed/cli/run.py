# SPDX-License-Identifier: Apache-2.0
"""`roadbed run`: the whole chain over a sequence."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadbed.cli.options import Force, Frames, Output, Request, command_line, files_of
from roadbed.cli.screen import Json, print_json, progress, table
from roadbed.cli.spread import spread
from roadbed.cli.warm_up import prepare

if TYPE_CHECKING:
    from roadbed.live.foxglove import FoxgloveSink
    from roadbed.outputs.report import RunSummary


@spread
def run(
    request: Request,
    output: Output = Path("out"),
    force: Force = False,
    frames: Frames = None,
    occupancy: Annotated[bool, typer.Option(help="Also run the occupancy filter.")] = True,
    layers: Annotated[bool, typer.Option(help="Write labels and layers of every frame.")] = True,
    map_folder: Annotated[
        Path | None, typer.Option("--map", help="Folder of the long-term ground map: read as prior, kept up to date.")
    ] = None,
    foxglove: Annotated[
        bool, typer.Option("--foxglove", help="Serve results to the Foxglove app on this machine while it runs.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port that Foxglove is served on.")] = 8765,
    as_json: Json = False,
) -> None:
    """Ground and occupancy of every scan: labels, layers, objects, the configuration used, and a report."""
    from roadbed import Pipeline
    from roadbed.outputs.folder import OutputFolder
    from roadbed.outputs.recording import RunFolder

    settings = request.settings()
    scans = request.scans(frames)
    out = OutputFolder(output, RunFolder.PARTS, command=command_line(), inputs=files_of(scans), force=force)
    prepare(request.source, settings, occupancy=occupancy)
    pipeline = Pipeline(settings, occupancy=occupancy, map_folder=map_folder)
    folder = RunFolder(out, request.source, settings, layers)
    with _served(port, as_json) if foxglove else nullcontext() as sink:
        for result in progress(pipeline.run(scans), "perceiving", len(scans)):
            folder.add(result)
            if sink is not None:
                sink.show(result)
    pipeline.close()
    summary = folder.finish()
    if as_json:
        print_json(run_facts(summary, output))
    else:
        print_summary(summary)
        print(f"open {output / 'report.html'}")


def _served(port: int, as_json: bool) -> FoxgloveSink:
    from roadbed.live.foxglove import FoxgloveSink

    sink = FoxgloveSink("127.0.0.1", port)
    if not as_json:
        print(f"Foxglove: open a connection to {sink.address}", flush=True)
    return sink


def run_facts(summary: RunSummary, output: Path) -> dict[str, Any]:
    """A run in numbers."""
    import numpy as np

    return {
        "source": summary.source,
        "frames": len(summary.frames),
        "output": str(output),
        "median_ms": {
            stage: round(float(np.median(summary.steady_milliseconds(stage))), 3) for stage in summary.stages()
        },
        "timed_frames": len(summary.measured()),
        "scores": {name: round(value, 3) for name, value in summary.mean_scores().items()},
        "notes": [f"{frame.name}: {note}" for frame in summary.frames for note in frame.notes],
    }


def print_summary(summary: RunSummary) -> None:
    import numpy as np

    rows: list[tuple[str, Any]] = [
        ("frames", len(summary.frames)),
        ("points per frame", int(np.median([frame.points for frame in summary.frames]))),
    ]
    rows += [
        (f"{stage}, median ms", float(np.median(summary.steady_milliseconds(stage)))) for stage in summary.stages()
    ]
    rows += [(f"ground {name} %", value) for name, value in summary.mean_scores().items()]
    seen = [frame.objects for frame in summary.frames if frame.objects is not None]
    if seen:
        rows.append(("moving objects at once", max(seen)))
    table(summary.title, ("measure", "value"), rows)
    notes = [f"{frame.name}: {note}" for frame in summary.frames for note in frame.notes]
    for note in notes[:5]:
        print(f"note: {note}")
    if len(notes) > 5:
        print(f"and {len(notes) - 5} more notes in the report")
