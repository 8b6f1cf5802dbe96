# SPDX-License-Identifier: Apache-2.0
"""A folder of results: sources and files of others are never touched, old results only when asked."""

import json
import os
import re

import pytest

from roadbed.config import Config
from roadbed.core.errors import OutputError
from roadbed.outputs.folder import MANIFEST, OutputFolder, claim_configuration, unused_name

PARTS = ("labels", "report.html")


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run_folder(folder, **options):
    return OutputFolder(folder, PARTS, **{"command": "roadbed test", **options})


def written(folder, labels=("0", "1"), **options):
    out = run_folder(folder, **options)
    for name in labels:
        out.file("labels", f"{name}.label").parent.mkdir(exist_ok=True)
        out.file("labels", f"{name}.label").write_text(name)
    out.file("report.html").write_text("report")
    return folder


def test_nothing_is_touched_before_the_first_file(tmp_path):
    run_folder(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    before = content(written(tmp_path / "out"))
    run_folder(tmp_path / "out", force=True)
    assert content(tmp_path / "out") == before


def test_results_are_replaced_only_when_asked_and_then_wholly(tmp_path):
    out = written(tmp_path / "out")
    before = content(out)
    message = f"{out}: holds the results of 'roadbed test'; name another folder with -o, or replace them with --force"
    with pytest.raises(OutputError, match=re.escape(message)):
        run_folder(out)
    assert content(out) == before
    written(out, labels=("7",), force=True)
    assert set(content(out)) == {MANIFEST, "labels/7.label", "report.html"}


def test_files_of_others_survive_even_force(tmp_path):
    out = written(tmp_path / "out")
    (out / "notes.txt").write_text("mine")
    (out / "labels" / "mine").mkdir()
    (out / "labels" / "mine" / "0.label").write_text("mine")
    before = content(out)
    with pytest.raises(OutputError, match=r"labels/mine/0\.label: would be in the way and was not written by Roadbed"):
        run_folder(out, force=True)
    assert content(out) == before
    only_report = OutputFolder(out, ("report.html",), command="roadbed other", force=True)
    only_report.file("report.html").write_text("new")
    found = content(out)
    assert set(found) == {MANIFEST, "labels/mine/0.label", "notes.txt", "report.html"}
    assert found["labels/mine/0.label"] == found["notes.txt"] == b"mine"


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_with_foreign_files_of_the_same_names_is_refused(tmp_path, force):
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "000000.label").write_text("another sequence's")
    with pytest.raises(OutputError, match="was not written by Roadbed"):
        run_folder(tmp_path, force=force)
    assert run_folder(tmp_path / "new", force=force).file("report.html") == tmp_path / "new" / "report.html"


def test_a_foreign_folder_without_such_names_may_be_written_into(tmp_path):
    (tmp_path / "cloud.pcd").write_text("a cloud")
    written(tmp_path, inputs=[tmp_path / "cloud.pcd"])
    assert (tmp_path / "cloud.pcd").read_text() == "a cloud"


def test_links_are_not_followed(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "0.label").write_text("kept")
    out = written(tmp_path / "out")
    for name in ("0.label", "1.label"):
        (out / "labels" / name).unlink()
    (out / "labels").rmdir()
    (out / "labels").symlink_to(other)
    with pytest.raises(OutputError, match="was not written by Roadbed"):
        run_folder(out, force=True)
    OutputFolder(out, ("report.html",), command="", force=True).file("report.html")
    assert content(other) == {"0.label": b"kept"}


