# SPDX-License-Identifier: Apache-2.0
"""Draws a frame into the page: cloud, surface, grid, arrows, objects. The vehicle stays at the origin."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.frames import GroundFrame, OccupancyFrame
from roadbed.core.geometry import Float64, Grid
from roadbed.outputs.images import palette
from roadbed.outputs.images.scene3d import (
    HEIGHT,
    LENGTH,
    WIDTH,
    box_corners,
    moving_cells,
    on_surface,
    surface_certainty,
    surface_height,
)
from roadbed.pipeline import Result
from roadbed.viewer.colouring import GRID_KEY, MOTION_KEY, SURFACE_KEY, coloured
from roadbed.viewer.drape import before_tone_mapping, draped_glb

_LINE = 8  # texels per square of the surface, one of them its outline
_MOST_ARROWS, _MOST_LABELS = 60, 30
# m; a little lower than the points, which would sink in otherwise. The grid is opaque: the surface's lines lie over it.
_SURFACE_LIFT, _GRID_LIFT = -0.06, -0.12
_BOX_HEIGHT = 1.6  # m; the grid knows no heights


@dataclass(frozen=True)
class Display:
    colour: str = "label"
    point_size: float = 0.08
    cloud: bool = True
    surface: bool = True
    grid: bool = True
    arrows: bool = True
    objects: bool = True


class Scene:
    """Keeps the nodes of the page up to date; each kind of item has one node that is replaced."""

    def __init__(self, scene: Any) -> None:
        self._scene = scene
        self.drawing = threading.Lock()  # frames and display options come from different threads
        self._display = Display()
        self._result: Result | None = None
        self._cloud_key = ""
        self._labels = 0
        scene.set_up_direction("+z")
        scene.world_axes.visible = False
        scene.configure_default_lights(enabled=True, cast_shadow=False)  # shadows cost more than the points

    def show(self, result: Result) -> None:
        """Draw a frame."""
        self._result = result
        pose = result.ground.T_grid_vehicle
        self._scene.add_box(
            "/vehicle",
            palette.rgb(palette.VEHICLE),
            dimensions=(LENGTH, WIDTH, HEIGHT),
            wxyz=(np.cos(pose.yaw / 2), 0.0, 0.0, np.sin(pose.yaw / 2)),
            position=(0.0, 0.0, HEIGHT / 2),
            cast_shadow=False,
            receive_shadow=False,
        )
        self._draw_cloud(result)
        self._draw_surface(result)
        if result.occupancy is not None:
            self._draw_grid(result.ground, result.occupancy)
            self._draw_motion(result.ground, result.occupancy)

    def set_display(self, **changes: Any) -> None:
        """Change display options; only affected parts are redrawn."""
        self._display = replace(self._display, **changes)
        if self._result is None:
            return
        if {"colour", "point_size", "cloud"} & set(changes):
            self._draw_cloud(self._result)
        if {"surface", "grid"} & set(changes):
            self._draw_surface(self._result)
        if self._result.occupancy is not None:
            if "grid" in changes:
                self._draw_grid(self._result.ground, self._result.occupancy)
            if {"arrows", "objects"} & set(changes):
                self._draw_motion(self._result.ground, self._result.occupancy)

    def legend(self) -> str:
        """Legend of everything shown, as HTML."""
        shown, grid = self._display, self._result is not None and self._result.occupancy is not None
        keys = (
            (self._cloud_key, shown.cloud),
            (SURFACE_KEY, shown.surface),
            (GRID_KEY, shown.grid and grid),
            (MOTION_KEY, (shown.arrows or shown.objects) and grid),
        )
        return "".join(f"<div>{key}</div>" for key, is_shown in keys if is_shown)

    def drawn(self) -> tuple[Result, Float64] | None:
        """The shown frame, and its points in page coordinates."""
        result = self._result
        return None if result is None else (result, _in_page(result.ground))

    def height(self, x: float, y: float) -> float:
        """Ground height at a page position, m above the road under the vehicle."""
        result = self._result
        if result is None:
            return 0.0
        origin = result.ground.T_grid_vehicle.translation
        at = np.array([[x], [y]]) + origin[:2, None]
        return float(surface_height(result.ground, at[0], at[1])[0] - origin[2])

    def mark(self, point: Float64 | None) -> None:
        if point is None or not np.isfinite(point).all():
            self._remove("/picked")
            return
        self._scene.add_icosphere("/picked", radius=0.18, color=palette.rgb(palette.SURFACE), position=tuple(point))

    def _draw_cloud(self, result: Result) -> None:
        shown = coloured(self._display.colour, result.scan, result.ground)
        self._cloud_key = shown.key
        points = _in_page(result.ground)
        finite = np.isfinite(points).all(1)
        self._scene.add_point_cloud(
            "/cloud",
            points[finite].astype(np.float32),
            shown.colours[finite],
            point_size=self._display.point_size,
            point_shape="circle",
            point_shading="flat",
            precision="float32",
            visible=self._display.cloud,
        )

    def _draw_surface(self, result: Result) -> None:
        """The elevation as a red mesh, the more transparent the less certain; over the occupancy its lines alone."""
        glb = b""
        if self._display.surface:
            ground, over_grid = result.ground, self._display.grid and result.occupancy is not None
            origin, image = ground.T_grid_vehicle.translation, surface_image(ground, over_grid)
            glb = draped_glb(ground.grid, ground.elevation, image, origin, _SURFACE_LIFT, blend=True)
        self._set_glb("/surface", glb)

    def _draw_grid(self, ground: GroundFrame, occupancy: OccupancyFrame) -> None:
        """The occupancy laid over the surface: one texel per cell, on a mesh of larger squares."""
        glb = b""
        if self._display.grid:
            colours = palette.occupancy_colours(occupancy)
            mesh, step = coarser(occupancy.grid, max(1, round(0.8 / occupancy.grid.spacing)))
            image = before_tone_mapping(colours[: mesh.rows * step, : mesh.columns * step])
            height = surface_height(ground, *mesh.mesh())
            glb = draped_glb(mesh, height, image, ground.T_grid_vehicle.translation, _GRID_LIFT)
        self._set_glb("/grid", glb)

    def _set_glb(self, name: str, glb: bytes) -> None:
        if glb:
            self._scene.add_glb(name, glb, cast_shadow=False, receive_shadow=False)
        else:
            self._remove(name)

    def _draw_motion(self, ground: GroundFrame, occupancy: OccupancyFrame) -> None:
        self._draw_arrows(ground, occupancy)
        self._draw_objects(ground, occupancy)

    def _draw_arrows(self, ground: GroundFrame, occupancy: OccupancyFrame) -> None:
        """One second of travel of moving cells."""
        cells, velocity = moving_cells(occupancy, _MOST_ARROWS)
        if not (self._display.arrows and len(cells)):
            self._remove("/arrows")
            return
        start = on_surface(ground, cells, 0.4)
        end = start + np.column_stack([velocity, np.zeros(len(cells))])
        self._scene.add_arrows(
            "/arrows",
            np.stack([start, end], 1) - ground.T_grid_vehicle.translation,
            palette.rgb(palette.VEHICLE),
            shaft_radius=0.06,
            head_radius=0.18,
            head_length=0.5,
        )

    def _draw_objects(self, ground: GroundFrame, occupancy: OccupancyFrame) -> None:
        """Tracked objects as boxes with number and speed."""
        objects = occupancy.objects if self._display.objects else ()
        origin = ground.T_grid_vehicle.translation
        edges = []
        for item in objects:
            base = on_surface(ground, box_corners(item))
            top = base + np.array([0, 0, _BOX_HEIGHT])
            edges += [np.stack([base, np.roll(base, -1, 0)], 1), np.stack([top, np.roll(top, -1, 0)], 1)]
            edges.append(np.stack([base, top], 1))
        if edges:
            lines, black = np.concatenate(edges) - origin, palette.rgb(palette.VEHICLE)
            self._scene.add_line_segments("/objects", lines, black, thickness=2.5, thickness_units="screen")
        else:
            self._remove("/objects")
        shown = objects[:_MOST_LABELS]
        for number, item in enumerate(shown):
            text = f"{item.id}: {np.hypot(*item.velocity):.1f} m/s"
            (above,) = on_surface(ground, item.position[None], 2.0) - origin
            self._scene.add_label(f"/label/{number}", text, position=tuple(above))
        for number in range(len(shown), self._labels):
            self._remove(f"/label/{number}")
        self._labels = len(shown)

    def _remove(self, name: str) -> None:
        if self._scene.get_handle_by_name(name) is not None:
            self._scene.remove_by_name(name)


def coarser(grid: Grid, step: int) -> tuple[Grid, int]:
    """A grid whose squares hold step x step cells of the given one, and that step; a rest is cut off."""
    step = min(step, grid.rows, grid.columns)
    shift = (step - 1) / 2 * grid.spacing
    spacing, columns, rows = step * grid.spacing, grid.columns // step, grid.rows // step
    return Grid(grid.x0 + shift, grid.y0 + shift, spacing, columns, rows), step


def surface_image(ground: GroundFrame, only_lines: bool = False) -> NDArray[np.uint8]:
    """Outlined squares around the nodes, (rows * 8, columns * 8, RGBA); opacity falls with the variance."""
    certainty = surface_certainty(ground).repeat(_LINE, 0).repeat(_LINE, 1)
    fill, line = (0.0, 0.6) if only_lines else (0.22, 0.85)
    strength = np.full(certainty.shape, fill)
    # Nodes lie in the middle of their squares: the lines go through the nodes.
    strength[_LINE // 2 :: _LINE], strength[:, _LINE // 2 :: _LINE] = line, line
    image = np.empty((*certainty.shape, 4), np.uint8)
    image[..., :3] = before_tone_mapping(palette.rgb(palette.SURFACE))
    image[..., 3] = 255 * strength * certainty
    return image


def _in_page(ground: GroundFrame) -> Float64:
    return ground.points_grid.astype(np.float64) - ground.T_grid_vehicle.translation


CLEARANCE = 0.5  # m
_SLACK = 0.02  # m; rounding of positions that the page sends


def keep_above(camera: Any, ground: Callable[[float, float], float]) -> None:
    """Bring a viser camera back over `ground(x, y)` if it has sunk below."""
    moved = lifted(camera.position, camera.look_at, ground(*camera.position[:2]) + CLEARANCE)
    if moved is not None:
        with camera.client.atomic():
            camera.position, camera.look_at = moved


def lifted(position: Float64, target: Float64, floor: float) -> tuple[Float64, Float64] | None:
    """Eye and target with the eye at `floor`, None if it is above.

    The eye goes back on its orbit around the target, so that a drag ends at the ground as at a stop; where the orbit
    does not reach the floor, both rise.
    """
    if position[2] > floor - _SLACK:
        return None
    away = position - target
    distance, rise = float(np.linalg.norm(away)), floor - target[2]
    aside = float(np.hypot(*away[:2]))
    if abs(rise) >= 0.99 * distance or aside < 1e-6:
        up = np.array([0.0, 0.0, floor - position[2]])
        return position + up, target + up
    return target + np.array([*away[:2] * (np.sqrt(distance**2 - rise**2) / aside), rise]), target
