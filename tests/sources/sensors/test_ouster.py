# SPDX-License-Identifier: Apache-2.0
"""An Ouster on the wire: packets as its manual describes them, sent to loopback, and metadata from a web server."""

import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

import roadbed
from roadbed import DeviceError, InputError
from roadbed.sources import open_source
from roadbed.sources.sensors.ouster import read_metadata
from tests.live.datagrams import receive, send, wait_until_taken
from tests.live.processes import Processes
from tests.reserved import free_port
from tests.sources.sensors import ouster_files as ouster

PROFILES = list(ouster.PIXEL_BYTES)


def send_turns(port, turns):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for turn in turns:
            for packet in turn:
                send(port, packet, out)


def described(folder, profile, **more):
    path = folder / f"{profile}.json"
    path.write_text(ouster.metadata(profile, **more))
    return path


def expected_points(ranges_mm):
    """The manual's formula, beam by beam."""
    out = []
    for column, row in enumerate(ranges_mm.astype(float)):
        encoder = 2 * np.pi * (1 - column / ouster.COLUMNS)
        for beam, reach in enumerate(row):
            if reach:
                turn, up = encoder - np.radians(ouster.AZIMUTH[beam]), np.radians(ouster.ALTITUDE[beam])
                level = (reach - ouster.ORIGIN_MM) * np.cos(up)
                x = level * np.cos(turn) + ouster.ORIGIN_MM * np.cos(encoder)
                y = level * np.sin(turn) + ouster.ORIGIN_MM * np.sin(encoder)
                out.append([-x, -y, (reach - ouster.ORIGIN_MM) * np.sin(up) + ouster.HEIGHT_MM])
    return np.array(out) / 1000


@pytest.mark.parametrize("profile", PROFILES)
def test_packets_on_the_wire_make_scans(tmp_path, profile):
    source = open_source(f"ouster:0?metadata={described(tmp_path, profile, flat=profile == 'LEGACY')}")
    assert source.address == f"UDP 127.0.0.1:{source.port}"
    turns = [list(ouster.packets(profile, frame, lost=(300,) if frame == 1 else ())) for frame in (65535, 0, 1, 2)]
    stale = turns[0][:1]  # a packet that took another way comes after its turn is over
    sent = [turns[0], turns[1], [b"hello"], stale, turns[2], turns[3][:1]]  # which ends the turn before
    sender = threading.Thread(target=send_turns, args=(source.port, sent))
    sender.start()
    scans = receive(source, 3)
    sender.join()
    source.close()
    assert source.foreign_packets == 1
    ranges = ouster.road_ranges()
    if profile == "RNG15_RFL8_NIR8":
        ranges = ranges >> 3 << 3
    here = np.nonzero(ranges)
    for scan in scans[:2]:
        first = slice(0, len(here[0]))
        np.testing.assert_allclose(scan.points[first], expected_points(ranges), atol=2e-6)
        np.testing.assert_array_equal(scan.ring[first], here[1])
        np.testing.assert_array_equal(scan.channels["reflectivity"][first], here[0] % 256)
        np.testing.assert_allclose(scan.point_time[first], (here[0] - ouster.COLUMNS + 1) * 195e-6, atol=1e-6)
        if profile != "RNG15_RFL8_NIR8":
            np.testing.assert_array_equal(scan.intensity[first], here[1])
        assert len(scan) == len(here[0]) * (2 if "DUAL" in profile else 1)
    if "DUAL" in profile:
        second = scans[0].channels["echo"] == 2
        np.testing.assert_allclose(scans[0].points[second], expected_points(ouster.road_ranges(True)), atol=2e-6)
        np.testing.assert_array_equal(scans[0].intensity[second], here[1] + 1)
    assert len(scans[0]) - len(scans[2]) == np.count_nonzero(ranges[300]) * (2 if "DUAL" in profile else 1)


def test_the_road_under_an_ouster_is_ground(tmp_path):
    source = open_source(f"ouster:0?metadata={described(tmp_path, PROFILES[1])}")
    first, second = (list(ouster.packets(PROFILES[1], k)) for k in range(2))
    sender = threading.Thread(target=send_turns, args=(source.port, [first, second[:1]]))
    sender.start()
    (scan,) = receive(source, 1)
    sender.join()
    source.close()
    frame = roadbed.GroundFilter()(scan)
    road = scan.points[:, 2] < -1.7
    assert road.sum() > 1000
    assert frame.is_ground[road].mean() > 0.95
    assert frame.is_ground[scan.points[:, 2] > 0].mean() < 0.05


class Sensor(BaseHTTPRequestHandler):
    """The one page of a sensor that is asked for."""

    port = 0

    def do_GET(self):
        found = self.path == "/api/v1/sensor/metadata"
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(ouster.metadata(PROFILES[1], type(self).port).encode() if found else b"")

    def log_message(self, *_):
        pass


