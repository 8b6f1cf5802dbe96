# SPDX-License-Identifier: Apache-2.0
"""Pictures show what the frames hold: right colours in right places, nothing lost, nothing left half-written."""

import shutil
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from roadbed.core.errors import DeviceError, InputError
from roadbed.core.frames import Label
from roadbed.outputs.images import frame_figure, overview_figure, palette, png_bytes, quick_image, save_animation
from roadbed.outputs.images.decoration import _anchors_around, round_length
from roadbed.outputs.images.figure import _grid_figure
from roadbed.outputs.images.palette import label_image
from roadbed.outputs.images.perspective import Camera, Canvas, _draw_lines, _draw_points
from roadbed.outputs.images.scene3d import (
    LENGTH,
    WIDTH,
    chase_camera,
    faded,
    ground_view,
    height_at,
    occupancy_view,
    outline,
    raw_view,
)
from tests.outputs.frames_for_images import SLOPE, ground_frame, occupancy_frame

pytestmark = pytest.mark.long(15)


def pixels_of(image, colour, tolerance=12):
    return int((np.abs(image.astype(int) - palette.rgb(colour)).max(-1) <= tolerance).sum())


def test_obstacles_are_drawn_over_ground_and_points_outside_are_left_out():
    across, up = np.array([0.5, 0.5, 9.5, 99.0]), np.array([0.5, 0.5, 9.5, 0.5])
    label = np.array([Label.OBSTACLE, Label.GROUND, Label.GROUND, Label.OBSTACLE], np.uint8)
    image = label_image(across, up, label, (0, 10, 0, 10), (10, 10))
    assert image[0, 0, :3].tolist() == palette.rgb(palette.OBSTACLE).tolist()
    assert image[9, 9, :3].tolist() == palette.rgb(palette.GROUND).tolist()
    assert (image[..., 3] > 0).sum() == 2


# Viénot, Brettel and Mollon's simulation of red-green blindness in linear RGB (1999).
_PROTANOPE = np.array([[0.1124, 0.8876, 0.0], [0.1124, 0.8876, 0.0], [0.0040, -0.0040, 1.0]])
_DEUTERANOPE = np.array([[0.2928, 0.7072, 0.0], [0.2928, 0.7072, 0.0], [-0.0223, 0.0223, 1.0]])


@pytest.mark.parametrize("seen_by", [np.eye(3), _PROTANOPE, _DEUTERANOPE])
@pytest.mark.parametrize("pair", [("GROUND", "OBSTACLE"), ("STATIC", "MOVING"), ("GROUND", "SURFACE")])
def test_colours_stay_apart_for_colour_blind_readers(pair, seen_by):
    first, second = (seen_by @ (palette.rgb(getattr(palette, name)) / 255.0) ** 2.2 for name in pair)
    apart = np.abs(np.clip(first, 0, 1) ** (1 / 2.2) - np.clip(second, 0, 1) ** (1 / 2.2))
    assert 255 * apart.max() > 40


@given(st.floats(1e-3, 1e6))
def test_scale_bars_are_round_and_fit(metres):
    length = round_length(metres)
    assert length <= metres * 1.000001
    assert metres < 2.6 * length
    assert f"{length:.0e}"[0] in "125"


@given(st.floats(-19, 19), st.floats(-19, 14))
def test_heights_between_nodes_lie_on_the_plane(x, y):
    ground = ground_frame(points=10)
    assert height_at(ground.grid, ground.elevation, np.array(x), np.array(y)) == pytest.approx(SLOPE * x, abs=1e-5)


def test_heights_are_unknown_outside_and_beside_unknown_nodes():
    ground = ground_frame(points=10)
    assert np.isnan(height_at(ground.grid, ground.elevation, np.array([0.0, 50.0]), np.array([17.0, 0.0]))).all()


def test_vehicle_is_drawn_where_the_sensor_is():
    ground = ground_frame(points=10)
    assert np.allclose(outline(ground).mean(0), 0, atol=0.5)
    assert outline(ground)[:, 0].argmax() == 2  # the nose points ahead
    assert np.allclose(np.ptp(outline(ground), axis=0), [LENGTH, WIDTH])


