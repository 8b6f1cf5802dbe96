# SPDX-License-Identifier: Apache-2.0
"""Segments of long sequences: every frame once, object ids kept, the joined result close to the whole."""

from __future__ import annotations

import json

import numpy as np
import pytest

from roadbed.batch import tasks
from roadbed.batch.segments import Ids, cut
from tests.batch.conftest import FRAMES, SMALL, content, ended, job_in


@pytest.mark.parametrize("frames", [1, 7, 14, 15, 100, 101, 149])
@pytest.mark.parametrize("warm_up", [0, 3, 40])
def test_every_frame_is_in_one_segment_and_each_is_warmed_up(frames, warm_up):
    segments = cut(frames, 10, warm_up)
    assert [n for segment in segments for n in range(segment.start, segment.stop)] == list(range(frames))
    assert all(segment.warm_up == min(warm_up, segment.start) for segment in segments)
    assert all(5 <= segment.stop - segment.start < 15 for segment in segments[1:])
    assert len(cut(frames, None, warm_up)) == 1


def line(frame, id, x):
    return json.dumps({"frame": frame, "id": id, "position": [x, 0.0]})


def test_an_object_keeps_its_id_across_a_cut_and_no_id_is_used_twice():
    ids = Ids()
    first = ids.of_segment([line("0", 7, 0.0), line("1", 7, 1.0), line("1", 3, 50.0)], "1", [])
    assert first == {7: 7, 3: 3}
    seen = [{"id": 0, "position": [1.2, 0.0]}, {"id": 1, "position": [80.0, 0.0]}]
    second = ids.of_segment([line("2", 0, 2.0), line("2", 1, 80.0), line("2", 4, -9.0)], "2", seen)
    assert second[0] == 7
    assert len({3, *second.values()}) == 4
    third = ids.of_segment([line("3", 2, 2.5)], "3", [{"id": 2, "position": [2.1, 0.0]}])
    assert third == {2: 7}


def test_a_joined_sequence_has_every_frame_and_nearly_the_labels_of_the_whole(alone, sequences, tmp_path):
    whole, sequence = alone.of(sequences[0]), sequences[0]
    job = job_in(tmp_path / "cut", segment=4, warm_up=3)
    split = ended(tasks.sequence_task(job, sequence))
    assert [(s.first, s.start, s.stop) for s in split.segments] == [(0, 0, 4), (1, 4, FRAMES)]
    for segment in split.segments:
        assert ended(tasks.segment_task(job, sequence, segment)).status == "part"
    assert not job.of(sequence).exists()
    before = content(job.unfinished)
    assert [type(told).__name__ for told in tasks.segment_task(job, sequence, split.segments[0])] == ["Outcome"]
    assert content(job.unfinished) == before, "a complete segment is kept"
    assert ended(tasks.join_task(job, sequence, split.segments)).frames == FRAMES
    joined = job.of(sequence)
    names = [sorted(path.name for path in (folder / "labels").iterdir()) for folder in (whole, joined)]
    assert names[0] == names[1]
    for number, name in enumerate(names[0]):
        a, b = (np.fromfile(folder / "labels" / name, np.uint32) for folder in (whole, joined))
        assert np.mean(a != b) <= (0.0 if number < 4 else 0.05)
    manifests = [json.loads((folder / "sequence.json").read_text()) for folder in (whole, joined)]
    assert manifests[1]["segments"] == [[0, 0, 4], [1, 4, FRAMES]]
    assert [m["points"] for m in manifests] == [manifests[0]["points"]] * 2
    assert (joined / "config.yaml").read_text() == SMALL.dumps()
    counts = [_survey_counts(folder / "map") for folder in (whole, joined)]
    assert counts[1] == pytest.approx(counts[0], rel=0.02), "frames of a warm-up are not surveyed twice"


def _survey_counts(folder):
    return sum(int(np.load(path)["count"].sum()) for path in folder.glob("points_*.npz"))
