# SPDX-License-Identifier: Apache-2.0
"""Ground of a cloud without a sensor: the engine of a scan on overlapping tiles, over a start surface."""

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from roadbed.config import Config
from roadbed.config.ground import GroundRule
from roadbed.core.device_arrays import to_host
from roadbed.core.frames import Label, Mounting, Scan
from roadbed.core.geometry import Float64, Grid, Pose
from roadbed.core.memory import check_memory
from roadbed.ground.cloud.origin import SCAN_OR_MAP
from roadbed.ground.cloud.start_surface import StartSurface, start_surface
from roadbed.ground.engine import FrameInput, FrameOutput, GroundEngine, Placement, Vehicle
from roadbed.ground.method import Segmented
from roadbed.ground.stcrf.sizes import lattice_of

# Rules that need the rays of one sensor or a sequence, and the start that would climb roofs: heights are over slopes.
_NOT_USED: tuple[GroundRule, ...] = ("visibility", "isolated_returns", "alignment", "slope_aware_start")
_OVERLAP = 20.0  # m of surface beyond each border of a tile whose labels are used
_FEW, _FEW_IF_SCAN = 0.5, 0.9  # share of the nodes with points that have ground, below which the result is doubtful
_FARTHEST = 1e7  # m
_BYTES_PER_NODE, _BYTES_PER_POINT = 32, 80
_NOWHERE = Vehicle(-1e3, -1e3)  # no vehicle on the lattice
_ABOVE_ALL = 1e6  # m, of no sensor
_UNKNOWN_VARIANCE = 1e2  # m^2, of nodes without points around
_NOTE = "no sensor at the origin{}: labelled as a map, without rules that need rays; if wrong, give ?origin=sensor"
_WIDEST_ROOF = 5000.0  # m^2; a wider area behind steps may be a plateau
_ROOF = "an area of {:.0f} m2 behind steps is taken for a roof"
_DOUBT = "ground lies under {:.0f} % of the cloud only: labels are doubtful; z must point up, in metres"


def engine_config(config: Config) -> Config:
    return config.with_changes(ground={"without": sorted({*config.ground.without, *_NOT_USED})})


@dataclass(frozen=True)
class _Tile:
    """Nodes of the cloud's grid: those of the lattice, and those whose results are used."""

    column: int  # first of the lattice; may be negative
    row: int
    used: tuple[slice, slice]  # rows, columns


