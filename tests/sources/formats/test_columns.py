# SPDX-License-Identifier: Apache-2.0
"""Headerless records: the number of columns is recognised or refused, never guessed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roadbed
from roadbed.core.errors import InputError
from roadbed.sources.formats.column_count import count_columns, name_columns


def street(seed: int, beams: int, turns: int, front_only: bool) -> np.ndarray:
    """(N, 6) x, y, z, intensity, ring, time of a scan: a tilted road between walls, boxes, with range noise."""
    rng = np.random.default_rng(seed)
    elevation = np.radians(np.linspace(-rng.uniform(8, 25), rng.uniform(2, 20), beams))
    azimuth = np.linspace(-1.0, 1.0, turns) if front_only else np.linspace(0, 2 * np.pi, turns, endpoint=False)
    ring, angle = (values.ravel() for values in np.meshgrid(np.arange(beams), azimuth))  # in the order of firing
    direction = np.stack(
        [np.cos(elevation[ring]) * np.cos(angle), np.cos(elevation[ring]) * np.sin(angle), np.sin(elevation[ring])]
    )
    height, width = rng.uniform(0.5, 3), rng.uniform(4, 25)
    normal = np.array([rng.normal(0, 0.03), rng.normal(0, 0.03), 1.0])
    with np.errstate(divide="ignore"):
        down = normal @ direction
        reach = np.where(down < 0, -height / down, np.inf)
        reach = np.minimum(reach, width / np.abs(direction[1]))
        bearing = rng.uniform(0, 2 * np.pi, 12)
        for centre in bearing:
            near = np.abs((angle - centre + np.pi) % (2 * np.pi) - np.pi) < rng.uniform(0.02, 0.2)
            reach = np.where(near, np.minimum(reach, rng.uniform(3, 40)), reach)
    seen = reach < rng.uniform(60, 120)
    reach = reach + rng.normal(0, 0.02, len(reach))
    brightness = rng.choice([1.0, 255.0, 4000.0]) * rng.beta(0.8, 3, len(reach))
    if rng.random() < 0.5:
        brightness = np.floor(brightness)
    rows = np.column_stack([direction.T, brightness, ring, angle / 63.0])[seen]
    rows[:, :3] *= reach[seen, None]
    order = rng.choice(["firing", "by ring", "shuffled", "thinned"])
    if order == "by ring":
        rows = rows[np.argsort(rows[:, 4], kind="stable")]
    elif order != "firing":
        rows = rows[rng.permutation(len(rows))[: len(rows) // (4 if order == "thinned" else 1)]]
    return rows.astype(np.float32)


SCANS = st.builds(
    street, st.integers(0, 2**31), st.sampled_from([4, 16, 64]), st.sampled_from([40, 300, 900]), st.booleans()
)


@settings(max_examples=60)
@given(SCANS, st.sampled_from([3, 4, 5, 6]))
def test_columns_are_recognised_or_refused(scan, columns):
    assert count_columns(scan[:, :columns].ravel()) in (columns, None)


@pytest.mark.parametrize("columns", [3, 4, 5, 6])
def test_ordinary_scans_are_recognised(columns):
    found = [count_columns(street(seed, 32, 900, False)[:, :columns].ravel()) for seed in range(12)]
    assert found.count(columns) >= 10
    assert set(found) <= {columns, None}


def test_every_real_scan_is_recognised_with_any_columns(real_data):
    """Written without intensity, with it, and with a ring: 3, 4 and 5 columns; none is taken for another."""
    refused = []
    for location in (
        "semantickitti/00",
        "semantickitti/08-singles",
        "kitti-raw-0005/velodyne/000000.bin",
        "nuscenes-projected",
        "solid-state",
        "formats/nuscenes.pcd.bin",
        "formats/os128.pcd",
        "formats/binary.pcd",
        "formats/sample_velodyne_vlp16_gps.pcap",
        "recordings/hesai_40p.pcd",
        "recordings/hesai_qt128.pcd",
        "recordings/velo_vlp32.pcd",
        "recordings/pdal_warsaw.las",
    ):
        scan = roadbed.open(real_data / location)[0]
        n = len(scan)
        rng = np.random.default_rng(n)
        intensity = rng.beta(1, 3, n) if scan.intensity is None else scan.intensity
        ring = rng.integers(0, 32, n) if scan.ring is None else scan.ring
        rows = np.column_stack([scan.points, intensity, ring, np.linspace(0, 0.1, n)]).astype(np.float32)
        for columns in (3, 4, 5, 6):
            found = count_columns(rows[:, :columns].ravel())
            assert found in (columns, None), (location, columns)
            if found is None:
                refused.append((location, columns))
    assert refused == []


@pytest.mark.parametrize("columns", [3, 5])
def test_files_of_other_columns_than_kitti(real_data, tmp_path, columns):
    scan = roadbed.open(real_data / "formats/nuscenes.pcd.bin")[0]
    count = len(scan) // 4 * 4  # their size is that of a file of four columns too
    rows = np.column_stack([scan.points, scan.intensity, scan.ring]).astype("<f4")[:count, :columns]
    rows.tofile(tmp_path / "scan.bin")
    source = roadbed.open(tmp_path / "scan.bin")
    np.testing.assert_array_equal(source[0].points, scan.points[:count])
    assert source.diagnostics[0].startswith(f"columns recognised: {columns} x float32: x, y, z")
    if columns == 5:
        np.testing.assert_array_equal(source[0].ring, scan.ring[:count])
        np.testing.assert_array_equal(source[0].intensity, scan.intensity[:count])


def test_kitti_needs_no_note_and_a_sequence_without_intensity_is_read_right(real_data, tmp_path):
    plain = roadbed.open(real_data / "semantickitti/00")
    assert plain.diagnostics == ()
    (tmp_path / "velodyne").mkdir()
    plain[0].points.tofile(tmp_path / "velodyne/000000.bin")
    source = roadbed.open(tmp_path)
    np.testing.assert_array_equal(source[0].points, plain[0].points)
    assert source[0].intensity is None
    assert "3 x float32" in source[:1].diagnostics[0]


def test_nclt_records(tmp_path):
    """The converter of the data set: https://robots.engin.umich.edu/nclt, x_m = x * 0.005 - 100."""
    points = street(3, 32, 300, False)
    points = points[np.abs(points[:, :3]).max(axis=1) < 99]
    record = np.dtype([("x", "<u2"), ("y", "<u2"), ("z", "<u2"), ("i", "u1"), ("l", "u1")])
    table = np.zeros(len(points), record)
    for axis, name in enumerate("xyz"):
        table[name] = np.round((points[:, axis] + 100) / 0.005)
    table["l"] = points[:, 4]
    table.tofile(tmp_path / "1.bin")
    with pytest.raises(InputError, match=r"1.bin: columns: found .*; name them by \?columns=x,y,z,intensity"):
        roadbed.open(tmp_path / "1.bin")
    kinds = "uint16,uint16,uint16,uint8,uint8"
    layout = f"columns=x,y,z,intensity,ring&dtype={kinds}&scale=0.005&offset=-100"
    scan = roadbed.open(f"{tmp_path}/1.bin?{layout}")[0]
    np.testing.assert_allclose(scan.points, points[:, :3], atol=0.0026)
    np.testing.assert_array_equal(scan.ring, points[:, 4])
    flipped = roadbed.open(f"{tmp_path}/1.bin?{layout.replace('0.005', '0.005,-0.005,-0.005')},100,100")[0]
    np.testing.assert_allclose(flipped.points, points[:, :3] * [1, -1, -1], atol=0.0026)


