# SPDX-License-Identifier: Apache-2.0
"""Three views in perspective: the raw cloud, the ground found in it, and the occupancy with moving objects."""

import numpy as np
from numpy.typing import NDArray

from roadbed.core.frames import GroundFrame, OccupancyFrame
from roadbed.core.geometry import Float32, Float64, Grid
from roadbed.core.tracked_objects import TrackedObject
from roadbed.outputs.images import palette
from roadbed.outputs.images.perspective import Camera, Canvas

Image = NDArray[np.uint8]
LENGTH, WIDTH, HEIGHT = 4.4, 1.8, 1.5  # m, a passenger car, for scale


def chase_camera(ground: GroundFrame, distance: float = 26.0, height: float = 14.0, ahead: float = 9.0) -> Camera:
    """From behind and above the vehicle, looking along its heading."""
    pose = ground.T_grid_vehicle
    forward = np.array([np.cos(pose.yaw), np.sin(pose.yaw), 0.0])
    eye = pose.translation - distance * forward + (0, 0, height)
    target = pose.translation + ahead * forward
    return Camera(tuple(eye), tuple(target))


def raw_view(ground: GroundFrame, camera: Camera, size: tuple[int, int]) -> Image:
    """The cloud as it comes from the sensor."""
    canvas = Canvas(*size, camera)
    canvas.points(ground.points_grid, palette.rgb(palette.RAW))
    _draw_vehicle(canvas, ground)
    return canvas.image()


def ground_view(ground: GroundFrame, camera: Camera, size: tuple[int, int], with_vehicle: bool = True) -> Image:
    """Green ground and pink obstacles on the red mesh of the elevation."""
    canvas = Canvas(*size, camera)
    canvas.points(ground.points_grid, palette.label_colours(ground.label))
    segments, certainty = mesh_edges(ground)
    canvas.lines(segments, faded(palette.SURFACE, certainty), nearer=0.0)
    if with_vehicle:
        _draw_vehicle(canvas, ground)
    return canvas.image()


def occupancy_view(ground: GroundFrame, occupancy: OccupancyFrame, camera: Camera, size: tuple[int, int]) -> Image:
    """Static, moving, free and unseen cells laid on the elevation, with the tracked objects and their velocities."""
    canvas = Canvas(*size, camera)
    grid = occupancy.grid
    colours = palette.occupancy_colours(occupancy)
    points, colours = _samples_of_cells(grid, surface_height(ground, *grid.mesh()), colours)
    canvas.points(points, colours, size=grid.spacing * 0.8, largest=24)
    _draw_columns(canvas, ground, occupancy)
    for item in occupancy.objects:
        corners = on_surface(ground, box_corners(item), 0.05)
        canvas.lines(np.stack([corners, np.roll(corners, -1, 0)], 1), palette.rgb(palette.VEHICLE), size=0.12)
    _draw_arrows(canvas, ground, occupancy)
    _draw_vehicle(canvas, ground)
    return canvas.image()


def mesh_edges(ground: GroundFrame) -> tuple[Float64, Float64]:
    """Edges between known neighbouring nodes, (M, 2, 3), and how certain the surface is there (0 to 1)."""
    x, y = ground.grid.mesh()
    nodes = np.stack([x, y, ground.elevation.astype(np.float64)], -1)
    sure = surface_certainty(ground)
    along_x = np.stack([nodes[:, :-1], nodes[:, 1:]], 2).reshape(-1, 2, 3)
    along_y = np.stack([nodes[:-1], nodes[1:]], 2).reshape(-1, 2, 3)
    certainty = np.concatenate([np.minimum(sure[:, :-1], sure[:, 1:]).ravel(), np.minimum(sure[:-1], sure[1:]).ravel()])
    segments = np.concatenate([along_x, along_y])
    shown = np.isfinite(segments).all((1, 2)) & (certainty > 0.05)
    return segments[shown], certainty[shown]


def surface_certainty(ground: GroundFrame, half_at: float = 0.15) -> Float64:
    """1 where the elevation is well known, 1/2 where its standard deviation is `half_at` metres, 0 where unknown."""
    certainty = 1 / (1 + ground.variance.astype(np.float64) / half_at**2)
    return np.where(np.isfinite(ground.elevation) & np.isfinite(certainty), certainty, 0.0)


