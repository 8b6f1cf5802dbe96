# SPDX-License-Identifier: Apache-2.0
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roadbed
from roadbed.core.errors import InputError
from roadbed.sources.formats import lzf
from roadbed.sources.formats.pcd import read_pcd
from tests.resident import measured
from tests.sources.damage import damaged, reads_or_refuses
from tests.sources.formats.compressed import compress

HEADER = """# .PCD v0.7 - Point Cloud Data file format
VERSION 0.7
FIELDS x y z intensity
SIZE 4 4 4 4
TYPE F F F F
COUNT 1 1 1 1
WIDTH 2
HEIGHT 1
VIEWPOINT 0 0 0 1 0 0 0
POINTS 2
DATA {data}
"""
VALUES = np.array([[1, 2, 3, 4], [np.nan, -np.inf, 1e30, 0.5]], np.float32)


def write(path, header: str, body: bytes):
    path.write_bytes(header.encode() + body)
    return path


def bodies() -> dict[str, bytes]:
    columns = VALUES.T.tobytes()
    packed = compress(columns)
    return {
        "ascii": b"1 2 3 4\nnan -inf 1e30 0.5\n",
        "binary": VALUES.tobytes(),
        "binary_compressed": struct.pack("<II", len(packed), len(columns)) + packed,
    }


@pytest.mark.parametrize("data", ["ascii", "binary", "binary_compressed"])
def test_the_three_kinds_hold_the_same_points(tmp_path, data):
    scan = read_pcd(write(tmp_path / "a.pcd", HEADER.format(data=data), bodies()[data]))
    np.testing.assert_array_equal(scan.points, VALUES[:, :3])
    np.testing.assert_array_equal(scan.intensity, VALUES[:, 3])
    assert scan.T_world_sensor is None


def test_padding_counts_wide_and_mixed_types_in_every_kind(tmp_path):
    """Offsets are a matter of sizes and counts alone: padding in front, float64, 64-bit integers, vectors."""
    fields = [("_", "u1", 3), ("z", "<f8", 1), ("x", "<f4", 1), ("id", "<u8", 1), ("_", "<f4", 2), ("y", "<i2", 1)]
    fields += [("normal", "<f4", 3), ("flag", "i1", 1)]
    rng = np.random.default_rng(1)
    columns = [
        rng.integers(0, 100, (5, count)).astype(dtype) if np.dtype(dtype).kind != "f" else rng.normal(size=(5, count))
        for _, dtype, count in fields
    ]
    columns = [column.astype(dtype) for column, (_, dtype, _) in zip(columns, fields)]
    columns[3][0] = 2**63 + 1  # not representable as a float64
    header = "FIELDS {}\nSIZE {}\nTYPE {}\nCOUNT {}\nWIDTH 5\nPOINTS 5\nDATA ".format(
        " ".join(name for name, _, _ in fields),
        " ".join(str(np.dtype(dtype).itemsize) for _, dtype, _ in fields),
        " ".join(np.dtype(dtype).kind.upper() for _, dtype, _ in fields),
        " ".join(str(count) for _, _, count in fields),
    )
    record = np.dtype([(str(k), dtype, (count,)) for k, (_, dtype, count) in enumerate(fields)])
    table = np.empty(5, record)
    for k, column in enumerate(columns):
        table[str(k)] = column
    joined = b"".join(column.tobytes() for column in columns)
    packed = compress(joined)
    text = "".join(" ".join(str(v) for column in columns for v in column[row].tolist()) + "\n" for row in range(5))
    for data, body in {
        "ascii": text.encode(),
        "binary": table.tobytes(),
        "binary_compressed": struct.pack("<II", len(packed), len(joined)) + packed,
    }.items():
        scan = read_pcd(write(tmp_path / f"{data}.pcd", header + data + "\n", body))
        np.testing.assert_array_equal(scan.points[:, 0], columns[2][:, 0])
        np.testing.assert_array_equal(scan.points[:, 1], columns[5][:, 0])
        np.testing.assert_array_equal(scan.points[:, 2], columns[1][:, 0].astype(np.float32))
        assert list(scan.channels) == ["id", "normal", "flag"]
        for name, k in (("id", 3), ("normal", 6), ("flag", 7)):
            expected = columns[k][:, 0] if columns[k].shape[1] == 1 else columns[k]
            assert scan.channels[name].dtype == expected.dtype
            np.testing.assert_array_equal(scan.channels[name], expected)


