# SPDX-License-Identifier: Apache-2.0
"""Recorded scans are given as asked for, however many, and the last ones without reading them again."""

from __future__ import annotations

from roadbed.viewer.runner import LONG_PAST
from roadbed.viewer.scans import RecordedScans
from tests.viewer.conftest import ShortDrive


def test_every_scan_of_a_long_recording_can_be_had(scans):
    drive = ShortDrive(scans * 10)
    recorded = RecordedScans(drive)
    assert recorded.span() == (0, 79)
    for index in range(80):
        assert recorded.get(index) is drive.scans[index]


def test_a_past_and_its_frame_stay_at_hand(scans):
    drive = ShortDrive(scans * 10)
    recorded = RecordedScans(drive)
    for index in range(80):
        recorded.get(index)
    read = len(drive.reads)
    for index in range(79 - LONG_PAST, 80):
        assert recorded.get(index) is drive.scans[index]
    assert len(drive.reads) == read
    recorded.get(0)
    assert len(drive.reads) == read + 1
