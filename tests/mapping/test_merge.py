# SPDX-License-Identifier: Apache-2.0
"""Maps merge by adding what they know, whatever the order and the frame; a crop keeps what lies inside."""

from dataclasses import replace

import numpy as np
import pytest

from roadbed import Pose
from roadbed.core.errors import InputError, OutputError
from roadbed.core.frames import Label
from roadbed.core.geometry import Grid
from roadbed.mapping.cache import SIDE
from roadbed.mapping.information import information_of, rotated
from roadbed.mapping.layers import MapLayers, _cells_hit, _cells_of, add_points
from roadbed.mapping.merge import crop_map, merge_maps, new_map_folder
from roadbed.mapping.reader import MapReader
from roadbed.mapping.tile_store import TileStore
from roadbed.mapping.tiles import GROUND, OBSTACLE
from tests.mapping.maps import plane, write_plane_map
from tests.outputs.frames_for_images import occupancy_frame


def add_survey(folder, seed, T=None):
    """Points of the plane and a few obstacles, as a survey keeps them."""
    random = np.random.default_rng(seed)
    points = random.uniform([-30, -130, 0], [60, -20, 0], (3000, 3))
    points[:, 2] = plane(points[:, 0], points[:, 1])
    if T is not None:
        points = T @ points
    survey = MapLayers(folder, 1.0)
    label = np.where(np.arange(3000) % 10 == 0, Label.OBSTACLE, Label.GROUND)
    kind = np.where(label == Label.GROUND, GROUND, OBSTACLE)
    stored = points.astype(np.float32).astype(np.float64)
    add_points(survey._tiles.points, SIDE, stored, np.full(3000, 7.0), kind, survey.index.voxel)
    number = np.floor(points[:, :2] / 0.2).astype(np.int64)
    survey._add_cells(number[:, 0], number[:, 1], label == Label.OBSTACLE, label == Label.GROUND)
    survey.index.write(folder)
    survey.flush()


def merged(folder, *maps):
    merge_maps([MapReader(path) for path in maps], lambda: new_map_folder(folder, maps))
    return folder


def everything(folder):
    """Every array of a map by file and name."""
    return {
        (path.name, name): values for path in sorted(folder.glob("*.npz")) for name, values in np.load(path).items()
    }


