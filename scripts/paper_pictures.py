# SPDX-License-Identifier: Apache-2.0
"""The figures of the STCRF paper (IV 2017) by `Config.preset("paper")`: `make pictures`.

`python scripts/paper_pictures.py [FOLDER] [--kitti DRIVE]`. Figures 5, 7 and 8 are of simulated drives; DRIVE, a folder
of KITTI raw drive 2011_09_26_0005, adds figures 1, 3, 6 and 9 of real scans. Figure 8 is also drawn without gamma.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

import roadbed
from roadbed.core.frames import GroundFrame
from roadbed.outputs.images import palette, png_bytes
from roadbed.outputs.images.figure import STYLE
from roadbed.outputs.images.perspective import Camera, Canvas
from roadbed.outputs.images.scene3d import Image, chase_camera, height_at, mesh_edges, raw_view, solid

PAPER = roadbed.Config.preset("paper")
ALONE = PAPER.with_changes(ground={"stcrf": {"gamma": 0.0}})
CAR = "sim:highway?frames=26"  # the land on the right lies 2.5 m below the road, and cars are overtaken
COLOURS = [("ground", palette.GROUND), ("obstacle", palette.OBSTACLE), ("elevation", palette.SURFACE)]
SIZE = (760, 460)
KITTI_CREDIT = "scans: KITTI raw 2011_09_26_0005, CC BY-NC-SA"
KITTI = PAPER.with_changes(ground={"mounting": {"height": 1.73}})
# Four layers of the HDL-64E, degrees down, as many as a LUX has, in the field of view of the paper's four LUX: 160
# degrees ahead and 85 behind (section IV.A). Every second return makes it the 2,550 points of its table II.
LAYERS, LAYER, AHEAD, BEHIND = (2.5, 4.0, 6.0, 9.0), 0.115, 160.0, 85.0

Place = tuple[float, float, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs/images"))
    parser.add_argument("--kitti", type=Path, help="folder of KITTI raw drive 2011_09_26_0005")
    options = parser.parse_args()
    if options.kitti:
        real_pictures(options.folder, str(options.kitti))
    paper_pictures(options.folder)


def real_pictures(folder: Path, drive: str) -> None:
    """Figures of which the paper's show real data."""
    street = last_frame(drive, 26, 34, KITTI)
    scene = view(street, from_the_left(street, eye=(-14.0, 10.0, 12.0), target=(5.0, -9.0, -1.0)))
    views(folder / "paper-1-street.png", [("A street, HDL-64E", scene)], KITTI_CREDIT)
    likelihood(folder / "paper-3-likelihood.png", street)
    begin = last_frame(drive, 0, 12, KITTI)
    sparse = last_frame(drive, 0, 12, KITTI, four_layers)
    camera = chase_camera(begin, 26, 12, 10)
    clouds = [
        ("(a) Points of an HDL-64E", raw_view(begin, camera, SIZE)),
        ("(b) Ground and elevation", view(begin, camera)),
        (f"(c) Four layers of it, {len(sparse.label):,} points", view(sparse, camera, 0.16)),
    ]
    views(folder / "paper-6-layers.png", clouds, KITTI_CREDIT)
    city = last_frame(drive, 38, 50, KITTI)
    scene = view(city, chase_camera(city, 24, 12, 8))
    views(folder / "paper-9-kitti.png", [("A city street with traffic, HDL-64E", scene)], KITTI_CREDIT)


def paper_pictures(folder: Path) -> None:
    parking = last_frame("sim:parking?frames=48", 40)
    views(folder / "paper-5-parking.png", [("A parking lot, simulated HDL-64E", view(parking, from_the_left(parking)))])
    lux = "sim:mountain?sensor=lux4&frames=30&seed=1"
    roads = [
        ("Simulated HDL-64E, paper preset", mountain(last_frame("sim:mountain?frames=12&seed=1"))),
        ("Simulated 4 x LUX, paper preset", mountain(last_frame(lux), 0.16)),
        ("Simulated 4 x LUX, default preset", mountain(last_frame(lux, config=roadbed.Config()), 0.16)),
    ]
    views(folder / "paper-7-mountain.png", roads)
    hidden_ground(folder / "paper-8-time.png")


def mountain(frame: GroundFrame, size: float = 0.07) -> Image:
    return view(frame, chase_camera(frame, distance=30, height=13, ahead=14), size)


def from_the_left(frame: GroundFrame, eye: Place = (-12.0, 12.0, 11.0), target: Place = (6.0, -14.0, 0.0)) -> Camera:
    """Over the vehicle to its right; both in the vehicle's axes, m."""
    start, end = frame.T_grid_vehicle @ np.array([eye, target])
    return Camera(tuple(start.tolist()), tuple(end.tolist()))