def test_camera_puts_its_target_in_the_middle_and_the_nearer_point_wins():
    camera = Camera((-10.0, 0.0, 5.0), (0.0, 0.0, 0.0))
    canvas = Canvas(100, 80, camera)
    on_one_ray = np.array([[0.0, 0.0, 0.0], [-5.0, 0.0, 2.5], [np.nan, 0, 0], [-50.0, 0, 0]])
    colours = np.array([[255, 0, 0], [0, 0, 255], [0, 255, 0], [0, 255, 0]], np.uint8)
    canvas.points(on_one_ray, colours, size=0.5)
    image = canvas.image()
    assert image[40, 50].tolist() == [0, 0, 255]
    assert pixels_of(image, "#00FF00", 100) == 0  # neither what is not a number nor what lies behind


def test_the_target_is_in_the_middle_wherever_the_camera_is():
    canvas = Canvas(100, 80, Camera((-10.0, 7.0, 5.0), (3.0, 2.0, 1.0)))
    canvas.points(np.array([[3.0, 2.0, 1.0]]), np.array([[255, 0, 0]], np.uint8), size=0.5)
    assert canvas.image()[40, 50].tolist() == [255, 0, 0]


def test_one_colour_and_one_per_point_use_the_same_kernel():
    canvas = Canvas(8, 6, Camera((-8.0, 0.0, 4.0), (0.0, 0.0, 0.0)))
    fixed = np.zeros((4, 3))
    fixed.flags.writeable = False
    for colours in ((0, 0, 0), np.zeros((4, 3), np.uint8)):
        canvas.points(fixed, colours)
        canvas.lines(np.zeros((4, 2, 3)), colours)
    assert len(_draw_points.signatures) == len(_draw_lines.signatures) == 1


