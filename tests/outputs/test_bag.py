# SPDX-License-Identifier: Apache-2.0
"""A bag in, a bag out: the input is all there, Roadbed's topics stand beside it, and rosbags reads the result."""

import os
from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from rosbags.highlevel import AnyReader
from rosbags.rosbag1 import Writer as Writer1

from roadbed import Pipeline, Scan
from roadbed import open as open_source
from roadbed.core.errors import InputError, OutputError
from roadbed.outputs.bag import BagWriter, write_bag
from roadbed.sources.bags.message_types import message_types
from tests.disks import mounted
from tests.sources.bags.bag_files import Messages, cloud_bytes, drive_records
from tests.sources.bags.bag_files import write_bag as make_bag

CLOUDS = {"/roadbed/labelled", "/roadbed/ground", "/roadbed/obstacles", "/roadbed/surface"}


def recorded(folder, kind, scans=3, extra=()):
    messages = Messages(kind == "ros1")
    return make_bag(folder, kind, messages, [*drive_records(messages, scans), *extra])


def perceived(source):
    return Pipeline(occupancy=False).run(source)


def contents(path):
    """Messages by topic: (recording time, decoded)."""
    found: dict[str, list] = {}
    store = message_types(path.suffix == ".bag")
    with AnyReader([path], default_typestore=store) as reader:
        for link, stamp, raw in reader.messages():
            found.setdefault(link.topic, []).append((stamp, reader.deserialize(raw, link.msgtype)))
    return found


@pytest.mark.parametrize("kind", ["ros1", "sqlite3", "mcap"])
@pytest.mark.parametrize("name", ["out.bag", "out.mcap"])
def test_the_new_bag_holds_the_input_and_the_results(tmp_path, kind, name):
    source = open_source(recorded(tmp_path, kind))
    count, left_out = write_bag(tmp_path / name, source, perceived(source))
    assert (count, left_out) == (3, set())
    given, found = contents(tmp_path / ("drive.bag" if kind == "ros1" else "drive")), contents(tmp_path / name)
    for topic, messages in given.items():
        assert [stamp for stamp, _ in found[topic]] == [stamp for stamp, _ in messages]
    for (_, before), (_, after) in zip(given["/points"], found["/points"]):
        assert bytes(before.data) == bytes(after.data)
        assert before.header.frame_id == after.header.frame_id
    assert found.keys() >= CLOUDS | {"/tf", "/roadbed/elevation"}
    for topic in CLOUDS:
        assert [stamp for stamp, _ in found[topic]] == [stamp for stamp, _ in found["/points"]]
    labelled = found["/roadbed/labelled"][1][1]
    assert {"x", "intensity", "ring", "label", "height_above_ground"} <= {field.name for field in labelled.fields}
    assert "traversability" in found["/roadbed/elevation"][0][1].layers
    again = open_source(f"{tmp_path / name}?topic=/roadbed/labelled")
    assert len(again) == 3
    assert not list(tmp_path.glob(".roadbed*"))


def test_a_part_of_a_bag_and_scans_from_elsewhere(tmp_path):
    source = open_source(recorded(tmp_path, "mcap", 5))
    write_bag(tmp_path / "part.mcap", source[1:4:2], perceived(source[1:4:2]))
    found = contents(tmp_path / "part.mcap")
    assert len(found["/points"]) == 5  # the input is whole
    assert [stamp for stamp, _ in found["/roadbed/ground"]] == [found["/points"][k][0] for k in (1, 3)]
    scans = open_source("sim:city?sensor=vlp16&frames=1")
    write_bag(tmp_path / "sim.mcap", scans, perceived(scans))
    assert len(contents(tmp_path / "sim.mcap")["/roadbed/labelled"]) == 1


@pytest.mark.parametrize("time", [12.5, None])
def test_scans_are_recorded_at_their_own_time(tmp_path, time):
    scan = Scan(np.float32([[5, 0, -1.7], [6, 1, -1.7], [7, -1, -1.7]]), time=time)
    with BagWriter(tmp_path / "out.mcap") as bag:
        bag.add_scan(scan)
        bag.add(Pipeline(occupancy=False)(scan))
        bag.finish()
    stamps = {topic: stamp for topic, ((stamp, _),) in contents(tmp_path / "out.mcap").items()}
    assert {"/points", "/roadbed/labelled"} <= set(stamps)
    assert set(stamps.values()) == {0 if time is None else 12_500_000_000}