def box_corners(item: TrackedObject) -> Float64:
    """Corners of a tracked object from above, (4, 2) m in the grid frame."""
    length, width = item.extent / 2
    cosine, sine = np.cos(item.heading), np.sin(item.heading)
    corners = np.array([(length, width), (-length, width), (-length, -width), (length, -width)])
    return corners @ np.array([[cosine, sine], [-sine, cosine]]) + item.position


def moving_cells(occupancy: OccupancyFrame, most: int) -> tuple[Float64, Float32]:
    """Positions and velocities (N, 2) of moving cells, thinned to `most` of them so that arrows stay apart."""
    rows, columns = np.nonzero(occupancy.moving & np.isfinite(occupancy.velocity).all(-1))
    chosen = np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(int)
    rows, columns = rows[chosen], columns[chosen]
    return np.column_stack([occupancy.grid.x[columns], occupancy.grid.y[rows]]), occupancy.velocity[rows, columns]


def _samples_of_cells(grid: Grid, height: Float64, colours: Image, per_side: int = 2) -> tuple[Float64, Image]:
    """Several points in each cell at its height, (N, 3), so that cells near the camera leave no gaps."""
    offsets = ((np.arange(per_side) + 0.5) / per_side - 0.5) * grid.spacing
    points = np.empty((grid.rows, per_side, grid.columns, per_side, 3))
    points[..., 0] = grid.x[:, None] + offsets
    points[..., 1] = (grid.y[:, None] + offsets)[:, :, None, None]
    points[..., 2] = height[:, None, :, None]
    fine = np.broadcast_to(colours[:, None, :, None], (*points.shape[:4], 3))
    return points.reshape(-1, 3), fine.reshape(-1, 3)


def _draw_columns(canvas: Canvas, ground: GroundFrame, occupancy: OccupancyFrame, height: float = 0.8) -> None:
    """Occupied cells as columns on the surface, darker towards their foot."""
    rows, columns = np.nonzero(occupancy.static + occupancy.dynamic > 0.5)
    spacing = occupancy.grid.spacing
    moves = occupancy.dynamic[rows, columns] > occupancy.static[rows, columns]
    colours = np.where(moves[:, None], palette.rgb(palette.MOVING), palette.rgb(palette.STATIC))
    corners = np.array([(a, b) for a in (-0.3, 0, 0.3) for b in (-0.3, 0, 0.3)]) * spacing
    x = occupancy.grid.x[columns, None] + corners[:, 0]
    y = occupancy.grid.y[rows, None] + corners[:, 1]
    foot = surface_height(ground, x, y)
    for level in np.linspace(0, 1, 7):
        points = np.stack([x, y, foot + level * height], -1).reshape(-1, 3)
        shade = 1.0 if level == 1 else 0.55 + 0.25 * level
        shaded = np.repeat((colours * shade).astype(np.uint8), len(corners), 0)
        canvas.points(points, shaded, size=spacing / 2, largest=16)


def faded(colour: str, certainty: Float64) -> Image:
    """A colour that goes to white where the surface is uncertain."""
    strength = np.clip(certainty, 0, 1)[:, None]
    return (palette.rgb(colour) * strength + 255 * (1 - strength)).astype(np.uint8)


def _draw_vehicle(canvas: Canvas, ground: GroundFrame) -> None:
    points, shade = solid(ground)
    lightest = 110
    canvas.points(points, np.repeat((shade * lightest).astype(np.uint8)[:, None], 3, 1), size=0.18, largest=16)


def _draw_arrows(canvas: Canvas, ground: GroundFrame, occupancy: OccupancyFrame, seconds: float = 1.0) -> None:
    """Each object's velocity as an arrow: where it will be after `seconds`."""
    dark = palette.rgb(palette.VEHICLE)
    for item in occupancy.objects:
        speed = float(np.hypot(*item.velocity))
        if speed < 0.3:
            continue
        tip = item.position + seconds * item.velocity
        back = -item.velocity / speed * min(1.2, 0.4 * speed * seconds)
        side = np.array([-back[1], back[0]]) * 0.5
        path = np.array([item.position, tip, tip + back + side, tip, tip + back - side])
        points = on_surface(ground, path, 0.3)
        canvas.lines(points[[[0, 1], [1, 2], [3, 4]]], dark, size=0.2, nearer=1.0)


_SLOWEST = 1.5  # m/s; slower objects may be mistakes


