# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.mutate`: judge the mutations that have no result yet, then print the score and the survivors."""

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from tests.conftest import ROOT
from tests.mutate.aimed import AIMED
from tests.mutate.baseline import Baseline, concerns, files_of, last_of, words_of
from tests.mutate.drawn import drawn
from tests.mutate.mutation import Mutation
from tests.mutate.results import Results, told
from tests.mutate.tree import Tree

# A test that ran this many times as long as without the mutation, and the time to compile, counts as endless.
_TIMES, _COMPILE_S = 6, 60.0
# Tests of several processes, which a busy machine can turn red: they must do so twice.
_WITH_PROCESSES = ("tests/batch", "tests/cli", "tests/live", "tests/viewer")


def main() -> int:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    package = ROOT / "src" / "roadbed"
    sets = {"aimed": AIMED, "drawn": drawn(package)}
    wanted = [
        mutation
        for name in ([options.only] if options.only else sets)
        for mutation in sets[name]
        if options.match in f"{mutation.path} {mutation.before} {mutation.after}"
    ]
    results = Results(options.out)
    if not options.score:
        part, parts = (int(number) for number in options.shard.split("/"))
        todo = [m for m in wanted if results.of(m) is None or (options.again and results.of(m) in options.again)]
        todo = [m for m in todo if m.applied((package / m.path).read_text())]
        Campaign(options, results).run(todo[part - 1 :: parts])
    print(f"\n{results.report(wanted)}")
    return 0 if all(results.judged(mutation) for mutation in wanted) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=6000.0, help="what is not done by then has no result")
    parser.add_argument("--jobs", type=int, default=1, help="mutations at a time, each in a copy of its own")
    parser.add_argument("--patience", type=float, default=900.0, help="s after which a mutation is stopped")
    parser.add_argument("--shard", default="1/1", help="2/3: the second of three parts, the others run elsewhere")
    parser.add_argument("--only", choices=["aimed", "drawn"])
    parser.add_argument("--match", default="", help="a part of the path or of the changed text")
    parser.add_argument(
        "--again", nargs="*", metavar="RESULT", choices=["noticed", "survived", "open", "not runnable"],
        help="judge those anew that have one of these results",
    )  # fmt: skip
    parser.add_argument("--score", action="store_true", help="print what is known, run nothing")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "out" / "mutate", help="results, *.jsonl")
    parser.add_argument("--work", type=Path, default=ROOT / "out" / "mutate-work", help="copies, kernels, baseline")
    return parser.parse_args()


class Campaign:
    """Mutations judged side by side, until the time is up."""

    def __init__(self, options: argparse.Namespace, results: Results) -> None:
        self._results, self._patience = results, options.patience
        self._end = time.monotonic() + 60 * options.minutes
        kernels = options.work / "kernels"
        threads = max(2, (os.cpu_count() or 2) // options.jobs)
        self._trees = [Tree(options.work / f"tree-{number}", kernels, threads) for number in range(options.jobs)]
        self._baseline = Baseline(options.work / "baseline.jsonl")
        self._waiting: list[Mutation] = []
        self._news = Lock()

    def run(self, mutations: list[Mutation]) -> None:
        self._waiting = sorted(mutations, key=_cost)
        begin = time.monotonic()
        self._trees[0].python("-m", "roadbed", "warm-up")
        with ThreadPoolExecutor(len(self._trees)) as pool:
            list(pool.map(lambda tree: tree.take_kernels(self._trees[0]), self._trees[1:]))
            print(f"{len(mutations)} mutations; kernels after {time.monotonic() - begin:.0f} s", flush=True)
            for done in [pool.submit(self._work, tree) for tree in self._trees]:
                done.result()

    def _work(self, tree: Tree) -> None:
        while time.monotonic() < self._end:
            with self._news:
                if not self._waiting:
                    return
                mutation = self._waiting.pop(0)
            begin = time.monotonic()
            what, by = self._judge(tree, mutation, begin + self._patience)
            if what == "open" and time.monotonic() > self._end:
                return  # stopped by the campaign's end, not by a test
            seconds = time.monotonic() - begin
            with self._news:
                self._results.add(mutation, what, by, seconds)
                print(f"{seconds:5.0f} s  {what:12} {mutation.path}: {told(mutation)}  {by}", flush=True)

    def _judge(self, tree: Tree, mutation: Mutation, end: float) -> tuple[str, str]:
        """What became of a mutation, and why: a test notices it that is red with it and green without it."""
        end = min(end, self._end)
        names, words = [f"tests/{test}" for test in mutation.tests], words_of(mutation)
        passed: set[str] = set()
        skipped: set[str] = set()
        while True:
            red_anyway = self._baseline.red(mutation)
            files = [file for file in files_of(mutation) if file not in red_anyway | skipped]
            if not files:
                return "not runnable", f"{len(skipped | red_anyway)} tests do not run here"
            with tree.changed(mutation):
                said = tree.run(files, end, names, words, passed | skipped | red_anyway, last_of(mutation))
                stopped = time.time()
            passed |= {test for test, (outcome, _) in said.tests.items() if outcome == "passed"}
            skipped |= {test for test, (outcome, _) in said.tests.items() if outcome == "skipped"}
            by = said.red
            if by is None:
                break
            if by not in said.tests:
                return ("noticed", by) if said.status is not None else ("open", by)
            outcome, seconds = self._without(tree, by)
            if outcome != "passed":
                continue
            if said.status is None:  # stopped: a loop without an end, or a slow machine
                long = stopped - said.tests[by][1] > _TIMES * seconds + _COMPILE_S
                return ("noticed" if long else "open"), "the time limit"
            if not by.startswith(_WITH_PROCESSES):
                return "noticed", by
            with tree.changed(mutation):
                again = tree.run([by.split("::")[0]], min(time.monotonic() + self._patience, self._end), [by])
            if again.red and again.status is not None:
                return "noticed", by
            if again.status is None:
                return "open", "the time limit"
            passed.add(by)  # by chance, or because the machine was busy
        missing = len({test for test in skipped if concerns(mutation, test)} | red_anyway)
        if not passed:
            return "not runnable", f"{missing} tests do not run here"
        return ("open", f"{missing} tests do not run here") if missing else ("survived", "")

    def _without(self, tree: Tree, test: str) -> tuple[str, float]:
        """What a test says of the unchanged code, and its seconds."""
        known = self._baseline.of(test)
        if known is None:
            said = tree.run([test.split("::")[0]], self._end, [test])
            known = said.tests.get(test, ("failed", 0.0))
            if time.monotonic() < self._end:
                with self._news:
                    self._baseline.add(test, *known)
        return known


def _cost(mutation: Mutation) -> tuple[bool, int]:
    """Sorts the quickest first: what compiles nothing, then what has few tests."""
    compiles = mutation.path.endswith("_cpu.py") or mutation.path.startswith(("kernels/", "simulate/"))
    return compiles, sum((ROOT / file).stat().st_size for file in files_of(mutation))


if __name__ == "__main__":
    sys.exit(main())