def test_organised_clouds_keep_their_order(tmp_path):
    header = HEADER.format(data="binary").replace("WIDTH 2", "WIDTH 1").replace("HEIGHT 1", "HEIGHT 2")
    assert len(read_pcd(write(tmp_path / "a.pcd", header, bodies()["binary"]))) == 2


def test_old_headers_without_count_viewpoint_and_height(tmp_path):
    header = "COLUMNS x y z intensity\r\nSIZE 4 4 4 4\r\nTYPE F F F F\r\nPOINTS 2\r\nDATA ascii\r\n"
    assert len(read_pcd(write(tmp_path / "a.pcd", header, bodies()["ascii"]))) == 2


def test_viewpoint_is_the_pose_of_the_sensor(tmp_path):
    header = HEADER.format(data="binary").replace("VIEWPOINT 0 0 0 1 0 0 0", "VIEWPOINT 1 2 3 0 0 0 1")
    pose = read_pcd(write(tmp_path / "a.pcd", header, bodies()["binary"])).T_world_sensor
    np.testing.assert_allclose(pose.translation, [1, 2, 3])
    np.testing.assert_allclose(pose.rotation, np.diag([-1, -1, 1]), atol=1e-12)


def test_map_coordinates_keep_their_millimetres(tmp_path):
    header = HEADER.format(data="ascii").replace("SIZE 4 4 4 4", "SIZE 8 8 8 4")
    body = b"450000.125 5400000.375 112.5 1\n450001.250 5400001.500 112.75 2\n"
    scan = read_pcd(write(tmp_path / "a.pcd", header, body))
    np.testing.assert_array_equal(scan.points[1] - scan.points[0], [1.125, 1.125, 0.25])
    placed = scan.T_world_sensor @ scan.points.astype(np.float64)
    np.testing.assert_allclose(placed[0], [450000.125, 5400000.375, 112.5], atol=1e-6)


def test_a_folder_is_a_source_in_numeric_order(tmp_path):
    for number in (10, 2, 1):
        body = VALUES.copy()
        body[0, 0] = number
        write(tmp_path / f"scan_{number}.pcd", HEADER.format(data="binary"), body.tobytes())
    source = roadbed.open(tmp_path)
    assert [scan.points[0, 0] for scan in source] == [1, 2, 10]
    assert not source.sequential


@pytest.mark.parametrize("data", ["ascii", "binary", "binary_compressed"])
@pytest.mark.parametrize("points", [0, 1])
def test_no_points_and_one_point(tmp_path, data, points):
    header = HEADER.format(data=data).replace("WIDTH 2", f"WIDTH {points}").replace("POINTS 2", f"POINTS {points}")
    column = np.ones((points, 4), np.float32)
    packed = compress(column.T.tobytes())
    body = {
        "ascii": b"1 1 1 1\n" * points,
        "binary": column.tobytes(),
        "binary_compressed": struct.pack("<II", len(packed), column.nbytes) + packed,
    }[data]
    scan = read_pcd(write(tmp_path / "a.pcd", header, body))
    assert scan.points.shape == (points, 3)
    assert scan.intensity.shape == (points,)


