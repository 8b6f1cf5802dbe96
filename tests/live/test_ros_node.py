# SPDX-License-Identifier: Apache-2.0
"""The node between its topics, without a wire: what comes in broken, late or from unknown frames."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from roadbed import Config, InputError, Pose
from roadbed.live import ros_node
from roadbed.live.ros_node import STRING, NodeOptions, RosNode, checked_topics
from roadbed.outputs.ros_messages.clouds import cloud_of_columns
from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.sources.bags.type_names import CLOUD, DIAGNOSTICS, ODOMETRY, TRANSFORMS

pytestmark = pytest.mark.long(20)

PATIENCE = 300
SMALL = {"ground": {"stcrf": {"length": 40.0, "width": 40.0}}}


class Wire:
    """Topics inside this process: the bytes that would travel are handed over as they are."""

    address = "this process"

    def __init__(self, version):
        self.version, self.messages = version, RosMessages(version)
        self.callback, self.sent, self.said = {}, [], []
        self.news = threading.Condition()

    def subscribe(self, topic, kind, callback):
        self.callback[topic] = (kind, callback)

    def advertise(self, topic, kind):
        pass

    def has_listeners(self, topic):
        return True

    def publish(self, topic, data):
        with self.news:
            self.sent.append((topic, data))
            self.news.notify_all()

    def warn(self, problem):
        self.said.append(problem)

    def close(self):
        pass

    def bring(self, topic, message):
        kind, callback = self.callback[topic]
        assert kind == message.__msgtype__
        callback(self.messages.to_bytes(message))

    def wait(self, topic, count):
        def found():
            return [data for name, data in self.sent if name == topic]

        with self.news:
            assert self.news.wait_for(lambda: len(found()) >= count, PATIENCE), self.said
            return found()

    def cloud(self, time, frame="lidar", count=300):
        rng = np.random.default_rng(1)
        columns = {axis: rng.uniform(-15, 15, count).astype(np.float32) for axis in "xyz"}
        columns["z"] = np.full(count, -1.7, np.float32)
        return cloud_of_columns(self.messages, self.messages.header(self.messages.stamp(time), frame), columns)

    def transform(self, time, parent, child, pose):
        return self.messages.transform(self.messages.header(self.messages.stamp(time), parent), child, pose)


@pytest.fixture(params=[1, 2], ids=["ros1", "ros2"])
def wire(request):
    return Wire(request.param)


@pytest.fixture
def start(wire):
    nodes = []

    def begin(pose_wait=20.0, **options):
        options = {"clouds": ("/points",), "occupancy": False, **options}
        live = {"queue": 50, "pose_wait": pose_wait}
        nodes.append(RosNode(wire, NodeOptions(**options), Config.parse({**SMALL, "live": live})))
        return nodes[-1]

    yield begin
    for node in nodes:
        node.close()


def test_clouds_that_cannot_be_read_are_counted_and_the_next_is_taken(wire, start):
    node = start(pose_wait=0.1)
    wire.callback["/points"][1](b"\x01\x02\x03")
    flat = wire.cloud(1.0)
    flat.fields = flat.fields[:2]
    wire.bring("/points", flat)
    short = wire.cloud(1.1)
    short.data = short.data[:100]
    wire.bring("/points", short)
    wire.bring("/points", wire.cloud(1.2, count=0))
    wire.bring("/points", wire.cloud(1.3))
    made = [wire.messages.from_bytes(data, CLOUD) for data in wire.wait("/roadbed/labelled", 2)]
    assert [cloud.width for cloud in made] == [0, 300]
    total = node.stream.statistics().total
    assert (total.received, total.refused) == (5, 3)
    assert any("/points: not a readable PointCloud2" in line for line in wire.said)
    assert any("fields: expected x, y and z" in line for line in wire.said)
    assert any("PointCloud2 data: found 100 bytes" in line for line in wire.said)


def test_a_frame_without_a_transform_is_named_once_with_those_that_exist(wire, start):
    start(pose_wait=0.1)
    wire.bring("/tf_static", wire.transform(0.0, "base_link", "camera", Pose.identity()))
    for time in (1.0, 1.1):
        wire.bring("/points", wire.cloud(time))
    wire.wait("/roadbed/labelled", 2)
    lines = [line for line in wire.said if "found no transform" in line]
    assert lines == [
        "/points: frame 'lidar': found no transform to 'base_link'; scans are processed one by one until it arrives; "
        "known frames: base_link, camera"
    ]


def test_a_cloud_that_overtakes_its_transform_waits_for_it(wire, start):
    """Topics travel on connections of their own: nothing says that what was sent first is here first."""
    results = start(on_road=True, odometry="/odom").stream.results()
    wire.bring("/points", wire.cloud(1.0))
    mounted = Pose.from_euler(1.0, 0.0, 1.7)
    wire.bring("/tf_static", wire.transform(0.0, "base_link", "lidar", mounted))
    for time in (0.9, 1.1):
        header = wire.messages.header(wire.messages.stamp(time), "odom")
        wire.bring("/odom", wire.messages.odometry(header, "base_link", Pose.from_euler(4.0)))
    found = next(results).result.scan
    np.testing.assert_allclose(found.T_vehicle_sensor.matrix, mounted.matrix, atol=1e-9)
    np.testing.assert_allclose(found.T_world_sensor.translation, [5.0, 0.0, 1.7], atol=1e-9)
    assert not any("found no transform" in line for line in wire.said)


def test_a_given_mounting_needs_no_transform(wire, start):
    mounted = Pose.from_euler(0.0, 0.0, 1.7, pitch=0.1)
    results = start(T_vehicle_sensor=mounted).stream.results()
    wire.bring("/points", wire.cloud(1.0))
    found = next(results).result.scan.T_vehicle_sensor
    np.testing.assert_allclose(found.matrix, mounted.matrix, atol=1e-9)
    assert not any("found no transform" in line for line in wire.said)


@pytest.mark.parametrize("odometry", [None, ""])
def test_the_pose_comes_from_tf_along_the_whole_chain(wire, start, odometry):
    """odom -> footprint moves, footprint -> base_link -> lidar is fixed; the wheel's own motion is no pose."""
    results = start(on_road=True, odometry=odometry).stream.results()
    lifted = Pose.from_euler(0.0, 0.0, 0.3)
    mounted = Pose.from_euler(1.0, 0.0, 1.4)
    wire.bring("/tf_static", wire.transform(0.0, "footprint", "base_link", lifted))
    wire.bring("/tf_static", wire.transform(0.0, "base_link", "lidar", mounted))
    for time, x in ((0.9, 0.0), (1.1, 2.0)):
        wire.bring("/tf", wire.transform(time, "odom", "footprint", Pose.from_euler(x)))
        wire.bring("/tf", wire.transform(time + 50, "base_link", "wheel", Pose.identity()))
    wire.bring("/points", wire.cloud(1.0))
    found = next(results)
    assert found.diagnostics == ()
    np.testing.assert_allclose(found.result.scan.T_world_sensor.translation, [2.0, 0.0, 1.7], atol=1e-9)
    made = wire.messages.from_bytes(wire.wait("/tf", 1)[0], TRANSFORMS).transforms[0]
    assert (made.header.frame_id, made.child_frame_id) == ("odom", "roadbed_grid")


