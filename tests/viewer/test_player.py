# SPDX-License-Identifier: Apache-2.0
"""The player shows the frame that was asked for, survives broken frames, and leaves no thread behind."""

import threading

import numpy as np
import pytest

from roadbed.config import Config
from roadbed.core.errors import InputError
from roadbed.pipeline import Pipeline
from roadbed.viewer.parameters import changed
from roadbed.viewer.player import Player
from roadbed.viewer.runner import LONG_PAST, SHORT_PAST
from tests.viewer.conftest import ShortSequence


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
        until(lambda: player.shown or player.scans.live, "the first frame, compiled")
        return player

    yield start
    for player in players:
        player.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("roadbed-")]


def test_seek_step_and_clamp(play, short_sequence, until):
    player = play(short_sequence())
    assert player.shown.index == 0
    player.seek(5)
    until(lambda: player.shown.index == 5, "frame 5")
    player.step(-1)
    until(lambda: player.shown.index == 4, "frame 4")
    player.seek(10_000)
    until(lambda: player.shown.index == len(short_sequence()) - 1, "the last frame")


def test_playing_goes_through_every_frame_and_stops_at_the_end(play, short_sequence, until):
    player = play(short_sequence())
    player.set_speed(100)
    player.play(True)
    until(lambda: not player.playing and player.shown.index == 7, "the end")
    assert [shown.index for shown in player.frames] == list(range(8))


def test_play_at_the_end_starts_from_the_beginning(play, short_sequence, until):
    player = play(short_sequence())
    player.set_speed(100)
    player.seek(7)
    until(lambda: player.shown.index == 7, "the last frame")
    player.frames.clear()
    player.play(True)
    until(lambda: not player.playing and player.shown.index == 7, "the end once more")
    assert [shown.index for shown in player.frames] == list(range(8))


def test_a_slower_speed_waits_longer_between_frames(play, short_sequence, until):
    """Scans are 0.1 s apart, so at a tenth of the speed a second; only the least is asserted, machines may be slow."""
    sequence = short_sequence()
    player = play(sequence)
    player.set_speed(0.1)
    player.play(True)
    until(lambda: player.shown.index >= 4, "the fourth frame after the first")
    assert [index for index, _ in sequence.reads[:5]] == [0, 1, 2, 3, 4]
    assert sequence.reads[4][1] - sequence.reads[1][1] > 3 * 0.8  # together: one that was read late is followed sooner


def test_a_jump_over_a_past_that_is_kept_gives_the_same_as_driving_there(play, short_sequence, until):
    driven = play(short_sequence(), occupancy=True)
    for index in range(1, 6):
        driven.step(1)
        until(lambda index=index: driven.shown.index == index, f"frame {index}")
    jumped = play(short_sequence(), occupancy=True)
    jumped.seek(5)
    until(lambda: jumped.shown.index == 5, "frame 5")
    assert [shown.index for shown in jumped.frames] == [0, 5]
    assert jumped.shown.past == driven.shown.past == 5
    there, here = driven.shown.result, jumped.shown.result
    assert (here.ground.label == there.ground.label).all()
    assert np.array_equal(here.occupancy.dynamic, there.occupancy.dynamic)
    assert np.array_equal(here.occupancy.velocity, there.occupancy.velocity, equal_nan=True)


def test_after_a_jump_velocities_become_those_of_the_sequence(play, long_scans, until):
    """What is shown at once says that it is not settled; the same frame follows with a past that is long enough."""
    *_, driven = Pipeline().run(long_scans)
    player = play(ShortSequence(long_scans), occupancy=True)
    last = len(long_scans) - 1
    player.seek(last)
    until(lambda: player.shown.index == last and player.shown.settled, "the settled frame")
    quick, settled = (shown for shown in player.frames if shown.index == last)
    assert (quick.past, quick.settled) == (SHORT_PAST, False)
    assert (settled.past, settled.settled) == (LONG_PAST, True)
    objects = settled.result.occupancy.objects
    known = [obj for obj in driven.occupancy.objects if obj.age > 1.0]  # the sequence knows no more of newer ones
    assert len(known) >= 4
    for obj in known:
        distances = [np.hypot(*(other.position - obj.position)) for other in objects]
        assert min(distances) < 1.0
        assert np.hypot(*(objects[int(np.argmin(distances))].velocity - obj.velocity)) < 0.75


