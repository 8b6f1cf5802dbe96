# SPDX-License-Identifier: Apache-2.0
"""Small files that claim or unpack to a lot are refused with one line, before the memory is taken."""

import bz2
import io
import struct
import zipfile
import zlib
from functools import cache
from pathlib import Path

import laspy
import lz4.frame
import numpy as np
import pyarrow as arrow
import pytest
from pyarrow import feather
from rosbags.rosbag2.storage_mcap import zstd

import roadbed
from roadbed.core.errors import InputError
from roadbed.sources.datasets.argoverse import read_sweep
from roadbed.sources.formats.las import read_las
from roadbed.sources.formats.npy import read_npz
from roadbed.sources.formats.pcd import read_pcd
from tests.resident import measured
from tests.sources.bags.bag_files import Messages, cloud_bytes, write_bag

MOST_MEMORY = 200 << 20


def refused(open_it, path, message: str) -> None:
    """One line, and the memory of a small scan."""
    with measured() as peak, pytest.raises(InputError, match=message) as caught:
        open_it(path)
    assert "\n" not in str(caught.value)
    assert peak.bytes < MOST_MEMORY


def read_all(path) -> None:
    for _ in roadbed.open(path):
        pass


@cache
def bz2_bomb() -> bytes:
    return bz2.compress(bytes(1 << 28))


def zip_with(path: Path, method: int, packed: bytes, claimed: int) -> Path:
    """An archive with one member, whose compressed bytes and claimed size are given as they are."""
    name = b"points.npy"
    sizes = struct.pack("<IIIHH", 0, len(packed), claimed, len(name), 0)
    local = struct.pack("<4sHHHHH", b"PK\3\4", 20, 0, method, 0, 0) + sizes + name
    central = struct.pack("<4sHHHHHH", b"PK\1\2", 20, 20, 0, method, 0, 0) + sizes
    central += struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(central), len(local) + len(packed), 0)
    path.write_bytes(local + packed + central + end)
    return path


@pytest.mark.parametrize("claimed", [1000, 1 << 28])
def test_npz_of_another_compression_is_refused_unopened(tmp_path, claimed):
    path = zip_with(tmp_path / "a.npz", zipfile.ZIP_BZIP2, bz2_bomb(), claimed)
    refused(read_npz, path, r"a\.npz: points: found compression method 12, expected 0 \(stored\) or 8 \(deflated\)")


def test_npz_that_claims_too_much_in_one_member_or_in_all(tmp_path):
    packed = zlib.compress(bytes(1 << 28), 1)[2:-4]
    path = zip_with(tmp_path / "a.npz", zipfile.ZIP_DEFLATED, packed, 1 << 28)
    refused(read_npz, path, "promises to unpack to 268435456 bytes, expected at most")
    path = zip_with(tmp_path / "a.npz", zipfile.ZIP_DEFLATED, packed, 1000)
    refused(read_npz, path, "points")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(8):
            archive.writestr(f"channel.{number}.npy", bytes(16 << 20))
    (tmp_path / "b.npz").write_bytes(stream.getvalue())
    refused(read_npz, tmp_path / "b.npz", "promises to unpack to")


def laz_file(path: Path, point_format: int = 6) -> bytearray:
    header = laspy.LasHeader(point_format=point_format, version="1.4")
    header.scales = np.full(3, 0.001)
    cloud = laspy.LasData(header)
    cloud.x, cloud.y, cloud.z = np.random.default_rng(0).uniform(-50, 50, (60, 3)).T
    cloud.write(path)
    return bytearray(path.read_bytes())


@pytest.mark.parametrize("layer", range(9))
@pytest.mark.parametrize("size", [0xFFFFFFF0, 0x10000000])
def test_laz_with_damaged_layer_sizes(tmp_path, layer, size):
    raw = laz_file(tmp_path / "a.laz")
    (points_at,) = struct.unpack_from("<I", raw, 96)
    struct.pack_into("<I", raw, points_at + 8 + 30 + 4 + 4 * layer, size)
    (tmp_path / "a.laz").write_bytes(raw)
    refused(read_las, tmp_path / "a.laz", "LAZ chunk 0: found layers of")


def test_laz_that_claims_more_points_than_its_bytes_can_hold(tmp_path):
    raw = laz_file(tmp_path / "a.laz", point_format=3)
    struct.pack_into("<I", raw, 107, 2**31)  # legacy number of points
    struct.pack_into("<Q", raw, 247, 2**31)
    (tmp_path / "a.laz").write_bytes(raw)
    refused(read_las, tmp_path / "a.laz", "promises to unpack to .* expected at most")


