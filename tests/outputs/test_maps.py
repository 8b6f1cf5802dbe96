# SPDX-License-Identifier: Apache-2.0
"""Every product of a map, opened by the programs' own libraries and held against the simulator's truth."""

import json
import subprocess
import sys

import laspy
import numpy as np
import pytest
import rasterio
import trimesh
import yaml
from PIL import Image

from roadbed import Pipeline
from roadbed import open as open_source
from roadbed.core.errors import ConfigError, InputError, OutputError
from roadbed.mapping.reader import MapReader
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.maps import geotiff, relief
from roadbed.outputs.maps.export import PARTS, PRODUCTS, export_map
from roadbed.outputs.maps.geotiff import Georeference
from roadbed.outputs.maps.relief import area_text
from tests.mapping.maps import plane, write_plane_map

EAST, NORTH, UP = 500_000.0, 5_400_000.0, 250.0


@pytest.fixture(scope="module")
def sequence(tmp_path_factory):
    """The map of a short simulated sequence, its products, and the true terrain."""
    folder = tmp_path_factory.mktemp("sequence")
    source = open_source("sim:city?sensor=vlp16&frames=8")
    pipeline = Pipeline(map_folder=folder / "map")
    for _ in pipeline.run(source):
        pass
    pipeline.close()
    georeference = Georeference(EAST, NORTH, UP, 32632)
    products(folder / "map", folder / "out", georeference=georeference)
    return folder, source.truth(0)


def products(map_folder, out, names=(), georeference=None, force=False):
    target = OutputFolder(out, PARTS, command="roadbed map export", inputs=[map_folder], force=force)
    return export_map(MapReader(map_folder), target, names, georeference)


def read(path):
    with rasterio.open(path) as raster:
        return raster, raster.read(1)


def test_the_elevation_is_that_of_the_terrain(sequence):
    folder, truth = sequence
    raster, elevation = read(folder / "out" / "elevation.tif")
    _, variance = read(folder / "out" / "variance.tif")
    assert raster.crs.to_epsg() == 32632
    assert raster.res == (1.0, 1.0)
    assert np.isnan(raster.nodata)
    rows, columns = np.nonzero(np.isfinite(elevation))
    x, y = rasterio.transform.xy(raster.transform, rows, columns)
    error = elevation[rows, columns] - UP - truth.terrain.height(np.array(x) - EAST, np.array(y) - NORTH)
    _, count = read(folder / "out" / "count.tif")
    seen = count[rows, columns] >= 20
    assert seen.sum() > 500
    assert np.median(np.abs(error[seen])) < 0.015
    assert np.percentile(np.abs(error[seen]), 90) < 0.06  # kerbs are steps within a node
    sigma = np.sqrt(variance[rows, columns][seen])
    assert np.median(sigma) < 0.03
    assert np.percentile(sigma, 95) < 0.1
    assert sigma.max() < 0.2  # a kerb is told as what it is, a step within a node
    assert np.mean(np.abs(error[seen]) < 2 * sigma) > 0.9


def test_slope_count_and_traversability_belong_to_the_same_ground(sequence):
    folder, truth = sequence
    raster, slope = read(folder / "out" / "slope.tif")
    _, count = read(folder / "out" / "count.tif")
    _, score = read(folder / "out" / "traversability.tif")
    _, reason = read(folder / "out" / "traversability-reason.tif")
    # The lowest ring meets the road 6.7 m ahead of the first pose: nearer cells have no return and stay unknown.
    ahead = truth.T_world_vehicle @ np.array([[d, 0.0, 0.0] for d in np.arange(7.0, 12.0)])
    unseen = truth.T_world_vehicle @ np.array([[d, 0.0, 0.0] for d in (2.0, 3.0, 4.0)])
    assert np.isnan(score[rasterio.transform.rowcol(raster.transform, EAST + unseen[:, 0], NORTH + unseen[:, 1])]).all()
    row, column = rasterio.transform.rowcol(raster.transform, EAST + ahead[:, 0], NORTH + ahead[:, 1])
    assert slope[row, column].max() < 0.1
    assert (count[row, column] > 20).mean() > 0.5
    assert (score[row, column] == 1.0).all()
    assert (reason[row, column] == 1).all()
    assert (np.isfinite(score) == (reason > 0)).all()
    assert (score[slope > 0.5] == 0).all()
    assert np.nanmin(score) < 0.5 < np.nanmax(score)