def test_nothing_is_replaced_unasked_and_nothing_half_written(tmp_path):
    path = recorded(tmp_path, "ros1")
    source = open_source(path)
    with pytest.raises(OutputError, match="is read"):
        write_bag(path, source, [], force=True)
    for name, content in (("mine.mcap", b"mine"), ("mine.bag", Path(path).read_bytes())):  # none of Roadbed's
        (tmp_path / name).write_bytes(content)
        with pytest.raises(OutputError, match="holds no results of Roadbed"):
            write_bag(tmp_path / name, source, perceived(source), force=True)
        assert (tmp_path / name).read_bytes() == content
        (tmp_path / name).unlink()
    write_bag(tmp_path / "out.mcap", source, perceived(source))
    earlier = (tmp_path / "out.mcap").read_bytes()
    with pytest.raises(OutputError, match="--force"):
        write_bag(tmp_path / "out.mcap", source, perceived(source))
    assert (tmp_path / "out.mcap").read_bytes() == earlier

    def broken():
        yield from list(perceived(source))[:1]
        raise InputError("the drive ends here")

    with pytest.raises(InputError, match="the drive ends"):
        write_bag(tmp_path / "out.mcap", source, broken(), force=True)
    assert (tmp_path / "out.mcap").read_bytes() == earlier
    write_bag(tmp_path / "out.mcap", source, list(perceived(source))[:1], force=True)
    assert (tmp_path / "out.mcap").read_bytes() != earlier
    with BagWriter(tmp_path / "new.mcap", source):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drive.bag", "out.mcap"]


def chunked_bag(path, messages, records):
    """A ROS 1 bag of many small compressed chunks, as a long drive has many large ones."""
    bag = Writer1(path)
    bag.set_compression(Writer1.CompressionFormat.LZ4)
    bag.chunk_threshold = 2000
    with bag as writer:
        links = {}
        for topic, time, message in records:
            if topic not in links:
                links[topic] = writer.add_connection(topic, message.__msgtype__, typestore=messages.store)
            data = messages.store.serialize_ros1(message, message.__msgtype__)
            writer.write(links[topic], int(time * 1e9), data)
    return path


@pytest.mark.parametrize("kind", ["ros1", "mcap", "sqlite3"])
def test_a_bag_cut_off_in_the_middle_is_read_up_to_there(tmp_path, kind):
    messages = Messages(kind == "ros1")
    records = sorted(drive_records(messages, 40), key=lambda record: record[1])
    if kind == "ros1":
        whole = chunked_bag(tmp_path / "drive.bag", messages, records)
    else:
        bag = make_bag(tmp_path, kind, messages, records)
        (whole,) = [*bag.glob("*.mcap"), *bag.glob("*.db3")]
    cut = tmp_path / f"cut{whole.suffix}"
    data = whole.read_bytes()
    cut.write_bytes(data[: int(0.6 * len(data))])
    source = open_source(cut)
    assert 3 < len(source) < 40
    full = open_source(whole)
    for scan, expected in zip(source, full):
        np.testing.assert_array_equal(scan.points, expected.points)
        assert scan.time == expected.time
    assert source[0].T_world_sensor is not None
    assert "cut off or damaged: found" in source.diagnostics[0]
    assert f"of {cut.stat().st_size} bytes" in source.diagnostics[0]


@pytest.mark.parametrize("compression", CompressionType)
def test_an_mcap_of_chunks_is_read_up_to_the_cut(tmp_path, compression):
    """As ROS 2's recorder writes it; the messages of a chunk that is not compressed are whole up to the very cut."""
    messages = Messages(ros1=False)
    whole, cut = tmp_path / "whole.mcap", tmp_path / "cut.mcap"
    writer = McapWriter(str(whole), chunk_size=2500, compression=compression)
    writer.start("ros2", "a test")
    schema = writer.register_schema("sensor_msgs/msg/PointCloud2", "ros2msg", b"")
    channel = writer.register_channel("/points", "cdr", schema)
    for k in range(40):
        cloud, stamp = messages.cloud(100 + 0.1 * k, cloud_bytes(k), 4), (1000 + k) * 10**8
        writer.add_message(channel, stamp, bytes(messages.store.serialize_cdr(cloud, cloud.__msgtype__)), stamp)
    writer.finish()
    with whole.open("rb") as file:
        chunks = make_reader(file).get_summary().chunk_indexes
    third = chunks[2]
    cut.write_bytes(whole.read_bytes()[: third.chunk_start_offset + third.chunk_length - 20])  # in its last message
    kept = third.message_end_time if compression is CompressionType.NONE else third.message_start_time
    assert [scan.points[0, 0] for scan in open_source(cut)] == list(range(round(kept / 1e8) - 1000))


