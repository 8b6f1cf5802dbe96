# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.fuzz`: run for some seconds, print a table, end with 1 where something was found."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.campaign import run
from tests.fuzz.targets import all_targets
from tests.fuzz.worker import case, problem


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--cases", type=int, default=2**62, help="of each target at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="names of targets, apart by commas")
    parser.add_argument("--findings", type=Path, default=Path("out/fuzz"), help="folder for offending inputs")
    parser.add_argument("--replay", help="TARGET:NUMBER, run this one case here and show what happens")
    options = parser.parse_args()
    targets = {target.name: target for target in all_targets()}
    chosen = [targets[name] for name in options.only.split(",")] if options.only else list(targets.values())
    if options.replay:
        name, _, number = options.replay.rpartition(":")
        with tempfile.TemporaryDirectory() as scratch:
            print(problem(targets[name], case(targets[name], options.seed, int(number)), Path(scratch)))
        return 0
    report = run(chosen, options.seed, options.seconds, options.findings, options.cases)
    print(f"{'target':<16}{'cases':>12}{'read':>12}")
    for name, count in report.cases.items():
        print(f"{name:<16}{count:>12,}{report.accepted[name]:>12,}")
    total, accepted, kinds = sum(report.cases.values()), sum(report.accepted.values()), len(report.findings)
    print(f"{'all':<16}{total:>12,}{accepted:>12,}   seed {options.seed}, {kinds} kinds of findings")
    for finding in report.findings:
        print(f"  {finding}")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
