# SPDX-License-Identifier: Apache-2.0
"""Coordinates that are no metres: converted where the file says so, else refused or noted."""

import re

import laspy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laspy.vlrs.known import GeoKeyDirectoryVlr, WktCoordinateSystemVlr

import roadbed
from roadbed.core.errors import InputError
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.units import SURVEY_FOOT_M


def cloud(seed=0, count=1000):
    rng = np.random.default_rng(seed)
    return rng.uniform([-50, -50, -2], [50, 50, 8], (count, 3))


def named(points):
    return dict(zip("xyz", np.ascontiguousarray(points.T)))


def test_a_real_file_in_degrees_is_refused(real_data):
    with pytest.raises(InputError, match=r"x and y: found degrees \(geographic coordinates .*expected metres"):
        roadbed.open(real_data / "recordings/pdal_4326.las")[0]


def test_degrees_without_a_reference_system_are_refused_by_their_extent():
    points = cloud() * [1e-5, 1e-5, 1] + [11.6, 48.1, 520]
    with pytest.raises(InputError, match=r"found degrees \(11.5995 to 11.6005 and 48.0995 to 48.1005\)"):
        scan_from_fields(named(points), "scan")


@given(st.integers(0, 99), st.floats(0.5, 200), st.floats(-1000, 1000), st.floats(-1000, 1000))
def test_metres_are_not_taken_for_degrees(seed, size, x, y):
    """Small rooms, narrow poles and moved scans stay."""
    points = cloud(seed) * [size / 100, size / 100, 1] + [x, y, 0]
    assert len(scan_from_fields(named(points), "scan")) == 1000


def test_real_scans_have_no_note_on_units(real_data):
    for name in ("recordings/autoware_test.pcd", "recordings/hesai_qt128.pcd", "semantickitti/00", "formats/os128.pcd"):
        assert roadbed.open(real_data / name)[0].diagnostics == ()


def test_utm_in_float32_says_what_was_lost():
    points = cloud() + np.array([450_000, 5_400_000, 520])
    assert scan_from_fields(named(points), "scan").diagnostics == ()
    scan = scan_from_fields(named(points.astype(np.float32)), "scan")
    assert scan.diagnostics == (
        "map coordinates stored as float32 lost their precision: x in steps of 0.031 m, y in steps of 0.5 m; "
        "store float64 or an offset",
    )


def feet_by_keys():
    record = GeoKeyDirectoryVlr()
    record.parse_record_data(np.array([1, 1, 0, 2, 1024, 0, 1, 1, 3076, 0, 1, 9003], "<u2").tobytes())
    return record


def feet_by_text():
    units = 'GEOGCS["NAD83",UNIT["degree",0.0174532925199433]],PROJECTION["x"],UNIT["US survey foot",0.304800609601219]'
    return WktCoordinateSystemVlr(f'COMPD_CS["a",PROJCS["b",{units}],VERT_CS["c",UNIT["metre",1.0]]]')


@pytest.mark.parametrize(("record", "up"), [(feet_by_keys, SURVEY_FOOT_M), (feet_by_text, 1.0)])
def test_feet_are_converted_where_the_file_says_so(tmp_path, record, up):
    header = laspy.LasHeader(point_format=6, version="1.4")
    header.scales = np.full(3, 1e-4)
    header.vlrs.append(record())
    data = laspy.LasData(header)
    points = cloud()
    data.x, data.y, data.z = (points / [SURVEY_FOOT_M, SURVEY_FOOT_M, up]).T
    data.write(tmp_path / "feet.las")
    scan = roadbed.open(tmp_path / "feet.las")[0]
    np.testing.assert_allclose(scan.points, points, atol=1e-3)
    assert scan.diagnostics[0].startswith("coordinates in feet by the file's reference system: converted to metres")


def test_points_of_no_extent_have_no_mounting_but_no_error():
    from roadbed.config import Config
    from roadbed.ground.mounting.estimator import Mountings

    points = cloud() * [1e-5, 1e-5, 1] + [11.6, 48.1, 520]
    found = Mountings(Config().ground.mounting).of(roadbed.Scan(points))
    assert found.mounting.quality == 0
    assert "not found" in found.note or "look like" in found.note


@pytest.mark.parametrize(
    ("factor", "unit"), [(100, "centimetres: divide them by 100 "), (1000, "millimetres: divide them by 1000 ")]
)
def test_other_units_get_one_line_and_stay_as_they_are(real_data, factor, unit):
    for file in ("formats/binary_compressed.pcd", "recordings/autoware_test.pcd", "semantickitti/00"):
        points = roadbed.open(real_data / file)[0].points
        frame = roadbed.GroundFilter()(points * np.float32(factor))
        assert unit in frame.diagnostics[0]
        height = float(re.search(r"the ground is (\d\.\d\d) m below", frame.diagnostics[0])[1])
        assert 1.5 < height < 2.1


def test_camera_axes_are_named_where_turning_finds_the_ground(real_data):
    """Walls are not the ground: without the ground, upright scans of these files got this advice."""
    to_camera = np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]], np.float32)  # to x right, y down, z forward
    quarter = np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 1]], np.float32)
    walls = roadbed.open(real_data / "formats/sample_velodyne_hdl32.pcap")[2].points
    turned = roadbed.open(real_data / "nuscenes-projected")[2].points
    for points in (walls[(walls[:, 1] < 0) & (walls[:, 2] > -1)], turned[turned[:, 2] > -1] @ quarter):
        assert "camera axes" not in " ".join(roadbed.GroundFilter()(points).diagnostics)
    for file in ("recordings/autoware_test.pcd", "recordings/hesai_xt32.pcd", "semantickitti/00", "nuscenes-projected"):
        points = roadbed.open(real_data / file)[0].points @ to_camera
        assert "camera axes" in roadbed.GroundFilter()(points).diagnostics[0]