def last_frame(
    location: str,
    first: int = 0,
    end: int | None = None,
    config: roadbed.Config = PAPER,
    change: Callable[[roadbed.Scan], roadbed.Scan] = lambda scan: scan,
) -> GroundFrame:
    """Of the scans `first` to `end` in sequence, each changed by `change`."""
    source = roadbed.open(location)
    ground = roadbed.GroundFilter(config)
    *_, frame = (ground(change(source[index])) for index in range(first, end or len(source)))
    return frame


def four_layers(scan: roadbed.Scan) -> roadbed.Scan:
    """The returns of LAYERS in the field of view of the paper's four LUX, every second one."""
    x, y, z = scan.points.T
    down, azimuth = -np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.abs(np.arctan2(y, x)))
    in_layer = np.min([np.abs(down - layer) for layer in LAYERS], axis=0) < LAYER
    kept = np.flatnonzero(in_layer & ((azimuth < AHEAD / 2) | (azimuth > 180 - BEHIND / 2)))[::2]
    return roadbed.Scan(scan.points[kept], time=scan.time, T_world_sensor=scan.T_world_sensor, name=scan.name)


def likelihood(path: Path, frame: GroundFrame) -> None:
    """c_j over dz: the printed function, that of the frame's points, and how many points lie at each height."""
    stcrf = KITTI.ground.stcrf
    heights = frame.height_above_ground
    dz = np.linspace(-1.5, 1.5, 601)
    sigma = np.where(dz >= 0, stcrf.sigma_up, stcrf.sigma_down)
    some = np.random.default_rng(0).choice(len(heights), 3000, replace=False)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.6, 4.2), dpi=100)
        axes = figure.add_axes((0.1, 0.16, 0.8, 0.74))
        counts = axes.twinx()
        counts.hist(heights, bins=150, range=(-1.5, 1.5), color=palette.UNKNOWN, alpha=0.5)
        counts.set(yscale="log", ylabel="points of the scan per 2 cm (bars)")
        axes.set_zorder(counts.get_zorder() + 1)
        axes.patch.set_visible(False)
        axes.plot(dz, np.exp(-(dz**2) / (2 * sigma**2)), color=palette.STATIC, lw=2, label="equation of section III.C")
        points = heights[some], frame.ground_probability[some]
        axes.plot(*points, ".", ms=4, color=palette.MOVING, label="3,000 points of a scan")
        axes.set(xlim=(-1.5, 1.5), ylim=(0, 1.05), xlabel="dz, m above the surface", ylabel="c, probability of ground")
        axes.legend(loc="upper left", bbox_to_anchor=(0, 1.14), ncols=2, frameon=False, fontsize=10)
        credit(figure, KITTI_CREDIT)
    save(path, figure)


def view(frame: GroundFrame, camera: Camera, size: float = 0.07) -> Image:
    """Points in the colours of their labels, the mesh of the elevation and the vehicle."""
    canvas = Canvas(*SIZE, camera)
    segments, certainty = mesh_edges(frame)
    strength = certainty[:, None]
    canvas.lines(
        segments, (palette.rgb(palette.SURFACE) * strength + 255 * (1 - strength)).astype(np.uint8), nearer=0.0
    )
    canvas.points(frame.points_grid, palette.label_colours(frame.label), size=size, nearer=0.1)
    body, shade = solid(frame)
    canvas.points(body, np.repeat((110 * shade).astype(np.uint8)[:, None], 3, 1), size=0.18, largest=16)
    return canvas.image()


def views(path: Path, named: list[tuple[str, Image]], source: str = "") -> None:
    """Perspective views side by side, each under its name."""
    foot, height = (20 if source else 0), SIZE[1] + (80 if source else 60)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(len(named) * SIZE[0] / 100, height / 100), dpi=100)
        for column, (name, image) in enumerate(named):
            panel(figure, (column / len(named), foot / height, 1 / len(named), SIZE[1] / height), name, image)
        legend(figure)
        credit(figure, source)
    save(path, figure)


def panel(figure: Any, place: tuple[float, float, float, float], name: str, image: Image) -> None:
    axes = figure.add_axes(place)
    axes.imshow(image, interpolation="nearest")
    axes.set_axis_off()
    axes.set_title(f"  {name}", loc="left", fontsize=13, y=1.02)


def legend(figure: Any) -> None:
    patches = [Patch(facecolor=colour, edgecolor="#808080", lw=0.6, label=text) for text, colour in COLOURS]
    figure.legend(handles=patches, loc="upper right", ncols=len(patches), frameon=False, fontsize=11, handlelength=1.0)


def credit(figure: Any, source: str) -> None:
    figure.text(0.995, 0.01, source, ha="right", va="bottom", fontsize=9, color="#606060")