@pytest.mark.parametrize("metadata", [True, False])
def test_a_folder_whose_database_was_cut_off_is_read_up_to_there(tmp_path, metadata):
    """Large messages whose parts lie on many pages; a recorder that was stopped by a full disk wrote no metadata."""
    messages = Messages(ros1=False)
    clouds = [(100 + 0.1 * k, messages.cloud(100 + 0.1 * k, cloud_bytes(k, 2000), 2000)) for k in range(30)]
    records = [("/points", time, cloud) for time, cloud in clouds]
    bag = make_bag(tmp_path, "sqlite3", messages, records)
    (storage,) = bag.glob("*.db3")
    os.truncate(storage, int(0.5 * storage.stat().st_size))
    if not metadata:
        (bag / "metadata.yaml").unlink()
    source = open_source(bag if metadata else storage)
    assert 12 <= len(source) <= 15
    assert [scan.points[0, 0] for scan in source] == list(range(len(source)))
    assert f"found {len(source)} messages in the first" in source.diagnostics[0]
    write_bag(tmp_path / "out.mcap", source, perceived(source))
    made = contents(tmp_path / "out.mcap")
    assert len(made["/points"]) == len(made["/roadbed/labelled"]) == len(source)


def test_a_database_of_which_nothing_is_left_is_refused(tmp_path):
    messages = Messages(ros1=False)
    (storage,) = make_bag(tmp_path, "sqlite3", messages, list(drive_records(messages, 4))).glob("*.db3")
    os.truncate(storage, 4096)
    with pytest.raises(InputError, match="not a readable ROS bag"):
        open_source(storage)


def test_stamps_out_of_order_are_taken_as_recorded(tmp_path):
    messages = Messages(ros1=False)
    records = list(drive_records(messages, 4))
    clouds = [record for record in records if record[0] == "/points"]
    for (_, _, cloud), time in zip(clouds, (100.0, 100.2, 100.1, 100.3)):
        cloud.header.stamp.nanosec = round((time - 100) * 1e9)
    source = open_source(make_bag(tmp_path, "mcap", messages, records))
    results = list(perceived(source))
    assert [round(result.scan.time, 1) for result in results] == [100.0, 100.2, 100.1, 100.3]
    assert any("late scan" in note for note in results[2].diagnostics)
    write_bag(tmp_path / "out.mcap", source, iter(results))
    assert len(contents(tmp_path / "out.mcap")["/roadbed/ground"]) == 4


def test_missing_transforms_name_the_frames_that_exist(tmp_path):
    messages = Messages(ros1=False)
    tf = [("/tf_static", 99.0, messages.static("chassis", "camera", 1.0))]
    source = open_source(recorded(tmp_path, "mcap", extra=tf))
    assert "no transform from base_link to lidar_top" in source.diagnostics[0]
    assert "frames that exist: camera, chassis" in source.diagnostics[0]
    assert source[0].T_world_sensor is not None


def test_without_odometry_the_poses_come_from_tf(tmp_path):
    messages = Messages(ros1=False)

    def moving(time, x):
        message = messages.static("odom", "base_link", 0.0)
        message.transforms[0].header = messages.header(time, "odom")
        message.transforms[0].transform.translation.x = x
        return message

    records = [record for record in drive_records(messages) if record[0] == "/points"]
    records += [("/tf", 99.9 + 0.1 * k, moving(99.9 + 0.1 * k, float(k))) for k in range(6)]
    (tmp_path / "lost").mkdir()
    source = open_source(make_bag(tmp_path / "lost", "mcap", messages, records))
    assert source[0].T_world_sensor is None
    assert "every scan is processed on its own" in source.diagnostics[0]
    assert "base_link, odom" in source.diagnostics[0]
    records.append(("/tf_static", 99.0, messages.static("base_link", "lidar_top", 1.7)))
    source = open_source(make_bag(tmp_path, "mcap", messages, records))
    assert source.diagnostics == ()
    np.testing.assert_allclose(source[1].T_world_sensor.translation, [2.0, 0.0, 1.7], atol=1e-6)


def test_of_several_lidars_one_is_chosen_by_name(tmp_path):
    messages = Messages(ros1=True)
    records = list(drive_records(messages))
    records += [("/left", time, message) for topic, time, message in records if topic == "/points"]
    path = make_bag(tmp_path, "ros1", messages, records)
    with pytest.raises(InputError, match=r"several topics of PointCloud2 \(/left, /points\); choose by \?topic=NAME"):
        open_source(path)
    source = open_source(f"{path}?topic=/left")
    write_bag(tmp_path / "out.bag", source, perceived(source))
    found = contents(tmp_path / "out.bag")
    assert len(found["/points"]) == len(found["/left"]) == len(found["/roadbed/ground"]) == 3