def ros1_bag(folder: Path, compression: str, packed: bytes) -> Path:
    """A bag whose one chunk is exchanged for `packed`."""
    messages = Messages(True)
    raw = write_bag(folder, "ros1", messages, [("/points", 1, messages.cloud(1.0, cloud_bytes(0), 4))]).read_bytes()
    chunk = raw.index(b"compression=none")
    header_start = raw.rindex(b"op=\x05", 0, chunk + 40) - 4
    header_start = min(header_start, chunk - 4)
    while True:  # the header's fields stand in an order of the writer's choice
        (length,) = struct.unpack_from("<I", raw, header_start - 4)
        if header_start + length <= len(raw) and length < 200:
            break
        header_start -= 1
    (size,) = struct.unpack_from("<I", raw, header_start + length)
    body_at = header_start + length + 4
    header = raw[header_start : header_start + length].replace(
        struct.pack("<I", 16) + b"compression=none",
        struct.pack("<I", 12 + len(compression)) + b"compression=" + compression.encode(),
    )
    record = struct.pack("<I", len(header)) + header + struct.pack("<I", len(packed)) + packed
    moved = len(record) - (body_at + size - header_start + 4)
    raw = bytearray(raw[: header_start - 4] + record + raw[body_at + size :])
    place = raw.index(b"index_pos=") + len(b"index_pos=")
    struct.pack_into("<Q", raw, place, struct.unpack_from("<Q", raw, place)[0] + moved)
    path = folder / "bomb.bag"
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize(
    ("compression", "pack"), [("bz2", bz2_bomb), ("lz4", lambda: lz4.frame.compress(bytes(1 << 28)))]
)
def test_ros1_chunks(tmp_path, compression, pack):
    path = ros1_bag(tmp_path, compression, pack())
    refused(read_all, path, r"bomb\.bag: .*unpacks to more than \d+ bytes")


def mcap_file(folder: Path, compression: str, packed: bytes, claimed: int) -> Path:
    """An unindexed MCAP file of a header and one chunk."""

    def text(value: str) -> bytes:
        return struct.pack("<I", len(value)) + value.encode()

    def record(kind: int, body: bytes) -> bytes:
        return struct.pack("<BQ", kind, len(body)) + body

    chunk = struct.pack("<QQQI", 0, 2**62, claimed, 0) + text(compression) + struct.pack("<Q", len(packed)) + packed
    magic = b"\x89MCAP0\r\n"
    path = folder / "bomb.mcap"
    path.write_bytes(
        magic + record(1, text("ros2") + text("")) + record(6, chunk) + record(2, struct.pack("<QQI", 0, 0, 0)) + magic
    )
    return path


@pytest.mark.parametrize(("compression", "pack"), [("zstd", zstd.compress), ("lz4", lz4.frame.compress)])
@pytest.mark.parametrize("claimed", [1000, 1 << 28])
def test_mcap_chunks(tmp_path, compression, pack, claimed):
    path = mcap_file(tmp_path, compression, pack(bytes(1 << 28)), claimed)
    refused(read_all, path, r"bomb\.mcap: .*unpacks to more than \d+ bytes")


def test_chunks_of_countless_records(tmp_path):
    """Small records unpack fast and are gone through slowly."""
    record = struct.pack("<BQ", 5, 32) + bytes(32)
    body = record * ((31 << 20) // len(record))
    path = mcap_file(tmp_path, "zstd", zstd.compress(body), len(body))
    refused(read_all, path, r"chunk: found \d+ records in \d+ bytes, expected messages")
    connection = struct.pack("<II", 8, 4) + b"op=\x07" + struct.pack("<I", 0)
    path = ros1_bag(tmp_path, "lz4", lz4.frame.compress(connection * 1_000_000))
    refused(read_all, path, r"chunk: found \d+ connections in a row, expected messages")


@pytest.mark.parametrize("mode", ["file", "message"])
def test_ros2_bags_compressed_as_a_whole_or_by_message(tmp_path, mode):
    messages = Messages(False)
    path = write_bag(tmp_path, "sqlite3", messages, [("/points", 1, messages.cloud(1.0, cloud_bytes(0), 4))])
    (storage,) = path.glob("*.db3")
    metadata = (path / "metadata.yaml").read_text()
    metadata = metadata.replace("compression_mode: ''", f"compression_mode: {mode}")
    (path / "metadata.yaml").write_text(metadata.replace("compression_format: ''", "compression_format: zstd"))
    assert f"compression_mode: {mode}" in metadata
    bomb = zstd.compress(bytes(1 << 30))
    if mode == "file":
        storage.write_bytes(bomb)
    else:
        import sqlite3

        with sqlite3.connect(storage) as database:
            database.execute("UPDATE messages SET data = ?", (bomb,))
    refused(read_all, path, r"unpacks to more than \d+ bytes")


def test_a_database_cannot_make_rows_up(tmp_path):
    """A view or a computed column gives gigabytes from a file of a few kilobytes."""
    import sqlite3

    messages = Messages(False)
    path = write_bag(tmp_path, "sqlite3", messages, [("/points", 1, messages.cloud(1.0, cloud_bytes(0), 4))])
    (storage,) = path.glob("*.db3")
    with sqlite3.connect(storage) as database:
        database.execute("ALTER TABLE messages RENAME TO stored")
        database.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER, "
            "data BLOB GENERATED ALWAYS AS (zeroblob(1000000000)))"
        )
        database.execute("INSERT INTO messages (id, topic_id, timestamp) SELECT id, topic_id, timestamp FROM stored")
        database.execute("DROP TABLE stored")
    refused(read_all, path, "found .* expected plain tables")