def motion_score(ground: GroundFrame, occupancy: OccupancyFrame) -> float:
    """How much moves in view of the corner camera: long objects near the vehicle count most."""
    T_vehicle_grid = ground.T_grid_vehicle.inverse()
    total = 0.0
    for item in occupancy.objects:
        ahead, aside, _ = T_vehicle_grid @ np.array([*item.position, 0.0])
        if np.hypot(*item.velocity) > _SLOWEST:
            total += min(float(item.extent[0]), 5.0) * float(np.exp(-np.hypot(ahead - 4, aside - 2) / 8))
    return total


def corner_camera(ground: GroundFrame) -> Camera:
    """From behind, above and a little to the right of the vehicle."""
    pose = ground.T_grid_vehicle
    eye, target = (pose @ np.array([point]) for point in ((-21.0, -10.0, 14.0), (4.5, 1.0, 0.0)))
    return Camera(tuple(eye[0].tolist()), tuple(target[0].tolist()), field_of_view=52.0)


def outline(ground: GroundFrame) -> Float64:
    """Corners of the vehicle from above, with a pointed nose, (5, 2) m in the grid frame."""
    front, back, side = LENGTH / 2, -LENGTH / 2, WIDTH / 2
    corners = [(back, side), (front - 0.9, side), (front, 0), (front - 0.9, -side), (back, -side)]
    points = np.array([(x, y, 0.0) for x, y in corners])
    return (ground.T_grid_vehicle @ points)[:, :2]


def solid(ground: GroundFrame, spacing: float = 0.08) -> tuple[Float64, Float64]:
    """The vehicle as a cloud of points on its body and cabin, (N, 3) m in the grid frame, and their shade (N,)."""
    body = _box((LENGTH, WIDTH, 0.55 * HEIGHT), (0, 0, 0.15), spacing)
    cabin = _box((0.5 * LENGTH, 0.85 * WIDTH, 0.4 * HEIGHT), (-0.35, 0, 0.15 + 0.55 * HEIGHT), spacing)
    points = np.concatenate([body[0], cabin[0]])
    return ground.T_grid_vehicle @ points, np.concatenate([body[1], 0.75 * cabin[1]])


def _box(size: tuple[float, float, float], base: tuple[float, float, float], spacing: float) -> tuple[Float64, Float64]:
    """Points on the top and sides of a box on `base`, and the shade of each face."""
    points, shades = [], []
    for axis, shade in ((0, 0.8), (1, 0.6), (2, 1.0)):
        u, v = [other for other in range(3) if other != axis]
        grid = np.meshgrid(*(np.linspace(-0.5, 0.5, max(2, round(size[k] / spacing))) for k in (u, v)))
        for side in (0.5,) if axis == 2 else (-0.5, 0.5):
            face = np.empty((grid[0].size, 3))
            face[:, u], face[:, v], face[:, axis] = grid[0].ravel(), grid[1].ravel(), side
            points.append((face + np.array([0, 0, 0.5])) * size + base)
            shades.append(np.full(len(face), shade))
    return np.concatenate(points), np.concatenate(shades)


def height_at(grid: Grid, elevation: Float32, x: Float64, y: Float64) -> Float64:
    """Elevation at (x, y) by bilinear interpolation; NaN outside the grid and where a corner is unknown."""
    u = (np.asarray(x, np.float64) - grid.x0) / grid.spacing
    v = (np.asarray(y, np.float64) - grid.y0) / grid.spacing
    column = np.clip(np.floor(u), 0, grid.columns - 2).astype(int)
    row = np.clip(np.floor(v), 0, grid.rows - 2).astype(int)
    # Half a square beyond the outermost nodes still belongs to the grid.
    inside = (u >= -0.5) & (u <= grid.columns - 0.5) & (v >= -0.5) & (v <= grid.rows - 0.5)
    a, b = np.clip(u - column, 0, 1), np.clip(v - row, 0, 1)
    near = elevation[row, column] * (1 - a) + elevation[row, column + 1] * a
    far = elevation[row + 1, column] * (1 - a) + elevation[row + 1, column + 1] * a
    return np.where(inside, near * (1 - b) + far * b, np.nan)


def surface_height(ground: GroundFrame, x: Float64, y: Float64) -> Float64:
    """Elevation at (x, y) of the grid frame, m; the height of the road under the vehicle where it is unknown."""
    z = height_at(ground.grid, ground.elevation, x, y)
    return np.where(np.isfinite(z), z, ground.T_grid_vehicle.translation[2])


def on_surface(ground: GroundFrame, xy: Float64, lift: float = 0.0) -> Float64:
    """Points (N, 2) of the grid frame as (N, 3), `lift` metres above the surface."""
    return np.column_stack([xy, surface_height(ground, *xy.T) + lift])
