# SPDX-License-Identifier: Apache-2.0
"""A Velodyne on the wire: the packets of a real capture, sent to loopback in real time."""

import json
import re
import signal
import socket
import sys
import threading
import time
from itertools import islice
from types import SimpleNamespace

import dpkt
import numpy as np
import pytest
from mcap.reader import make_reader

from roadbed import DeviceError, InputError
from roadbed.sources import open_source
from roadbed.sources.sensors import udp
from roadbed.sources.sensors.velodyne import PacketClock
from roadbed.sources.source import part_of
from tests.live.datagrams import receive, send, wait_until_taken
from tests.live.processes import PATIENCE, Processes


@pytest.fixture(scope="module")
def capture(real_data):
    return real_data / "formats" / "sample_velodyne_vlp16_gps.pcap"


def packets(capture):
    """(s, bytes) of each UDP payload."""
    with capture.open("rb") as file:
        return [(when, bytes(dpkt.ethernet.Ethernet(frame).ip.udp.data)) for when, frame in dpkt.pcap.Reader(file)]


def replay(capture, port):
    """Each packet when it is due, or later where the machine is slow."""
    sent = packets(capture)
    start, first = time.monotonic(), sent[0][0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for when, packet in sent:
            time.sleep(max(start + when - first - time.monotonic(), 0))
            send(port, packet, out)


def test_packets_on_the_wire_make_the_scans_of_their_capture(capture):
    expected = list(islice(open_source(capture), 3))
    source = open_source("velodyne:0")
    assert source.address == f"UDP 127.0.0.1:{source.port}"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        send(source.port, b"hello", stranger)
    threading.Thread(target=replay, args=(capture, source.port), daemon=True).start()
    found = receive(source, len(expected))
    source.close()
    assert source.foreign_packets == 1
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine.points, theirs.points)
        np.testing.assert_array_equal(mine.intensity, theirs.intensity)
        np.testing.assert_array_equal(mine.ring, theirs.ring)


def test_a_turn_that_is_read_late_and_in_bursts_stays_one(capture, monkeypatch):
    """As by a computer that was busy with something else for half a second, now and then."""
    expected = list(islice(open_source(capture), 3))
    sent = [(when, packet) for when, packet in packets(capture) if len(packet) == 1206]
    reads = iter([when + 0.5 * (k % 50 > 10) * (1 - k % 50 / 50) for k, (when, _) in enumerate(sent)])
    monkeypatch.setattr(udp, "time", SimpleNamespace(time=lambda: next(reads)))
    source = open_source("velodyne:0")
    source.close()
    source._packets = lambda: [packet for _, packet in sent]
    found = list(islice(source, len(expected)))
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine.points, theirs.points)
        assert theirs.time <= mine.time < theirs.time + 0.1


def scans_of(sent):
    """Scans made of packets that arrive in time, and the source."""
    source = open_source("velodyne:0")
    source.close()
    source._packets = lambda: sent
    return list(iter(source)), source


def of_model(packet, model):
    return packet[:1205] + bytes([model]) + packet[1206:]


@pytest.mark.parametrize("foreign", ["random bytes", "another model", "random bytes in blocks"])
def test_foreign_packets_do_not_silence_the_sensor(capture, foreign, monkeypatch, capsys):
    """10 of them first, and one after every 20 of the sensor's."""
    sent = [packet for _, packet in packets(capture) if len(packet) == 1206]
    ticks = iter(np.arange(0, 1e3, 0.00133))
    monkeypatch.setattr(udp, "time", SimpleNamespace(time=lambda: next(ticks)))
    expected, _ = scans_of(sent)
    rng = np.random.default_rng(0)

    def intruder():
        if foreign == "another model":
            return of_model(sent[0], 0x21)
        noise = bytearray(rng.bytes(1206))
        for start in range(0, 1200, 100) if foreign == "random bytes in blocks" else ():
            noise[start : start + 2] = b"\xff\xee"
        noise[1200:1204] = sent[0][1200:1204]
        return bytes(noise)

    mixed = [intruder() for _ in range(10)]
    for number, packet in enumerate(sent):
        mixed += [packet] if number % 20 else [intruder(), packet]
    ticks = iter(np.arange(0, 1e3, 0.00133))
    found, source = scans_of(mixed)
    assert source.foreign_packets == len(mixed) - len(sent)
    assert len(found) >= len(expected) - 1 > 0
    for mine, theirs in zip(found[-1:], expected[-1:], strict=True):
        np.testing.assert_array_equal(mine.points, theirs.points)
    printed = capsys.readouterr().err
    assert "velodyne:0: 1 packets ignored" in printed
    assert "velodyne:0: 10 packets ignored" in printed