def test_a_message_of_several_transforms_tells_the_pose_at_the_newest_of_them(wire, start):
    """Parts that never move may come with a stamp of zero beside one that does."""
    results = start(on_road=True).stream.results()
    wire.bring("/tf_static", wire.transform(0.0, "base_link", "lidar", Pose.from_euler(0.0, 0.0, 1.7)))
    for time, x in ((0.9, 0.0), (1.1, 2.0)):
        both = wire.transform(0.0, "footprint", "base_link", Pose.identity())
        both.transforms = [
            *both.transforms,
            *wire.transform(time, "odom", "footprint", Pose.from_euler(x)).transforms,
        ]
        wire.bring("/tf", both)
    wire.bring("/points", wire.cloud(1.0))
    found = next(results)
    assert found.diagnostics == ()
    np.testing.assert_allclose(found.result.scan.T_world_sensor.translation, [1.0, 0.0, 1.7], atol=1e-9)


def test_odometry_of_another_body_is_moved_to_the_vehicle(wire, start):
    node = start(odometry="/odom")
    wire.bring("/tf_static", wire.transform(0.0, "base_link", "lidar", Pose.identity()))
    wire.bring("/tf_static", wire.transform(0.0, "base_link", "imu", Pose.from_euler(0.0, 0.0, 5.0)))
    for time in (0.9, 1.1):
        header = wire.messages.header(wire.messages.stamp(time), "odom")
        wire.bring("/odom", wire.messages.odometry(header, "imu", Pose.from_euler(4.0, 0.0, 5.0)))
    results = node.stream.results()
    wire.bring("/points", wire.cloud(1.0))
    found = next(results).result.scan.T_world_sensor
    np.testing.assert_allclose(found.translation, [4.0, 0.0, 0.0], atol=1e-9)
    assert wire.callback["/odom"][0] == ODOMETRY


