# SPDX-License-Identifier: Apache-2.0
"""Foxglove: a real server asked by a real websocket client, and an MCAP read back."""

import json
import os
import socket
import struct
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from mcap.reader import make_reader
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from roadbed import DeviceError
from roadbed.live.foxglove import FoxgloveSink
from roadbed.outputs.ros_messages.clouds import packed

TOPICS = {"labelled", "surface", "occupancy", "velocities", "objects", "log"}
PATIENCE = 60


def packed_cloud(result):
    columns = {axis: result.scan.points[:, k] for k, axis in enumerate("xyz")}
    columns |= result.scan.all_channels()
    names = ("label", "ground_probability", "height_above_ground")
    return packed(columns | {name: getattr(result.ground, name) for name in names}).tobytes()


def test_a_client_gets_the_labelled_cloud_with_every_field(moving_result):
    with FoxgloveSink(host="127.0.0.1", port=0) as sink:
        assert sink.address.startswith("ws://127.0.0.1:")
        with connect(sink.address, subprotocols=["foxglove.sdk.v1"], max_size=2**28) as client:
            found = {}
            while "/roadbed/labelled" not in found:
                message = json.loads(client.recv(PATIENCE))
                if message["op"] == "advertise":
                    found |= {channel["topic"]: channel for channel in message["channels"]}
            assert found["/roadbed/labelled"]["schemaName"] == "foxglove.PointCloud"
            ids = [{"id": 7, "channelId": found["/roadbed/labelled"]["id"]}]
            client.send(json.dumps({"op": "subscribe", "subscriptions": ids}))
            # The server may take the subscription after a message has gone by: it gets another.
            data = None
            for _ in range(PATIENCE):
                sink.show(moving_result)
                try:
                    data = client.recv(1)
                except TimeoutError:
                    continue
                if isinstance(data, bytes):
                    break
            assert isinstance(data, bytes)
            kind, subscription, time = struct.unpack_from("<BIQ", data)
            assert (kind, subscription) == (1, 7)
            assert time == round(moving_result.scan.time * 1e9)
            assert packed_cloud(moving_result) in data


def test_an_mcap_holds_the_same_and_appears_whole(moving_result, tmp_path):
    path = tmp_path / "drive.mcap"
    with FoxgloveSink(mcap=path) as sink:
        sink.show(moving_result, ("pose: extended",))
        assert not path.exists()
    with path.open("rb") as file:
        messages = [(channel.topic, message) for _, channel, message in make_reader(file).iter_messages()]
    assert {topic for topic, _ in messages} == {f"/roadbed/{name}" for name in TOPICS} | {"/tf"}
    clouds = [message for topic, message in messages if topic == "/roadbed/labelled"]
    assert clouds[0].log_time == round(moving_result.scan.time * 1e9)
    assert packed_cloud(moving_result) in clouds[0].data
    grid = next(message for topic, message in messages if topic == "/roadbed/occupancy")
    frame = moving_result.occupancy
    cells = packed({name: getattr(frame, name).ravel() for name in ("occupied", "static", "dynamic", "unknown")})
    assert cells.tobytes() in grid.data
    assert np.isfinite(cells["occupied"]).all()


def test_a_run_that_fails_leaves_no_half_file_and_one_that_is_stopped_a_whole_one(moving_result, tmp_path):
    def record(name, failure):
        with FoxgloveSink(mcap=tmp_path / name) as sink:
            sink.show(moving_result)
            raise failure

    with pytest.raises(ZeroDivisionError):
        record("failed.mcap", ZeroDivisionError())
    with pytest.raises(KeyboardInterrupt):
        record("stopped.mcap", KeyboardInterrupt())
    assert [path.name for path in tmp_path.iterdir()] == ["stopped.mcap"]


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
    with FoxgloveSink(host="127.0.0.1", port=0, origins=["https://robots.example.com"]) as sink:
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
    with FoxgloveSink(host="0.0.0.0", port=0) as sink:
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
    with FoxgloveSink(host="0.0.0.0", port=0) as sink:
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
    with FoxgloveSink(host="127.0.0.1", port=0) as first:
        port = int(first.address.rpartition(":")[2])
        with pytest.raises(DeviceError, match=f"127.0.0.1:{port}: cannot listen there"):
            FoxgloveSink(host="127.0.0.1", port=port)
