# SPDX-License-Identifier: Apache-2.0
"""Clouds of every file format, written field by field, so that each part can be wrong on its own."""

import io
import json
import struct
import zipfile
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.damage import damage
from tests.sources.formats.compressed import compress

_DTYPES = ("<f4", "<f8", "<i1", "<u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8")
_NAMES = ("intensity", "ring", "t", "time", "timestamp", "classes", "_", "rgb", "x", "Z", "", "sensor_index", "normal")
_ODD_COUNTS = (0, 2, 3, 1000, 65536, 65537, 10**9, 2**40, 2**63, -1)


def odd(rng: Random, value: Any, *others: Any, chance: float = 0.1) -> Any:
    """Mostly the value, now and then one of the others."""
    return rng.choice(others) if rng.random() < chance else value


def layout(rng: Random) -> list[tuple[str, np.dtype, int]]:
    """Name, type and count of the fields of a point."""
    fields = [(axis, np.dtype(rng.choice(("<f4", "<f8"))), 1) for axis in "xyz"]
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        fields.append((rng.choice(_NAMES), np.dtype(rng.choice(_DTYPES)), rng.choice((1, 1, 1, 3))))
    if rng.random() < 0.2:
        rng.shuffle(fields)
    return fields


def numbers(rng: Random, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    raw = np.frombuffer(rng.randbytes(dtype.itemsize * int(np.prod(shape))), dtype).reshape(shape)
    if rng.random() < 0.5 and dtype.kind == "f":
        return np.round(np.random.default_rng(rng.getrandbits(32)).normal(0, 20, shape), 3).astype(dtype)
    return raw


def pcd(rng: Random) -> bytes:
    fields, points = layout(rng), rng.choice((0, 1, 2, 5, 20))
    kind = odd(rng, rng.choice(("ascii", "binary", "binary_compressed")), "BINARY", "gzip", "")
    columns = [numbers(rng, dtype, (points, count)) for _, dtype, count in fields]
    if kind == "ascii":
        rows = zip(*(column.tolist() for column in columns)) if columns else ()
        body = "\n".join(" ".join(str(value) for part in row for value in part) for row in rows).encode()
    elif kind == "binary_compressed":
        flat = b"".join(column.tobytes() for column in columns)
        packed = compress(flat)
        sizes = odd(rng, len(packed), 0, 2**32 - 1), odd(rng, len(flat), 2**32 - 1, 0, 10**6)
        body = struct.pack("<II", *sizes) + packed
    else:
        body = b"".join(column[k].tobytes() for k in range(points) for column in columns)
    width = odd(rng, points, *_ODD_COUNTS)
    lines = [
        "# .PCD v0.7",
        f"VERSION {odd(rng, '0.7', '.7', 'x')}",
        "FIELDS " + " ".join(name for name, _, _ in fields),
        "SIZE " + " ".join(str(odd(rng, dtype.itemsize, 0, 3, 16, -4, chance=0.02)) for _, dtype, _ in fields),
        "TYPE " + " ".join(odd(rng, dtype.kind.upper(), "X", "f", chance=0.02) for _, dtype, _ in fields),
        "COUNT " + " ".join(str(odd(rng, count, *_ODD_COUNTS, chance=0.02)) for _, _, count in fields),
        f"WIDTH {width}",
        f"HEIGHT {odd(rng, 1, *_ODD_COUNTS, chance=0.03)}",
        "VIEWPOINT " + odd(rng, "0 0 0 1 0 0 0", "1 2 3 0 0 0 1", "0 0 0 0 0 0 0", "nan 0 0 1 0 0 0", "1e30 0 0 1"),
        f"POINTS {odd(rng, width, *_ODD_COUNTS, chance=0.03)}",
        f"DATA {kind}",
    ]
    if rng.random() < 0.1:
        del lines[rng.randrange(len(lines))]
    return "\n".join(lines).encode() + b"\n" + body + (b"\n" if kind == "ascii" else b"")


_PLY_TYPES = {"<f4": "float", "<f8": "double", "<i1": "char", "<u1": "uchar", "<i2": "short", "<u2": "ushort"}
_PLY_TYPES |= {"<i4": "int", "<u4": "uint", "<i8": "int64", "<u8": "uint64"}


def ply(rng: Random) -> bytes:
    kind = odd(rng, rng.choice(("ascii", "binary_little_endian", "binary_big_endian")), "binary")
    order = ">" if kind == "binary_big_endian" else "<"
    points = rng.choice((0, 1, 3, 10))
    fields = [(name or "q", dtype) for name, dtype, _ in layout(rng)]
    columns = [numbers(rng, dtype, (points,)) for _, dtype in fields]
    vertex = [f"element vertex {odd(rng, points, *_ODD_COUNTS)}"]
    for name, dtype in fields:
        spelled = _PLY_TYPES.get(dtype.newbyteorder("<").str.replace("|", "<"), "float")
        vertex.append(f"property {odd(rng, spelled, 'half', 'list uchar int', chance=0.03)} {name}")
    faces = [f"element face {odd(rng, 2, *_ODD_COUNTS)}"]
    faces += [f"property list {odd(rng, 'uchar', 'char', 'float', 'uint64')} int vertex_indices"]
    if kind == "ascii":
        vertex_rows = "".join(" ".join(map(str, row)) + "\n" for row in zip(*(c.tolist() for c in columns))).encode()
        face_rows = b"3 0 1 2\n1 2\n"
    else:
        columns = [column.astype(column.dtype.newbyteorder(order)) for column in columns]
        vertex_rows = b"".join(column[k].tobytes() for k in range(points) for column in columns)
        face_rows = b"\3" + np.arange(3, dtype=order + "i4").tobytes() + b"\1" + bytes(4)
    parts = [(vertex, vertex_rows), (faces, face_rows)]
    if rng.random() < 0.3:
        parts.reverse()
    header = ["ply", f"format {kind} 1.0", "comment x", *parts[0][0], *parts[1][0], "end_header"]
    return "\n".join(header).encode() + b"\n" + parts[0][1] + parts[1][1]


_DESCRIPTIONS = ("'<f4'", "'<f8'", "'>f4'", "'<i2'", "'|u1'", "'<f2'", "'<f16'", "'<c8'", "'|S4'", "'<U2'", "'<M8[s]'")
_DESCRIPTIONS += ("'|O'", "'|V8'", "'|S0'", "'|b1'", "'x'", "[]", "{}", "'<m8'", "'f4,f4,f4'", "('<f4', (2,))")


def npy(rng: Random) -> bytes:
    """An array whose header and data go together, or not."""
    if rng.random() < 0.4:
        fields = [(name or "q", dtype.str, (count,)) for name, dtype, count in layout(rng)]
        description = str([(name, kind) if count == (1,) else (name, kind, count) for name, kind, count in fields])
        shape = odd(rng, "(4,)", "()", "(4, 1)", "(-1,)", "(True,)", chance=0.2)
    else:
        description = odd(rng, "'<f4'", *_DESCRIPTIONS, chance=0.6)
        sizes = rng.choice(((4, 3), (0, 3), (4, 5), (2, 2, 4), (3, 8), (4,), (), (1, 1, 1, 3)))
        shape = odd(rng, sizes, (0, 2**63), (2**62, 4), (True, 3), (-4, 3), (1,) * 70 + (3,), (4, 3.0), [4, 3])
    header = f"{{'descr': {description}, 'fortran_order': {odd(rng, 'False', 'True', '1')}, 'shape': {shape}, }}"
    header = odd(rng, header, header[:-1], "{" * 2000, "None", header + "x" * 9000, chance=0.05)
    encoded = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    version = rng.choice((1, 1, 1, 2, 3, 9))
    length = len(encoded).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + encoded + rng.randbytes(rng.choice((0, 48, 96, 400)))


_MEMBERS = ("points", "xyz", "arr_0", "x", "y", "z", "intensity", "ring", "point_time", "classes", "time", "sensor")
_MEMBERS += ("T_world_sensor", "T_vehicle_sensor", "channel.a", "mount_names", "mount_poses", "channel.sensor_index")


def npz(rng: Random) -> bytes:
    """An archive with whole and odd members, its sums right."""
    good = {
        "points": np.round(np.random.default_rng(rng.getrandbits(32)).normal(0, 20, (4, 3)), 2),
        "intensity": np.arange(4.0),
        "time": np.float64(odd(rng, 1e9, 0.0, np.nan)),
        "sensor": np.array("front"),
        "T_world_sensor": np.eye(4),
        "mount_names": np.array(["a", "b"]),
        "mount_poses": np.stack([np.eye(4)] * 2),
        "channel.sensor_index": np.zeros(4, np.uint8),
    }
    stream = io.BytesIO()
    method = odd(rng, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)), zipfile.ZIP_BZIP2)
    names = {"points", *rng.sample(sorted(good), rng.randint(0, len(good)))} - {odd(rng, "", "points")}
    if "mount_names" in names and rng.random() < 0.9:
        names |= {"mount_poses", "channel.sensor_index"}
    names |= {*rng.sample(_MEMBERS, odd(rng, 0, 1, 2, chance=0.3))}
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name in sorted(names):
            content = npy(rng)
            if name in good and rng.random() < 0.95:
                member = io.BytesIO()
                np.save(member, good[name])
                content = damage(rng, member.getvalue()) if rng.random() < 0.1 else member.getvalue()
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def pointcloud2(rng: Random) -> bytes:
    """A message as JSON: its numbers, and its data in hexadecimal."""
    fields, offset = [], 0
    for name, dtype, count in layout(rng):
        datatype = _DTYPES.index(dtype.newbyteorder("<").str.replace("|", "<")) if dtype.itemsize < 8 else 1
        fields.append(
            {
                "name": name,
                "offset": odd(rng, offset, 0, -1, 10**6, 2**31, chance=0.05),
                "datatype": odd(rng, 1 + datatype % 8, 0, 9, -1, 8, 7, chance=0.3),
                "count": odd(rng, count, 0, 2**31, -1, 1000, chance=0.05),
            }
        )
        offset += dtype.itemsize * count
    width, height = rng.choice((0, 1, 4)), rng.choice((1, 1, 2))
    step = offset + rng.choice((0, 0, 3))
    message = {
        "fields": fields * odd(rng, 1, 2, 500, chance=0.02),
        "width": odd(rng, width, *_ODD_COUNTS),
        "height": odd(rng, height, *_ODD_COUNTS, chance=0.05),
        "point_step": odd(rng, step, 0, -1, 1, 2**31, chance=0.05),
        "row_step": odd(rng, width * step, 0, 1, -1, 2**32, chance=0.1),
        "is_bigendian": rng.random() < 0.3,
        "data": rng.randbytes(width * height * step + rng.choice((0, 0, 1, -1 if width else 0))).hex(),
    }
    return json.dumps(message).encode()