def test_left_is_left_and_up_is_up():
    camera = Camera((-10.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    canvas = Canvas(100, 80, camera)
    canvas.lines([[[0, 2, 0], [0, 2.5, 0]], [[0, 0, 2], [0, 0, 2.5]]], [[255, 0, 0], [0, 0, 255]], size=0.3)
    rows, columns = np.nonzero(canvas.image()[..., 2] < 100)
    assert columns.max() < 50
    rows, columns = np.nonzero(canvas.image()[..., 0] < 100)
    assert rows.max() < 40


def test_ground_view_has_ground_obstacles_and_mesh_and_the_raw_view_has_none():
    ground = ground_frame()
    camera = chase_camera(ground)
    shown, raw = ground_view(ground, camera, (320, 240)), raw_view(ground, camera, (320, 240))
    for colour, least in ((palette.GROUND, 400), (palette.OBSTACLE, 60), (palette.SURFACE, 60)):
        assert pixels_of(shown, colour) > least
        assert pixels_of(raw, colour) == 0
    assert pixels_of(raw, palette.RAW) > 400


def test_an_uncertain_surface_fades_to_white():
    """Half way where it is half certain."""
    unknown, half, certain = faded(palette.SURFACE, np.array([-0.5, 0.5, 2.0])).astype(int)
    assert unknown.tolist() == [255, 255, 255]
    assert certain.tolist() == palette.rgb(palette.SURFACE).tolist()
    assert np.abs(half - (unknown + certain) / 2).max() <= 1


def test_only_what_moves_is_drawn_as_moving():
    ground = ground_frame()
    camera = chase_camera(ground)
    moving = occupancy_view(ground, occupancy_frame(), camera, (320, 240))
    still = occupancy_view(ground, occupancy_frame(moving=False), camera, (320, 240))
    assert pixels_of(moving, palette.MOVING, 40) > 40
    assert pixels_of(still, palette.MOVING, 40) == 0
    assert pixels_of(still, palette.STATIC, 40) > 40


def test_frame_figure_shows_every_subject():
    figure = frame_figure(ground_frame(), occupancy_frame())
    titles = " ".join(axes.get_title(loc="left") for axes in figure.axes)
    for subject in ("from above", "side", "Elevation", "deviation", "Observation", "occupied", "moving"):
        assert subject in titles
    image = np.asarray(Image.open(BytesIO(png_bytes(figure))).convert("RGB"))
    for colour in (palette.GROUND, palette.OBSTACLE, palette.STATIC, palette.MOVING, palette.SURFACE):
        assert pixels_of(image, colour, 40) > 100


def test_legends_and_colour_bars_cover_nothing():
    figure = frame_figure(ground_frame(), occupancy_frame())
    png_bytes(figure)
    keys = [axes.get_legend() for axes in figure.axes if axes.get_legend() is not None]
    titles = [text for axes in figure.axes for text in axes.findobj(Text) if text.get_text() == axes.get_title("left")]
    bars = [inner for axes in figure.axes for inner in axes.child_axes]
    assert (len(keys), len(bars)) == (6, 3)
    assert len([title for title in titles if title.get_text()]) == 7
    drawn = [axes.bbox for axes in figure.axes] + [title.get_window_extent() for title in titles if title.get_text()]
    for extent in [key.get_window_extent() for key in keys] + [bar.get_tightbbox() for bar in bars]:
        assert not any(extent.overlaps(other) for other in drawn)
        assert figure.bbox.contains(*extent.max)
        assert figure.bbox.contains(*extent.min)


@pytest.mark.parametrize("points", [0, 1])
def test_a_frame_that_knows_nothing_can_be_drawn(points):
    ground = ground_frame(points=points)
    nothing = np.full_like(ground.elevation, np.nan)
    ground = replace(ground, elevation=nothing, variance=nothing)
    assert png_bytes(frame_figure(ground)).startswith(b"\x89PNG")
    assert quick_image(ground).shape[2] == 3


def panel(figure, title):
    return next(axes for axes in figure.axes if title in axes.get_title(loc="left"))


def pixels_in(figure, axes, x, y):
    """The colour of the picture at a place of a panel, in metres."""
    image = np.asarray(Image.open(BytesIO(png_bytes(figure))).convert("RGB"))
    column, row = axes.transData.transform((x, y))
    return image[image.shape[0] - 1 - int(row), int(column)]


@pytest.mark.parametrize("title", ["Standard deviation", "Elevation"])
def test_ground_that_was_not_seen_is_painted_as_unseen_not_as_uncertain(title):
    figure = frame_figure(ground_frame())
    axes = panel(figure, title)
    unseen = pixels_in(figure, axes, -10, 17.5)  # the made-up ground is unknown beyond y = 15
    assert unseen.tolist() == palette.rgb(palette.UNSEEN).tolist()
    assert pixels_in(figure, axes, -10, 10).tolist() != unseen.tolist()


@pytest.mark.parametrize("apart", [3.0, 6.0, 8.5, 12.0])
def test_speeds_are_written_beside_each_other_and_inside_the_panel(apart):
    occupancy = occupancy_frame()
    places = [(x, y) for x in np.arange(-19, 20, apart) for y in np.arange(-19, 20, apart)]
    objects = tuple(
        replace(occupancy.objects[0], position=np.array(place), velocity=np.array([3.0 + k % 9, 0.0]))
        for k, place in enumerate(places)
    )
    figure = frame_figure(ground_frame(points=100), replace(occupancy, objects=objects))
    png_bytes(figure)
    axes = panel(figure, "moving")
    texts = [text for text in axes.texts if "m/s" in text.get_text()]
    extents = [text.get_window_extent() for text in texts]
    assert len(texts) >= 3
    assert all(axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 for box in extents)
    vehicle = next(patch for patch in axes.patches if patch.get_zorder() == 5)
    blocked = [axes.get_legend().get_window_extent(), vehicle.get_window_extent()]
    for box in extents:
        assert not any(box.overlaps(other) for other in blocked)
        blocked.append(box)


def test_a_single_moving_object_is_labelled_with_its_speed():
    axes = panel(frame_figure(ground_frame(points=100), occupancy_frame()), "moving")
    assert "6.0 m/s" in [text.get_text() for text in axes.texts]


def test_texts_are_centred_above_below_and_beside_a_box():
    places = [place for place, _ in _anchors_around(Bbox([[10, 20], [30, 60]]), gap=3)]
    assert places == [(20, 63), (20, 17), (33, 40), (7, 40)]


def test_overview_has_three_steps():
    image = np.asarray(
        Image.open(BytesIO(png_bytes(overview_figure(ground_frame(), occupancy_frame())))).convert("RGB")
    )
    left, middle, right = np.array_split(image, 3, axis=1)
    assert pixels_of(left, palette.RAW) > 1000
    assert pixels_of(left, palette.GROUND) == 0
    assert pixels_of(middle, palette.GROUND) > 1000
    assert pixels_of(right, palette.STATIC, 40) > 1000


def test_gif_holds_every_frame(tmp_path):
    images = [np.full((20, 30, 3), 40 * k, np.uint8) for k in range(5)]
    path = save_animation(tmp_path / "run.gif", images, frames_per_second=5)
    with Image.open(path) as gif:
        assert gif.n_frames == 5
        assert gif.size == (30, 20)
        assert gif.info["duration"] == 200


def test_frequent_colours_of_a_gif_stay_as_they_are(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (90, 90, 3), dtype=np.uint8)
    image[:60, :60], image[:30, :30] = (201, 34, 99), (7, 80, 160)
    with Image.open(save_animation(tmp_path / "run.gif", [image])) as gif:
        colours = np.reshape(gif.getpalette(), (-1, 3)).tolist()
    most = colours.index([201, 34, 99])
    assert colours[most - 1] == [7, 80, 160]


def test_mp4_where_an_encoder_is_present_else_one_line(tmp_path):
    images = [np.full((21, 31, 3), 40 * k, np.uint8) for k in range(5)]
    if shutil.which("ffmpeg"):
        assert b"ftyp" in save_animation(tmp_path / "run.mp4", images).read_bytes()[:12]
    else:
        with pytest.raises(DeviceError, match=r"name the animation \.gif"):
            save_animation(tmp_path / "run.mp4", images)
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "images"),
    [
        ("run.gif", []),
        ("run.avi", [np.zeros((4, 4, 3), np.uint8)]),
        ("run.gif", [np.zeros((4, 4, 3), np.uint8), np.zeros((5, 4, 3), np.uint8)]),
    ],
)
def test_animations_that_cannot_be_leave_nothing_behind(tmp_path, name, images):
    with pytest.raises(InputError, match=name):
        save_animation(tmp_path / name, images)
    assert not list(tmp_path.iterdir())


