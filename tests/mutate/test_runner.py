# SPDX-License-Identifier: Apache-2.0
"""How mutations are judged: what runs here and what does not, which tests come first, whose result counts."""

from __future__ import annotations

import json
import time

import pytest

from tests.conftest import ROOT
from tests.mutate.baseline import Baseline
from tests.mutate.explained import EXPLAINED
from tests.mutate.mutation import Mutation
from tests.mutate.results import Results
from tests.mutate.tree import Tree

SLOW, FAST = "tests/occupancy/test_fuse.py", "tests/occupancy/test_fuse_device.py"


def mutation(path="occupancy/fusion/fuse.cl", tests=("occupancy/test_fuse.py", "occupancy/test_fuse_device.py")):
    return Mutation(path, "a", "b", tests)


@pytest.fixture
def baseline(tmp_path):
    known = Baseline(tmp_path / "baseline.jsonl")
    known.add(SLOW, {f"{SLOW}::test_a": ("passed", 9.0), f"{SLOW}::test_b[opencl]": ("skipped", 0.0)})
    known.add(FAST, {f"{FAST}::test_c": ("passed", 1.0), f"{FAST}::test_d": ("failed", 1.0)})
    return known


def test_green_tests_are_run_the_fastest_file_first_and_the_others_are_counted(baseline):
    assert baseline.chosen(mutation("occupancy/fusion/fuse.py")) == ([f"{FAST}::test_c", f"{SLOW}::test_a"], 2)
    assert baseline.seconds([f"{FAST}::test_c", f"{SLOW}::test_a"]) == 10
    assert baseline.counts() == (2, 2)
    assert baseline.chosen(mutation("occupancy/fusion/fuse.py", ("occupancy/test_fuse.py::test_a",))) == (
        [f"{SLOW}::test_a"],
        0,
    )


def test_a_kernel_of_devices_is_held_by_the_tests_of_devices(baseline):
    assert baseline.chosen(mutation()) == ([f"{FAST}::test_c"], 2)


def test_a_file_that_cannot_be_read_here_stands_for_its_tests(baseline):
    baseline.add(SLOW, {SLOW: ("failed", 0.0)})
    assert baseline.chosen(mutation("occupancy/fusion/fuse.py", ("occupancy/test_fuse.py::test_a",))) == ([], 1)


def test_what_was_run_here_is_known_again_until_the_file_changes(baseline):
    assert Baseline(baseline.path).missing([mutation()]) == []
    line = json.loads(baseline.path.read_text().splitlines()[0])
    baseline.path.write_text(json.dumps({**line, "digest": "another"}) + "\n")
    assert set(Baseline(baseline.path).missing([mutation()])) == {SLOW, FAST}


def test_results_of_several_machines_are_joined_and_what_one_noticed_is_noticed(tmp_path):
    one, two = mutation(), mutation("occupancy/fusion/fuse.py")
    for name, results in (("a", ("noticed", "open")), ("b", ("open", "survived"))):
        lines = [{"name": m.name, "what": what, "by": ""} for m, what in zip((one, two), results)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    known = Results(tmp_path)
    assert (known.of(one), known.of(two)) == ("noticed", "survived")
    report = known.report([one, two, mutation("occupancy/x.py")])
    assert report.startswith("judged 2 of 3; noticed 1 (50.0 %)")
    assert "| survived | `occupancy/fusion/fuse.py`" in report
    assert "| not judged | `occupancy/x.py`" in report


def test_a_mistake_turns_a_test_red_in_a_copy_and_the_copy_is_healed(tmp_path):
    tree = Tree(tmp_path / "tree", tmp_path / "kernels", threads=2)
    wrong = Mutation("core/timeline.py", "if seconds > limits.longest_pause:", "if False:", ("test_timeline.py",))
    file, end = "tests/test_timeline.py", time.monotonic() + 600
    whole = tree.run([file], end)
    assert whole.red is None
    with tree.changed(wrong):
        red = tree.run([file], end, list(whole.tests)).red
    assert red in whole.tests
    assert (tree.package / "core/timeline.py").read_text() == (ROOT / "src/roadbed/core/timeline.py").read_text()


def test_explanations_are_of_files_that_exist():
    assert [path for path, _, _ in EXPLAINED if not (ROOT / "src/roadbed" / path).exists()] == []
