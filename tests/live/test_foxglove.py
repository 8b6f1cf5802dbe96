# SPDX-License-Identifier: Apache-2.0
"""Foxglove: a real server and a real websocket client."""

import json
import os
import socket
import struct
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from roadbed import DeviceError
from roadbed.live.foxglove import FoxgloveSink
from roadbed.outputs.ros_messages.clouds import packed
from roadbed.outputs.ros_messages.results import ResultMessages
from roadbed.outputs.ros_messages.store import RosMessages

PATIENCE = 60


def packed_cloud(result):
    columns = {axis: result.scan.points[:, k] for k, axis in enumerate("xyz")}
    columns |= result.scan.all_channels()
    names = ("label", "ground_probability", "height_above_ground")
    return packed(columns | {name: getattr(result.ground, name) for name in names}).tobytes()


def received(sink, client, topics, result):
    """The payloads of one message on each of these topics, by topic."""
    found = {}
    while not set(topics) <= set(found):
        message = json.loads(client.recv(PATIENCE))
        if message["op"] == "advertise":
            found |= {channel["topic"]: channel for channel in message["channels"]}
    ids = dict(enumerate(topics, 7))
    wishes = [{"id": number, "channelId": found[topic]["id"]} for number, topic in ids.items()]
    client.send(json.dumps({"op": "subscribe", "subscriptions": wishes}))
    data = {}
    for _ in range(PATIENCE):  # the server may take the subscription after a message has gone by: it gets another
        sink.show(result, ("pose: extended",))
        try:
            while set(data) != set(topics):
                message = client.recv(1)
                if isinstance(message, bytes):
                    kind, subscription, time = struct.unpack_from("<BIQ", message)
                    assert (kind, time) == (1, round(result.scan.time * 1e9))
                    data[ids[subscription]] = found[ids[subscription]]["schemaName"], message[13:]
        except TimeoutError:
            continue
        return data
    raise AssertionError(f"received {list(data)}")


def test_a_client_gets_the_messages_of_the_ros_node_and_the_pose_of_the_sensor(moving_result):
    topics = ("/roadbed/labelled", "/roadbed/occupancy", "/tf", "/roadbed/log")
    with FoxgloveSink("127.0.0.1", 0) as sink:
        assert sink.address.startswith("ws://127.0.0.1:")
        with connect(sink.address, subprotocols=["foxglove.sdk.v1"], max_size=2**28) as client:
            data = received(sink, client, topics, moving_result)
    messages = RosMessages(2)
    cloud, grid, transforms, log = (messages.from_bytes(raw, kind) for kind, raw in (data[topic] for topic in topics))
    assert cloud.data.tobytes() == packed_cloud(moving_result)
    expected = ResultMessages(messages, moving_result)
    assert grid.data.tobytes() == expected.make("occupancy").data.tobytes()
    assert log.msg == "pose: extended"
    frames = [(entry.header.frame_id, entry.child_frame_id) for entry in transforms.transforms]
    assert frames == [("roadbed_grid", cloud.header.frame_id), ("odom", "roadbed_grid")]
    sensor = moving_result.ground.T_grid_sensor.xyz
    assert [getattr(transforms.transforms[0].transform.translation, axis) for axis in "xyz"] == pytest.approx(sensor)


def handshake(address, host=None, **options):
    """101 and the server's first words when the websocket opens, else the status of the refusal."""
    parts = urlsplit(address)
    where = address if host is None else f"ws://{host}/?{parts.query}"
    try:
        with connect(
            where,
            sock=socket.create_connection(("127.0.0.1", parts.port)),
            subprotocols=["foxglove.sdk.v1"],
            **options,
        ) as client:
            assert json.loads(client.recv(PATIENCE))["op"] == "serverInfo"
            return 101
    except InvalidStatus as refusal:
        return refusal.response.status_code


def test_programs_and_the_app_are_let_in_and_no_other_page():
    with FoxgloveSink("127.0.0.1", 0, origins=["https://robots.example.com"]) as sink:
        port = urlsplit(sink.address).port
        assert not sink.is_open
        for origin in (None, "https://app.foxglove.dev", "file://", "https://robots.example.com"):
            assert handshake(sink.address, origin=origin) == 101, origin
        # "null" is a sandboxed frame of any page.
        foreign = (
            "http://evil.example.com",
            "https://app.foxglove.dev.evil.example.com",
            "http://127.0.0.1:80",
            "null",
        )
        for origin in foreign:
            assert handshake(sink.address, origin=origin) == 403, origin
        assert handshake(sink.address, host=f"localhost:{port}") == 101
        # A name of the attacker that leads to this machine, as after DNS rebinding.
        assert handshake(sink.address, host=f"evil.example.com:{port}") == 403


def test_other_machines_need_the_token():
    with FoxgloveSink("0.0.0.0", 0) as sink:
        address = urlsplit(sink.address)
        local = f"127.0.0.1:{address.port}"
        assert sink.is_open
        assert len(address.query) > len("token=") + 20
        assert handshake(sink.address, host=local) == 101
        assert handshake(f"ws://{local}") == 403
        assert handshake(f"ws://{local}/?token={'x' * 22}") == 403
    with pytest.raises(ConnectionRefusedError):
        handshake(sink.address)


def test_only_the_guarded_port_is_open_beyond_loopback():
    """Of all ports that this process listens at."""
    before = listening()
    with FoxgloveSink("0.0.0.0", 0) as sink:
        opened = listening() - before
        assert len(opened) == 2
        assert {port for address, port in opened if not address.startswith("127.")} == {urlsplit(sink.address).port}
        inner = next(address for address, _ in opened if address.startswith("127."))
        assert inner != "127.0.0.1"  # a page cannot guess it


def listening():
    """Addresses and ports of this process."""
    own = {os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    found = set()
    for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
            address, port = fields[1].split(":")
            found.add((socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)))
    return found


def test_a_port_that_is_taken_is_one_line():
    with FoxgloveSink("127.0.0.1", 0) as first:
        port = int(first.address.rpartition(":")[2])
        with pytest.raises(DeviceError, match=f"127.0.0.1:{port}: cannot listen there"):
            FoxgloveSink("127.0.0.1", port)