def test_frames_show_themselves_in_notebooks(tmp_path):
    """Facts and a picture, with names that cannot break the page; ground and occupancy also side by side."""
    ground, occupancy = ground_frame(), occupancy_frame()
    page = ground._repr_html_()
    assert "GroundFrame" in page
    assert "data:image/png;base64," in page
    noted = replace(ground, diagnostics=("<script>",))
    assert "&lt;script&gt;" in noted._repr_html_()
    assert "data:image" not in replace(ground, scan=None)._repr_html_()
    assert "moving" in occupancy._repr_html_()
    (axes,) = _grid_figure(occupancy).axes
    assert all(0 <= edge <= 1 for edge in axes.get_position().extents)
    alone, both = ground.plot().save(tmp_path / "alone.png"), ground.plot(occupancy).save(tmp_path / "both.png")
    assert Image.open(both).height > Image.open(alone).height
    with pytest.raises(InputError, match="expected nothing"):
        occupancy.plot(ground)


def test_large_areas_and_small_movers_keep_their_colours_in_a_gif(tmp_path):
    rng = np.random.default_rng(2)
    image = rng.integers(0, 256, (120, 160, 3), np.uint8)  # more colours than a GIF has
    grey, mover = (200, 203, 208), (230, 159, 0)
    image[:80], image[100:106, 100:106] = grey, mover
    with Image.open(save_animation(tmp_path / "run.gif", [image, image])) as found:
        shown = np.asarray(found.convert("RGB")).astype(int)
    assert (shown[:80] == grey).all()
    assert np.abs(shown[101:105, 101:105] - mover).max() < 40
