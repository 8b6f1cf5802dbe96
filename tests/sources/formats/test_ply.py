# SPDX-License-Identifier: Apache-2.0
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roadbed
from roadbed.core.errors import InputError
from roadbed.sources.formats.ply import read_ply
from tests.sources.damage import damaged, reads_or_refuses

PROPERTIES = [("x", "f4", "float"), ("y", "f8", "double"), ("z", "f4", "float32"), ("scalar_Intensity", "u1", "uchar")]
PROPERTIES += [("id", "u4", "uint"), ("shift", "i2", "short")]
KINDS = ("ascii", "binary_little_endian", "binary_big_endian")


def vertices(count: int = 3) -> np.ndarray:
    table = np.zeros(count, [(name, dtype) for name, dtype, _ in PROPERTIES])
    for k, name in enumerate(table.dtype.names):
        table[name] = np.arange(count) * 10 + k
    table["shift"] *= -1
    return table


def ply(kind: str, table: np.ndarray, faces_first: bool = False) -> bytes:
    """A PLY file with a list element, which comes before or after the vertices."""
    order = ">" if kind.endswith("big_endian") else "<"
    header = ["ply", f"format {kind} 1.0", "comment made by hand"]
    vertex_lines = [
        f"element vertex {len(table)}",
        *(f"property {ply_type} {name}" for name, _, ply_type in PROPERTIES),
    ]
    face_lines = ["element face 2", "property uchar flag", "property list uchar int vertex_indices"]
    header += face_lines + vertex_lines if faces_first else vertex_lines + face_lines
    header.append("end_header")
    if kind == "ascii":
        rows = "".join(" ".join(str(v) for v in row) + "\n" for row in table.tolist()).encode()
        faces = b"1 3 0 1 2\n0 1 2\n"
    else:
        rows = table.astype(table.dtype.newbyteorder(order)).tobytes()
        faces = b"\x01\x03" + np.array([0, 1, 2], order + "i4").tobytes() + b"\x00\x01" + np.array([2], "i4").tobytes()
    return "\n".join(header).encode() + b"\n" + (faces + rows if faces_first else rows + faces)


@pytest.mark.parametrize("faces_first", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_every_kind_holds_the_same_vertices(tmp_path, kind, faces_first, count):
    table = vertices(count)
    (tmp_path / "a.ply").write_bytes(ply(kind, table, faces_first))
    scan = roadbed.open(tmp_path / "a.ply")[0]
    for axis, name in enumerate("xyz"):
        np.testing.assert_array_equal(scan.points[:, axis], table[name])
    np.testing.assert_array_equal(scan.intensity, table["scalar_Intensity"])
    for name in ("id", "shift"):
        np.testing.assert_array_equal(scan.channels[name], table[name])
        assert scan.channels[name].dtype == table[name].dtype


@pytest.mark.parametrize("kind", KINDS[1:])
def test_long_lists_before_the_vertices_are_skipped_in_the_files_byte_order(tmp_path, kind):
    """A length of two bytes, 258 = 0x0102, is another number when they are read the wrong way round."""
    order = ">" if kind.endswith("big_endian") else "<"
    lists = np.array([258], order + "i2").tobytes() + np.zeros(258, "u1").tobytes()
    text = f"ply\nformat {kind} 1.0\nelement strip 1\nproperty list short uchar v\n"
    vertex = "element vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
    (tmp_path / "a.ply").write_bytes((text + vertex).encode() + lists + np.array([1, 2, 3], order + "f4").tobytes())
    np.testing.assert_array_equal(read_ply(tmp_path / "a.ply").points, [[1, 2, 3]])


def test_a_list_of_negative_length_is_refused(tmp_path):
    """Or it would be read again from before where it began; a length without a sign may be as large."""
    text = "ply\nformat binary_little_endian 1.0\nelement strip 1\nproperty list char double v\n"
    vertex = "element vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
    (tmp_path / "a.ply").write_bytes((text + vertex).encode() + b"\xff" + bytes(40))
    with pytest.raises(InputError, match="element strip: found the end of the file, expected 1 rows"):
        read_ply(tmp_path / "a.ply")
    unsigned = text.replace("list char double", "list uchar uchar")
    (tmp_path / "a.ply").write_bytes((unsigned + vertex).encode() + b"\xff" + bytes(255) + bytes(12))
    np.testing.assert_array_equal(read_ply(tmp_path / "a.ply").points, np.zeros((1, 3)))


HEAD = "ply\nformat {} 1.0\nelement vertex {}\nproperty float x\nproperty float y\nproperty float z\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found an empty file"),
        ("plywood\n", "expected the line 'ply'"),
        ("ply\nformat ascii 1.0\n", "found no line 'end_header'"),
        ("ply\nformat utf8 1.0\nend_header\n", "found 'format utf8 1.0', expected format"),
        ("ply\nend_header\n", "found no format line"),
        ("ply\nformat ascii 1.0\nend_header\n", "found elements none, expected vertex"),
        ("ply\nformat ascii 1.0\nelement vertex -3\nend_header\n", "found 'element vertex -3', expected"),
        ("ply\nformat ascii 1.0\nproperty float x\nend_header\n", "found 'property float x'"),
        ("ply\nformat ascii 1.0\nelement vertex 1\nproperty real x\nend_header\n", "expected property TYPE NAME"),
        (HEAD.format("ascii", 1) + "property list uchar int i\nend_header\n1 2 3 0\n", "found a list property"),
        (HEAD.format("ascii", 1) + "property float x\nend_header\n1 2 3 0\n", "found a property twice"),
        (HEAD.format("ascii", 2) + "end_header\n1 2 3\n", "element vertex: found 1 rows, expected 2"),
        (HEAD.format("ascii", 1) + "end_header\n1 2\n", "requires 3 columns but 2 were found at row 1"),
        (HEAD.format("ascii", 1) + "end_header\n1 2 z\n", "could not convert string 'z' to float32 at row 1, column 3"),
        (HEAD.format("binary_little_endian", 2) + "end_header\n" + "a" * 23, "found 23 bytes, expected 24"),
        ("ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\n1\n", "expected x, y and z"),
    ],
)
def test_bad_files_say_found_and_expected(tmp_path, text, message):
    (tmp_path / "a.ply").write_text(text)
    with pytest.raises(InputError, match=message):
        read_ply(tmp_path / "a.ply")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("element", ["vertex 3", "face 2"])
def test_promises_are_refused_before_memory_is_taken(tmp_path, kind, element):
    raw = ply(kind, vertices(), faces_first=True).replace(
        element.encode(), element.split()[0].encode() + b" 9" + b"0" * 15
    )
    (tmp_path / "a.ply").write_bytes(raw)
    tracemalloc.start()
    with pytest.raises(InputError, match=r"9000000000000000 vertices|rows"):
        read_ply(tmp_path / "a.ply")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_files_give_a_scan_or_one_line(tmp_path_factory, data):
    file = tmp_path_factory.getbasetemp() / "damaged.ply"
    file.write_bytes(data.draw(damaged(ply(data.draw(st.sampled_from(KINDS)), vertices(), data.draw(st.booleans())))))
    reads_or_refuses(read_ply, file)
