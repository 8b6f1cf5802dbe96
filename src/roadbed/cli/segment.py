# SPDX-License-Identifier: Apache-2.0
"""`roadbed segment`: split one scan into ground.pcd and nonground.pcd."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadbed.cli.options import Force, FrameIndex, Output, Request, command_line, expand_options, prepare
from roadbed.cli.screen import Json, print_json, table

if TYPE_CHECKING:
    from roadbed.core.frames import GroundFrame

PARTS = ("ground.pcd", "nonground.pcd", "config.yaml")


@expand_options
def segment(
    request: Request,
    output: Output = Path("out"),
    force: Force = False,
    frame: FrameIndex = 0,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also print the time of each phase.")] = False,
    as_json: Json = False,
) -> None:
    """Split one scan into ground.pcd and nonground.pcd.

    Every channel of the scan is kept. Prints the points per label and the mounting.
    """
    from roadbed import GroundFilter
    from roadbed.outputs.folder import OutputFolder
    from roadbed.outputs.pcd import write_pcd
    from roadbed.sources.read_options import files_of

    settings = request.settings()
    scans = request.scans()
    folder = OutputFolder(output, PARTS, command=command_line(), inputs=files_of(scans), force=force)
    scan = request.scan(scans, frame)
    prepare(request.source, settings, occupancy=False)
    ground = GroundFilter(settings)
    ground(scan)  # compiles and loads the kernels, so that the times below are those of the method
    ground.reset()
    result = ground(scan)
    # Kernels of an accelerator, and the steps of grid variance, are timed one by one in a run of their own.
    in_parts = ground.backend.device.backend != "cpu" or settings.ground.method == "variance"
    timed_alone = in_parts and result.has_origin
    phases = ground.profile(scan) if timed_alone else result.timings
    ground.close()  # its memory is used again for what is written
    for name, keep in (("ground", result.is_ground), ("nonground", ~result.is_ground)):
        height = {"height_above_ground": result.height_above_ground}
        write_pcd(folder.file(f"{name}.pcd"), scan, label=result.label, extra=height, keep=keep)
    settings.save(folder.file("config.yaml"))
    out = {
        "source": request.source,
        "scan": scan.name,
        "method": settings.ground.method,
        "files": [str(output / name) for name in PARTS],
        "points": len(scan),
        **_facts(result, scans.diagnostics + scan.diagnostics),
        "phases_ms": {name: round(1e3 * seconds, 3) for name, seconds in phases.items()},
    }
    if as_json:
        print_json(out)
    else:
        _print(out, verbose)


def _facts(result: GroundFrame, of_reader: tuple[str, ...]) -> dict[str, Any]:
    """Points per label, the mounting and the surface; angles in degrees, confidence from 0 (no road found) to 1."""
    import numpy as np

    from roadbed.core.frames import Label

    ground, mounting = int(result.is_ground.sum()), result.mounting
    return {
        "ground": ground,
        "nonground": len(result.label) - ground,
        "labels": {label.name.lower(): int(np.count_nonzero(result.label == label)) for label in Label},
        "mounting_height_m": round(mounting.height, 3),
        "mounting_pitch_deg": round(float(np.degrees(mounting.T_vehicle_sensor.pitch)), 3),
        "mounting_roll_deg": round(float(np.degrees(mounting.T_vehicle_sensor.roll)), 3),
        "mounting_estimated": mounting.estimated,
        "mounting_confidence": round(result.confidence.mounting, 3),
        "surface_confidence": round(result.confidence.surface, 3),
        "sure": result.confidence.is_sure,
        "has_origin": result.has_origin,
        "diagnostics": list(dict.fromkeys(of_reader + result.diagnostics + result.confidence.doubts)),
    }


def _print(out: dict[str, Any], verbose: bool) -> None:
    found = [(name.replace("_", " "), n) for name, n in out["labels"].items() if n]
    shares = [(name, n, f"{100 * n / out['points']:5.1f}") for name, n in found]
    table(f"{out['source']} {out['scan']}: {out['points']} points", ("label", "points", "%"), shares)
    how = f"estimated, confidence {out['mounting_confidence']:.2f}" if out["mounting_estimated"] else "given"
    angles = f"pitch {out['mounting_pitch_deg']:.1f}°, roll {out['mounting_roll_deg']:.1f}°"
    if out["has_origin"]:
        print(f"mounting: {out['mounting_height_m']:.2f} m above the road, {angles} ({how})")
    else:
        print(f"mounting: none; ground under {100 * out['mounting_confidence']:.0f} % of the cloud")
    print(f"surface: confidence {out['surface_confidence']:.2f}")
    for message in out["diagnostics"]:
        print(f"note: {message}")
    print(f"wrote {', '.join(out['files'])}")
    if verbose:
        table(f"method {out['method']}", ("phase", "ms"), list(out["phases_ms"].items()))
