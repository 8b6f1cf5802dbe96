# SPDX-License-Identifier: Apache-2.0
"""Real files of each kind: the right number of points and fields, or the right message."""

import numpy as np
import pytest

import roadbed
from roadbed.core.errors import InputError

EXPECTED = {
    "ascii.pcd": [65536],
    "binary.pcd": [69088],
    "binary_compressed.pcd": [118784],
    "os128.pcd": [240000],
    "nuscenes.pcd.bin": [34688],
    "sample_velodyne_hdl32.pcap": [58169, 58078, 30458],
    "sample_velodyne_vlp16_gps.pcap": [18790, 18701, 18678, 17317],
}
CAPTURE = {"intensity": "<f4", "ring": "u1", "point_time": "<f4", "column": "<u2", "return_type": "u1"}
CHANNELS = {
    "os128.pcd": {"intensity": "u1", "ring": "<u2", "point_time": "<f8", "azimuth": "<f4"},
    "binary_compressed.pcd": {"intensity": "<f8"},
    "nuscenes.pcd.bin": {"intensity": "<f4", "ring": "<u2"},
    "sample_velodyne_hdl32.pcap": CAPTURE,
    "sample_velodyne_vlp16_gps.pcap": CAPTURE,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_points_and_fields(real_data, name):
    source = roadbed.open(real_data / "formats" / name)
    scans = list(source)
    assert [len(scan) for scan in scans] == EXPECTED[name]
    assert len(source) == len(scans)
    expected = CHANNELS.get(name, {"intensity": "<f4"})
    assert {key: values.dtype for key, values in scans[0].all_channels().items()} == {
        key: np.dtype(value) for key, value in expected.items()
    }


def test_truncated_scan_is_refused(real_data):
    with pytest.raises(InputError, match=r"truncated.bin: length: found 1319228 bytes, expected a multiple of 16"):
        roadbed.open(real_data / "formats/truncated.bin")[0]


def test_a_folder_of_several_kinds_asks_which(real_data):
    with pytest.raises(InputError, match=r"several kinds \(1 .bin, 4 .pcd, 1 .pcd.bin\); name one with source="):
        roadbed.open(real_data / "formats")
    assert len(roadbed.open(real_data / "formats", source="pcd")) == 4
    assert len(roadbed.open(real_data / "formats", source="nuscenes")) == 1


def test_values_agree_with_an_independent_reader(real_data):
    import pypcd4

    for name in ("ascii", "binary", "binary_compressed", "os128"):
        theirs = pypcd4.PointCloud.from_path(real_data / f"formats/{name}.pcd").pc_data
        ours = roadbed.open(real_data / f"formats/{name}.pcd")[0]
        for axis, field in enumerate("xyz"):
            np.testing.assert_array_equal(ours.points[:, axis], theirs[field].astype(np.float32))
        np.testing.assert_array_equal(ours.intensity, theirs["intensity"])
    stamps = theirs["timestamp"]
    seen = stamps > 0
    np.testing.assert_allclose((ours.time + ours.point_time)[seen], stamps[seen], atol=1e-6)
    assert np.isnan(ours.point_time[~seen]).all()


def test_capture_can_be_read_in_any_order(real_data):
    source = roadbed.open(real_data / "formats/sample_velodyne_vlp16_gps.pcap")
    in_order = [scan.points for scan in source]
    for index in (2, 0, 1, 3, -1, 0):
        np.testing.assert_array_equal(source[index].points, in_order[index])
    assert source[0].time == pytest.approx(1453364282.8, abs=0.1)
    assert -0.2 < source[0].point_time.min() < source[0].point_time.max() < 0.01


@pytest.mark.parametrize(
    ("folder", "scans", "sequential", "labelled"),
    [
        ("semantickitti/00", 3, True, True),
        ("semantickitti/00-projected", 21, True, True),
        ("semantickitti/08-singles", 2, False, True),
        ("kitti-raw-0005", 50, True, False),
        ("nuscenes-projected", 4, False, True),
        ("solid-state", 6, False, True),
        ("stcrf-elevation/points", 3, False, False),
    ],
)
def test_data_folders(real_data, folder, scans, sequential, labelled):
    source = roadbed.open(real_data / folder)
    assert (len(source), source.sequential) == (scans, sequential)
    scan = source[scans - 1]
    assert len(scan) > 1000
    assert (scan.classes is not None) == labelled
    assert (scan.T_world_sensor is not None) == sequential


def test_boxes_of_the_real_drive(real_data):
    source = roadbed.open(real_data / "kitti-raw-0005")
    assert source[0].time == pytest.approx(1317042272.349)
    van, *_ = source.objects(0)
    assert van.kind == "Van"
    np.testing.assert_allclose(van.footprint[0], [12.277, 2.643])
