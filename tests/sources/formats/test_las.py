# SPDX-License-Identifier: Apache-2.0
import struct

import laspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roadbed
from roadbed.core.errors import InputError
from roadbed.sources.formats.las import read_las
from tests.sources.damage import damaged, reads_or_refuses


def write_las(path, count: int = 50, offset=(450000.0, 5400000.0, 100.0)):
    header = laspy.LasHeader(point_format=3, version="1.2")
    header.offsets, header.scales = np.array(offset), np.array([0.001] * 3)
    header.add_extra_dim(laspy.ExtraBytesParams(name="reflectance_db", type=np.float32))
    cloud = laspy.LasData(header)
    rng = np.random.default_rng(0)
    local = np.round(rng.uniform(-50, 50, (count, 3)), 3)
    cloud.x, cloud.y, cloud.z = (local + offset).T
    cloud.intensity = np.arange(count)
    cloud.classification = np.full(count, 2)
    cloud.gps_time = 1e5 + np.arange(count)
    cloud.red = np.full(count, 700)
    cloud.reflectance_db = np.linspace(0, 1, count)
    cloud.write(path)
    return local


@pytest.mark.parametrize("suffix", ["las", "laz"])
@pytest.mark.parametrize("count", [0, 1, 50])
def test_every_dimension_and_millimetres(tmp_path, suffix, count):
    file = tmp_path / f"a.{suffix}"
    local = write_las(file, count)
    scan = roadbed.open(file)[0]
    assert len(scan) == count
    assert scan.intensity.tolist() == list(range(count))
    assert {"classification", "red", "return_number", "reflectance_db"} <= set(scan.channels)
    if count:
        placed = scan.T_world_sensor @ scan.points.astype(np.float64)
        np.testing.assert_allclose(placed - (450000, 5400000, 100), local, atol=1e-4)
        assert np.abs(scan.points).max() < 200
        assert (scan.channels["classification"] == 2).all()


def test_coordinates_near_the_origin_stay_where_they_are(tmp_path):
    local = write_las(tmp_path / "a.laz", offset=(0, 0, 0))
    scan = read_las(tmp_path / "a.laz")
    assert scan.T_world_sensor is None
    np.testing.assert_allclose(scan.points, local, atol=1e-4)


def test_bad_files_say_found_and_expected(tmp_path):
    file = tmp_path / "a.las"
    for content, message in ((b"", "signature: found b''"), (b"LAST stand", "found b'LAST', expected b'LASF'")):
        file.write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_las(file)
    file.write_bytes(b"LASF" + bytes(20))
    with pytest.raises(InputError, match="LAS header: found 24 bytes, expected at least 227"):
        read_las(file)
    file.write_bytes(b"LASF" + bytes(250))
    with pytest.raises(InputError, match="not a readable LAS file"):
        read_las(file)
    write_las(file)
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"points: found 1890 bytes, expected 1900 \(50 points of 38 bytes\)"):
        read_las(file)
    write_las(tmp_path / "b.laz")
    (tmp_path / "b.laz").write_bytes((tmp_path / "b.laz").read_bytes()[:-400])
    with pytest.raises(InputError, match=r"LAZ chunk table: found 0 chunks at byte 1501, expected within 1114"):
        read_las(tmp_path / "b.laz")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_files_give_a_scan_or_one_line(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    suffix = data.draw(st.sampled_from(["las", "laz"]))
    whole = folder / f"whole.{suffix}"
    if not whole.exists():
        write_las(whole)
    file = folder / f"damaged.{suffix}"
    file.write_bytes(data.draw(damaged(whole.read_bytes(), first=4)))
    reads_or_refuses(read_las, file)


@pytest.mark.parametrize("point_format", [0, 1, 2, 3, 6, 7, 8])
def test_compressed_files_of_every_format_and_several_chunks(tmp_path, point_format):
    """50,000 points make a chunk; the layers of formats 6 and later are checked chunk by chunk."""
    header = laspy.LasHeader(point_format=point_format, version="1.4")
    header.scales = np.full(3, 0.001)
    header.add_extra_dim(laspy.ExtraBytesParams(name="extra", type=np.uint16))
    cloud = laspy.LasData(header)
    local = np.round(np.random.default_rng(1).uniform(-50, 50, (120_001, 3)), 3)
    cloud.x, cloud.y, cloud.z = local.T
    cloud.extra = np.arange(len(local)) % 1000
    cloud.write(tmp_path / "a.laz")
    scan = read_las(tmp_path / "a.laz")
    np.testing.assert_allclose(scan.points, local, atol=1e-4)
    np.testing.assert_array_equal(scan.channels["extra"], cloud.extra)


def test_a_chunk_table_that_lists_no_chunks(tmp_path):
    """The decompressor reads chunks whether listed or not, so that unlisted ones would go unchecked."""
    header = laspy.LasHeader(point_format=6, version="1.4")
    cloud = laspy.LasData(header)
    cloud.x, cloud.y, cloud.z = np.zeros((3, 20))
    cloud.write(tmp_path / "a.laz")
    raw = bytearray((tmp_path / "a.laz").read_bytes())
    points_at = int.from_bytes(raw[96:100], "little")
    table = int.from_bytes(raw[points_at : points_at + 8], "little")
    raw[table + 4 : table + 8] = bytes(4)
    (tmp_path / "a.laz").write_bytes(raw)
    with pytest.raises(InputError, match="LAZ chunk table: found room for 0 points, expected 20 by the header"):
        read_las(tmp_path / "a.laz")


def point_wise(chunked: bytes) -> bytes:
    """A LAZ file of one chunk as the point-wise compressor writes it: one stream, no chunk table."""
    start = struct.unpack_from("<I", chunked, 96)[0]
    table = struct.unpack_from("<q", chunked, start)[0]
    record = chunked.index(b"laszip encoded") - 2 + 54
    changed = bytearray(chunked[:start] + chunked[start + 8 : table])
    struct.pack_into("<H", changed, record, 1)
    return bytes(changed)


def test_point_wise_compression(tmp_path):
    write_las(tmp_path / "chunked.laz", 500)
    (tmp_path / "stream.laz").write_bytes(point_wise((tmp_path / "chunked.laz").read_bytes()))
    expected, found = (roadbed.open(tmp_path / name)[0] for name in ("chunked.laz", "stream.laz"))
    np.testing.assert_array_equal(found.points, expected.points)
    np.testing.assert_array_equal(found.intensity, expected.intensity)
    theirs = laspy.read(tmp_path / "stream.laz")
    np.testing.assert_allclose(found.T_world_sensor @ found.points.astype(float), theirs.xyz, atol=1e-4)
    damaged_file = tmp_path / "cut.laz"
    damaged_file.write_bytes((tmp_path / "stream.laz").read_bytes()[:900])
    with pytest.raises(InputError, match=r"cut\.laz"):
        roadbed.open(damaged_file)[0]