def pcd_header(points: int, data: str, counts: str = "1 1 1", fields: str = "x y z") -> bytes:
    number = len(fields.split())
    return (
        f"FIELDS {fields}\nSIZE {'4 ' * number}\nTYPE {'F ' * number}\nCOUNT {counts}\n"
        f"WIDTH {points}\nHEIGHT 1\nPOINTS {points}\nDATA {data}\n"
    ).encode()


def test_pcd_compressed(tmp_path):
    points = 40_000_000
    size = 12 * points
    copies = (size - 1) // 264
    packed = b"\x00\x00" + b"\xe0\xff\x00" * copies  # one zero, then copies of 264
    last = size - 1 - 264 * copies
    packed += b"\x00\x00" * last
    path = tmp_path / "a.pcd"
    path.write_bytes(pcd_header(points, "binary_compressed") + struct.pack("<II", len(packed), size) + packed)
    refused(read_pcd, path, rf"promises to unpack to {size} bytes, expected at most")


def test_pcd_ascii_with_many_columns(tmp_path):
    names = " ".join(f"f{k}" for k in range(1021))
    path = tmp_path / "a.pcd"
    counts = "1 1 1" + " 65536" * 1021
    path.write_bytes(pcd_header(1, "ascii", counts, f"x y z {names}") + b"1 2 3\n")
    refused(read_pcd, path, "data: found 6 characters, expected rows of 66912259 numbers")
    path.write_bytes(pcd_header(0, "ascii", counts, f"x y z {names}"))
    with measured() as peak:
        assert len(read_pcd(path)) == 0
    assert peak.bytes < MOST_MEMORY


def test_many_fields_over_the_same_bytes_of_a_cloud(tmp_path):
    messages = Messages(False)
    layout = [("x", 7, 1, 0), ("y", 7, 1, 4), ("z", 7, 1, 8)] + [(f"f{k}", 8, 1, 0) for k in range(1000)]
    cloud = messages.cloud(1.0, bytes(12 * 50_000), 50_000, layout=layout, step=12)
    path = write_bag(tmp_path, "mcap", messages, [("/points", 1, cloud)])
    refused(read_all, path, "promises to unpack to 400600000 bytes, expected at most")


def test_a_feather_file_says_how_much_it_unpacks_to(tmp_path):
    honest, bomb = tmp_path / "1.feather", tmp_path / "2.feather"
    for path, rows in ((honest, 1000), (bomb, 40_000_000)):
        zeros = arrow.array(np.zeros(rows, np.float32))
        feather.write_feather(arrow.table(dict.fromkeys("xyz", zeros)), str(path), compression="zstd")
    assert len(read_sweep(honest)) == 1000
    refused(read_sweep, bomb, "feather file: promises to unpack to")
    understated = bomb.read_bytes().replace(struct.pack("<q", 4 * 65536), struct.pack("<q", 8))
    assert understated != bomb.read_bytes()
    bomb.write_bytes(understated)
    refused(read_sweep, bomb, "feather file")
    nothing = tmp_path / "3.feather"
    feather.write_feather(arrow.table({axis: arrow.nulls(100_000_000) for axis in "xyz"}), str(nothing))
    refused(read_sweep, nothing, "feather file: promises to unpack to 2400000000 bytes")


def test_an_empty_organised_scan_still_reads(tmp_path):
    """A covered sensor gives nothing but zeros, which compress by any factor."""
    points = np.zeros((128 * 2048, 3), np.float32)
    np.savez_compressed(tmp_path / "a.npz", points=points)
    assert len(read_npz(tmp_path / "a.npz")) == len(points)
    messages = Messages(True)
    data = bytes(16 * len(points))
    layout = [("x", 7, 1, 0), ("y", 7, 1, 4), ("z", 7, 1, 8)]
    from rosbags.rosbag1 import Writer

    for compression in ("BZ2", "LZ4"):
        path = tmp_path / f"{compression}.bag"
        writer = Writer(path)
        writer.set_compression(Writer.CompressionFormat[compression])
        with writer:
            link = writer.add_connection("/points", "sensor_msgs/msg/PointCloud2", typestore=messages.store)
            for second in range(3):
                cloud = messages.cloud(float(second), data, 2048, 128, layout, 16)
                raw = messages.store.serialize_ros1(cloud, cloud.__msgtype__)
                writer.write(link, second * 10**9, raw)
        assert path.stat().st_size < len(data) / 50
        assert [len(scan) for scan in roadbed.open(path)] == [len(points)] * 3