def test_a_wish_goes_before_a_long_past(play, long_scans, until):
    player = play(ShortSequence(long_scans), occupancy=True)
    player.seek(31)
    until(lambda: player.shown.index == 31, "the frame with a short past")
    player.set_speed(100)
    player.seek(29)
    player.play(True)
    until(lambda: not player.playing and player.shown.index == 31, "the end")
    until(lambda: player.shown.settled, "the settled frame")
    assert [shown.index for shown in player.frames if not shown.settled] in ([0, 31, 29, 30, 31], [0, 31, 30, 31])
    assert [(shown.index, shown.past) for shown in player.frames if shown.settled] == [(31, LONG_PAST)]


def test_tuning_reads_no_scan_twice(play, long_scans, until):
    sequence = ShortSequence(long_scans)
    player = play(sequence, occupancy=True)
    player.seek(31)
    until(lambda: player.shown.settled, "the settled frame")
    read = len(sequence.reads)
    player.tune(changed(player.config, "ground.stcrf.sigma_up", 0.5))
    until(lambda: not player.shown.settled, "the tuned frame")
    until(lambda: player.shown.settled, "the tuned frame, settled")
    assert len(sequence.reads) == read


def test_tuning_runs_the_frame_again_and_shows_the_change_of_the_score(play, short_sequence, until):
    player = play(short_sequence())
    first = player.shown
    assert first.scores["F1"] > 80
    assert first.before is first.scores
    player.tune(changed(player.config, "ground.stcrf.sigma_up", 0.5))
    until(lambda: player.shown is not first, "the tuned frame")
    assert player.shown.index == first.index
    assert player.shown.before == pytest.approx(first.scores)
    assert player.shown.scores != first.scores
    assert (player.shown.result.ground.label != first.result.ground.label).any()


def test_a_broken_frame_is_reported_and_the_next_one_still_works(play, short_sequence, until):
    player = play(short_sequence(broken=[2]))
    player.seek(2)
    until(lambda: player.errors, "the error")
    assert player.errors[0][0] == 2
    assert "half" in player.errors[0][1]
    assert not player.playing
    player.step(1)
    until(lambda: player.shown.index == 3, "the frame after it, whose past lacks the broken one")
    assert len(player.errors) == 1


def test_a_wish_made_while_a_frame_fails_is_not_lost(play, scans, until):
    class Impatient(ShortSequence):
        def __getitem__(self, index):
            if index in self.broken:
                player.seek(4)
            return super().__getitem__(index)

    player = play(Impatient(scans, broken=[2]))
    player.seek(2)
    until(lambda: player.shown.index == 4, "the frame asked for meanwhile")
    assert [index for index, _ in player.errors] == [2]


def test_a_frame_is_shown_once_it_is_drawn(play, short_sequence, until):
    player = play(short_sequence())
    while_drawn = []
    player.on_frame = lambda shown: while_drawn.append((shown.index, player.shown.index))
    player.seek(3)
    until(lambda: player.shown.index == 3, "frame 3")
    assert while_drawn == [(3, 0)]


def test_closing_does_not_wait_for_the_rest_of_a_past(play, scans, until):
    class Long(ShortSequence):
        def __getitem__(self, index):
            if index == 3:
                reached.set()
                until(lambda: player._closed, "the end")
            return super().__getitem__(index)

    reached, sequence = threading.Event(), Long(scans)
    player = play(sequence)
    player.seek(7)
    assert reached.wait(300)
    player.close()
    assert [index for index, _ in sequence.reads] == [0, 2, 3]


def test_a_source_without_scans_is_reported():
    with pytest.raises(InputError, match="found none"):
        Player([], Config())


def test_a_live_source_is_followed_and_its_failure_is_reported(play, scans, until):
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


def test_a_live_source_that_is_ahead_costs_one_frame_each(play, scans, until):
    """Scans that arrive while one is run are left out; the past goes on without them."""
    all_at_once = threading.Event()

    def arriving():
        yield scans[0]
        all_at_once.wait()
        yield from scans[1:]

    player = play(arriving(), occupancy=True)
    until(lambda: player.shown and player.shown.index == 0, "the first frame, compiled")
    all_at_once.set()
    until(lambda: player.shown.index == 7, "the newest")
    assert [shown.past for shown in player.frames] == list(range(len(player.frames)))
