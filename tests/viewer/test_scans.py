# SPDX-License-Identifier: Apache-2.0
"""Recorded scans are given as asked for, however many, and the last ones without reading them again."""

from threading import Event

from roadbed.viewer.runner import LONG_PAST
from roadbed.viewer.scans import LiveScans, RecordedScans
from tests.viewer.conftest import ShortSequence


def test_every_scan_of_a_long_recording_can_be_had(scans):
    sequence = ShortSequence(scans * 10)
    recorded = RecordedScans(sequence)
    assert recorded.bounds() == (0, 79)
    for index in range(80):
        assert recorded.get(index) is sequence.scans[index]


def test_a_past_and_its_frame_stay_at_hand(scans):
    sequence = ShortSequence(scans * 10)
    recorded = RecordedScans(sequence)
    for index in range(80):
        recorded.get(index)
    read = len(sequence.reads)
    for index in range(79 - LONG_PAST, 80):
        assert recorded.get(index) is sequence.scans[index]
    assert len(sequence.reads) == read
    recorded.get(0)
    assert len(sequence.reads) == read + 1


def test_a_live_source_shows_its_rate_and_what_was_skipped(scans):
    ended = Event()

    def sensor():
        yield from scans[:6]
        ended.set()

    live = LiveScans(sensor(), arrived=lambda: None)
    assert ended.wait(60)
    live.rate_text(0)
    words = live.rate_text(4).split()
    assert (words[0], words[2]) == ("live:", "Hz,")
    assert float(words[1]) > 0
    assert "3 of 6 scans skipped" in live.rate_text(4)
    live.close()
