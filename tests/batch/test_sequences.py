# SPDX-License-Identifier: Apache-2.0
"""Which sequences: globs, lists, manifests, and names that stay the same."""

import json

import pytest

from roadbed.batch.sequences import find_sequences
from roadbed.core.errors import ConfigError, InputError
from roadbed.sources.read_options import ReadOptions


@pytest.fixture
def data(tmp_path):
    for name in ("a.mcap", "b.mcap", "c.pcd"):
        (tmp_path / name).write_text("")
    return tmp_path


def locations(*arguments, read_options=None):
    return {sequence.location for sequence in find_sequences([*map(str, arguments)], read_options or ReadOptions())}


def test_globs_keep_their_options_and_a_sequence_named_twice_is_done_once(data):
    expected = {f"{data}/a.mcap?topic=/p", f"{data}/b.mcap?topic=/p"}
    assert locations(f"{data}/*.mcap?topic=/p", f"{data}/a.mcap?topic=/p") == expected
    assert locations("sim:city?frames=3&seed=1") == {"sim:city?frames=3&seed=1"}


def test_lists_and_manifests_count_paths_from_where_they_lie(data):
    (data / "list.txt").write_text("# some\n*.mcap\n\nsim:city\n")
    assert locations(f"@{data}/list.txt") == {f"{data}/a.mcap", f"{data}/b.mcap", "sim:city"}
    line = {"source": "c.pcd", "name": "first", "start": 2, "mounting": [0, 0, 1.7, 0, 0, 0]}
    (data / "manifest.jsonl").write_text(json.dumps(line) + "\n")
    (sequence,) = find_sequences([f"@{data}/manifest.jsonl"], ReadOptions(stride=3))
    assert (sequence.name, sequence.location) == ("first", f"{data}/c.pcd")
    assert sequence.read_options == ReadOptions(start=2, stride=3, mounting=(0, 0, 1.7, 0, 0, 0))


def test_the_poses_of_a_manifest_lie_beside_it_and_those_of_an_option_where_the_command_runs(data, monkeypatch):
    elsewhere = data / "elsewhere"
    elsewhere.mkdir()
    for folder in (data, elsewhere):
        (folder / "poses.txt").write_text("")
    lines = [{"source": "a.mcap", "odometry": "poses.txt"}, {"source": "b.mcap"}, {"source": "c.pcd", "odometry": "/t"}]
    (data / "manifest.jsonl").write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.chdir(elsewhere)
    found = find_sequences([f"@{data}/manifest.jsonl"], ReadOptions(odometry="poses.txt"))
    odometry = {sequence.location: sequence.read_options.odometry for sequence in found}
    assert odometry == {
        f"{data}/a.mcap": f"{data}/poses.txt",
        f"{data}/b.mcap": f"{elsewhere}/poses.txt",
        f"{data}/c.pcd": "/t",
    }


def test_a_name_depends_on_its_own_sequence_alone(data):
    one = find_sequences([f"{data}/a.mcap"], ReadOptions())[0]
    assert one in find_sequences([f"{data}/*.mcap", f"{data}/c.pcd"], ReadOptions())
    assert one.name.startswith("a.mcap-")
    assert find_sequences([f"{data}/a.mcap"], ReadOptions(start=1))[0].name != one.name


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"source": "c.pcd", "sauce": 1}', "line 1: .*sauce"),
        ('{"source": "c.pcd", "name": "../up"}', "line 1: .*name"),
        ('{"source": "c.pcd", "frames": 0}', "line 1: .*frames"),
        ('{"source"', "line 1: expected an object of JSON"),
        ("nothing/*.mcap", "found nothing of that name"),
        ("# only a comment", "found no sequence"),
    ],
)
def test_bad_lists_name_the_line(data, line, message):
    (data / "list").write_text(line)
    with pytest.raises((InputError, ConfigError), match=message):
        find_sequences([f"@{data}/list"], ReadOptions())


def test_one_name_for_two_sequences_is_refused(data):
    lines = [json.dumps({"source": name, "name": "same"}) for name in ("a.mcap", "b.mcap")]
    (data / "list").write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"sequence same: found .*a\.mcap and .*b\.mcap, expected one"):
        find_sequences([f"@{data}/list"], ReadOptions())