def test_rasters_open_as_images_too(sequence):
    folder, _ = sequence
    _, elevation = read(folder / "out" / "elevation.tif")
    np.testing.assert_array_equal(np.asarray(Image.open(folder / "out" / "elevation.tif")), elevation)
    relief = np.asarray(Image.open(folder / "out" / "relief.png").convert("RGB"))
    assert relief.shape[1] > 400
    assert len(np.unique(relief.astype(int) @ [65536, 256, 1])) > 200


def test_points_lie_where_the_rays_ended(sequence):
    folder, truth = sequence
    ground, obstacles = laspy.read(folder / "out" / "ground.laz"), laspy.read(folder / "out" / "obstacles.laz")
    assert set(np.unique(ground.classification)) == {2}
    assert len(ground) > 3000
    height = truth.terrain.height(ground.x - EAST, ground.y - NORTH)
    assert np.median(np.abs(ground.z - UP - height)) < 0.05
    above = obstacles.z - UP - truth.terrain.height(obstacles.x - EAST, obstacles.y - NORTH)
    assert len(obstacles) > 300
    assert np.median(above) > 0.3
    assert any(record.record_id == 34735 for record in ground.header.vlrs)
    cells = np.column_stack([np.floor(axis / 0.2) for axis in (ground.x, ground.y, ground.z - UP)])
    assert len(np.unique(cells, axis=0)) > 0.9 * len(ground)  # thinned


def test_the_static_world_is_black_where_objects_stand_and_white_on_the_road(sequence):
    folder, truth = sequence
    image = np.asarray(Image.open(folder / "out" / "static.pgm"))
    about = yaml.safe_load((folder / "out" / "static.yaml").read_text())
    assert about["image"] == "static.pgm"
    assert set(np.unique(image)) == {0, 205, 254}

    def pixel(x, y):
        column = np.floor((x + EAST - about["origin"][0]) / about["resolution"]).astype(int)
        return image[::-1][np.floor((y + NORTH - about["origin"][1]) / about["resolution"]).astype(int), column]

    ahead = truth.T_world_vehicle @ np.array([[d, y, 0.0] for d in np.linspace(8, 20, 60) for y in (-0.5, 0.0, 0.5)])
    road = pixel(ahead[:, 0], ahead[:, 1])
    assert (road == 254).mean() > 0.2
    assert (road == 0).mean() < 0.02
    obstacles = laspy.read(folder / "out" / "obstacles.laz")
    x, y = obstacles.x - EAST, obstacles.y - NORTH
    above = obstacles.z - UP - truth.terrain.height(x, y)
    near = np.hypot(x - ahead[0, 0], y - ahead[0, 1]) < 30
    solid = near & (above > 0.5) & (above < 1.5)  # beams pass below crowns, and over kerbs
    hit = pixel(x[solid], y[solid])
    assert (hit == 0).sum() > 5 * (hit == 254).sum()


def test_the_mesh_opens_and_lies_on_the_elevation(sequence):
    folder, _ = sequence
    raster, elevation = read(folder / "out" / "elevation.tif")
    ply = trimesh.load(folder / "out" / "surface.ply")
    row, column = rasterio.transform.rowcol(raster.transform, ply.vertices[:, 0], ply.vertices[:, 1])
    np.testing.assert_allclose(elevation[row, column], ply.vertices[:, 2], atol=1e-3)
    known = np.isfinite(elevation)
    quads = known[:-1, :-1] & known[:-1, 1:] & known[1:, :-1] & known[1:, 1:]
    assert len(ply.faces) == 2 * quads.sum()  # no gap between tiles
    assert (ply.face_normals[:, 2] > 0).all()