@pytest.mark.parametrize("suffix", ["mcap", "bag"])
def test_what_is_written_is_read_back(tmp_path, suffix):
    """Poses, mounting, times and channels of a drive that came from no bag; no topic needs a name."""
    scans = list(open_source("sim:city?sensor=vlp16&frames=2"))
    path = tmp_path / f"drive.{suffix}"
    write_bag(path, scans, Pipeline(occupancy=False).run(scans))
    source = open_source(path)
    assert (source.topic, source.sequential, source.diagnostics) == ("/roadbed/labelled", True, ())
    for read, written in zip(source, scans, strict=True):
        np.testing.assert_array_equal(read.points, written.points)
        np.testing.assert_array_equal(read.ring, written.ring)
        np.testing.assert_array_equal(read.intensity, written.intensity)
        np.testing.assert_allclose(read.T_world_sensor.matrix, written.T_world_sensor.matrix, atol=1e-12)
        np.testing.assert_allclose(read.T_vehicle_sensor.matrix, written.T_vehicle_sensor.matrix, atol=1e-12)
        assert read.time == pytest.approx(written.time)
        assert {"label", "ground_probability", "height_above_ground"} <= set(read.channels)


@pytest.mark.parametrize("suffix", ["mcap", "bag"])
def test_rigs_keep_their_sensors(tmp_path, suffix):
    """In results, in recorded scans, and in the results of a bag of them; a field that does not fit is a channel."""
    scans = list(open_source("sim:parking?frames=2&sensor=lux4"))
    write_bag(tmp_path / f"a.{suffix}", scans, Pipeline(occupancy=False).run(scans))
    with BagWriter(tmp_path / f"b.{suffix}") as bag:
        deque(map(bag.add_scan, scans))
        bag.finish()
    recorded = open_source(tmp_path / f"b.{suffix}")
    write_bag(tmp_path / f"c.{suffix}", recorded, Pipeline(occupancy=False).run(recorded))
    for name in "abc":
        for read, written in zip(open_source(tmp_path / f"{name}.{suffix}"), scans, strict=True):
            assert read.diagnostics == ()
            assert read.sensor == written.sensor
            assert len(read.mounts) == 4
            np.testing.assert_array_equal(read.points, written.points)
            for (mount, points), (mount_written, points_written) in zip(read.split(), written.split()):
                assert mount.name == mount_written.name
                np.testing.assert_allclose(
                    mount.T_vehicle_sensor.matrix, mount_written.T_vehicle_sensor.matrix, atol=1e-12
                )
                np.testing.assert_array_equal(points, points_written)
    with BagWriter(tmp_path / f"d.{suffix}") as bag:
        bag.add_scan(replace(scans[0], mounts=scans[0].mounts[:2]))
        bag.finish()
    read = open_source(tmp_path / f"d.{suffix}")[0]
    assert read.mounts == ()
    assert "without their mountings" in read.diagnostics[0]


@pytest.mark.parametrize("suffix", ["mcap", "bag"])
def test_live_scans_are_kept_on_a_full_disk(tmp_path, suffix):
    rng = np.random.default_rng(0)
    with mounted(tmp_path / "small", "size=4m") as small, BagWriter(small / f"a.{suffix}") as bag:
        scans = (Scan(rng.normal(size=(20_000, 3)), time=100.0 + k) for k in range(40))
        with pytest.raises(OutputError, match="No space left"):
            deque(map(bag.add_scan, scans))
        with pytest.raises(OutputError, match=r"No space left on device\); what was written before is kept"):
            bag.keep()
        source = open_source(small / f"a.{suffix}")
        assert len(source) >= 8
        assert "cut off" in source.diagnostics[0]
        source.close()


def test_of_live_scans_that_did_not_come_nothing_is_kept(tmp_path):
    with BagWriter(tmp_path / "a.mcap") as bag:
        bag.keep()
    assert list(tmp_path.iterdir()) == []


def test_no_folder_is_left_where_a_bag_cannot_begin(tmp_path):
    with mounted(tmp_path / "small", "size=16k") as small:
        (small / "full").write_bytes(bytes(16 << 10))
        with pytest.raises(OutputError, match=r"a\.bag: cannot be written"):
            BagWriter(small / "a.bag")
        assert [path.name for path in small.iterdir()] == ["full"]


def test_recorded_scans_without_times_keep_their_poses(tmp_path):
    """A clock of ten scans per second takes the place of the missing one."""
    scans = [replace(scan, time=None) for scan in open_source("sim:city?sensor=vlp16&frames=3")]
    with BagWriter(tmp_path / "scans.mcap") as bag:
        for scan in scans:
            bag.add_scan(scan)
        bag.finish()
    for read, written in zip(open_source(tmp_path / "scans.mcap"), scans, strict=True):
        np.testing.assert_allclose(read.T_world_sensor.matrix, written.T_world_sensor.matrix, atol=1e-12)
        np.testing.assert_allclose(read.T_vehicle_sensor.matrix, written.T_vehicle_sensor.matrix, atol=1e-12)
