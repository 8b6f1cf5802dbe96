# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of the README and the docs: `make pictures`. KITTI=FOLDER adds those of real scans."""

import argparse
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
from paper_pictures import KITTI_CREDIT, paper_pictures, real_pictures
from PIL import Image

import roadbed
from roadbed.evaluate.occupancy_boxes import EXCLUDED_MARGIN
from roadbed.evaluate.tracking import inside
from roadbed.outputs.images import frame_figure, overview_figure, png_bytes, quick_image, save_animation
from roadbed.outputs.images.animation import captioned
from roadbed.outputs.images.panels import motion
from roadbed.outputs.images.scene3d import chase_camera, corner_camera, ground_view, motion_score
from roadbed.pipeline import Result

CITY = "sim:city?frames=60&seed=3"
MOUNTAIN = "sim:mountain?frames=40&seed=1"
# What the occupancy finds hard: source, the mover looked at (None: the vehicle itself), metres shown around it, title.
MOMENTS = (
    ("sim:standstart?frames=36", 1, 9.0, "1.5 s after the car started"),
    ("sim:city?frames=36", 340, 7.0, "A pedestrian beside a wall"),
    ("sim:highway?frames=28", None, 38.0, "A highway"),
)

# Static objects that seemed to move: source, the rule that ends it, metres shown, title.
PHANTOMS = (
    ("sim:highway?sensor=vlp16&frames=24&seed=101", "layered_surfaces", 20.0, "guard rails, VLP-16"),
    ("sim:parking?frames=40&seed=201", "whole_cells", 40.0, "a facade at grazing incidence"),
    ("sim:mountain?frames=40&seed=701", "hanging_returns", 25.0, "crowns of trees"),
    ("sim:offroad?sensor=vlp16&frames=24&seed=842", "layered_surfaces", 25.0, "a bank off the road, VLP-16"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs/images"))
    parser.add_argument("--kitti", type=Path, help="folder of KITTI raw drive 2011_09_26_0005")
    parser.add_argument("--without-viewer", action="store_true", help="do not take a picture of the web viewer")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.kitti:
        kitti_animation(options.folder, options.kitti)
        real_pictures(options.folder, str(options.kitti))
    city_pictures(options.folder)
    mountain_picture(options.folder)
    paper_pictures(options.folder)
    moments_picture(options.folder)
    phantoms_picture(options.folder)
    if not options.without_viewer:
        viewer_picture(options.folder)


def city_pictures(folder: Path) -> None:
    """The overview, a frame in every panel, and a drive as an animation, all from one run."""
    slides = []
    best, most = None, -1.0
    for index, result in enumerate(drive(CITY)):
        assert result.occupancy is not None
        if index % 4 == 0:
            slides.append(quick_image(result.ground, result.occupancy, (480, 380)))
        # The frame that says most: past the start, with the most moving things near the vehicle.
        if index >= 20 and (lively := motion_score(result.ground, result.occupancy)) > most:
            best, most = result, lively
    assert best is not None
    assert best.occupancy is not None
    save(folder / "overview.png", png_bytes(overview_figure(best.ground, best.occupancy, corner_camera(best.ground))))
    save(folder / "frame.png", png_bytes(frame_figure(best.ground, best.occupancy)))
    report(save_animation(folder / "drive.gif", slides, frames_per_second=4))


def kitti_animation(folder: Path, recording: Path) -> None:
    """Real scans: labels and surface on the left, occupancy with velocities on the right."""
    slides = []
    for index, result in enumerate(drive(str(recording))):
        if index >= 8 and index % 2 == 0:  # the occupancy filter has seen enough to know what moves
            slides.append(captioned(quick_image(result.ground, result.occupancy, (480, 300)), KITTI_CREDIT))
    report(save_animation(folder / "kitti.gif", slides, frames_per_second=5))


def mountain_picture(folder: Path) -> None:
    """Ground that is not flat: the surface follows the slope."""
    *_, last = drive(MOUNTAIN, frames=12, occupancy=False)
    camera = chase_camera(last.ground, distance=32, height=12, ahead=16)
    buffer = BytesIO()
    Image.fromarray(ground_view(last.ground, camera, (1100, 620))).save(buffer, format="PNG")
    save(folder / "mountain.png", buffer.getvalue())


def moments_picture(folder: Path) -> None:
    """Something that starts, someone beside a wall, a highway: what moves, with the outlines of what truly does."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, all_axes = plt.subplots(1, len(MOMENTS), figsize=(5.4 * len(MOMENTS), 6.2), layout="constrained")
    for axes, (location, mover, half, title) in zip(all_axes, MOMENTS):
        *_, last = drive(location)
        assert last.occupancy is not None
        source: Any = roadbed.open(location)
        truth = source.truth(len(source) - 1)
        moving_panel(axes, last, truth, half, title, mover)
    save(folder / "occupancy-moments.png", png_bytes(figure))


def moving_panel(axes: Any, result: Result, truth: Any, half: float, title: str, mover: int | None = None) -> None:
    """What moves within `half` metres of the sensor or of a mover; dotted: the outlines of what truly does."""
    assert result.occupancy is not None
    (x, y), outlines = moving_outlines(result, truth)
    if mover is not None:
        x, y = outlines[mover][:4].mean(axis=0)
    motion(axes, result.ground, result.occupancy, (x - half, x + half, y - half, y + half))
    for outline in outlines.values():
        axes.plot(*outline.T, color="black", lw=1.2, ls=":")
    axes.set_title(title, loc="left")


def moving_outlines(result: Result, truth: Any) -> tuple[Any, dict[int, Any]]:
    """The sensor's x and y in the occupancy grid, and the closed outlines (5, 2) of what truly moves."""
    assert result.occupancy is not None
    T_grid_ground = (result.occupancy.T_ground_grid or roadbed.Pose.identity()).inverse()
    T_grid_sensor = T_grid_ground @ result.ground.T_grid_sensor
    T_grid_world = T_grid_sensor @ truth.T_world_sensor.inverse()
    outlines = {}
    for thing in truth.objects():
        if thing.moving:
            corners = np.column_stack([thing.footprint, np.full(4, thing.T_world_object.translation[2])])
            outlines[thing.id] = (T_grid_world @ corners)[[0, 1, 2, 3, 0], :2]
    return T_grid_sensor.translation[:2], outlines


def falsely_moving(result: Result, truth: Any) -> int:
    """Moving cells that are not on a mover."""
    assert result.occupancy is not None
    x, y = (values[result.occupancy.moving] for values in result.occupancy.grid.mesh())
    _, outlines = moving_outlines(result, truth)
    return len(x) - np.count_nonzero(np.any([inside(o[:4], x, y, EXCLUDED_MARGIN) for o in outlines.values()], axis=0))


def phantoms_picture(folder: Path) -> None:
    """Static objects that seemed to move, without and with the rule that ends it, in the frame with most of them."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, all_axes = plt.subplots(len(PHANTOMS), 2, figsize=(11, 6.2 * len(PHANTOMS)), layout="constrained")
    for row, (location, rule, half, title) in zip(all_axes, PHANTOMS):
        source: Any = roadbed.open(location)
        before = list(drive(location, without=[rule]))
        worst = max(range(len(before)), key=lambda k: falsely_moving(before[k], source.truth(k)))
        after = list(drive(location, frames=worst + 1))
        for axes, result, words in ((row[0], before[worst], f"without {rule}"), (row[1], after[worst], "default")):
            moving_panel(axes, result, source.truth(worst), half, f"{title}: {words}")
    save(folder / "occupancy-phantoms.png", png_bytes(figure))


def viewer_picture(folder: Path) -> None:
    """The web viewer in a real browser."""
    program, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not (program and driver):
        print("viewer.png: left as it is, no chromium and chromedriver here")
        return
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    from roadbed.viewer import Viewer

    settings = webdriver.ChromeOptions()
    settings.binary_location = program
    for flag in ("headless=new", "no-sandbox", "use-angle=swiftshader", "enable-unsafe-swiftshader", "no-first-run"):
        settings.add_argument(f"--{flag}")
    settings.add_argument("--window-size=1300,860")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with Viewer(roadbed.open(CITY), port=port, title=CITY) as viewer:
        viewer.player.seek(25)
        browser = webdriver.Chrome(options=settings, service=Service(driver))
        try:
            browser.get(viewer.address)
            save(folder / "viewer.png", settled_screenshot(browser, viewer))
        finally:
            browser.quit()


def settled_screenshot(browser: object, viewer: object, seconds: float = 900.0) -> bytes:
    """The screen once the asked frame is drawn with its whole past and nothing changes any more."""
    from selenium.common.exceptions import TimeoutException

    end, last = monotonic() + seconds, b""
    while monotonic() < end:
        shown = viewer.player.shown  # type: ignore[attr-defined]
        close = browser.find_elements("css selector", ".mantine-Notification-closeButton")  # type: ignore[attr-defined]
        for button in close:
            button.click()
        image = b""
        with suppress(TimeoutException):
            image = browser.get_screenshot_as_png()  # type: ignore[attr-defined]
        if not image:
            continue
        colours = np.asarray(Image.open(BytesIO(image)).convert("RGB")).astype(int)
        green = (np.abs(colours - (0, 0x9E, 0x73)).max(-1) < 25).sum()
        if shown and shown.index == 25 and shown.settled and green > 2000 and image == last and not close:
            return image
        last = image
        sleep(1.0)
    raise SystemExit(f"viewer.png: the page did not settle within {seconds:g} s")


def drive(
    location: str, frames: int | None = None, occupancy: bool = True, without: Sequence[str] = ()
) -> Iterator[Result]:
    source = roadbed.open(location)
    config = roadbed.Config().with_changes(occupancy={"without": list(without)})
    pipeline = roadbed.Pipeline(config, occupancy=occupancy)
    for index in range(frames or len(source)):
        yield pipeline(source[index])


def save(path: Path, png: bytes) -> None:
    """Write a PNG as small as it gets without loss."""
    Image.open(BytesIO(png)).convert("RGB").save(path, optimize=True)
    report(path)


def report(path: Path) -> None:
    print(f"{path}: {path.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main()
