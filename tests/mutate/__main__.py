# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.mutate`: judge the mutations that have no result yet, then print the score and the survivors."""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Condition

from tests.conftest import ROOT
from tests.mutate.aimed import AIMED
from tests.mutate.baseline import Baseline
from tests.mutate.drawn import drawn
from tests.mutate.mutation import Mutation
from tests.mutate.results import Results, told
from tests.mutate.tree import Tree

_TIMES = 6  # what the tests take without it, after which a mutation is stopped: it may have made a loop endless


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
    parser.add_argument("--patience", type=float, default=180.0, help="s that a mutation may take to compile, besides")
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
        self._longest_look = min(900.0, 24 * options.minutes)  # s; a file that takes most of it counts for nothing
        kernels = options.work / "kernels"
        threads = max(2, (os.cpu_count() or 2) // options.jobs)
        self._trees = [Tree(options.work / f"tree-{number}", kernels, threads) for number in range(options.jobs)]
        self._baseline = Baseline(options.work / "baseline.jsonl")
        self._files: list[str] = []
        self._waiting: list[Mutation] = []
        self._news = Condition()

    def run(self, mutations: list[Mutation]) -> None:
        self._files, self._waiting = self._baseline.missing(mutations), list(mutations)
        print(f"{len(mutations)} mutations, {len(self._files)} files of tests to run without them first", flush=True)
        with ThreadPoolExecutor(len(self._trees)) as pool:
            for done in [pool.submit(self._work, tree) for tree in self._trees]:
                done.result()
        green, others = self._baseline.counts()
        print(f"{green} tests are green here, {others} are not and count for nothing", flush=True)

    def _work(self, tree: Tree) -> None:
        while (task := self._next()) is not None:
            if isinstance(task, Mutation):
                self._judge(tree, task)
            else:
                self._look(tree, task)

    def _next(self) -> str | Mutation | None:
        """A file to run without a change; else, of the mutations whose files have run, that with the fewest tests."""
        with self._news:
            while time.monotonic() < self._end:
                if self._files:
                    return self._files.pop(0)
                ready = [m for m in self._waiting if not self._baseline.missing([m])]
                if ready:
                    task = min(ready, key=lambda m: self._baseline.seconds(self._baseline.chosen(m)[0]))
                    self._waiting.remove(task)
                    return task
                if not self._waiting:
                    break
                self._news.wait(1.0)
        return None

    def _look(self, tree: Tree, file: str) -> None:
        begin = time.monotonic()
        said = tree.run([file], min(begin + self._longest_look, self._end))
        if time.monotonic() < self._end:
            with self._news:
                self._baseline.add(file, said.tests or {file: ("failed", 0.0)})
                self._news.notify_all()
            print(f"{time.monotonic() - begin:5.0f} s  {file}", flush=True)

    def _judge(self, tree: Tree, mutation: Mutation) -> None:
        begin = time.monotonic()
        chosen, missing = self._baseline.chosen(mutation)
        limit = begin + self._patience + _TIMES * self._baseline.seconds(chosen)
        by: str | None = None
        if chosen:
            with tree.changed(mutation):
                by = self._red(tree, chosen, min(limit, self._end))
            if by is not None and time.monotonic() > self._end:
                return  # stopped by the campaign's end, not by a test
        what = "noticed" if by else "not runnable" if not chosen else "open" if missing else "survived"
        seconds = time.monotonic() - begin
        with self._news:
            self._results.add(mutation, what, by or (f"{missing} tests do not run here" if missing else ""), seconds)
            print(f"{seconds:5.0f} s  {what:12} {mutation.path}: {told(mutation)}  {by or ''}", flush=True)

    def _red(self, tree: Tree, chosen: list[str], end: float) -> str | None:
        """The test that notices, twice: one that fails by chance, or because the machine is busy, is passed over."""
        while chosen:
            by = tree.run(_files(chosen), end, chosen).red
            if by not in chosen or tree.run(_files([by]), end, [by]).red:
                return by
            chosen = chosen[chosen.index(by) + 1 :]
        return None


def _files(tests: list[str]) -> list[str]:
    return list(dict.fromkeys(test.split("::")[0] for test in tests))


if __name__ == "__main__":
    sys.exit(main())