CHANGES = [
    ("POINTS 2", "POINTS 1000000000000000000", "POINTS: found '1000000000000000000', expected a whole number"),
    ("POINTS 2", "POINTS 3", "POINTS: found 3, expected WIDTH x HEIGHT = 2 x 1"),
    ("POINTS 2", "POINTS -1", "POINTS: found '-1', expected a whole number"),
    ("POINTS 2", "POINTS", "POINTS: found 0 values, expected one whole number"),
    ("WIDTH 2", "WIDTH two", "WIDTH: found 'two', expected a whole number"),
    ("SIZE 4 4 4 4", "SIZE 4 4 4", "SIZE: found 3 values, expected 4"),
    ("SIZE 4 4 4 4", "SIZE 4 4 4 3", "SIZE of intensity: found 3, expected 4 or 8 for type F"),
    ("SIZE 4 4 4 4\n", "", "SIZE: found none, expected one per field"),
    ("TYPE F F F F", "TYPE F F F Q", "TYPE of intensity: found 'Q', expected F, I or U"),
    ("COUNT 1 1 1 1", "COUNT 1 1 1 x", "COUNT: found 'x', expected a whole number"),
    (
        "FIELDS x y z intensity",
        "FIELDS x y i j",
        "fields: expected x, y and z of one number per point, found x, y, i, j",
    ),
    ("FIELDS x y z intensity", "FIELDS x y z z", "FIELDS: found z twice"),
    ("COUNT 1 1 1 1", "COUNT 0 1 1 1", "expected x, y and z of one number per point"),
    ("VIEWPOINT 0 0 0 1 0 0 0", "VIEWPOINT 0 0", "VIEWPOINT: found '0 0', expected 7 numbers"),
    ("VIEWPOINT 0 0 0 1 0 0 0", "VIEWPOINT nan 0 0 1 0 0 0", "VIEWPOINT: pose: expected finite"),
    ("DATA binary", "DATA zipped", "DATA: found 'zipped', expected ascii, binary, binary_compressed"),
    ("HEIGHT 1", "HIGH 1", "PCD header: found 'HIGH 1', expected one of VERSION"),
    ("HEIGHT 1", "HEIGHT 1\nHEIGHT 1", "found HEIGHT twice"),
    ("DATA binary\n", "", "no line DATA"),
]


@pytest.mark.parametrize(("old", "new", "message"), CHANGES)
def test_bad_headers_name_the_field(tmp_path, old, new, message):
    header = HEADER.format(data="binary").replace(old, new)
    file = write(tmp_path / "bad.pcd", header, bodies()["binary"])
    with pytest.raises(InputError) as caught:
        read_pcd(file)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


BAD_BODIES = [
    ("ascii", b"1 2 3 4\n", "found 1 rows, expected 2"),
    ("ascii", b"1 2 3 4\n1 2 3        \n", "requires 4 columns but 3 were found at row 2"),
    ("ascii", b"1 2 3 4\n5 6 7 eight\n", "could not convert string 'eight' to float32 at row 2, column 4"),
    ("ascii", b"1 2 3 4\n5 6 7 8\n9 9 9 9\n", "found 3 rows, expected 2"),
    ("ascii", b"1 2 3 4\n5 6 7 " + b"z" * 50, "could not convert string 'z{50}' to float32 at row 2, column 4"),
    ("binary", bytes(31), "found 31 bytes, expected 32"),
    ("binary", b"\x01" * 64, "found 64 bytes, expected 32 .* 32 are left over"),
    ("binary_compressed", b"", "found 0 bytes, expected 8"),
    ("binary_compressed", struct.pack("<II", 4, 99), "full size of 99 bytes, expected 32"),
    ("binary_compressed", struct.pack("<II", 40, 32) + bytes(3), "found 3 compressed bytes, expected 40"),
    ("binary_compressed", struct.pack("<II", 0, 32), "found damaged LZF compression, expected 32 bytes from it"),
    ("binary_compressed", struct.pack("<II", 6, 32) + b"\xff" * 6, "damaged LZF"),
    ("binary_compressed", struct.pack("<II", 6, 32) + b"\x04" + b"\x00" * 5, "damaged LZF"),
]


@pytest.mark.parametrize(("data", "body", "message"), BAD_BODIES)
def test_bad_data_says_found_and_expected(tmp_path, data, body, message):
    with pytest.raises(InputError, match=message):
        read_pcd(write(tmp_path / "bad.pcd", HEADER.format(data=data), body))


def test_whole_number_columns_take_no_fractions_and_no_overflow(tmp_path):
    header = HEADER.format(data="ascii").replace("SIZE 4 4 4 4", "SIZE 4 4 4 1").replace("F F F F", "F F F U")
    assert read_pcd(write(tmp_path / "a.pcd", header, b"1 2 3 7.0\n1 2 3 255\n")).intensity.tolist() == [7, 255]
    for word in ("1.5", "256", "-1", "nan"):
        with pytest.raises(InputError, match=f"could not convert string '{word}' to uint8 at row 2, column 4"):
            read_pcd(write(tmp_path / "a.pcd", header, f"1 2 3 7\n1 2 3 {word}\n".encode()))


