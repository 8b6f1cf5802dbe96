# SPDX-License-Identifier: Apache-2.0
"""Processor time of each step of the ground filter on the CPU, ms, the least of many: also fair on a busy machine.

NUMBA_NUM_THREADS=1 python scripts/ground_steps.py SOURCE [alone|drive [SCANS]]      # e.g. drive/ drive 25
"""

import sys
import time
from dataclasses import replace
from typing import Any

import roadbed
import roadbed.core.timing

WARM_FROM, ROUNDS = 6, 3  # scans of a drive until mounting and surface have settled; how often it is driven


def main() -> None:
    source: Any = roadbed.open(sys.argv[1])
    alone, count = sys.argv[2:3] != ["drive"], int(sys.argv[3]) if len(sys.argv) > 3 else 25
    # The filter's own clock, but of the processor.
    timing: Any = roadbed.core.timing
    timing.perf_counter = time.process_time
    scans = [replace(source[0], T_world_sensor=None)] * count if alone else [source[k] for k in range(count)]
    ground = roadbed.GroundFilter()
    least: dict[str, float] = {}
    for _ in range(ROUNDS):
        ground.reset()
        for k, scan in enumerate(scans):
            found = ground(scan).timings
            if k >= WARM_FROM:
                least.update({name: min(least.get(name, seconds), seconds) for name, seconds in found.items()})
    del least["total"]  # by the clock on the wall
    print("| points | " + " | ".join(least) + " | all |")
    print("|---" * (len(least) + 2) + "|")
    cells = [f"{1e3 * seconds:.2f}" for seconds in (*least.values(), sum(least.values()))]
    print(f"| {len(scans[0])} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
