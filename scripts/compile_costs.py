# SPDX-License-Identifier: Apache-2.0
"""Processor time of a cold compile by function and by compiler pass, from Numba's events.

NUMBA_CACHE_DIR=$(mktemp -d) python scripts/compile_costs.py ground      # or occupancy, simulator, mounting, ...
"""

import sys
import time
from collections import defaultdict
from typing import Any

from numba.core import event

from roadbed.kernels import progress
from roadbed.warm_up import workload
from roadbed.warm_up.processes import JOBS

_LINES = 40


class Costs(event.Listener):
    """Processor time of nested steps, each without the steps inside it."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, set[str]] = defaultdict(set)  # types of the arguments
        self._open: list[str] = []
        self._since = time.process_time()

    def _name(self, data: dict[str, Any]) -> str:
        if self._kind == "numba:run_pass":
            return data["name"].partition(" ")[0]
        function = data["dispatcher"].py_func
        name = f"{function.__module__}.{function.__qualname__}"
        self.calls[name].add(str(data["args"]))
        return name

    def _count(self) -> None:
        now = time.process_time()
        self.seconds[self._open[-1] if self._open else "outside"] += now - self._since
        self._since = now

    def on_start(self, event: Any) -> None:
        self._count()
        self._open.append(self._name(event.data))

    def on_end(self, event: Any) -> None:
        self._count()
        self._open.pop()

    def print(self) -> None:
        rows = sorted(self.seconds.items(), key=lambda row: -row[1])
        print(f"\n{sum(self.seconds.values()):.1f} s, {self._kind}, {len(rows)} names")
        for name, seconds in rows[:_LINES]:
            print(f"{seconds:8.2f} s {len(self.calls[name]) or '':>4} {name}")
        for name, kinds in self.calls.items():
            if len(kinds) > 1 and name.startswith("roadbed."):
                print(f"{name} is compiled for {len(kinds)} types:", *sorted(kinds), sep="\n    ")


def main(job: str) -> None:
    progress.watch(None)
    functions, passes = Costs("numba:compile"), Costs("numba:run_pass")
    with event.install_listener("numba:compile", functions), event.install_listener("numba:run_pass", passes):
        getattr(workload, job)()
    functions.print()
    own = sum(seconds for name, seconds in functions.seconds.items() if name.startswith("numba."))
    print(f"{own:8.2f} s      Numba's own functions")
    passes.print()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] in JOBS else sys.exit(f"expected one of {', '.join(JOBS)}"))
