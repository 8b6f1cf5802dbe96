# SPDX-License-Identifier: Apache-2.0
"""`roadbed map DIR`: show, merge, crop or export a long-term map."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadbed.cli.options import Force, Output, command_line
from roadbed.cli.screen import Json, print_json, progress, table

if TYPE_CHECKING:
    from roadbed.mapping.reader import MapReader

app = typer.Typer(
    invoke_without_command=True,
    help="Show, merge, crop or export a long-term map.",
    epilog="The folder comes first: roadbed map DIR export --help shows the options of export.",
)
Products = Annotated[str | None, typer.Option(help="Some of geotiff,laz,nav2,ply,picture; all by default.")]
Corner = Annotated[float, typer.Argument(help="m, in the frame of the map.")]
NewMap = Annotated[Path, typer.Option("--output", "-o", help="Folder of the new map.")]


@app.callback()
def folder(
    context: typer.Context,
    map_folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that roadbed run --map wrote.")],
) -> None:
    """Show a map if no command is given."""
    context.obj = map_folder
    if context.invoked_subcommand is None:
        show(context)


@app.command()
def show(context: typer.Context, as_json: Json = False) -> None:
    """Show extent, known area and elevation of the map."""
    stored = _open(context)
    facts = _facts(stored)
    if as_json:
        print_json(facts)
        return
    table(str(stored.folder), ("measure", "value"), [(name.replace("_", " "), _text(v)) for name, v in facts.items()])
    _name_damaged(stored.damaged)


@app.command()
def merge(
    context: typer.Context,
    others: Annotated[list[Path], typer.Argument(metavar="OTHER...", help="Maps to add to it.")],
    output: NewMap,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Merge several maps, in the frame of the first."""
    from roadbed.mapping.merge import merge_maps, new_map_folder
    from roadbed.mapping.reader import MapReader

    maps = [_open(context), *(MapReader(other) for other in others)]
    merge_maps(maps, lambda: new_map_folder(output, [stored.folder for stored in maps], force))
    _report(output, [line for stored in maps for line in stored.damaged], as_json)


@app.command()
def crop(
    context: typer.Context,
    x_min: Corner,
    x_max: Corner,
    y_min: Corner,
    y_max: Corner,
    output: NewMap,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Cut out a rectangle.

    Write -- before negative numbers: crop -o OUT -- -20 20 -20 20.
    """
    from roadbed.mapping.merge import crop_map, new_map_folder

    stored = _open(context)
    crop_map(stored, lambda: new_map_folder(output, [stored.folder], force), (x_min, x_max), (y_min, y_max))
    _report(output, stored.damaged, as_json)


@app.command()
def export(
    context: typer.Context,
    output: Output = Path("map-products"),
    force: Force = False,
    products: Products = None,
    origin: Annotated[
        tuple[float, float, float],
        typer.Option(metavar="EASTING NORTHING HEIGHT", help="Position of the map's origin, m; x points east."),
    ] = (0.0, 0.0, 0.0),
    epsg: Annotated[int | None, typer.Option(help="EPSG code of the coordinates in --origin, e.g. 32632.")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML configuration, for traversability.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Export the map to files for other programs."""
    from roadbed.config import Config
    from roadbed.outputs.folder import OutputFolder
    from roadbed.outputs.maps.export import PARTS, export_map
    from roadbed.outputs.maps.geotiff import Georeference

    stored = _open(context)
    limits = Config.load(config).traversability.limits if config else None
    out = OutputFolder(output, PARTS, command=command_line(), inputs=[stored.folder], force=force)
    georeference, total = Georeference(*origin, epsg), len(stored.ground.keys)
    names = [name for name in (products or "").replace(" ", ",").split(",") if name]
    done = export_map(stored, out, names, georeference, limits, lambda keys: progress(keys, "exporting", total))
    if as_json:
        print_json({"output": str(output), "files": done.files, "nodes": done.nodes, "damaged": done.damaged})
        return
    print(f"{output}/: {', '.join(done.files)}")
    _name_damaged(done.damaged)


def _open(context: typer.Context) -> MapReader:
    from roadbed.mapping.reader import MapReader

    return MapReader(context.obj)


def _facts(stored: MapReader) -> dict[str, Any]:
    import numpy as np

    x_min, x_max, y_min, y_max = stored.extent.extent
    nodes, low, high, variance = 0, np.inf, -np.inf, 0.0
    for key in stored.ground.keys:
        planes = stored.planes(key)
        heights = planes.elevation[planes.known]
        if heights.size:
            nodes += heights.size
            low, high = min(low, float(heights.min())), max(high, float(heights.max()))
            variance += float(planes.variance[planes.known].sum())
    return {
        "spacing": stored.spacing,
        "tiles": len(stored.ground.keys),
        "x": [x_min, x_max],
        "y": [y_min, y_max],
        "nodes": nodes,
        "square_metres": nodes * stored.spacing**2,
        "elevation": [low, high] if nodes else None,
        "sigma": float(np.sqrt(variance / nodes)) if nodes else None,
        "tiles_of_points": len(stored.points.keys),
        "tiles_of_cells": len(stored.cells.keys),
        "damaged": list(stored.damaged),
    }


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " .. ".join(_text(item) for item in value) or "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _report(output: Path, damaged: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"output": str(output), "damaged": damaged})
        return
    print(f"{output}/ holds the map; look at it with roadbed map {shlex.quote(str(output))}")
    _name_damaged(damaged)


def _name_damaged(damaged: Any) -> None:
    for line in damaged:
        print(f"left out: {line}")