def test_float64_is_refused_and_read_on_request(tmp_path):
    points = street(5, 32, 300, False)[:, :4].astype("<f8") + 1e-9
    points.tofile(tmp_path / "1.bin")
    with pytest.raises(InputError, match=r"which fit .*4.* float32 per point but resemble none"):
        roadbed.open(tmp_path / "1.bin")
    source = roadbed.open(tmp_path / "1.bin", dtype="float64")
    assert source.layout.names == ("x", "y", "z", "intensity")
    np.testing.assert_allclose(source[0].points, points[:, :3], atol=1e-5)


def test_few_points_and_long_records_are_refused(tmp_path):
    scan = street(1, 32, 300, False)
    scan[:20, :4].tofile(tmp_path / "few.bin")
    with pytest.raises(InputError, match=r"few.bin: columns: found 320 bytes, which fit 4 or 5 float32 per point"):
        roadbed.open(tmp_path / "few.bin")
    np.column_stack([scan, scan[:, 3:5]]).tofile(tmp_path / "long.bin")
    with pytest.raises(InputError, match=r"long.bin: columns: found records of 8 x float32; name them"):
        roadbed.open(tmp_path / "long.bin")
    (tmp_path / "none.bin").write_bytes(b"")
    assert len(roadbed.open(tmp_path / "none.bin")[0]) == 0


def test_a_cut_file_of_recognised_columns_names_their_size(tmp_path):
    data = street(1, 32, 300, False)[:, :5].tobytes()
    (tmp_path / "cut.bin").write_bytes(data[:-8])
    with pytest.raises(InputError, match=r"length: found \d+ bytes, expected a multiple of 20 \(5 x float32\)"):
        roadbed.open(tmp_path / "cut.bin")[0]


def test_rings_are_whole_numbers_of_one_elevation_each():
    scan = street(2, 32, 900, False)
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (len(scan), 3)).astype(np.float32)
    assert name_columns(scan[:, [0, 1, 2, 4, 3]])[3:] == ["ring", "intensity"]
    assert name_columns(np.hstack([scan[:, :3], colours]))[3:] == ["intensity", "column_4", "column_5"]
    normals = rng.normal(size=(len(scan), 3))
    assert name_columns(np.hstack([scan[:, :3], normals]))[3:] == ["column_3", "column_4", "column_5"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("columns=x,y", "columns 'x,y': expected names like x,y,z,intensity"),
        ("columns=x,y,z,x", "each once"),
        ("columns=x,y,z&dtype=float16", "dtype 'float16': expected one of float32"),
        ("columns=x,y,z&dtype=int8,int8", "found 2 types, expected one, or 3"),
        ("dtype=int8,int8", "found several types, expected ?columns="),
        ("columns=x,y,z&scale=0", "scale '0': expected one finite number, or three"),
        ("columns=x,y,z&offset=1,2", "offset '1,2': expected one finite number, or three"),
        ("columns=x,y,z&scale=nan", "scale 'nan'"),
    ],
)
def test_wrong_options(tmp_path, options, message):
    np.zeros((10, 3), np.float32).tofile(tmp_path / "a.bin")
    with pytest.raises(InputError) as raised:
        roadbed.open(f"{tmp_path}/a.bin?{options}")
    assert message in str(raised.value)
