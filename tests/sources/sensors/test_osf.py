# SPDX-License-Identifier: Apache-2.0
"""OSF files that ouster-sdk wrote give the scans of their packets; damaged ones give one line."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roadbed
from roadbed.core.errors import InputError
from roadbed.sources.sensors.osf import OsfSource
from roadbed.sources.sensors.ouster import read_metadata, scans_of_packets
from tests.sources.damage import damaged, reads_or_refuses
from tests.sources.sensors import ouster_files

FILES = Path(__file__).parents[1] / "files"
WRITTEN = {"ouster_sdk_1.0.1.osf": "RNG19_RFL8_SIG16_NIR16_DUAL", "ouster_sdk_0.14.0.osf": "LEGACY"}


class Unchecked(OsfSource):
    """Without checksums, so that damage reaches the decoder."""

    def _check(self, chunk: int) -> None:
        pass


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_of_ouster_sdk_gives_the_scans_of_its_packets(name):
    """Compressed as Zpng by the newer version, as shifted PNG by the older one."""
    profile = WRITTEN[name]
    sensor = read_metadata(ouster_files.metadata(profile), profile)
    source = roadbed.open(FILES / name)
    assert (len(source), source.sequential, source.details()) == (
        2,
        True,
        {"brand": "Ouster OS-1-16", "serial_numbers": ["1"]},
    )
    for index, scan in enumerate(source):
        packets = ouster_files.packets(profile, index + 1, 10**9 + index * 10**8, lost=(7,))
        (expected,) = scans_of_packets(sensor, ((0.0, packet) for packet in packets), profile)
        np.testing.assert_array_equal(scan.points, expected.points)
        for field, values in expected.all_channels().items():
            np.testing.assert_array_equal(scan.all_channels()[field], values, err_msg=field)
        assert scan.time == pytest.approx(1_700_000_000 + 0.1 * index + 0.031, abs=1e-6)
    # Poses are those of the last column; the sensor is 0.5 m before and 1.8 m above the body.
    np.testing.assert_allclose(source[0].T_world_sensor.translation, [0, 0, 0])
    np.testing.assert_allclose(source[1].T_world_sensor.translation, [1 + 511 / 512 + 0.5, 0, 1.8])


def test_poses_of_a_file_come_first(tmp_path):
    (tmp_path / "poses.txt").write_text("1 0 0 7 0 1 0 0 0 0 1 0\n" * 2)
    source = roadbed.open(FILES / "ouster_sdk_1.0.1.osf", poses=tmp_path / "poses.txt")
    assert source[1].T_world_sensor.translation[0] == 7


def test_other_sensors_and_damage_are_one_line(tmp_path):
    with pytest.raises(InputError, match=r"sensor: found 1; choose one by \?sensor=SERIAL_NUMBER"):
        roadbed.open(FILES / "ouster_sdk_1.0.1.osf?sensor=2")
    whole = (FILES / "ouster_sdk_1.0.1.osf").read_bytes()
    for change, message in (
        (whole[:-1], "unfinished recording of 87095 bytes"),
        (whole[:4000] + b"?" + whole[4001:], "damaged chunk at byte"),
        (b"", "not a readable OSF file"),
        (b"\0" * 100, "expected 4f534624 of an OSF file"),
    ):
        (tmp_path / "a.osf").write_bytes(change)
        with pytest.raises(InputError, match=message):
            list(roadbed.open(tmp_path / "a.osf"))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_damaged_files_give_a_scan_or_one_line(tmp_path_factory, data):
    file = tmp_path_factory.mktemp("osf") / "damaged.osf"
    raw = (FILES / data.draw(st.sampled_from(sorted(WRITTEN)))).read_bytes()
    file.write_bytes(data.draw(damaged(raw)))
    reads_or_refuses(lambda path: Unchecked(str(path))[0], file)
