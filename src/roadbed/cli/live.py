# SPDX-License-Identifier: Apache-2.0
"""`roadbed live`: the pipeline on a sensor, or on a recording at its own rate, until it is stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadbed.cli.options import Force, Occupancy, Request, command_line, expand_options, prepare
from roadbed.cli.screen import Json, print_json, until_stopped

if TYPE_CHECKING:
    from roadbed.config import Config
    from roadbed.core.frames import Scan
    from roadbed.live.counts import Statistics
    from roadbed.live.stream import LiveResult

    Show = Callable[[LiveResult], object]

_REPORT_S = 5.0


@expand_options
def live(
    request: Request,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for results as of `run`, or a bag: FILE.mcap, FILE.bag."),
    ] = None,
    force: Force = False,
    foxglove: Annotated[bool, typer.Option("--foxglove", help="Serve results to the Foxglove app.")] = False,
    host: Annotated[str, typer.Option(help="Address for --foxglove.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port for --foxglove.")] = 8765,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="Web page that may connect to --foxglove, beside the app; repeatable.")
    ] = None,
    pace: Annotated[
        float, typer.Option(min=0.01, max=1000, help="Playback speed of a recording; 2: twice as fast.")
    ] = 1.0,
    occupancy: Occupancy = True,
    as_json: Json = False,
) -> None:
    """Process a sensor live, or a recording at its own rate.

    Sensors: velodyne:PORT, hesai:PORT, ouster:HOST.
    """
    from roadbed.live.playing import Feeder
    from roadbed.live.stream import Stream
    from roadbed.outputs.bag import is_bag_name
    from roadbed.sources.odometry import Deskewed

    settings = request.settings()
    T_vehicle_sensor = request.read_options().T_vehicle_sensor()
    source = replace(request, mounting=None, deskew=False).scans()
    if request.deskew:
        source = Deskewed(source, ahead=False)
    say = (lambda text: None) if as_json else (lambda text: print(text, flush=True))
    with until_stopped() as stopped, ExitStack() as sinks:
        shown: list[Show] = []
        if foxglove:
            shown.append(sinks.enter_context(_foxglove(host, port, allow_origin or [], say)))
        if output is not None and is_bag_name(output):
            shown.append(sinks.enter_context(_bag(output, force)))
        elif output is not None:
            shown.append(sinks.enter_context(_folder(output, force, request, source, settings)))

        def show(result: LiveResult) -> None:
            for sink in shown:
                sink(result)

        def mounted(scan: Scan) -> Scan:
            return scan if T_vehicle_sensor is None else replace(scan, T_vehicle_sensor=T_vehicle_sensor)

        prepare(request.source, settings, occupancy=occupancy)
        stream = Stream(
            settings,
            on_result=show,
            on_problem=lambda problem: print(f"roadbed: {problem}", file=sys.stderr, flush=True),
            occupancy=occupancy,
        )
        stream.warm_up()
        stream.start()
        feeder = Feeder(source, stream, pace, mounted)
        say(f"{request.source}: {getattr(source, 'address', 'playing')}; Ctrl+C stops it")
        try:
            _wait(feeder, stopped, stream, say)
        finally:
            feeder.close()
            stream.stop()
        if feeder.failure is not None:
            raise feeder.failure
    statistics = stream.statistics()
    if as_json:
        print_json(_facts(request.source, statistics))
    else:
        print(statistics.line())


def _wait(feeder: Any, stopped: Any, stream: Any, say: Any) -> None:
    """Wait until the source ends or a signal comes; print a line every few seconds."""
    waited = 0.0
    while not (feeder.ended.wait(0.1) or stopped.is_set()):
        waited += 0.1
        if waited >= _REPORT_S:
            waited = 0.0
            say(stream.statistics().line())


@contextmanager
def _foxglove(host: str, port: int, origins: list[str], say: Callable[[str], object]) -> Iterator[Show]:
    from roadbed.live.foxglove import FoxgloveSink

    with FoxgloveSink(host, port, origins) as sink:
        open_to = " (open to other machines; the token is part of the address)" if sink.is_open else ""
        say(f"Foxglove: open a connection to {sink.address}{open_to}")
        yield lambda live: sink.show(live.result, live.diagnostics)


@contextmanager
def _bag(output: Path, force: bool) -> Iterator[Show]:
    """Into a ROS 2 or ROS 1 bag, which is kept after an error, too."""
    from roadbed.outputs.bag import BagWriter

    with BagWriter(output, force=force) as bag:
        try:
            yield lambda live: bag.add(live.result)
        finally:
            bag.keep()


@contextmanager
def _folder(output: Path, force: bool, request: Request, source: Any, settings: Config) -> Iterator[Show]:
    """Into a folder; the report is also written after an error."""
    from roadbed.outputs.folder import OutputFolder
    from roadbed.outputs.recording import RunFolder
    from roadbed.sources.read_options import files_of

    out = OutputFolder(output, RunFolder.PARTS, command=command_line(), inputs=files_of(source), force=force)
    folder = RunFolder(out, request.source, settings)
    try:
        yield lambda live: folder.add(live.result)
    finally:
        folder.finish()


def _facts(source: str, statistics: Statistics) -> dict[str, Any]:
    latency = {
        stage: {"median_ms": round(1e3 * median, 2), "p95_ms": round(1e3 * p95, 2)}
        for stage, (median, p95) in statistics.latency.items()
    }
    return {"source": source, **asdict(statistics.total), "latency": latency}