@pytest.mark.parametrize("data", ["ascii", "binary", "binary_compressed"])
def test_promises_are_refused_before_memory_is_taken(tmp_path, data):
    header = HEADER.format(data=data).replace("WIDTH 2", "WIDTH 100000000").replace("POINTS 2", "POINTS 100000000")
    body = struct.pack("<II", 8, 1600000000) + bytes(8)
    file = write(tmp_path / "a.pcd", header, body)
    tracemalloc.start()
    with pytest.raises(InputError):
        read_pcd(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_empty_file(tmp_path):
    with pytest.raises(InputError, match="found an empty file"):
        read_pcd(write(tmp_path / "a.pcd", "", b""))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_files_give_a_scan_or_one_line(tmp_path_factory, data):
    kind = data.draw(st.sampled_from(["ascii", "binary", "binary_compressed"]))
    raw = HEADER.format(data=kind).encode() + bodies()[kind]
    file = tmp_path_factory.getbasetemp() / "damaged.pcd"
    file.write_bytes(data.draw(damaged(raw)))
    reads_or_refuses(read_pcd, file)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=2000), st.lists(st.sampled_from([b"abc", b"\0" * 300, b"xyzxyz"])).map(b"".join)))
def test_lzf_unpacks_what_the_reference_library_packs(data):
    target = np.empty(len(data), np.uint8)
    assert lzf.decompress(np.frombuffer(compress(data), np.uint8), target) == len(data)
    assert target.tobytes() == data


def test_lzf_of_a_long_text():
    rng = np.random.default_rng(0)
    data = np.repeat(rng.integers(0, 40, 4000).astype(np.uint8), rng.integers(1, 9, 4000)).tobytes()
    packed = np.frombuffer(compress(data), np.uint8)
    assert len(packed) < 0.65 * len(data)
    target = np.empty(len(data), np.uint8)
    assert lzf.decompress(packed, target) == len(data)
    assert target.tobytes() == data


def test_zeros_after_the_points_are_passed_over_quickly(tmp_path):
    path = write(tmp_path / "a.pcd", HEADER.format(data="binary"), bodies()["binary"] + bytes(100 << 20))
    with measured():
        assert len(read_pcd(path)) == 2


def test_text_takes_little_more_memory_than_its_numbers(tmp_path):
    """Words of one character, which as Python objects would take forty times the size of the file."""
    header = HEADER.format(data="ascii").replace("WIDTH 2", "WIDTH 1000000").replace("POINTS 2", "POINTS 1000000")
    path = write(tmp_path / "a.pcd", header, b"1 2 3 4\n" * 1_000_000)
    with measured() as peak:
        scan = read_pcd(path)
    assert len(scan) == 1_000_000
    assert (scan.points == [1, 2, 3]).all()
    assert peak.bytes < 15 * path.stat().st_size


@pytest.mark.parametrize("data", ["ascii", "binary"])
def test_zero_width_and_height_leave_the_count_to_points(tmp_path, data):
    """PCL reads such files; its header parser takes POINTS where WIDTH and HEIGHT are zero."""
    header = "VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH 0\nHEIGHT 0\nPOINTS 2\n"
    points = np.array([[1, 2, 3], [4, 5, 6]], "<f4")
    body = points.tobytes() if data == "binary" else b"1 2 3\n4 5 6\n"
    (tmp_path / "a.pcd").write_bytes(f"{header}DATA {data}\n".encode() + body)
    np.testing.assert_array_equal(roadbed.open(tmp_path / "a.pcd")[0].points, points)


def test_raw_characters_in_ascii_data_are_left_out_with_a_note(tmp_path):
    """Writers that stream an unsigned char print the character itself, which may be a space or a line end."""
    header = "VERSION 0.7\nFIELDS x y z label ring\nSIZE 4 4 4 1 2\nTYPE F F F U U\nWIDTH 4\nPOINTS 4\nDATA ascii\n"
    rows = [b"%d 2 3 %s %d\n" % (k, bytes([character]), k + 7) for k, character in enumerate(b"\xc8 \nA")]
    (tmp_path / "a.pcd").write_bytes(header.encode() + b"".join(rows))
    scan = roadbed.open(tmp_path / "a.pcd")[0]
    assert scan.points[:, 0].tolist() == [0, 1, 2, 3]
    assert scan.ring.tolist() == [7, 8, 9, 10]
    assert "label" not in scan.channels
    assert scan.diagnostics == ("field label left out: found raw characters, expected numbers",)