def test_merging_is_associative_and_commutes(tmp_path):
    for k, name in enumerate("abc"):
        write_plane_map(tmp_path / name, points=4.0 + k, lift=0.1 * k, centre=(20.0 + 40 * k, -70.0))
        add_survey(tmp_path / name, k)
    a, b, c = (tmp_path / name for name in "abc")
    left = everything(merged(tmp_path / "ab_c", merged(tmp_path / "ab", a, b), c))
    right = everything(merged(tmp_path / "a_bc", a, merged(tmp_path / "bc", b, c)))
    other = everything(merged(tmp_path / "cba", c, b, a))
    assert left.keys() == right.keys() == other.keys()
    for key, values in left.items():
        np.testing.assert_allclose(values, right[key], rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(values, other[key], rtol=1e-5, atol=1e-4)


def test_the_merged_surface_is_the_weighted_mean_and_is_surer(tmp_path):
    write_plane_map(tmp_path / "a", points=10.0)
    write_plane_map(tmp_path / "b", points=30.0, lift=0.4)
    result = MapReader(merged(tmp_path / "ab", tmp_path / "a", tmp_path / "b"))
    single = MapReader(tmp_path / "a")
    for key in result.ground.keys:
        planes = result.planes(key)
        x, y = result.grid(key).mesh()
        np.testing.assert_allclose(planes.elevation[planes.known], (plane(x, y) + 0.3)[planes.known], atol=1e-4)
        np.testing.assert_allclose(
            planes.variance[planes.known], single.planes(key).variance[planes.known] / 4, rtol=1e-4
        )


def test_a_map_in_another_frame_is_moved_there(tmp_path):
    """The same plane seen by a sequence whose grid is rotated, shifted and a little tilted."""
    write_plane_map(tmp_path / "a", points=1e-3 * 60)
    add_survey(tmp_path / "a", 0)
    T_b_a = Pose.from_euler(3.3, -7.7, 2.0, yaw=0.4, pitch=0.02, roll=-0.01)
    write_turned_plane(tmp_path / "b", T_b_a)
    add_survey(tmp_path / "b", 0, T_b_a)
    both = MapReader(merged(tmp_path / "ab", tmp_path / "a", tmp_path / "b"))
    compared = 0
    for key in both.ground.keys:
        planes, alone = both.planes(key), MapReader(tmp_path / "a").planes(key)
        sure = planes.known & (planes.variance < 1e-5)
        x, y = both.grid(key).mesh()
        np.testing.assert_allclose(planes.elevation[sure], plane(x, y)[sure], atol=0.01)
        np.testing.assert_allclose(planes.slope_x[sure], 0.05, atol=0.01)
        assert not (alone.variance < 1e-5).any()
        compared += sure.sum()
    assert compared > 10_000
    counts = [sum(tile.means(GROUND)[2].sum() for _, tile in m.points) for m in (both, MapReader(tmp_path / "a"))]
    assert counts[0] == 2 * counts[1]
    for key, tile in both.points:
        place, _, _ = tile.means(GROUND)
        corner = 64 * np.array([key[1], key[0], 0])
        x, y, z = (place + corner).T
        np.testing.assert_allclose(z, plane(x, y), atol=0.02)


def write_turned_plane(folder, T_b_a):
    """The plane of `maps.plane` in a frame of its own, known by 20 points per node."""
    grid = Grid.centred(150, 150, 1.0).around(*(T_b_a @ np.array([20.0, -70.0, 0.0]))[:2])
    x, y = grid.mesh()
    normal_b = T_b_a.rotation @ np.array([-0.05, 0.02, 1.0])
    origin_b = T_b_a @ np.array([0.0, 0.0, 3.0])
    sx, sy = -normal_b[0] / normal_b[2], -normal_b[1] / normal_b[2]
    z = origin_b[2] + sx * (x - origin_b[0]) + sy * (y - origin_b[1])
    precision = np.zeros((6, grid.size))
    precision[0], precision[3], precision[5] = 20.0, 20 / 12, 20 / 12
    values = information_of(precision, z.ravel() - 5.0, sx, sy)
    tiles = TileStore(folder, 1.0)
    tiles.begin(T_b_a)
    tiles.store(grid, values.reshape(9, *grid.shape).astype(np.float32), 5.0, np.ones(grid.shape, bool))
    tiles.flush()


def test_information_turns_as_its_planes_do():
    """mu_old = A mu_new: P_new = A^T P A and X_new = A^T X, with nothing alike along the two axes."""
    P = np.array([[17.0, 4.2, -2.8], [4.2, 10.0, 1.7], [-2.8, 1.7, 3.4]])
    upper = np.triu_indices(3)
    planes = np.random.default_rng(0).normal(size=(3, 5))
    old = information_of(np.broadcast_to(P[upper][:, None], (6, 5)), *planes)
    A = np.eye(3)
    A[1:, 1:] = Pose.from_euler(yaw=-0.4).rotation[:2, :2]
    new = rotated(old, 0.4)
    np.testing.assert_allclose(new[:6], np.broadcast_to((A.T @ P @ A)[upper][:, None], (6, 5)), atol=1e-9)
    np.testing.assert_allclose(new[6:], A.T @ old[6:], atol=1e-9)


def test_cells_are_numbered_where_they_lie():
    frame = occupancy_frame()
    grid = replace(frame.grid, x0=3.125, y0=-17.875, spacing=0.25)
    columns, rows = _cells_of(replace(frame, grid=grid))
    for number, place in zip((columns, rows), grid.mesh()):
        np.testing.assert_allclose((number + 0.5) * 0.25, place)


def test_without_an_occupancy_filter_obstacles_occupy_cells_and_ground_alone_frees_them():
    points = np.array([[0.3, -0.3, 0], [0.35, -0.35, 1], [-0.9, 2.1, 0], [5, 5, 3]], np.float32)
    label = np.array([Label.GROUND, Label.OBSTACLE, Label.GROUND, Label.OVERHANG])
    columns, rows, occupied, free = (each.tolist() for each in _cells_hit(points, label, 0.2))
    assert list(zip(columns, rows, occupied, free)) == [(-5, 10, False, True), (1, -2, True, False)]


def test_maps_that_do_not_fit_are_refused_with_both_values_and_nothing_is_written(tmp_path):
    write_plane_map(tmp_path / "a")
    write_plane_map(tmp_path / "b", spacing=0.5)
    with pytest.raises(InputError, match=r"b: node spacing: found 0\.5 m, expected 1 m as in .*a"):
        merged(tmp_path / "ab", tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "ab").exists()
    write_plane_map(tmp_path / "c", T_map_world=Pose.from_euler(roll=0.5))
    with pytest.raises(InputError, match=r"tilted by 28\.6 degrees"):
        merged(tmp_path / "ac", tmp_path / "a", tmp_path / "c")
    assert not (tmp_path / "ac" / "map.json").exists()  # the index comes last: what is there is no map


def test_a_map_is_not_replaced_unasked(tmp_path):
    write_plane_map(tmp_path / "a")
    write_plane_map(tmp_path / "b", lift=1.0)
    with pytest.raises(OutputError, match="holds a map"):
        new_map_folder(tmp_path / "b", [tmp_path / "a"])
    with pytest.raises(OutputError, match="is one of the input maps"):
        new_map_folder(tmp_path / "a", [tmp_path / "a"], force=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(OutputError, match="not a map"):
        new_map_folder(tmp_path / "mine", [], force=True)
    merge_maps([MapReader(tmp_path / "a")], lambda: new_map_folder(tmp_path / "b", [], force=True))
    assert everything(tmp_path / "a").keys() == everything(tmp_path / "b").keys()


def test_a_crop_keeps_what_lies_inside(tmp_path):
    write_plane_map(tmp_path / "a")
    add_survey(tmp_path / "a", 0)
    stored = MapReader(tmp_path / "a")
    crop_map(stored, lambda: new_map_folder(tmp_path / "part", []), (0.0, 40.0), (-100.0, -60.0))
    part = MapReader(tmp_path / "part")
    known = 0
    for key in part.ground.keys:
        planes = part.planes(key)
        x, y = (axis[planes.known] for axis in part.grid(key).mesh())
        assert ((x > 0) & (x < 40) & (y > -100) & (y < -60)).all()
        known += planes.known.sum()
    assert known == 40 * 40
    places = np.concatenate([tile.means(GROUND)[0] + 64 * np.array([key[1], key[0], 0]) for key, tile in part.points])
    assert len(places) > 200
    assert ((places[:, :2] >= (0, -100)) & (places[:, :2] < (40, -60))).all()
    assert 0 < sum((tile.occupied > 0).sum() for _, tile in part.cells) < 100
    seen = [sum((tile.occupied + tile.free > 0).sum() for _, tile in reader.cells) for reader in (part, stored)]
    assert 0 < seen[0] < seen[1]
    with pytest.raises(InputError, match="nothing is known within"):
        crop_map(stored, lambda: new_map_folder(tmp_path / "none", []), (1000.0, 1040.0), (0.0, 1.0))
    assert not (tmp_path / "none").exists()
