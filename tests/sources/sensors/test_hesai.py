# SPDX-License-Identifier: Apache-2.0
"""Hesai packets, written here byte by byte as the manuals describe them, of real clouds that another decoder made."""

import io
import socket
import struct
import threading
import time

import numpy as np
import pytest
from scipy.spatial import cKDTree

import roadbed
from roadbed.core.errors import InputError
from roadbed.sources.sensors.hesai import MODELS, model_of, scans_of_packets

REAL = {"Pandar40P": "recordings/hesai_40p.pcd", "PandarXT-32": "recordings/hesai_xt32.pcd"}
BLOCKS = {"Pandar40P": 10, "Pandar64": 6, "PandarXT-32": 8}
BLOCK_US = {"Pandar40P": 55.56, "Pandar64": 55.56, "PandarXT-32": 50.0}


def packet(name, azimuths, distances, microseconds, reflectivity=7, mode=0x37, sequence=b""):
    """Azimuths in hundredths of a degree; distances (blocks, channels) in units of 4 mm."""
    channels = distances.shape[1]
    body = b""
    for azimuth, row in zip(azimuths, distances):
        units = b"".join(
            struct.pack("<HB", reach, reflectivity) + bytes(name == "PandarXT-32") for reach in row.tolist()
        )
        body += b"\xff\xee" * (name == "Pandar40P") + struct.pack("<H", azimuth) + units
    date = bytes((24, 5, 6, 7, 8, 9))
    if name == "PandarXT-32":
        head = b"\xee\xff\6\1\0\0" + bytes((channels, len(azimuths), 0, 4, 2, 1))
        tail = bytes(10) + bytes([mode]) + struct.pack("<H", 600) + date + struct.pack("<IB", microseconds, 0x42)
        return head + body + tail + b"\1\0\0\0"
    head = b"" if name == "Pandar40P" else b"\xee\xff" + bytes((channels, len(azimuths), 0, 4, 0, 0))
    tail = bytes(8) + struct.pack("<HIBB", 600, microseconds, mode, 0x42) + date
    return head + body + tail + sequence


def turn(name, cloud):
    """Packets of one revolution that hold every point of a cloud, and the correction file of its sensor."""
    points = cloud.astype(np.float64)
    reach = np.linalg.norm(points, axis=1)
    elevation = np.degrees(np.arcsin(points[:, 2] / reach))
    azimuth = np.degrees(np.arctan2(points[:, 0], points[:, 1])) % 360
    angles = next(model.angles for model in MODELS if model.name == name)
    channel = np.abs(elevation[:, None] - angles[:, 0] + 0.1 * (name == "Pandar40P")).argmin(axis=1)
    # The points of a block follow one another; its azimuth is a whole number of hundredths of a degree.
    turned = 100 * (azimuth - angles[channel, 1]) % 36000
    block = np.concatenate([[0], np.cumsum(np.abs(np.diff(turned)) > 5)])
    own = np.zeros(len(angles))
    for _ in range(5):
        middle = np.round(np.bincount(block, turned - own[channel]) / np.bincount(block))
        for number in np.unique(channel):
            own[number] = np.median((turned - middle[block])[channel == number])
    raw = middle[block].astype(np.int64)
    assert np.quantile(np.abs(turned - own[channel] - raw), 0.999) < 0.05
    beams = [np.median(elevation[channel == k]) if (channel == k).any() else up for k, up in enumerate(angles[:, 0])]
    assert np.abs(elevation - np.array(beams)[channel]).max() < 2e-3
    lines = ["Laser id,Elevation,Azimuth"]
    lines += [f"{k + 1},{up:.6f},{around:.6f}" for k, (up, around) in enumerate(zip(beams, angles[:, 1] + 0.01 * own))]
    units = np.round(reach / 0.004).astype(np.int64)
    np.testing.assert_allclose(units * 0.004, reach, atol=5e-6)  # the unit of the packets
    directions, row = np.unique(raw % 36000, return_inverse=True)
    firings = BLOCKS[name] // 2
    directions = np.pad(directions, (0, -len(directions) % firings), "edge")
    table = np.zeros((len(directions), 2, len(angles)), np.int64)  # two returns: a single one is sent twice
    _, first = np.unique(row * len(angles) + channel, return_index=True)
    second = np.setdiff1d(np.arange(len(points)), first)
    table[row[first], :, channel[first]] = units[first, None]
    table[row[second], 1, channel[second]] = units[second]
    kept = np.isin(np.arange(len(points)), first) | (table[row, 1, channel] == units)
    packets = [
        packet(
            name,
            np.repeat(directions[k : k + firings], 2),
            table[k : k + firings].reshape(-1, len(angles)),
            int(k * BLOCK_US[name] + 990_000) % 10**6,
            mode=0x39,
        )
        for k in range(0, len(directions), firings)
    ]
    return packets, "\n".join(lines), kept


