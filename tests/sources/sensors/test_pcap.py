# SPDX-License-Identifier: Apache-2.0
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import roadbed
from roadbed.core.errors import InputError
from tests.conftest import UNHURRIED
from tests.sources.damage import damaged

PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


def test_files_that_are_no_captures(tmp_path):
    for content, message in (
        (b"", "found an empty file, expected a pcap capture"),
        (b"text file", "found bytes 74657874, expected a pcap capture"),
    ):
        (tmp_path / "a.pcap").write_bytes(content)
        with pytest.raises(InputError, match=message):
            roadbed.open(tmp_path / "a.pcap")
    for content in (PCAP_HEADER, PCAP_HEADER + struct.pack("<IIII", 1, 0, 60, 60) + bytes(60)):
        (tmp_path / "a.pcap").write_bytes(content)
        with pytest.raises(InputError, match=r"found .*UDP packets.*, expected a Velodyne \(1206 bytes\)"):
            len(roadbed.open(tmp_path / "a.pcap"))
    (tmp_path / "a.pcap").write_bytes(PCAP_HEADER[:10])
    with pytest.raises(InputError, match="not a readable Velodyne capture"):
        len(roadbed.open(tmp_path / "a.pcap"))


def test_poses_are_interpolated_at_the_time_of_each_turn(real_data, tmp_path):
    file = real_data / "formats/sample_velodyne_vlp16_gps.pcap"
    times = [scan.time for scan in roadbed.open(file)]
    rows = [[times[0] - 0.05 + 0.1 * k, k, 0, 0, 0, 0, 0, 1] for k in range(6)]
    np.savetxt(tmp_path / "tum.txt", rows, fmt="%.9f")
    source = roadbed.open(file, poses=tmp_path / "tum.txt")
    assert source.sequential
    for scan in source:
        assert scan.T_world_sensor.translation[0] == pytest.approx((scan.time - times[0] + 0.05) / 0.1, abs=1e-3)
    np.savetxt(tmp_path / "kitti.txt", [np.eye(4)[:3].ravel()] * 3)
    with pytest.raises(InputError, match="poses: found 3, expected 4"):
        roadbed.open(file, poses=tmp_path / "kitti.txt")


@settings(max_examples=25, deadline=None, suppress_health_check=[*UNHURRIED, HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_captures_give_scans_or_one_line(real_data, tmp_path, data):
    raw = (real_data / "formats/sample_velodyne_vlp16_gps.pcap").read_bytes()[:60_000]
    (tmp_path / "damaged.pcap").write_bytes(data.draw(damaged(raw)))
    try:
        assert sum(len(scan) for scan in roadbed.open(tmp_path / "damaged.pcap")) >= 0
    except InputError as error:
        if "\n" in str(error):
            pytest.fail(f"more than one line: {error}")


OUSTER = "recordings/OS-2-128-U1_v2.3.0_1024x10.pcap"


def test_a_real_ouster_capture_with_its_metadata(real_data):
    source = roadbed.open(real_data / OUSTER)
    scans = list(source)
    assert (source.name, len(source), len(scans)) == ("pcap", 1, 1)
    scan = scans[0]
    assert scan.time == pytest.approx(1650411847.1, abs=0.1)
    assert scan.ring.max() == 127
    assert len(scan) > 40_000
    assert -0.11 < scan.point_time.min() < scan.point_time.max() == 0
    # The beams are where the metadata put them: an OS2 looks 11 degrees up and down.
    elevation = np.degrees(np.arctan2(scan.points[:, 2], np.hypot(*scan.points[:, :2].T)))
    assert np.abs(elevation).max() < 14


def as_fragments(real, size=1480):
    """Ethernet frames of a capture, with every datagram split as a network does."""
    import dpkt

    with open(real, "rb") as file:
        for stamp, frame in dpkt.pcap.Reader(file):
            ethernet = dpkt.ethernet.Ethernet(frame)
            whole = bytes(ethernet.data.data)
            for start in range(0, len(whole), size):
                part = whole[start : start + size]
                more = start + size < len(whole)
                packet = dpkt.ip.IP(src=ethernet.data.src, dst=ethernet.data.dst, p=17, id=ethernet.data.id, data=part)
                packet.mf, packet.offset, packet.len = int(more), start // 8, 20 + len(part)
                yield stamp, bytes(dpkt.ethernet.Ethernet(src=ethernet.src, dst=ethernet.dst, data=packet))


def test_fragments_and_pcapng_give_the_same_scan(real_data, tmp_path):
    import dpkt

    with open(tmp_path / "os.pcapng", "wb") as file:
        writer = dpkt.pcapng.Writer(file)
        for stamp, frame in as_fragments(real_data / OUSTER):
            writer.writepkt(frame, stamp)
    metadata = (real_data / OUSTER).with_suffix(".json")
    with pytest.raises(InputError, match=r"found UDP packets .*as an Ouster sends.* with \?metadata=FILE.json"):
        len(roadbed.open(tmp_path / "os.pcapng"))
    found = roadbed.open(tmp_path / "os.pcapng", metadata=metadata)[0]
    np.testing.assert_array_equal(found.points, roadbed.open(real_data / OUSTER)[0].points)


def test_a_velodyne_capture_as_pcapng(real_data, tmp_path):
    import dpkt

    real = real_data / "formats/sample_velodyne_vlp16_gps.pcap"
    with open(real, "rb") as given, open(tmp_path / "v.pcapng", "wb") as file:
        writer = dpkt.pcapng.Writer(file)
        for stamp, frame in dpkt.pcap.Reader(given):
            writer.writepkt(frame, stamp)
    for ours, theirs in zip(roadbed.open(tmp_path / "v.pcapng"), roadbed.open(real), strict=True):
        np.testing.assert_array_equal(ours.points, theirs.points)
