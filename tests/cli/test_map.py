# SPDX-License-Identifier: Apache-2.0
"""`roadbed map`: what a map holds, merged, cropped and exported; and products of a run that keeps no map."""

import json

import numpy as np
import pytest
import rasterio

from tests.cli.process import one_line_and_status_2, roadbed
from tests.mapping.maps import write_plane_map


@pytest.fixture
def folder(tmp_path):
    write_plane_map(tmp_path / "map", size=60.0)
    return tmp_path / "map"


def test_show_describes_the_map(folder):
    shown = json.loads(roadbed("map", folder, "show", "--json").stdout)
    assert shown["nodes"] == 3600
    assert shown["square_metres"] == 3600
    assert shown["elevation"][0] == pytest.approx(3 + 0.05 * -9.5 - 0.02 * -40.5, abs=0.01)
    assert "3600" in roadbed("map", folder).stdout


def test_export_crop_and_merge(folder, tmp_path):
    part, both, out = (tmp_path / name for name in ("part", "both", "out"))
    roadbed("map", folder, "crop", "-o", part, "--", "0", "20", "-80", "-60")
    assert json.loads(roadbed("map", part, "show", "--json").stdout)["nodes"] == 400
    roadbed("map", folder, "merge", part, "-o", both)
    asked = ("--products", "geotiff,ply", "-o", out, "--origin", "1000", "2000", "50", "--json")
    done = json.loads(roadbed("map", both, "export", *asked).stdout)
    assert done["files"] == [path for path in done["files"] if (out / path).exists()]
    with rasterio.open(out / "variance.tif") as raster:
        variance = raster.read(1)
        inside = variance[raster.index(1010.5, 2000 - 69.5)]
        assert inside == pytest.approx(np.nanmax(variance) / 2)  # twice as many points there
    one_line_and_status_2(roadbed("map", both, "export", "-o", out), "--force")
    roadbed("map", both, "export", "--products", "ply", "-o", out, "--force")
    assert not (out / "variance.tif").exists()


def test_mistakes_end_in_one_line(folder, tmp_path):
    for arguments, words in (
        ((tmp_path / "none", "show"), "no such folder"),
        ((tmp_path, "export"), "found no map.json"),
        ((folder, "export", "--products", "shapefile", "-o", tmp_path / "o"), "expected some of geotiff"),
        ((folder, "merge", folder, "-o", folder), "is one of the input maps"),
        ((folder, "crop", "-o", tmp_path / "p", "--", "5", "1", "0", "1"), "X_MIN < X_MAX"),
    ):
        one_line_and_status_2(roadbed("map", *arguments), words)


def test_a_run_keeps_a_map_that_is_exported(tmp_path):
    kept, out = tmp_path / "map", tmp_path / "products"
    arguments = ("sim:city?sensor=vlp16&frames=2", "--no-layers", "--map", kept, "-o", tmp_path / "out", "--json")
    assert json.loads(roadbed("run", *arguments).stdout)["odometry"] == "poses of the source"
    roadbed("map", kept, "export", "--products", "geotiff,laz,nav2", "-o", out)
    for name in ("elevation.tif", "ground.laz", "obstacles.laz", "static.pgm", "static.yaml"):
        assert (out / name).stat().st_size > 100