@dataclass(frozen=True, eq=False)
class Hidden:
    """A scan in which a car hides ground that the scan before showed: with time, without it, and the truth."""

    before: GroundFrame
    alone: GroundFrame
    carried: GroundFrame
    kept: np.ndarray  # nodes that only the frame with a past knows
    truth: np.ndarray  # their true heights, with those of all nodes

    @property
    def ahead(self) -> float:
        """Where to cut across them, m."""
        return float(np.median(self.carried.grid.mesh()[0][self.kept]))


def find_hidden() -> Hidden:
    """The scan of the drive in which most ground beside the road is known from before alone."""
    source = roadbed.open(CAR)
    with_time, without = roadbed.GroundFilter(PAPER), roadbed.GroundFilter(ALONE)
    best: Hidden | None = None
    before = None
    for index, scan in enumerate(source):
        carried, alone = with_time(scan), without(scan)
        x, y = carried.grid.mesh()
        beside = (np.abs(x) < 20) & (y < -13) & (y > -30)
        kept = np.isfinite(carried.elevation) & ~np.isfinite(alone.elevation) & beside
        if before is not None and (best is None or kept.sum() > best.kept.sum()):
            truth = source.truth(index).elevation(carried.grid, carried.T_grid_sensor)
            best = Hidden(before, alone, carried, kept, truth)
        before = carried
    assert best is not None
    return best


def hidden_ground(path: Path) -> None:
    """The surface at t, and at t + 1 without and with time; below, a cut across what a car hides."""
    found = find_hidden()
    x = found.ahead
    error = (found.carried.elevation - found.truth)[found.kept]
    print(f"{path.name}: {found.kept.sum()} nodes kept, rms error {np.sqrt(np.mean(error**2)):.3f} m")
    steps = [
        ("t", found.before, False), ("t + 1, without the last frame", found.alone, True),
        ("t + 1, with it", found.carried, True),
    ]  # fmt: skip
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(15, 7.6), dpi=100)
        for column, (name, frame, marked) in enumerate(steps):
            axes = figure.add_axes((0.012 + 0.331 * column, 0.42, 0.314, 0.52))
            draw_surface(axes, frame, (x - 27, x + 27, -34, 8))
            axes.set_title(name, loc="left", fontsize=14)
            if marked:
                outline(axes, found)
        axes = figure.add_axes((0.06, 0.08, 0.92, 0.28))
        draw_cut(axes, found, x)
    save(path, figure)


def draw_surface(axes: Any, frame: GroundFrame, extent: tuple[float, float, float, float]) -> None:
    """Heights against the road from above, the vehicle's heading to the right, with the obstacles."""
    axes.imshow(
        frame.elevation - frame.T_grid_vehicle.translation[2], origin="lower", extent=frame.grid.extent,
        cmap="cividis", vmin=-3, vmax=0.5,
    )  # fmt: skip
    obstacles = frame.points_grid[frame.label == roadbed.Label.OBSTACLE]
    axes.plot(obstacles[:, 0], obstacles[:, 1], ".", ms=1.2, color=palette.OBSTACLE)
    axes.set(xlim=extent[:2], ylim=extent[2:], aspect="equal", facecolor="#DDDDDD", xticks=[], yticks=[])


def outline(axes: Any, found: Hidden) -> None:
    grid = found.carried.grid
    for row, column in np.argwhere(found.kept):
        corner = grid.x[column] - grid.spacing / 2, grid.y[row] - grid.spacing / 2
        axes.add_patch(Rectangle(corner, grid.spacing, grid.spacing, fill=False, ec="#F0E442", lw=1.4))


def draw_cut(axes: Any, found: Hidden, x: float) -> None:
    """The surface across the road, seen along the vehicle's heading."""
    right = np.arange(-8.0, 34.0, 0.25)
    along = np.full_like(right, x)
    surfaces = [
        ("truth", found.truth.astype(np.float32), {"color": "#2B2B2B", "lw": 5, "alpha": 0.25}),
        ("t + 1, without the last frame", found.alone.elevation, {"color": palette.STATIC, "lw": 2}),
        ("t + 1, with it", found.carried.elevation, {"color": palette.SURFACE, "lw": 2}),
    ]
    for name, surface, style in surfaces:
        axes.plot(right, height_at(found.carried.grid, surface, along, -right), label=name, **style)
    where = f"{abs(x):.0f} m {'ahead of' if x > 0 else 'behind'} it"
    axes.set(xlabel=f"m to the right of the vehicle, {where}", ylabel="height, m", xlim=(-8, 34))
    axes.legend(loc="lower left", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def save(path: Path, figure: Any) -> None:
    path.write_bytes(png_bytes(figure))
    print(f"{path}: {path.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main()
