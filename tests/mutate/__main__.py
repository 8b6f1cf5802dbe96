# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.mutate`: judge the mutations that have no result yet, then print the score and the survivors."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from tests.conftest import ROOT
from tests.mutate.aimed import AIMED
from tests.mutate.drawn import drawn
from tests.mutate.mutation import Mutation
from tests.mutate.tree import Tree


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after the mutation that exceeds it")
    parser.add_argument("--only", choices=["aimed", "drawn"])
    parser.add_argument("--match", default="", help="a part of the path or of the changed text")
    parser.add_argument("--again", action="store_true", help="forget the results of these mutations first")
    parser.add_argument("--score", action="store_true", help="print what is known, run nothing")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "out" / "mutate")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sets = {"aimed": AIMED, "drawn": drawn(ROOT / "src" / "roadbed")}
    wanted = [
        mutation
        for name in ([options.only] if options.only else sets)
        for mutation in sets[name]
        if options.match in f"{mutation.path} {mutation.before} {mutation.after}"
    ]
    results = Results(options.out / "results.jsonl")
    if not options.score:
        run(wanted, results, Tree(options.out / "tree"), options.minutes, options.again)
    report(wanted, results)
    return 0 if all(results.of(each) == "noticed" for each in wanted) else 1


class Results:
    """One line per judged mutation; the last one of a name counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._of = {item["name"]: item for item in map(json.loads, lines)}

    def of(self, mutation: Mutation) -> str | None:
        return self._of.get(mutation.name, {}).get("what")

    def add(self, mutation: Mutation, what: str, by: str, seconds: float) -> None:
        item = {"name": mutation.name, "path": mutation.path, "what": what, "by": by, "seconds": round(seconds, 1)}
        self._of[mutation.name] = item
        with self.path.open("a") as file:
            file.write(json.dumps(item) + "\n")


def run(wanted: list[Mutation], results: Results, tree: Tree, minutes: float, again: bool) -> None:
    end = time.monotonic() + 60 * minutes
    for number, mutation in enumerate(wanted, 1):
        if results.of(mutation) and not again:
            continue
        if time.monotonic() > end:
            print(f"stopped after {minutes:g} minutes; run it again to go on")
            return
        begin = time.monotonic()
        outcome = tree.judge(mutation)
        seconds = time.monotonic() - begin
        results.add(mutation, outcome.what, outcome.by, seconds)
        print(
            f"{number}/{len(wanted)} {seconds:4.0f} s  {outcome.what:8} {mutation.path}: {_told(mutation)}", flush=True
        )
        print(f"      by {outcome.by}" if outcome.by else "", end="\n" if outcome.by else "", flush=True)


def report(wanted: list[Mutation], results: Results) -> None:
    known = [mutation for mutation in wanted if results.of(mutation)]
    noticed = sum(results.of(mutation) == "noticed" for mutation in known)
    share = f" ({100 * noticed / len(known):.1f} %)" if known else ""
    print(f"\njudged {len(known)} of {len(wanted)}; noticed {noticed}{share}")
    for mutation in known:
        if results.of(mutation) != "noticed":
            print(f"| {results.of(mutation)} | `{mutation.path}` | {_told(mutation)} |")


def _told(mutation: Mutation) -> str:
    def short(text: str) -> str:
        return " ".join(text.split())[:90]

    return f"`{short(mutation.before)}` -> `{short(mutation.after)}`"


if __name__ == "__main__":
    sys.exit(main())
