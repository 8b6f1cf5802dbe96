# SPDX-License-Identifier: Apache-2.0
"""`roadbed segment`: one cloud in, its ground and the rest out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadbed.cli.options import Force, Output, Request, command_line
from roadbed.cli.screen import Json, print_json, table
from roadbed.cli.spread import spread
from roadbed.cli.warm_up import prepare

if TYPE_CHECKING:
    from roadbed.config import Config
    from roadbed.core.frames import GroundFrame, Scan
    from roadbed.outputs.folder import OutputFolder


PARTS = ("ground.pcd", "nonground.pcd", "config.yaml")


@spread
def segment(
    request: Request,
    output: Output = Path("out"),
    force: Force = False,
    frame: Annotated[int, typer.Option(help="Which scan of a sequence.")] = 0,
    compare: Annotated[
        bool, typer.Option("--compare", help="Run the CPU and an accelerator and check that their labels agree.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write ground.pcd and nonground.pcd with every channel kept, and print the time of each phase."""
    from roadbed import GroundFilter
    from roadbed.core.errors import InputError
    from roadbed.outputs.folder import OutputFolder
    from roadbed.sources.read_options import files_of

    settings = request.settings()
    scans = request.scans()
    folder = OutputFolder(output, PARTS, command=command_line(), inputs=files_of(scans), force=force)
    if not 0 <= frame < len(scans):
        raise InputError(f"{request.source}: --frame {frame}: expected 0 to {len(scans) - 1}")
    prepare(request.source, settings, occupancy=False)
    scan = scans[frame]
    if compare:
        agreement = _compare(scan, settings)
    ground = GroundFilter(settings)
    ground(scan)  # compile first, so that the phases below are the method's own
    ground.reset()
    result = ground(scan)
    # An accelerator's kernels are timed one by one, apart from the result.
    on_cpu = ground.backend.device.backend == "cpu"
    phases = result.timings if on_cpu else ground.profile(scan)
    out = _summary(request.source, scan, result, settings.ground.method, phases)
    if compare:
        out["compare"] = agreement
    _write(folder, scan, result)
    settings.save(folder.file("config.yaml"))
    if as_json:
        print_json(out)
    else:
        _print(out, output)
    if compare and not agreement["agree"]:
        raise typer.Exit(1)


def _compare(scan: Scan, settings: Config) -> dict[str, Any]:
    from roadbed.evaluate.agreement import compare

    accelerator = settings.backend if settings.backend != "cpu" else "auto"
    return compare(scan, settings, ("cpu", accelerator), settings.device).as_dict()


def _summary(source: str, scan: Scan, result: GroundFrame, method: str, phases: Mapping[str, float]) -> dict[str, Any]:
    return {
        "source": source,
        "scan": scan.name,
        "method": method,
        "points": len(scan),
        "ground": int(result.is_ground.sum()),
        "nonground": int(len(scan) - result.is_ground.sum()),
        "mounting_height_m": round(result.mounting.height, 3),
        "diagnostics": list(result.diagnostics),
        "phases_ms": {name: round(1e3 * seconds, 3) for name, seconds in phases.items()},
    }


def _write(folder: OutputFolder, scan: Scan, result: GroundFrame) -> None:
    from roadbed.outputs.pcd import write_pcd

    for name, keep in (("ground", result.is_ground), ("nonground", ~result.is_ground)):
        write_pcd(
            folder.file(f"{name}.pcd"),
            scan,
            label=result.label,
            extra={"height_above_ground": result.height_above_ground},
            keep=keep,
        )


def _print(out: dict[str, Any], folder: Path) -> None:
    table(
        f"{out['source']} {out['scan']}: {out['points']} points, {out['method']}",
        ("phase", "ms"),
        list(out["phases_ms"].items()),
    )
    for note in out["diagnostics"]:
        print(f"note: {note}")
    print(f"{out['ground']} ground, {out['nonground']} not; wrote {folder}/ground.pcd and {folder}/nonground.pcd")
    if "compare" in out:
        agreement = out["compare"]
        for backend, device, total in zip(agreement["backends"], agreement["devices"], agreement["milliseconds"]):
            phases = agreement["phases_ms"][backend].items()
            table(f"{backend}, {device}: {total} ms in all", ("phase", "ms"), list(phases))
        verdict = "agree" if agreement["agree"] else "DISAGREE"
        print(
            f"compare: {' and '.join(agreement['backends'])} {verdict}, {agreement['different_labels']} labels differ"
        )