def test_a_raster_beyond_four_gigabytes_has_offsets_of_64_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(geotiff, "_CLASSIC_LIMIT", 0)
    grid = write_plane_map(tmp_path / "map")
    products(tmp_path / "map", tmp_path / "out", ["geotiff"])
    assert (tmp_path / "out" / "elevation.tif").read_bytes()[2] == 43
    raster, elevation = read(tmp_path / "out" / "elevation.tif")
    row, column = raster.index(grid.x[3], grid.y[5])
    assert elevation[row, column] == pytest.approx(plane(grid.x[3], grid.y[5]), abs=1e-4)


def test_a_damaged_tile_is_named_and_the_rest_is_exported(tmp_path):
    write_plane_map(tmp_path / "map")
    whole = products(tmp_path / "map", tmp_path / "whole", ["geotiff"])
    damaged = tmp_path / "map" / "tile_-1_0.npz"
    damaged.write_bytes(damaged.read_bytes()[:500])
    done = products(tmp_path / "map", tmp_path / "out")
    assert len(done.damaged) == 1
    assert "tile_-1_0.npz" in done.damaged[0]
    assert whole.nodes - 64 * 64 <= done.nodes < whole.nodes
    _, elevation = read(tmp_path / "out" / "elevation.tif")
    assert np.isfinite(elevation).sum() == done.nodes


def test_what_cannot_be_exported_is_refused_before_anything_is_written(tmp_path):
    write_plane_map(tmp_path / "map")
    with pytest.raises(ConfigError, match="'geotif': expected some of geotiff, laz"):
        products(tmp_path / "map", tmp_path / "out", ["geotif"])
    with pytest.raises(InputError, match="laz: this map holds the ground alone"):
        products(tmp_path / "map", tmp_path / "out", ["laz"])
    with pytest.raises(InputError, match=r"found no map\.json"):
        products(tmp_path, tmp_path / "out")
    with pytest.raises(ConfigError, match="epsg"):
        Georeference(epsg=4)
    assert not (tmp_path / "out").exists()
    products(tmp_path / "map", tmp_path / "out", ["ply"])
    with pytest.raises(OutputError, match="--force"):
        products(tmp_path / "map", tmp_path / "out", ["ply"])
    (tmp_path / "out" / "elevation.tif").write_text("mine")
    with pytest.raises(OutputError, match="not written by Roadbed"):
        products(tmp_path / "map", tmp_path / "out", ["geotiff"], force=True)
    assert (tmp_path / "out" / "elevation.tif").read_text() == "mine"


MEASURED = """
import json, re, sys
from pathlib import Path
from roadbed.mapping.reader import MapReader
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.maps.export import PARTS, export_map
from roadbed.outputs.maps.relief import area_text
done = export_map(MapReader(sys.argv[1]), OutputFolder(sys.argv[2], PARTS, command="test"))
# What getrusage says counts the memory of the process that started this one too.
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024
print(json.dumps({"nodes": done.nodes, "mb": peak}))
"""


def test_a_square_kilometre_is_exported_in_less_than_300_mb(tmp_path):
    write_plane_map(tmp_path / "map", size=1000.0, centre=(0.0, 0.0))
    child = subprocess.run(
        [sys.executable, "-c", MEASURED, tmp_path / "map", tmp_path / "out"], capture_output=True, text=True, check=True
    )
    found = json.loads(child.stdout)
    assert found["nodes"] == 1_000_000
    assert found["mb"] < 300
    assert {name for name in PRODUCTS if (tmp_path / "out" / PRODUCTS[name][0]).exists()} == set(PRODUCTS) - {
        "laz",
        "nav2",
    }


def test_the_picture_has_the_coordinates_of_the_other_products(sequence, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(relief, "draw_relief", lambda axes, grid, surface: drawn.append((grid, surface[0])))
    stored = MapReader(sequence[0] / "map")
    for place in (Georeference(), Georeference(EAST, NORTH, UP)):
        relief.save_relief(tmp_path / "a.png", stored, place)
    (grid, heights), (moved, raised) = drawn
    assert (moved.x0 - grid.x0, moved.y0 - grid.y0) == (EAST, NORTH)
    np.testing.assert_allclose(np.nanmax(np.abs(raised - heights - UP)), 0, atol=1e-4)


def test_a_small_map_is_not_called_empty():
    assert [area_text(area) for area in (408, 9999, 10_000, 123_456)] == ["408 m²", "9999 m²", "1.0 ha", "12.3 ha"]
