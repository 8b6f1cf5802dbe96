# SPDX-License-Identifier: Apache-2.0
"""Bags that say what is not so about their types, their index and their messages."""

import sqlite3
from contextlib import suppress

import pytest

import roadbed
from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from tests.resident import measured
from tests.sources.bags.bag_files import Messages, cloud_bytes, drive_records, write_bag


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("message_count: 3", "message_count: many"),
        ("message_count: 3", "message_count: -1"),
        ("message_count: 3", "message_count: 1.5"),
        ("message_count: 3", "message_count: 99999999999999999999999"),
        ("message_count: 20", "message_count: [20]"),
        ("nanoseconds: 319999999", "nanoseconds: long"),
        ("nanoseconds_since_epoch: 99990000000", "nanoseconds_since_epoch: null"),
        ("- drive.mcap", "- 7"),
        ("- drive.mcap", "- drive.mcap\n  - drive.mcap"),
        ("name: /points", "name: [1]"),
        ("type: sensor_msgs/msg/PointCloud2", "type: {a: b}"),
        ("version: 9", "version: nine"),
        ("storage_identifier: mcap", "storage_identifier: [mcap]"),
        ("compression_mode: ''", "compression_mode: 5"),
        ("offered_qos_profiles: []", "offered_qos_profiles: '&a [*a, *a]'"),
        ("offered_qos_profiles: []", "offered_qos_profiles: [[[1]]]"),
        ("rosbag2_bagfile_information:", "x:"),
    ],
)
def test_metadata_of_the_wrong_types(tmp_path, old, new):
    messages = Messages(False)
    path = write_bag(tmp_path, "mcap", messages, sorted(drive_records(messages), key=lambda r: r[1]))
    metadata = (path / "metadata.yaml").read_text()
    assert old in metadata
    (path / "metadata.yaml").write_text(metadata.replace(old, new))
    with pytest.raises(InputError) as caught:
        list(roadbed.open(path))
    assert "\n" not in str(caught.value)


def test_an_index_that_is_read_over_and_over(tmp_path):
    """Each chunk record may point to the same index: a file of 1 MB would give gigabytes of entries."""
    messages = Messages(True)
    records = [("/points", 1 + 1e-3 * k, messages.cloud(1.0, cloud_bytes(0, 0), 0)) for k in range(1000)]
    raw = write_bag(tmp_path, "ros1", messages, records).read_bytes()
    place = raw.index(b"chunk_count=") + len(b"chunk_count=")
    info = raw.rindex(b"\x04\x00\x00\x00op=\x06") - 200
    start = next(k for k in range(info, len(raw)) if _is_chunk_info(raw, k))
    many = bytearray(raw[:start] + raw[start:] * 1000)
    many[place : place + 4] = (1000).to_bytes(4, "little")
    (tmp_path / "many.bag").write_bytes(many)
    with measured() as peak, pytest.raises(InputError, match=r"index: found .* entries, more than the file has bytes"):
        roadbed.open(tmp_path / "many.bag")
    assert peak.bytes < 100 << 20


def _is_chunk_info(raw: bytes, place: int) -> bool:
    length = int.from_bytes(raw[place : place + 4], "little")
    return b"op=\x06" in raw[place + 4 : place + 4 + length] and length < 200


def test_definitions_in_a_bag_are_not_believed(tmp_path):
    """A bag that redefines a standard message: its own definition would read nonsense, or for ever."""
    messages = Messages(True)
    records = [("/points", 1, messages.cloud(1.0, cloud_bytes(3), 4))]
    raw = write_bag(tmp_path, "ros1", messages, records).read_bytes()
    assert raw.count(b"uint32 height") == 2
    (tmp_path / "own.bag").write_bytes(raw.replace(b"uint32 height", b"string height"))
    assert roadbed.open(tmp_path / "own.bag")[0].points[0, 0] == 3


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE topics SET name = NULL WHERE id = 1",
        "UPDATE topics SET name = 7",
        "UPDATE topics SET type = x'00'",
        "UPDATE messages SET timestamp = 'noon'",
        "UPDATE messages SET timestamp = NULL",
        "UPDATE messages SET data = NULL",
        "UPDATE messages SET data = 'text'",
        "UPDATE messages SET topic_id = 'one'",
        "UPDATE topics SET offered_qos_profiles = 7",
        "CREATE VIEW endless AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n",
    ],
)
def test_databases_with_values_of_other_types_give_scans_or_one_line(tmp_path, change):
    messages = Messages(False)
    path = write_bag(tmp_path, "sqlite3", messages, sorted(drive_records(messages), key=lambda r: r[1]))
    (file,) = path.glob("*.db3")
    with sqlite3.connect(file) as database:
        for table in ("topics", "messages"):  # as a damaged file has it: without the constraints of the schema
            rows = database.execute(f"SELECT * FROM {table}").fetchall()
            names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            database.execute(f"DROP TABLE {table}")
            database.execute(f"CREATE TABLE {table} ({', '.join(names)})")
            database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})", rows)
        database.execute(change)
    with measured(hang_guard_s=600), suppress(InputError):
        for scan in roadbed.open(file):
            assert isinstance(scan, Scan)
