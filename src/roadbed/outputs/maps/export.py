# SPDX-License-Identifier: Apache-2.0
"""Exports a map: all products, or those asked for, into a folder of results."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import ConfigError, InputError
from roadbed.core.traversability import TraversabilityLimits, traversability
from roadbed.io.atomic import atomic_write
from roadbed.mapping.cache import SIDE, Key
from roadbed.mapping.reader import MapReader
from roadbed.mapping.tiles import GROUND, OBSTACLE
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.maps.geotiff import Georeference, GeoTiffWriter
from roadbed.outputs.maps.laz import write_laz
from roadbed.outputs.maps.mesh import write_ply
from roadbed.outputs.maps.nav2 import write_nav2_map
from roadbed.outputs.maps.relief import save_relief

# name of a layer and its file -> what the pixels are
LAYERS = {
    "elevation": "elevation of the ground, m",
    "slope": "steepness of the ground, tangent",
    "variance": "variance of the elevation, m^2",
    "count": "returns from the ground",
    "traversability": "0 impassable to 1 free",
    "traversability-reason": "0 unknown, 1 none, 2 slope, 3 step, 4 roughness, 5 variance",
}
_BORDER = 1  # nodes of the neighbours that a step or roughness at the edge needs
# product -> its files
PRODUCTS = {
    "geotiff": tuple(f"{name}.tif" for name in LAYERS),
    "laz": ("ground.laz", "obstacles.laz"),
    "nav2": ("static.pgm", "static.yaml"),
    "ply": ("surface.ply",),
    "picture": ("relief.png",),
}
_NEED_SURVEY = ("laz", "nav2")
PARTS = tuple(name for files in PRODUCTS.values() for name in files)


@dataclass
class Exported:
    files: list[str] = field(default_factory=list)
    nodes: int = 0  # known
    damaged: tuple[str, ...] = ()  # one line per tile that could not be read


def export_map(
    stored: MapReader,
    out: OutputFolder,
    products: Sequence[str] = (),
    georeference: Georeference | None = None,
    limits: TraversabilityLimits | None = None,
    watch: Callable[[Iterable[Key]], Iterable[Key]] = lambda keys: keys,
) -> Exported:
    """Write the products asked for, by default every one that the map has the data for."""
    names = tuple(dict.fromkeys(products))
    for name in names:
        if name not in PRODUCTS:
            raise ConfigError(f"product {name!r}: expected some of {', '.join(PRODUCTS)}")
    if not names:
        names = tuple(name for name in PRODUCTS if stored.layers is not None or name not in _NEED_SURVEY)
    missing = [name for name in names if name in _NEED_SURVEY and stored.layers is None]
    if missing:
        raise InputError(
            f"{stored.folder}: {', '.join(missing)}: this map holds the ground alone, expected points and cells too"
        )
    stored.extent  # noqa: B018  an empty map is refused before anything is written
    georeference = georeference or Georeference()
    done = Exported()

    def file(name: str):
        done.files.append(name)
        return out.file(name)

    if "geotiff" in names:
        done.nodes = _write_layers(stored, file, georeference, limits, watch)
    if "laz" in names:
        for name, kind in (("ground.laz", GROUND), ("obstacles.laz", OBSTACLE)):
            write_laz(file(name), stored, kind, georeference)
    if "nav2" in names:
        write_nav2_map(file("static.pgm"), file("static.yaml"), stored, georeference)
    if "ply" in names:
        write_ply(file("surface.ply"), stored, georeference)
    if "picture" in names:
        save_relief(file("relief.png"), stored, georeference)
    done.damaged = tuple(stored.damaged)
    return done


def _write_layers(stored, file, georeference, limits, watch) -> int:
    """The rasters, all in one pass over the tiles; returns how many nodes are known."""
    grid = stored.extent
    (first_row, _), (first, _) = stored.ground.block
    names = [name for name in LAYERS if name != "count" or stored.layers is not None]
    known = 0
    with ExitStack() as stack:
        writers = {}
        for name in names:
            dtype = np.uint8 if name == "traversability-reason" else np.float32
            target = stack.enter_context(atomic_write(file(f"{name}.tif")))
            writers[name] = GeoTiffWriter(target, grid, georeference, LAYERS[name], dtype)
        for key in watch(stored.ground.keys):
            layers = _tile_layers(stored, key, limits)
            known += int(np.isfinite(layers["elevation"]).sum())
            layers["elevation"] = layers["elevation"] + georeference.height
            for name, writer in writers.items():
                writer.write(key[0] - first_row, key[1] - first, layers[name])
        for writer in writers.values():
            writer.finish()
    return known


def _tile_layers(stored: MapReader, key: Key, limits: TraversabilityLimits | None = None) -> dict[str, NDArray]:
    """Every layer of one tile, (64, 64) each; NaN, or 0 for the reason, where nothing is known."""
    wide = stored.planes(key, _BORDER)
    inner = (slice(_BORDER, _BORDER + SIDE),) * 2
    slope = np.stack([wide.slope_x, wide.slope_y], axis=-1)
    drivable = traversability(wide.elevation, slope, wide.variance, stored.spacing, limits)
    layers: dict[str, NDArray] = {
        "elevation": wide.elevation[inner],
        "slope": wide.slope[inner],
        "variance": wide.variance[inner],
        "traversability": drivable.score[inner],
        "traversability-reason": drivable.reason[inner],
    }
    if stored.layers is not None:
        layers["count"] = stored.count(key)
    return layers