def test_a_sensor_is_asked_for_its_metadata_viewed_and_recorded(tmp_path):
    Sensor.port = free_port(socket.SOCK_DGRAM)
    server = HTTPServer(("127.0.0.1", 0), Sensor)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    recorded = tmp_path / "drive.mcap"
    with Processes(tmp_path, {}) as processes:
        place = f"ouster:127.0.0.1:{server.server_port}"
        options = ("--no-occupancy", "--port", "0", "--save-as", tmp_path / "c.yaml", "--record", recorded)
        view = processes.start("view", sys.executable, "-m", "roadbed", "view", place, *options)
        processes.wait_for("view", "Ctrl+C stops it")
        send_turns(Sensor.port, [ouster.packets(PROFILES[1], frame) for frame in range(6)])
        wait_until_taken(Sensor.port)
        assert processes.stop(view, signal.SIGTERM) == 0, processes.said("view")
        assert f"{recorded}: 5 scans" in processes.said("view")
    server.shutdown()
    source = roadbed.open(recorded)
    assert len(source) == 5
    np.testing.assert_allclose(source[2].points, expected_points(ouster.road_ranges()), atol=2e-6)
    assert set(source[2].all_channels()) >= {"intensity", "reflectivity", "near_ir", "ring", "point_time"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-5], "found no JSON, expected an Ouster's metadata"),
        (lambda text: "[1]", "found list, expected an Ouster's metadata"),
        (
            lambda text: text.replace(PROFILES[1], "FUSA_RNG15"),
            "udp_profile_lidar: found 'FUSA_RNG15', expected one of",
        ),
        (lambda text: text.replace('"columns_per_frame": 512', '"columns_per_frame": 1e9'), "columns_per_frame: found"),
        (lambda text: text.replace("beam_azimuth_angles", "other"), r"beam_azimuth_angles: found shape \(0,\)"),
        (lambda text: text.replace("-18.0", "NaN"), "beam_altitude_angles: expected finite numbers"),
    ],
)
def test_metadata_that_says_something_else_is_one_line(change, message):
    with pytest.raises(InputError, match=f"^os.json: {message}"):
        read_metadata(change(ouster.metadata(PROFILES[1])), "os.json")


def test_a_sensor_that_is_not_there_is_one_line():
    with pytest.raises(DeviceError, match=r"no answer to http://127\.0\.0\.1/api/v1/sensor/metadata \("):
        open_source(f"ouster:127.0.0.1:{free_port()}")


def test_a_sensor_is_asked_at_port_80_unless_another_is_given(monkeypatch):
    asked = []

    def refuse(host, port, timeout):
        asked.append((host, port))
        raise DeviceError("refused")

    monkeypatch.setattr("http.client.HTTPConnection", refuse)
    for place in ("ouster:127.0.0.1", "ouster:127.0.0.1:8080"):
        with pytest.raises(DeviceError, match="refused"):
            open_source(place)
    assert asked == [("127.0.0.1", 80), ("127.0.0.1", 8080)]
    with pytest.raises(InputError, match=r"expected ouster:HOST, or ouster:PORT\?metadata=FILE"):
        open_source("ouster:7502")


@pytest.mark.parametrize("profile", ["LEGACY", "RNG19_RFL8_SIG16_NIR16"])
def test_foreign_packets_of_the_same_size_do_not_silence_the_sensor(tmp_path, profile, capsys):
    """Their frame number is random; one that is ahead made the sensor's packets late ones for up to an hour."""
    source = open_source(f"ouster:0?metadata={described(tmp_path, profile, flat=profile == 'LEGACY')}")
    source.close()
    turns = [list(ouster.packets(profile, frame)) for frame in range(5)]
    rng = np.random.default_rng(0)
    ahead = next(iter(ouster.packets(profile, 20_000)))
    foreign = [rng.bytes(len(ahead)) for _ in range(10)] + [ahead]
    source._packets = lambda: [
        *foreign,
        *turns[0],
        *turns[1],
        ahead,
        *turns[2],
        rng.bytes(len(ahead)),
        *turns[3],
        *turns[4],
    ]
    found = [len(scan) for scan in iter(source)]
    whole = int((ouster.road_ranges() > 0).sum())
    assert found.count(whole) >= 3  # of four complete turns, the first of which may be lost
    assert source.foreign_packets >= len(foreign)
    assert "packets ignored" in capsys.readouterr().err


def test_a_sensor_that_starts_over_is_followed(tmp_path):
    profile = "RNG19_RFL8_SIG16_NIR16"
    source = open_source(f"ouster:0?metadata={described(tmp_path, profile)}")
    source.close()
    frames = (700, 701, 702, 0, 1, 2)
    source._packets = lambda: [packet for frame in frames for packet in ouster.packets(profile, frame)]
    names = [scan.name for scan in iter(source)]
    assert len(names) >= 4  # the first turn after the start may be lost
    assert len(set(names)) == len(names)
