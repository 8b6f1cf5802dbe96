# SPDX-License-Identifier: Apache-2.0
"""The set of mutations is fixed, large enough, and can be applied; running it is `make mutate`."""

from tests.conftest import ROOT
from tests.mutate.aimed import AIMED
from tests.mutate.drawn import drawn
from tests.mutate.mutation import Mutation
from tests.mutate.subjects import SUBJECTS

PACKAGE = ROOT / "src" / "roadbed"


def test_the_set_is_large_and_holds_kernels_of_both_kinds():
    everything = [*AIMED, *drawn(PACKAGE)]
    assert len({mutation.name for mutation in everything}) == len(everything) >= 200
    for ending in ("_cpu.py", ".cl"):
        assert sum(mutation.path.endswith(ending) for mutation in everything) >= 20


def test_drawing_again_draws_the_same():
    assert drawn(PACKAGE) == drawn(PACKAGE)


def test_every_drawn_mutation_changes_its_file():
    for mutation in drawn(PACKAGE):
        text = (PACKAGE / mutation.path).read_text()
        assert mutation.applied(text) not in (None, text), mutation


def test_hardly_any_aimed_mutation_has_lost_its_place():
    """Code moves on: `make mutate` names those that are stale; a tenth of them is too many."""
    stale = [mutation for mutation in AIMED if mutation.applied((PACKAGE / mutation.path).read_text()) is None]
    assert len(stale) <= len(AIMED) // 10, stale


def test_the_tests_that_are_named_exist():
    named = {test.split("::")[0] for mutation in AIMED for test in mutation.tests}
    named |= {test for tests in SUBJECTS.values() for test in tests}
    assert [name for name in sorted(named) if not (ROOT / "tests" / name).exists()] == []


def test_every_subject_is_a_part_of_the_package():
    files = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.*")]
    assert [name for name in SUBJECTS if not any(file.startswith(name) for file in files)] == []


def test_one_of_several_equal_places_can_be_meant():
    twice = "a = b + c\nd = b + c\n"
    assert Mutation("x", "b + c", "b - c", ()).applied(twice) is None
    assert Mutation("x", "b + c", "b - c", (), which=1).applied(twice) == "a = b + c\nd = b - c\n"
    assert Mutation("x", "b * c", "b - c", (), which=0).applied(twice) is None
