# SPDX-License-Identifier: Apache-2.0
"""Processor time of each step of the occupancy on the CPU, ms per scan: also fair on a busy machine.

NUMBA_NUM_THREADS=1 python scripts/occupancy_steps.py SOURCE...      # e.g. "sim:city?sensor=hdl64e&frames=24" drive/
"""

import sys
import time
from itertools import islice
from typing import Any

import numpy as np

import roadbed
import roadbed.core.timing

WARM_FROM, SCANS, ROUNDS = 6, 24, 3  # scans until there is an older one to compare with; how many; how often


def steps_of(source: str) -> dict[str, float]:
    """Mean over the scans of a drive, each the least of some rounds; the ground is not among the steps."""
    scans = list(islice(roadbed.open(source), SCANS))
    pipeline = roadbed.Pipeline()
    rounds: list[list[dict[str, float]]] = []
    for _ in range(ROUNDS):
        pipeline.reset()
        results = [pipeline(scan) for scan in scans][WARM_FROM:]
        rounds.append([dict(result.occupancy.timings) for result in results if result.occupancy is not None])
    names = rounds[0][0]
    return {name: float(np.mean([min(each[name] for each in same) for same in zip(*rounds)])) for name in names}


def main() -> None:
    # The filter's own clock, but of the processor.
    timing: Any = roadbed.core.timing
    timing.perf_counter = time.process_time
    for k, source in enumerate(sys.argv[1:]):
        steps = steps_of(source)
        if k == 0:
            print("| source | " + " | ".join(steps) + " | all |")
            print("|---" * (len(steps) + 2) + "|")
        times = [f"{1e3 * seconds:.2f}" for seconds in (*steps.values(), sum(steps.values()))]
        print(f"| {source} | " + " | ".join(times) + " |", flush=True)


if __name__ == "__main__":
    main()