@pytest.mark.parametrize("name", list(REAL))
def test_a_real_cloud_comes_back(real_data, tmp_path, name):
    """The clouds were decoded from real packets by nebula."""
    cloud = roadbed.open(real_data / REAL[name])[0].points
    cloud = cloud[np.linalg.norm(cloud, axis=1) > 0]
    packets, correction, kept = turn(name, cloud)
    assert kept.mean() > 0.999
    (tmp_path / "angles.csv").write_text(correction)
    (tmp_path / "two.pcap").write_bytes(capture([*packets, *packets]))
    source = roadbed.open(tmp_path / "two.pcap", calibration=tmp_path / "angles.csv")
    assert (source.name, len(source)) == ("pcap", 2)
    for scan in source:
        assert scan.sensor == "hesai"
        assert not scan.diagnostics
        assert len(scan) == kept.sum()
        assert np.quantile(cKDTree(scan.points).query(cloud[kept])[0], 0.999) < 1e-4
        assert set(np.unique(scan.intensity)) == {7}
        duration = 1e-6 * BLOCK_US[name] * (BLOCKS[name] // 2) * len(packets)
        assert scan.point_time.max() == pytest.approx(0, abs=1e-3)
        assert scan.point_time.min() == pytest.approx(-duration, rel=0.05)
    nominal = roadbed.open(tmp_path / "two.pcap")[0]
    assert "nominal angles" in nominal.diagnostics[0]
    np.testing.assert_allclose(nominal.points, source[0].points, atol=0.006 * np.abs(cloud).max())


def capture(packets, interval=0.0005):
    import dpkt

    stream = io.BytesIO()
    writer = dpkt.pcap.Writer(stream)
    for number, payload in enumerate(packets):
        udp = dpkt.udp.UDP(sport=10000, dport=2368, data=payload)
        udp.ulen = len(udp)
        address = dpkt.ip.IP(src=b"\1\2\3\4", dst=b"\5\6\7\x08", p=17, id=number % 65536, data=udp)
        address.len = len(address)
        writer.writepkt(bytes(dpkt.ethernet.Ethernet(data=address)), 100.0 + interval * number)
    return stream.getvalue()


@pytest.mark.parametrize("before", range(6, 12))
def test_a_scan_begins_at_any_block_of_a_packet(before):
    """A revolution has 36 blocks, a packet six; the azimuth passes 0 after `before` blocks, and 36 blocks later."""
    azimuths = (np.arange(72) - before) % 36 * 1000
    reach = np.full((6, 64), 2500)
    packets = [(0.1, packet("Pandar64", azimuths[k : k + 6], reach, 500_000)) for k in range(0, 72, 6)]
    counts = [len(scan) // 64 for scan in scans_of_packets(packets, "packets")]
    assert counts == [before, 36, 36 - before]


@pytest.mark.parametrize("name", list(BLOCKS))
def test_direction_unit_and_second_returns(name):
    model = next(model for model in MODELS if model.name == name)
    distances = np.zeros((model.blocks, model.channels), np.int64)
    distances[0, 3], distances[1, 3], distances[2:4, 5] = 2500, 5000, 1000
    azimuths = np.repeat(np.arange(model.blocks // 2) * 20 + 9000, 2)
    made = packet(name, azimuths, distances, 500_000, mode=0x39)
    assert model_of(made) is model
    (scan,) = scans_of_packets([(5.0, made)], "packets")
    assert scan.channels["echo"].tolist() == [1, 2, 1]  # the third return was the only one
    reach = np.linalg.norm(scan.points, axis=1)
    np.testing.assert_allclose(reach, [10, 20, 4], rtol=1e-6)
    # Clockwise from y as seen from above: 90 degrees are x, where the manual puts them.
    bearing = np.degrees(np.arctan2(scan.points[:, 0], scan.points[:, 1]))
    np.testing.assert_allclose(bearing, np.array([90, 90, 90.2]) + model.angles[[3, 3, 5], 1], atol=1e-4)
    elevation = np.degrees(np.arcsin(scan.points[:, 2] / reach))
    np.testing.assert_allclose(elevation, model.angles[[3, 3, 5], 0], atol=1e-4)
    assert scan.point_time[2] - scan.point_time[0] == pytest.approx(1e-6 * BLOCK_US[name])
    single = packet(name, azimuths, distances, 500_000, mode=0x38, sequence=b"" if name == "PandarXT-32" else bytes(4))
    (scan,) = scans_of_packets([(5.0, single)], "packets")
    assert len(scan) == 4
    assert "echo" not in scan.channels


def test_a_sensor_that_does_not_turn_ends_its_scans():
    still = packet("PandarXT-32", np.full(8, 100), np.full((8, 32), 500), 0)
    scans = list(scans_of_packets([(0.001 * k, still) for k in range(2000)], "packets"))
    assert len(scans) == 2
    assert sum(map(len, scans)) == 2000 * 8 * 32


def test_captures_and_files_that_are_refused(tmp_path):
    cases = {
        "robosense": (b"\x55\xaa\x05\x0a" + bytes(1244), r"a RoboSense \(RS-16, RS-32 or Bpearl\), which are not read"),
        "helios": (b"\x55\xaa\x05\x5a" + bytes(1244), r"a RoboSense \(Helios, Ruby, RS-80 or RS-128\), which are not"),
        "pandar128": (b"\xee\xff\1\4\0\0\x80\2" + bytes(853), r"a Hesai Pandar128 of 128 beams \(protocol 1.4; read"),
        "xt16": (b"\xee\xff\6\1\0\0\x10\x08" + bytes(560), r"PandarXT-16 of 16 .*; record PointCloud2 by its driver"),
        "later": (
            b"\xee\xff\x09\1\0\0\x20\x08" + bytes(560),
            r"a Hesai of 32 beams \(protocol 9.1; read are Pandar40P",
        ),
        "ouster": (bytes(24896), r"UDP packets \(1 of 24896 bytes\), as an Ouster sends, .* Ouster with \?metadata="),
    }
    for name, (payload, message) in cases.items():
        (tmp_path / f"{name}.pcap").write_bytes(capture([payload]))
        with pytest.raises(InputError, match=message):
            len(roadbed.open(tmp_path / f"{name}.pcap"))
    still = packet("PandarXT-32", np.full(8, 100), np.full((8, 32), 500), 0)
    (tmp_path / "xt.pcap").write_bytes(capture([still]))
    for text, message in (
        ("1,2,3\n", "found 1 channels, expected 32"),
        ("nothing", "expected lines of channel, elevation and azimuth"),
        ("1,2,3\n3,1,1\n", "expected lines of channel"),
        ("1,nan,3\n", "expected lines of channel"),
    ):
        (tmp_path / "angles.csv").write_text(text)
        with pytest.raises(InputError, match=message):
            len(roadbed.open(tmp_path / "xt.pcap", calibration=tmp_path / "angles.csv"))


def test_packets_on_the_wire_make_scans():
    distances = np.arange(8 * 32).reshape(8, 32) + 500
    packets = [packet("PandarXT-32", (np.arange(8) * 100 + 800 * k) % 36000, distances, 400 * k) for k in range(180)]
    stranger = packet("Pandar64", np.arange(6), np.full((6, 64), 500), 0)
    source = roadbed.open("hesai:0")

    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for data in (b"other", bytes(512), stranger, *packets[:100], stranger, *packets[100:]):
                sender.sendto(data, ("127.0.0.1", source.port))
                time.sleep(0.0005)

    thread = threading.Thread(target=send)
    thread.start()
    scans = [scan for scan, _ in zip(source, range(2))]
    thread.join()
    source.close()
    assert source.foreign_packets == 3
    expected = list(scans_of_packets([(0.0, data) for data in packets], "packets"))
    for found, scan in zip(scans, expected[:2], strict=True):
        np.testing.assert_array_equal(found.points, scan.points)
    assert [scan.name for scan in scans] == ["hesai_000000", "hesai_000001"]
