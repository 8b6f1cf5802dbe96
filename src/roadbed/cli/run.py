# SPDX-License-Identifier: Apache-2.0
"""`roadbed run`: ground and occupancy of a whole sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadbed.cli.options import Force, Frames, Layers, Occupancy, Output, Request, command_line, expand_options, prepare
from roadbed.cli.screen import Json, print_json, progress, table, until_stopped

if TYPE_CHECKING:
    from roadbed import Result
    from roadbed.outputs.report import RunRecorder


@expand_options
def run(
    request: Request,
    output: Output = Path("out"),
    force: Force = False,
    frames: Frames = None,
    occupancy: Occupancy = True,
    layers: Layers = True,
    map_folder: Annotated[
        Path | None, typer.Option("--map", help="Folder of the long-term map: used as prior and updated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Process a sequence: labels, layers, objects and a report.

    Results go into a folder, or with -o NAME.mcap or NAME.bag into a bag.
    """
    from roadbed import Pipeline
    from roadbed.outputs.bag import is_bag_name, write_bag
    from roadbed.outputs.folder import OutputFolder
    from roadbed.outputs.recording import RunFolder
    from roadbed.sources.read_options import files_of

    settings, scans = request.settings(), request.scans(frames)
    odometry, diagnostics = request.odometry_used(scans), list(scans.diagnostics)
    out = None
    if not is_bag_name(output):
        out = OutputFolder(output, RunFolder.PARTS, command=command_line(), inputs=files_of(scans), force=force)
    prepare(request.source, settings, occupancy=occupancy)

    def results(is_stopped: Callable[[], bool] = lambda: False) -> Iterator[Result]:
        """The result of every scan until the run is stopped; at the end the map is saved."""
        pipeline = Pipeline(settings, occupancy=occupancy, map_folder=map_folder)
        for result in progress(pipeline.run(scans), "processing", len(scans)):
            yield result
            if is_stopped():
                break
        pipeline.close()

    if out is None:
        count, left_out = write_bag(output, scans, results(), force)
        diagnostics += [f"not copied, as the other ROS has no such message: {topic}" for topic in sorted(left_out)]
        if as_json:
            facts: dict[str, Any] = {"source": request.source, "output": str(output), "frames": count}
            print_json({**facts, "odometry": odometry, "diagnostics": diagnostics})
        else:
            _print_lines(odometry, diagnostics)
            print(f"{count} scans: {output} (play it, or open it in RViz or Foxglove)")
        return
    with until_stopped() as stopped:  # by a signal (Ctrl+C, SIGTERM, SIGHUP): early, with the report
        folder = RunFolder(out, request.source, settings, layers)
        for result in results(stopped.is_set):
            folder.add(result)
        summary = folder.finish()
    if stopped.is_set():
        diagnostics.append(f"interrupted after {len(summary.frames)} of {len(scans)} scans")
    if as_json:
        facts = run_facts(summary, output)
        print_json({**facts, "diagnostics": diagnostics + facts["diagnostics"], "odometry": odometry})
    else:
        print_summary(summary)
        _print_lines(odometry, diagnostics)
        print(f"open {output / 'report.html'}")
    if stopped.is_set():
        raise typer.Exit(130)


def _print_lines(odometry: str, diagnostics: list[str]) -> None:
    """The poses that were used, and what the source lacks."""
    print(f"odometry: {odometry}")
    for note in diagnostics:
        print(f"note: {note}")


def run_facts(summary: RunRecorder, output: Path) -> dict[str, Any]:
    return {
        "source": summary.source,
        "frames": len(summary.frames),
        "output": str(output),
        "median_ms": summary.median_ms(),
        "timed_frames": len(summary.measured()),
        "scores": {name: round(value, 3) for name, value in summary.mean_scores().items()},
        "diagnostics": _diagnostics(summary),
    }


def print_summary(summary: RunRecorder) -> None:
    """The figures of a run as a table, and its first diagnostics."""
    import numpy as np

    points = int(np.median([frame.points for frame in summary.frames]))
    rows: list[tuple[str, Any]] = [("frames", len(summary.frames)), ("points per frame", points)]
    rows += [(f"{stage}, median ms", value) for stage, value in summary.median_ms().items()]
    rows += [(f"ground {name} %", value) for name, value in summary.mean_scores().items()]
    objects = [frame.objects for frame in summary.frames if frame.objects is not None]
    if objects:
        rows.append(("moving objects, at most", max(objects)))
    table(summary.title, ("measure", "value"), rows)
    diagnostics = _diagnostics(summary)
    for note in diagnostics[:5]:
        print(f"note: {note}")
    if len(diagnostics) > 5:
        print(f"and {len(diagnostics) - 5} more diagnostics in the report")


def _diagnostics(summary: RunRecorder) -> list[str]:
    return [f"{frame.name}: {note}" for frame in summary.frames for note in frame.diagnostics]
