# SPDX-License-Identifier: Apache-2.0
"""The player shows the frame that was asked for, survives broken frames, and leaves no thread behind."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from roadbed.config import Config
from roadbed.errors import InputError
from roadbed.viewer.parameters import changed
from roadbed.viewer.player import Player


@pytest.fixture
def play(until):
    players = []

    def start(source, occupancy=False):
        player = Player(source, Config(), occupancy)
        player.frames, player.errors = [], []
        player.on_frame = player.frames.append
        player.on_error = lambda index, error: player.errors.append((index, str(error)))
        players.append(player)
        player.start()
        until(lambda: player.shown or player.scans.live, "the first frame, compiled", 300)
        return player

    yield start
    for player in players:
        player.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("roadbed-")]


def test_seek_step_and_clamp(play, short_drive, until):
    player = play(short_drive())
    assert player.shown.index == 0
    player.seek(5)
    until(lambda: player.shown.index == 5, "frame 5")
    player.step(-1)
    until(lambda: player.shown.index == 4, "frame 4")
    player.seek(10_000)
    until(lambda: player.shown.index == len(short_drive()) - 1, "the last frame")


def test_playing_goes_through_every_frame_and_stops_at_the_end(play, short_drive, until):
    player = play(short_drive())
    player.set_speed(100)
    player.play(True)
    until(lambda: not player.playing and player.shown.index == 7, "the end")
    assert [shown.index for shown in player.frames] == list(range(8))


def test_a_jump_gives_the_same_labels_as_driving_there(play, short_drive, until):
    driven = play(short_drive())
    for index in range(1, 6):
        driven.step(1)
        until(lambda index=index: driven.shown.index == index, f"frame {index}")
    jumped = play(short_drive())
    jumped.seek(5)
    until(lambda: jumped.shown.index == 5, "frame 5")
    assert np.mean(jumped.shown.result.ground.label == driven.shown.result.ground.label) > 0.99


def test_tuning_runs_the_frame_again_and_tells_the_change_of_the_score(play, short_drive, until):
    player = play(short_drive())
    first = player.shown
    assert first.scores["F1"] > 80
    assert first.before is first.scores
    player.tune(changed(player.config, "ground.stcrf.sigma_up", 0.5))
    until(lambda: player.shown is not first, "the tuned frame")
    assert player.shown.index == first.index
    assert player.shown.before == pytest.approx(first.scores)
    assert player.shown.scores != first.scores
    assert (player.shown.result.ground.label != first.result.ground.label).any()


def test_a_broken_frame_is_told_and_the_next_one_still_works(play, short_drive, until):
    player = play(short_drive(broken=[2]))
    player.seek(2)
    until(lambda: player.errors, "the error")
    assert player.errors[0][0] == 2
    assert "half" in player.errors[0][1]
    assert not player.playing
    player.step(1)
    until(lambda: player.shown.index == 3, "the frame after it, whose past lacks the broken one")
    assert len(player.errors) == 1


def test_a_source_without_scans_is_told():
    with pytest.raises(InputError, match="found none"):
        Player([], Config())


def test_a_live_source_is_followed_and_its_failure_is_told(play, scans, until):
    more = threading.Semaphore(0)

    def arriving():
        for scan in scans[:3]:
            more.acquire()
            yield scan
        more.acquire()
        raise ConnectionError("the sensor went away")

    player = play(arriving())
    assert player.playing
    for index in range(3):
        more.release()
        until(lambda index=index: player.shown and player.shown.index == index, f"live frame {index}")
    more.release()
    until(lambda: player.errors, "the failure")
    assert "went away" in player.errors[0][1]
    player.seek(1)
    until(lambda: player.shown.index == 1, "an earlier frame, still kept")
