# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

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
        with pytest.raises(InputError, match="found no Velodyne data packets, expected packets of 1206 bytes"):
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
