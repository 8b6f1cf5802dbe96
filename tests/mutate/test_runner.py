# SPDX-License-Identifier: Apache-2.0
"""How mutations are judged: what runs here and what does not, which tests come first, whose result counts."""

import json
import time

import pytest

from tests.conftest import ROOT
from tests.mutate.baseline import Baseline, files_of
from tests.mutate.explained import EXPLAINED
from tests.mutate.mutation import Mutation
from tests.mutate.results import Results
from tests.mutate.tree import Said, Tree

CPU, DEVICE = "tests/occupancy/test_fuse.py", "tests/occupancy/test_fuse_device.py"


def mutation(path="occupancy/fusion/fuse.cl", tests=("occupancy/test_fuse.py", "occupancy/test_fuse_device.py")):
    return Mutation(path, "a", "b", tests)


@pytest.fixture
def baseline(tmp_path):
    known = Baseline(tmp_path / "baseline.jsonl")
    for test, outcome in ((f"{CPU}::test_a", "failed"), (f"{CPU}::test_b[opencl]", "failed"), (DEVICE, "failed")):
        known.add(test, outcome, 1.0)
    known.add(f"{DEVICE}::test_c", "passed", 2.0)
    return known


def test_what_is_red_without_a_mutation_cannot_judge_it(baseline):
    """A kernel of devices is judged by the tests of devices; a file that cannot be imported stands for its tests."""
    assert baseline.red(mutation("occupancy/fusion/fuse.py")) == {f"{CPU}::test_a", f"{CPU}::test_b[opencl]", DEVICE}
    assert baseline.red(mutation()) == {f"{CPU}::test_b[opencl]", DEVICE}
    assert baseline.red(mutation(tests=("occupancy/test_fuse_device.py::test_c",))) == {DEVICE}
    assert baseline.of(f"{DEVICE}::test_c") == ("passed", 2.0)


def test_what_was_run_here_is_known_again_until_the_file_changes(baseline):
    assert Baseline(baseline.path).of(f"{CPU}::test_a") == ("failed", 1.0)
    line = json.loads(baseline.path.read_text().splitlines()[0])
    baseline.path.write_text(json.dumps({**line, "digest": "another"}) + "\n")
    assert Baseline(baseline.path).of(f"{CPU}::test_a") is None


def test_files_that_are_named_like_the_changed_one_come_first():
    named = ("occupancy/test_filter.py", "occupancy/test_fuse.py", "occupancy/test_fuse_device.py")
    assert files_of(mutation("occupancy/fusion/fuse_cpu.py", named)) == [CPU, DEVICE, "tests/occupancy/test_filter.py"]
    assert files_of(mutation(tests=named)) == [DEVICE, CPU, "tests/occupancy/test_filter.py"]
    imported = ("simulate/test_objects.py", "simulate/test_scenes.py", "simulate/test_caster.py")
    assert files_of(mutation("simulate/ground_ray.py", imported))[0] == "tests/simulate/test_caster.py"


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
    whole = tree.run([file], end, [file])
    assert whole.red is None
    with tree.changed(wrong):
        red = tree.run([file], end, [file]).red
        assert tree.run([file], end, [file], without=[red]).red != red
    assert red in whole.tests
    healed, original = tree.package / "core/timeline.py", ROOT / "src/roadbed/core/timeline.py"
    assert healed.read_text() == original.read_text()
    assert healed.stat().st_mtime_ns == original.stat().st_mtime_ns  # kernels compiled from it stay valid


def test_a_test_that_does_not_end_is_named():
    said = Said(None, "", {"a": ("passed", 1.0), "b": ("running", 5.0)})
    assert (said.red, said.how) == ("b", "the time limit")
    assert Said(-11, "", {}).red == "signal 11"


def test_explanations_are_of_files_that_exist():
    assert [path for path, _, _ in EXPLAINED if not (ROOT / "src/roadbed" / path).exists()] == []
