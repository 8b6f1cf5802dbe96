# SPDX-License-Identifier: Apache-2.0
"""`roadbed run`: the whole chain over a sequence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadbed.cli.options import Force, Frames, Output, Request, command_line
from roadbed.cli.screen import Json, print_json, progress, table
from roadbed.cli.spread import spread
from roadbed.cli.warm_up import prepare
from roadbed.core.errors import InputError

if TYPE_CHECKING:
    from roadbed import Config, Pipeline, Result
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
    products: Annotated[
        str | None,
        typer.Option(
            help="Also write products of the map, with or without --map: some of geotiff, laz, nav2, ascii, ply, gltf, "
            "picture, with commas, or all."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Ground and occupancy of every scan: a folder with labels, layers and a report, or with -o NAME.mcap a bag."""
    from roadbed.outputs.bag import is_bag_name

    drive = _Drive(request, request.settings(), request.scans(frames), occupancy, port if foxglove else None, as_json)
    if not is_bag_name(output):
        drive.into_folder(output, force, layers, map_folder, products)
    elif products is None:
        drive.into_bag(output, force, map_folder)
    else:
        raise InputError(f"{output}: --products: found a bag to write, expected a folder")


@dataclass(frozen=True, eq=False)
class _Drive:
    """What is to be perceived, and where it is shown meanwhile."""

    request: Request
    settings: Config
    scans: Any
    occupancy: bool
    port: int | None  # that Foxglove is served on
    as_json: bool

    def into_bag(self, output: Path, force: bool, map_folder: Path | None) -> None:
        from roadbed.outputs.bag import source_diagnostics, write_bag

        odometry, diagnostics = self.request.odometry_used(self.scans), source_diagnostics(self.scans)
        count, left_out = write_bag(output, self.scans, self._results(map_folder), force)
        diagnostics += [f"not copied, as the other ROS has no such message: {topic}" for topic in sorted(left_out)]
        if self.as_json:
            facts = {"source": self.request.source, "output": str(output), "frames": count}
            print_json({**facts, "odometry": odometry, "diagnostics": diagnostics})
        else:
            print_lines(odometry, diagnostics)
            print(f"{count} scans: {output} (play it, or open it in RViz or Foxglove)")

    def into_folder(
        self, output: Path, force: bool, layers: bool, map_folder: Path | None, products: str | None
    ) -> None:
        from roadbed.cli.map import product_names
        from roadbed.mapping.reader import MapReader
        from roadbed.outputs.bag import source_diagnostics
        from roadbed.outputs.folder import OutputFolder
        from roadbed.outputs.maps import export_map
        from roadbed.outputs.maps.export import PARTS as MAP_PARTS
        from roadbed.outputs.recording import RunFolder
        from roadbed.sources.read_options import files_of

        odometry, diagnostics = self.request.odometry_used(self.scans), source_diagnostics(self.scans)
        wanted = None if products is None else product_names("" if products == "all" else products)
        parts = RunFolder.PARTS + (MAP_PARTS if products else ())
        out = OutputFolder(output, parts, command=command_line(), inputs=files_of(self.scans), force=force)
        with map_for(products is not None, map_folder) as kept_in:
            results = self._results(kept_in)
            folder = RunFolder(out, self.request.source, self.settings, layers)
            for result in results:
                folder.add(result)
            if wanted is not None and kept_in is not None:
                export_map(MapReader(kept_in), out, wanted, limits=self.settings.traversability)
        summary = folder.finish()
        if self.as_json:
            facts = run_facts(summary, output)
            print_json({**facts, "diagnostics": diagnostics + facts["diagnostics"], "odometry": odometry})
        else:
            print_summary(summary)
            print_lines(odometry, diagnostics)
            print(f"open {output / 'report.html'}")

    def _results(self, map_folder: Path | None) -> Iterator[Result]:
        """Of every scan; what keeps the pipeline from running is said now."""
        from roadbed import Pipeline

        prepare(self.request.source, self.settings, occupancy=self.occupancy)
        return self._shown(Pipeline(self.settings, occupancy=self.occupancy, map_folder=map_folder))

    def _shown(self, pipeline: Pipeline) -> Iterator[Result]:
        """Each result is shown in Foxglove after it was used; at the end the map is written."""
        with nullcontext() if self.port is None else self._served(self.port) as sink:
            for result in progress(pipeline.run(self.scans), "perceiving", len(self.scans)):
                yield result
                if sink is not None:
                    sink.show(result)
        pipeline.close()

    def _served(self, port: int) -> FoxgloveSink:
        from roadbed.live.foxglove import FoxgloveSink

        sink = FoxgloveSink("127.0.0.1", port)
        if not self.as_json:
            print(f"Foxglove: open a connection to {sink.address}", flush=True)
        return sink


def print_lines(odometry: str, diagnostics: list[str]) -> None:
    """Which poses were used, and what the source lacked."""
    print(f"odometry: {odometry}")
    for note in diagnostics:
        print(f"note: {note}")


@contextmanager
def map_for(products: bool, map_folder: Path | None) -> Iterator[Path | None]:
    """The folder of the map: the one asked for, one that goes when its products are written, or none."""
    if map_folder is not None or not products:
        yield map_folder
        return
    with TemporaryDirectory(prefix="roadbed-map-") as folder:
        yield Path(folder)


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
        "diagnostics": [f"{frame.name}: {note}" for frame in summary.frames for note in frame.diagnostics],
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
    diagnostics = [f"{frame.name}: {note}" for frame in summary.frames for note in frame.diagnostics]
    for note in diagnostics[:5]:
        print(f"note: {note}")
    if len(diagnostics) > 5:
        print(f"and {len(diagnostics) - 5} more diagnostics in the report")
