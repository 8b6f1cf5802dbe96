# SPDX-License-Identifier: Apache-2.0
"""What a worker does, in this process: like `roadbed run`, complete or not at all, and done again when it must be."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from roadbed import Pipeline
from roadbed.batch import tasks
from roadbed.batch.drives import find_drives
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.recording import RunFolder
from roadbed.sources.read_options import ReadOptions
from tests.batch.conftest import FRAMES, SMALL, content, ended, job_in
from tests.disks import mounted


@pytest.fixture(scope="module")
def copied(drives, tmp_path_factory):
    """A batch of one complete drive, with an input that may be changed; each test leaves it complete."""
    home = tmp_path_factory.mktemp("copied")
    shutil.copytree(drives[0].location, home / "input")
    (drive,) = find_drives([str(home / "input")], ReadOptions(frames=2))
    job = job_in(home / "out", map=False, occupancy=False)
    assert ended(tasks.drive_task(job, drive)).status == "done"
    return job, drive


def test_an_unsplit_drive_is_what_roadbed_run_writes_byte_for_byte(alone, drives, tmp_path):
    drive = drives[0]
    pipeline = Pipeline(SMALL, map_folder=tmp_path / "map")
    folder = RunFolder(OutputFolder(tmp_path / "run", RunFolder.PARTS, command="run"), drive.location, SMALL)
    for result in pipeline.run(drive.opening.open(drive.location)):
        folder.add(result)
    pipeline.close()
    folder.finish()
    batch = content(alone.of(drive))
    plain = content(tmp_path / "run")
    assert {name: batch[name] for name in plain} == plain
    assert len(plain) >= 2 * FRAMES + 2
    of_map = {f"map/{path.name}": path.read_bytes() for path in (tmp_path / "map").iterdir()}
    assert {name: data for name, data in batch.items() if name.startswith("map/")} == of_map


def test_the_manifest_says_what_is_there(alone, drives):
    found = json.loads((alone.of(drives[0]) / "drive.json").read_text())
    assert found["frames"] == FRAMES
    assert sum(found["labels"].values()) == found["points"] > 0
    assert 0 < found["scores"]["F1"] <= 100
    assert set(found["versions"]) == {"roadbed", "python", "numpy", "numba"}
    assert [found["worst"][0]["F1"]] <= [found["worst"][1]["F1"]]
    there = {name for name, _ in content(alone.of(drives[0])).items()}
    assert set(found["files"]) - {"report.html", "run.json", "roadbed-manifest.jsonl"} == there - {"drive.json"}
    times = json.loads((alone.of(drives[0]) / "run.json").read_text())
    assert set(times["stage_seconds"]) == {"ground", "occupancy", "map"}
    assert times["processor_s"] > 0


def test_a_complete_drive_is_kept_also_when_its_files_were_only_touched(copied):
    job, drive = copied
    before = content(job.folder)
    for entry in os.scandir(f"{drive.location}/velodyne"):
        os.utime(entry.path, (1, 1))
    assert ended(tasks.drive_task(job, drive)).status == "kept"
    assert content(job.folder) == before


def cut_a_layer_short(job, drive):
    layer = next((job.of(drive) / "layers").iterdir())
    layer.write_bytes(layer.read_bytes()[:-1])
    return job, "cut short"


def lose_a_label(job, drive):
    next((job.of(drive) / "labels").iterdir()).unlink()
    return job, "is missing or cut short"


def lose_the_manifest(job, drive):
    (job.of(drive) / "drive.json").unlink()
    return job, "drive.json is missing"


def change_the_settings(job, drive):
    return replace(job, config=SMALL.with_changes(seed=5)), "the settings have changed"


def change_the_input(job, drive):
    with open(f"{drive.location}/poses.txt", "a") as file:
        file.write("\n")
    return job, "the input has changed"


@pytest.mark.parametrize(
    "damage", [cut_a_layer_short, lose_a_label, lose_the_manifest, change_the_settings, change_the_input]
)
def test_what_is_incomplete_or_changed_is_done_again(copied, damage):
    job, drive = copied
    before = content(job.folder)
    job, reason = damage(*copied)
    outcome = ended(tasks.drive_task(job, drive))
    assert (outcome.status, reason in outcome.reason) == ("done", True)
    after = content(job.folder)
    assert set(after) == set(before)
    same = {name for name in after if after[name] == before[name]}
    assert (same == set(after)) == (damage not in (change_the_settings, change_the_input))
    assert ended(tasks.drive_task(job, drive)).status == "kept"
    if job is not copied[0]:
        assert ended(tasks.drive_task(*copied)).status == "done"


def test_files_of_others_are_not_replaced(copied):
    job, drive = copied
    note = job.of(drive) / "my-notes.txt"
    note.write_text("mine")
    (job.of(drive) / "drive.json").unlink()
    outcome = ended(tasks.drive_task(job, drive))
    assert outcome.status == "failed"
    assert "my-notes.txt: was not written by Roadbed" in outcome.reason
    assert note.read_text() == "mine"
    assert not list(job.unfinished.iterdir())
    note.unlink()
    assert ended(tasks.drive_task(job, drive)).status == "done"


def test_a_torn_scan_fails_with_its_line_and_leaves_nothing_half_written(copied, tmp_path):
    _, drive = copied
    job = job_in(tmp_path / "other", map=False, occupancy=False)
    scan = Path(drive.location, "velodyne", "000001.bin")
    before = scan.read_bytes()
    scan.write_bytes(b"torn")
    outcome = ended(tasks.drive_task(job, drive))
    scan.write_bytes(before)
    assert (outcome.status, outcome.disk_full) == ("failed", False)
    assert "000001.bin: length: found 4 bytes" in outcome.reason
    assert content(job.folder) == {}


def test_a_full_disk_is_told_and_leaves_nothing(copied, tmp_path):
    _, drive = copied
    with mounted(tmp_path / "small", "size=120k") as disk:
        job = job_in(disk / "out", map=False, occupancy=False)
        outcome = ended(tasks.drive_task(job, drive))
        assert (outcome.status, outcome.disk_full) == ("failed", True)
        assert "No space left on device" in outcome.reason
        assert content(job.folder) == {}


def test_a_node_without_the_folder_says_so(copied, tmp_path):
    job, drive = copied
    outcome = ended(tasks.drive_task(replace(job, folder=tmp_path / "elsewhere"), drive))
    assert "expected a folder that every node has" in outcome.reason