def test_a_sensor_that_is_replaced_by_another_model_is_followed(capture):
    sent = [packet for _, packet in packets(capture) if len(packet) == 1206]
    found, source = scans_of([of_model(packet, 0x21) for packet in sent] + sent)
    alone, _ = scans_of(sent)
    assert len(found) >= 2 * len(alone) - 2
    assert 0 < source.foreign_packets <= 32
    assert found[-1].ring.max() == 15


def test_the_time_of_packets_follows_the_sensor_and_this_computer():
    def packet(microseconds):
        return bytes(1200) + int(microseconds).to_bytes(4, "little") + bytes(2)

    clock = PacketClock()
    hour = 3_600_000_000
    assert clock.stamp(packet(hour - 5000), 100.0) == 100.0
    assert clock.stamp(packet(5000), 100.5) == pytest.approx(100.01, abs=1e-4)  # read late, and over the full hour
    assert clock.stamp(packet(15_000), 100.015) == 100.015  # never before it was sent
    assert clock.stamp(packet(500_000_000), 200.0) == 200.0  # the sensor's clock was set
    late = [clock.stamp(packet(500_000_000 + 1e5 * k), 200.3 + 0.1 * k) for k in range(1, 4000)]
    assert late[0] == pytest.approx(200.1, abs=1e-3)
    assert late[-1] == pytest.approx(200.3 + 0.1 * 3999)  # what stays late is how long packets take


def test_live_perceives_what_is_sent_and_ends_cleanly_with_everything_written(capture, tmp_path):
    with Processes(tmp_path, {}) as processes:
        command = ("live", "velodyne:0", "-o", tmp_path / "drive.mcap", "--no-occupancy", "--foxglove")
        run = processes.start("live", sys.executable, "-m", "roadbed", *command, "--port", "0")
        processes.wait_for("live", "Ctrl+C stops it")
        assert "open a connection to ws://127.0.0.1:" in processes.said("live")
        port = int(re.search(r"velodyne:0: UDP 127\.0\.0\.1:(\d+); ", processes.said("live")).group(1))
        replay(capture, port)
        wait_until_taken(port)
        assert processes.stop(run, signal.SIGTERM) == 0, processes.said("live")
        last = processes.said("live").splitlines()[-1]
    with (tmp_path / "drive.mcap").open("rb") as file:
        clouds = [m for _, channel, m in make_reader(file).iter_messages() if channel.topic == "/roadbed/labelled"]
    assert len(clouds) > 0
    assert f"{len(clouds)} out" in last


def test_a_recording_is_played_into_a_folder(tmp_path):
    with Processes(tmp_path, {}) as processes:
        command = ("live", "sim:city?sensor=vlp16&frames=4", "-o", tmp_path / "out", "--pace", "2", "--json")
        run = processes.start("live", sys.executable, "-m", "roadbed", *command)
        assert run.wait(PATIENCE) == 0, processes.said("live")
        said = processes.said("live")
        facts = json.loads(said[said.index("{") :])  # before it, on standard error: kernels that are compiled
    assert facts["received"] == 4
    assert facts["processed"] + facts["dropped"] == 4
    assert len(list((tmp_path / "out" / "labels").iterdir())) == facts["processed"] > 0
    assert (tmp_path / "out" / "report.html").exists()


def test_what_is_no_port_or_taken_is_one_line():
    with pytest.raises(InputError, match="expected velodyne:PORT or velodyne:ADDRESS:PORT"):
        open_source("velodyne:here")
    first = open_source("velodyne:0")
    with pytest.raises(DeviceError, match=f"cannot listen at 127.0.0.1:{first.port}"):
        open_source(f"velodyne:{first.port}")
    first.close()
    second = open_source("velodyne:0")
    with pytest.raises(InputError, match="found a live source, expected a recording"):
        part_of(second, start=1)
    second.close()
