# SPDX-License-Identifier: Apache-2.0
"""What a worker does, in this process: like `roadbed run`, complete or not at all, and done again when it must be."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from roadbed import Pipeline
from roadbed.batch import tasks
from roadbed.batch.sequences import find_sequences
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.recording import RunFolder
from roadbed.sources.read_options import ReadOptions
from tests.batch.conftest import FRAMES, SMALL, content, ended, job_in
from tests.disks import mounted


@pytest.fixture(scope="module")
def copied(sequences, tmp_path_factory):
    """A batch of one complete sequence, with an input that may be changed; each test leaves it complete."""
    home = tmp_path_factory.mktemp("copied")
    shutil.copytree(sequences[0].location, home / "input")
    (sequence,) = find_sequences([str(home / "input")], ReadOptions(frames=2))
    job = job_in(home / "out", map=False, occupancy=False)
    assert ended(tasks.sequence_task(job, sequence)).status == "done"
    return job, sequence


def test_an_unsplit_sequence_is_what_roadbed_run_writes_byte_for_byte(alone, sequences, tmp_path):
    sequence = sequences[0]
    pipeline = Pipeline(SMALL, map_folder=tmp_path / "map")
    folder = RunFolder(OutputFolder(tmp_path / "run", RunFolder.PARTS, command="run"), sequence.location, SMALL)
    for result in pipeline.run(sequence.read_options.open(sequence.location)):
        folder.add(result)
    pipeline.close()
    folder.finish()
    batch = content(alone.of(sequence))
    plain = content(tmp_path / "run")
    assert {name: batch[name] for name in plain} == plain
    assert len(plain) >= 2 * FRAMES + 2
    of_map = {f"map/{path.name}": path.read_bytes() for path in (tmp_path / "map").iterdir()}
    assert {name: data for name, data in batch.items() if name.startswith("map/")} == of_map


def test_the_manifest_shows_what_is_there(alone, sequences):
    found = json.loads((alone.of(sequences[0]) / "sequence.json").read_text())
    assert found["frames"] == FRAMES
    assert sum(found["labels"].values()) == found["points"] > 0
    assert 0 < found["scores"]["F1"] <= 100
    assert set(found["versions"]) == {"roadbed", "python", "numpy", "numba"}
    assert [found["lowest"][0]["F1"]] <= [found["lowest"][1]["F1"]]
    there = {name for name, _ in content(alone.of(sequences[0])).items()}
    assert set(found["files"]) - {"report.html", "run.json", "roadbed-manifest.jsonl"} == there - {"sequence.json"}
    times = json.loads((alone.of(sequences[0]) / "run.json").read_text())
    assert set(times["stage_seconds"]) == {"ground", "occupancy", "map"}
    assert times["processor_s"] > 0


def test_a_complete_sequence_is_kept_also_when_its_files_were_only_touched(copied):
    job, sequence = copied
    before = content(job.folder)
    for entry in os.scandir(f"{sequence.location}/velodyne"):
        os.utime(entry.path, (1, 1))
    assert ended(tasks.sequence_task(job, sequence)).status == "kept"
    assert content(job.folder) == before


def cut_a_layer_short(job, sequence):
    layer = next((job.of(sequence) / "layers").iterdir())
    layer.write_bytes(layer.read_bytes()[:-1])
    return job, "cut short"


def lose_a_label(job, sequence):
    next((job.of(sequence) / "labels").iterdir()).unlink()
    return job, "is missing or cut short"


def lose_the_manifest(job, sequence):
    (job.of(sequence) / "sequence.json").unlink()
    return job, "sequence.json is missing"


def change_the_settings(job, sequence):
    return replace(job, config=SMALL.with_changes(seed=5)), "the settings have changed"


def change_the_input(job, sequence):
    with open(f"{sequence.location}/poses.txt", "a") as file:
        file.write("\n")
    return job, "the input has changed"


@pytest.mark.parametrize(
    "damage", [cut_a_layer_short, lose_a_label, lose_the_manifest, change_the_settings, change_the_input]
)
def test_what_is_incomplete_or_changed_is_done_again(copied, damage):
    job, sequence = copied
    before = content(job.folder)
    job, reason = damage(*copied)
    outcome = ended(tasks.sequence_task(job, sequence))
    assert (outcome.status, reason in outcome.reason) == ("done", True)
    after = content(job.folder)
    assert set(after) == set(before)
    same = {name for name in after if after[name] == before[name]}
    assert (same == set(after)) == (damage not in (change_the_settings, change_the_input))
    assert ended(tasks.sequence_task(job, sequence)).status == "kept"
    if job is not copied[0]:
        assert ended(tasks.sequence_task(*copied)).status == "done"


def test_files_of_others_are_not_replaced(copied):
    job, sequence = copied
    note = job.of(sequence) / "my-notes.txt"
    note.write_text("mine")
    (job.of(sequence) / "sequence.json").unlink()
    outcome = ended(tasks.sequence_task(job, sequence))
    assert outcome.status == "failed"
    assert "my-notes.txt: was not written by Roadbed" in outcome.reason
    assert note.read_text() == "mine"
    assert not list(job.unfinished.iterdir())
    note.unlink()
    assert ended(tasks.sequence_task(job, sequence)).status == "done"


def test_a_torn_scan_fails_with_its_line_and_leaves_nothing_half_written(copied, tmp_path):
    _, sequence = copied
    job = job_in(tmp_path / "other", map=False, occupancy=False)
    scan = Path(sequence.location, "velodyne", "000001.bin")
    before = scan.read_bytes()
    scan.write_bytes(b"torn")
    outcome = ended(tasks.sequence_task(job, sequence))
    scan.write_bytes(before)
    assert (outcome.status, outcome.disk_full) == ("failed", False)
    assert "000001.bin: length: found 4 bytes" in outcome.reason
    assert content(job.folder) == {}


def test_a_full_disk_is_reported_and_leaves_nothing(copied, tmp_path):
    _, sequence = copied
    with mounted(tmp_path / "small", "size=120k") as disk:
        job = job_in(disk / "out", map=False, occupancy=False)
        outcome = ended(tasks.sequence_task(job, sequence))
        assert (outcome.status, outcome.disk_full) == ("failed", True)
        assert "No space left on device" in outcome.reason
        assert content(job.folder) == {}


def test_a_node_without_the_folder_reports_it(copied, tmp_path):
    job, sequence = copied
    outcome = ended(tasks.sequence_task(replace(job, folder=tmp_path / "elsewhere"), sequence))
    assert "expected a folder that every node has" in outcome.reason