class CloudGround:
    """Labels a cloud tile by tile with an engine for `engine_config`; each point gets its label from one tile."""

    def __init__(self, config: Config, engine: GroundEngine) -> None:
        self._engine, self._lattice = engine, lattice_of(config.ground)

    def segment(self, scan: Scan, why: str = "") -> Segmented:
        """Labels of all points, and the surface under the whole cloud along its own axes; `why` it is a cloud."""
        begin = perf_counter()
        points = to_host(scan.points)
        chosen = np.flatnonzero(np.isfinite(points).all(axis=1) & (np.abs(points) < _FARTHEST).all(axis=1))
        usable = points[chosen].astype(np.float64)
        grid = self._grid(usable)
        needed = _BYTES_PER_NODE * grid.size + _BYTES_PER_POINT * len(points)
        check_memory(f"ground of {scan.name or 'a cloud'} ({grid.size:,} nodes)", needed)
        output, known, centre = _unknown(len(points), grid), 0.0, np.zeros(3)
        notes, surface = [_NOTE.format(f" ({why})" if why else "")], None
        if len(usable):
            surface = start_surface(usable)
            node = grid.index(usable[:, 0], usable[:, 1])
            for tile in self._tiles(grid):
                self._run(tile, usable, node, chosen, surface, grid, output)
            occupied = np.bincount(node, minlength=grid.size).reshape(grid.shape) > 0
            known = float(np.isfinite(output.elevation[occupied]).mean())
            x, y = np.median(usable[:, :2], axis=0)
            centre = np.array([x, y, surface.at(np.array([x]), np.array([y]))[0]])
        few = _FEW_IF_SCAN if why == SCAN_OR_MAP else _FEW
        doubt = _DOUBT.format(100 * known) if len(usable) and known < few else ""
        if surface is not None and surface.roof:
            notes.append(_ROOF.format(surface.roof))
            doubt = doubt or (notes[-1] if surface.roof > _WIDEST_ROOF else "")
        notes += [doubt] if doubt and doubt not in notes else []
        return Segmented(
            output,
            grid,
            Pose.identity(),
            Mounting(T_vehicle_sensor=Pose(np.eye(3), -centre), estimated=True, quality=known, doubt=doubt),
            scan.T_world_sensor,
            has_origin=False,
            diagnostics=tuple(notes),
            timings={"cloud": perf_counter() - begin},
        )

    def _grid(self, usable: Float64) -> Grid:
        """Nodes under all points, counted from the lowest x and y: labels do not depend on where the cloud lies."""
        spacing = self._lattice.spacing
        if not len(usable):
            return Grid(0.0, 0.0, spacing, 1, 1)
        first, last = usable[:, :2].min(axis=0), usable[:, :2].max(axis=0)
        columns, rows = (int(extent / spacing) + 2 for extent in last - first)
        return Grid(float(first[0]), float(first[1]), spacing, columns, rows)

    def _tiles(self, grid: Grid) -> Iterator[_Tile]:
        """Tiles whose used nodes cover the grid once."""
        for row, rows in self._parts(grid.rows, self._lattice.rows):
            for column, columns in self._parts(grid.columns, self._lattice.columns):
                yield _Tile(column, row, (rows, columns))

    def _parts(self, nodes: int, of_lattice: int) -> Iterator[tuple[int, slice]]:
        """First node of each lattice along an axis, and the nodes that are used of it."""
        margin = min(round(_OVERLAP / self._lattice.spacing), of_lattice // 4)
        if nodes <= of_lattice:
            margin = 0
        step = of_lattice - 2 * margin
        for first in range(0, nodes, step):
            yield first - margin, slice(first, min(first + step, nodes))

    def _run(
        self,
        tile: _Tile,
        usable: Float64,
        node: NDArray[np.int64],
        chosen: NDArray[np.intp],
        surface: StartSurface,
        grid: Grid,
        output: FrameOutput,
    ) -> None:
        """Compute one tile and copy what is used of it."""
        row, column = np.divmod(node, grid.columns)
        rows, columns = self._lattice.shape
        in_row, in_column = row - tile.row, column - tile.column
        there = np.flatnonzero((in_row >= 0) & (in_row < rows) & (in_column >= 0) & (in_column < columns))
        used_rows, used_columns = tile.used
        is_used = (row[there] >= used_rows.start) & (row[there] < used_rows.stop)
        is_used &= (column[there] >= used_columns.start) & (column[there] < used_columns.stop)
        if not is_used.any():
            return
        x, y, z = usable[there].T
        corner = grid.x0 + (tile.column - 0.5) * grid.spacing, grid.y0 + (tile.row - 0.5) * grid.spacing
        over = np.stack([x - corner[0], y - corner[1], z - surface.at(x, y)], axis=1).astype(np.float32)
        at_corner = Placement(np.eye(3), np.zeros(3), 0.0)
        found = self._engine.frame(
            FrameInput(over, at_corner, _NOWHERE, 0.0, origins=np.zeros((0, 3)), rise=_ABOVE_ALL)
        )
        to, used = chosen[there[is_used]], is_used
        output.label[to] = found.label[used]
        output.ground_probability[to] = found.ground_probability[used]
        output.height_above_ground[to] = found.height_above_ground[used]
        part = (
            slice(used_rows.start - tile.row, used_rows.stop - tile.row),
            slice(used_columns.start - tile.column, used_columns.stop - tile.column),
        )
        node_x, node_y = (axis[tile.used] for axis in grid.mesh())
        slope_x, slope_y = surface.slope_at(node_x, node_y)
        output.elevation[tile.used] = found.elevation[part] + surface.at(node_x, node_y)
        output.slope[tile.used] = found.slope[part] + np.stack([slope_x, slope_y], axis=-1)
        output.variance[tile.used] = found.variance[part]


def _unknown(points: int, grid: Grid) -> FrameOutput:
    """A result in which nothing is known yet."""
    return FrameOutput(
        label=np.full(points, Label.UNKNOWN, np.uint8),
        ground_probability=np.zeros(points, np.float32),
        height_above_ground=np.full(points, np.nan, np.float32),
        elevation=np.full(grid.shape, np.nan, np.float32),
        slope=np.full((*grid.shape, 2), np.nan, np.float32),
        variance=np.full(grid.shape, _UNKNOWN_VARIANCE, np.float32),
    )