def test_parameters_change_while_it_runs_and_wrong_ones_do_not(wire, start):
    node = start(pose_wait=0.1)
    fixed = ("backend: opencl", "device: 1", "{live: {queue: 1}, ground: {labels: {threshold: 0.3}}}")
    for text in ("ground: {labels: {treshold: 0.3}}", "[1, 2]", "ground: {", *fixed):
        wire.bring("/roadbed/change", wire.messages.make(STRING, data=text))
    assert node.stream.config.ground.labels.threshold == 0.25
    assert "did you mean threshold?" in wire.said[0]
    assert len(wire.said) == 6
    for name, line in zip(("backend", "device", "live"), wire.said[3:], strict=True):
        assert f"/roadbed/change: {name}: expected at the start of the node" in line
    wire.bring("/roadbed/change", wire.messages.make(STRING, data="ground: {labels: {threshold: 0.3}}"))
    assert node.stream.config.ground.labels.threshold == 0.3
    wire.bring("/points", wire.cloud(1.0))
    wire.wait("/roadbed/labelled", 1)


def test_diagnostics_tell_rate_latency_and_losses(wire, start):
    start(pose_wait=0.1)
    wire.callback["/points"][1](b"")
    wire.bring("/points", wire.cloud(1.0))
    for number in range(PATIENCE):  # some may be sent before the scan is done
        status = wire.messages.from_bytes(wire.wait("/diagnostics", number + 1)[number], DIAGNOSTICS).status[0]
        values = {pair.key: pair.value for pair in status.values}
        if "ground_ms" in values:
            break
    assert "ground_ms" in values
    assert values["/points/refused"] == "1"
    assert values["lidar/received"] == "1"


def test_a_sensor_that_falls_silent_raises_the_level_and_is_logged_each_time(wire, start, monkeypatch):
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(ros_node, "monotonic", lambda: clock.now)
    monkeypatch.setattr(ros_node, "_REPORT_S", 0.02)
    start(pose_wait=0.1)

    def next_status():
        message = wire.wait("/diagnostics", sum(topic == "/diagnostics" for topic, _ in wire.sent) + 3)[-1]
        return wire.messages.from_bytes(message, DIAGNOSTICS).status[0]

    assert next_status().level == 0
    for times in (1, 2):
        clock.now += 5
        status = next_status()
        assert (status.level, status.message) == (2, "/points: no cloud for 5 s")
        assert wire.said.count("/points: no cloud for 3 s") == times
        wire.bring("/points", wire.cloud(float(times)))
        assert next_status().level == 0
        clock.now += 2
        next_status()
        clock.now += 1.5
        assert next_status().level == 2
        assert wire.said.count("/points: no cloud for 3 s") == times  # so soon it is the same silence
        wire.bring("/points", wire.cloud(times + 0.5))
        for _ in range(5):
            clock.now += 2
            wire.bring("/points", wire.cloud(times + 0.6))
            next_status()


def test_lost_scans_are_logged(wire, start):
    start(pose_wait=0.1)
    wire.callback["/points"][1](b"")
    for number in range(PATIENCE):
        wire.wait("/diagnostics", number + 1)
        if "1 scans were lost" in wire.said:
            break
    assert sum(line.startswith("scans are being lost: 1 scans in, 0 out") for line in wire.said) == 1
    assert wire.said.count("1 scans were lost") == 1


def test_topics_are_checked():
    assert checked_topics(["points", "/left/"]) == ("/points", "/left")
    with pytest.raises(InputError, match="expected one or more different names, found a, /a"):
        checked_topics(["a", "/a"])
