# SPDX-License-Identifier: Apache-2.0
"""`roadbed run`: ground and occupancy of a whole sequence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadbed.cli.options import Force, Frames, Occupancy, Output, Request, command_line, expand_options, prepare
from roadbed.cli.screen import Json, StopRequest, print_json, progress, table, until_stopped

if TYPE_CHECKING:
    from roadbed import Config, Result
    from roadbed.outputs.report import RunSummary


@expand_options
def run(
    request: Request,
    output: Output = Path("out"),
    force: Force = False,
    frames: Frames = None,
    occupancy: Occupancy = True,
    layers: Annotated[bool, typer.Option(help="Write labels and layers of every frame.")] = True,
    map_folder: Annotated[
        Path | None, typer.Option("--map", help="Folder of the long-term map: used as prior and updated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Process a sequence: labels, layers, objects and a report.

    Results go into a folder, or with -o NAME.mcap or NAME.bag into a bag.
    """
    from roadbed.outputs.bag import is_bag_name

    chain = _Chain(request, request.settings(), request.scans(frames), occupancy, as_json)
    if is_bag_name(output):
        chain.into_bag(output, force, map_folder)
    else:
        chain.into_folder(output, force, layers, map_folder)


@dataclass(frozen=True, eq=False)
class _Chain:
    """The scans of a sequence, and how they are processed and shown."""

    request: Request
    settings: Config
    scans: Any
    occupancy: bool
    as_json: bool

    def into_bag(self, output: Path, force: bool, map_folder: Path | None) -> None:
        from roadbed.outputs.bag import write_bag

        odometry = self.request.odometry_used(self.scans)
        diagnostics = list(self.scans.diagnostics)
        prepare(self.request.source, self.settings, occupancy=self.occupancy)
        count, left_out = write_bag(output, self.scans, self._results(map_folder), force)
        diagnostics += [f"not copied, as the other ROS has no such message: {topic}" for topic in sorted(left_out)]
        if self.as_json:
            facts = {"source": self.request.source, "output": str(output), "frames": count}
            print_json({**facts, "odometry": odometry, "diagnostics": diagnostics})
        else:
            print_lines(odometry, diagnostics)
            print(f"{count} scans: {output} (play it, or open it in RViz or Foxglove)")

    def into_folder(self, output: Path, force: bool, layers: bool, map_folder: Path | None) -> None:
        """Write every result; a signal (Ctrl+C, SIGTERM, SIGHUP) ends the run early, with its report."""
        from roadbed.outputs.folder import OutputFolder
        from roadbed.outputs.recording import RunFolder
        from roadbed.sources.read_options import files_of

        odometry = self.request.odometry_used(self.scans)
        diagnostics = list(self.scans.diagnostics)
        inputs = files_of(self.scans)
        out = OutputFolder(output, RunFolder.PARTS, command=command_line(), inputs=inputs, force=force)
        prepare(self.request.source, self.settings, occupancy=self.occupancy)
        with until_stopped() as stopped:
            folder = RunFolder(out, self.request.source, self.settings, layers)
            count = 0
            for result in self._results(map_folder, stopped):
                folder.add(result)
                count += 1
            if stopped.is_set():
                if not count:
                    raise KeyboardInterrupt
                diagnostics.append(f"interrupted after {count} of {len(self.scans)} scans")
            summary = folder.finish()
        if self.as_json:
            facts = run_facts(summary, output)
            print_json({**facts, "diagnostics": diagnostics + facts["diagnostics"], "odometry": odometry})
        else:
            print_summary(summary)
            print_lines(odometry, diagnostics)
            print(f"open {output / 'report.html'}")
        if stopped.is_set():
            raise typer.Exit(130)

    def _results(self, map_folder: Path | None, stopped: StopRequest | None = None) -> Iterator[Result]:
        """The result of every scan until `stopped`; at the end the map is saved."""
        from roadbed import Pipeline

        pipeline = Pipeline(self.settings, occupancy=self.occupancy, map_folder=map_folder)
        for result in progress(pipeline.run(self.scans), "processing", len(self.scans)):
            yield result
            if stopped is not None and stopped.is_set():
                break
        pipeline.close()


def print_lines(odometry: str, diagnostics: list[str]) -> None:
    """The poses that were used, and what the source lacks."""
    print(f"odometry: {odometry}")
    for note in diagnostics:
        print(f"note: {note}")


def run_facts(summary: RunSummary, output: Path) -> dict[str, Any]:
    """The figures of a run, for --json."""
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
        "diagnostics": [f"{frame.name}: {note}" for frame in summary.frames for note in frame.diagnostics],
    }


def print_summary(summary: RunSummary) -> None:
    """The figures of a run as a table, and its first diagnostics."""
    import numpy as np

    points = int(np.median([frame.points for frame in summary.frames]))
    rows: list[tuple[str, Any]] = [("frames", len(summary.frames)), ("points per frame", points)]
    rows += [
        (f"{stage}, median ms", float(np.median(summary.steady_milliseconds(stage)))) for stage in summary.stages()
    ]
    rows += [(f"ground {name} %", value) for name, value in summary.mean_scores().items()]
    objects = [frame.objects for frame in summary.frames if frame.objects is not None]
    if objects:
        rows.append(("moving objects, at most", max(objects)))
    table(summary.title, ("measure", "value"), rows)
    diagnostics = [f"{frame.name}: {note}" for frame in summary.frames for note in frame.diagnostics]
    for note in diagnostics[:5]:
        print(f"note: {note}")
    if len(diagnostics) > 5:
        print(f"and {len(diagnostics) - 5} more diagnostics in the report")
