# SPDX-License-Identifier: Apache-2.0
"""`roadbed compare`: two configurations on one source, in one report."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from roadbed.cli.options import (
    Force,
    Frames,
    Occupancy,
    Output,
    PresetName,
    Request,
    command_line,
    expand_options,
    prepare,
)
from roadbed.cli.screen import Json, print_json, progress, table


@partial(expand_options, without=("config", "preset"))
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="YAML configuration, or a preset: default, paper, small.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The one to compare it with.")],
    request: Request,
    output: Output = Path("out"),
    force: Force = False,
    frames: Frames = None,
    occupancy: Occupancy = True,
    as_json: Json = False,
) -> None:
    """Compare two configurations: a report with a slider.

    Other options, as --method or --height, apply to both.
    """
    from roadbed import Pipeline
    from roadbed.outputs.folder import OutputFolder
    from roadbed.outputs.report.comparison import Comparison
    from roadbed.sources.read_options import files_of

    a, b = (_with_configuration(request, name).settings() for name in (first, second))
    scans = request.scans(frames)
    out = OutputFolder(output, ("report.html",), command=command_line(), inputs=files_of(scans), force=force)
    for settings in (a, b):
        prepare(request.source, settings, occupancy=occupancy)
    comparison = Comparison(request.source, (first, second), (a, b), command_line())
    with Pipeline(a, occupancy=occupancy) as one, Pipeline(b, occupancy=occupancy) as other:
        for number, scan in enumerate(progress(scans, "processing", len(scans))):
            if not scans.sequential:
                one.reset()
                other.reset()
            if number % 2:  # whoever is second finds the scan in the cache: they take turns
                result = other(scan)
                comparison.add(one(scan), result)
            else:
                comparison.add(one(scan), other(scan))
    report = out.file("report.html")
    comparison.write(report)
    facts = {"source": request.source, "a": first, "b": second, **comparison.facts(), "report": str(report)}
    if as_json:
        print_json(facts)
        return
    rows = [(name, *values) for name, values in facts["parameters"].items()]
    rows += [("median ms", *facts["median_ms"])]
    rows += [(f"ground {name} %", value, facts["scores"][1][name]) for name, value in facts["scores"][0].items()]
    table(f"{request.source}: {facts['frames']} frames", ("", f"A: {first}", f"B: {second}"), rows)
    print(f"{facts['labels_that_differ']} labels ({facts['labels_that_differ_percent']:.2f} %) differ")
    print(f"open {report}")


def _with_configuration(request: Request, name: str) -> Request:
    if name in PresetName.__members__ and not Path(name).exists():
        return replace(request, preset=PresetName(name))
    return replace(request, config=Path(name))