@pytest.mark.parametrize("name", ["../victim", "/{root}/victim", "labels/../../victim", "", "."])
def test_a_manifest_cannot_make_files_outside_disappear(tmp_path, name):
    (tmp_path / "victim").write_text("kept")
    out = written(tmp_path / "out")
    with (out / MANIFEST).open("a") as manifest:
        manifest.write(json.dumps(name.format(root=tmp_path)) + "\n")
        manifest.write("half a li")
    written(out, force=True)
    assert (tmp_path / "victim").read_text() == "kept"


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    ("output", "source"),
    [
        ("sequence", "sequence"),  # the sequence itself
        ("sequence/../sequence", "sequence"),
        ("link", "sequence"),
        ("sequence/velodyne", "sequence"),  # among its files
        ("sequence", "sequence/velodyne"),  # a part of what would be replaced
        ("sequence", "sequence/velodyne/0.bin"),
    ],
)
def test_an_output_never_touches_its_source(tmp_path, output, source, force):
    sequence = OutputFolder(tmp_path / "sequence", ("velodyne",), command="roadbed simulate")
    sequence.file("velodyne", "0.bin").parent.mkdir()
    sequence.file("velodyne", "0.bin").write_bytes(b"points")
    (tmp_path / "link").symlink_to(tmp_path / "sequence")
    before = content(tmp_path / "sequence")
    with pytest.raises(OutputError, match=r"in their source .* never written to"):
        run_folder(tmp_path / output, inputs=[tmp_path / source], force=force)
    assert content(tmp_path / "sequence") == before


def test_a_new_folder_in_the_source_may_hold_results_and_hold_them_again(tmp_path):
    sequence = tmp_path / "sequence"
    (sequence / "velodyne").mkdir(parents=True)
    (sequence / "velodyne" / "0.bin").write_bytes(b"points")
    written(sequence / "out", inputs=[sequence])
    written(sequence / "out", inputs=[sequence], force=True)
    assert (sequence / "velodyne" / "0.bin").read_bytes() == b"points"


def test_two_runs_cannot_begin_in_one_folder(tmp_path):
    first, second = run_folder(tmp_path / "out"), run_folder(tmp_path / "out")
    first.file("report.html").write_text("first")
    with pytest.raises(OutputError, match="another run has begun to write there"):
        second.file("report.html")


def test_runs_that_replace_the_results_of_one_folder_do_not_mix(tmp_path):
    written(tmp_path / "out")
    first, second = (run_folder(tmp_path / "out", force=True) for _ in range(2))
    first.file("report.html").write_text("first")
    with pytest.raises(OutputError, match="another run has begun to write there"):
        second.file("report.html")
    third = run_folder(tmp_path / "out", force=True)
    third.file("report.html").write_text("third")
    with pytest.raises(OutputError, match="another run has begun to write there"):
        first.file("config.yaml")
    third.file("config.yaml")
    assert (tmp_path / "out" / "report.html").read_text() == "third"


def test_what_a_killed_run_wrote_counts_as_its_results(tmp_path):
    pid = os.fork()
    if not pid:  # the manifest must be on disk before the file is, without any closing step
        out = run_folder(tmp_path / "out")
        out.file("labels", "0.label").parent.mkdir()
        out.file("labels", "0.label").write_text("0")
        os._exit(9)
    os.waitpid(pid, 0)
    with pytest.raises(OutputError, match="--force"):
        run_folder(tmp_path / "out")
    written(tmp_path / "out", labels=(), force=True)
    assert set(content(tmp_path / "out")) == {MANIFEST, "report.html"}


def test_configurations_are_replaced_only_when_asked_and_other_files_never(tmp_path):
    ours, diagnostics = tmp_path / "roadbed.yaml", tmp_path / "poses.txt"
    assert claim_configuration(ours) == unused_name(ours) == ours
    Config().save(ours)
    diagnostics.write_text("1 0 0 0")
    with pytest.raises(OutputError, match="exists; name another file, or replace it with --force"):
        claim_configuration(ours)
    assert claim_configuration(ours, force=True) == ours
    with pytest.raises(OutputError, match="not a configuration"):
        claim_configuration(diagnostics, force=True)
    assert unused_name(ours) == tmp_path / "roadbed-2.yaml"
