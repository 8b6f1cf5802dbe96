# SPDX-License-Identifier: Apache-2.0
"""Where the processor time of a cold compile goes: by step of the compiler, and by kernel and kind of step.

NUMBA_CACHE_DIR=$(mktemp -d) python scripts/compile_costs.py ground      # or occupancy, simulator, mounting, ...
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from numba.core import codegen, event

from roadbed.kernels import progress as compilation
from roadbed.kernels.cache import KernelCache
from roadbed.warm_up import workload as exercises
from roadbed.warm_up.processes import JOBS

_LLVM = {
    "_optimize_functions": "LLVM: functions optimised by themselves",
    "_optimize_final_module": "LLVM: kernels optimised",
    "_finalize_specific": "LLVM: machine code",
    "add_ir_module": "written as text, read and linked by LLVM",
}
_KINDS = {  # what is in none of them is written for Numba in Python: bytecode, rewriting, and what lies around it
    "types": {"nopython_type_inference"},
    "lowering": {"native_lowering"},
    "text": {_LLVM["add_ir_module"]},
    "optimising": {_LLVM["_optimize_functions"], _LLVM["_optimize_final_module"]},
    "machine code": {_LLVM["_finalize_specific"]},
}
_LINES = 15


class Costs:
    """Processor time of nested steps, each without those inside it."""

    def __init__(self) -> None:
        self.own: dict[str, float] = defaultdict(float)
        self.of_kernel: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.kernel = ""  # the one that Python called
        self._open: list[tuple[str, float]] = []
        self._since = time.process_time()

    def _count(self) -> None:
        now, step = time.process_time(), self._open[-1][0] if self._open else "not compiling"
        self.own[step] += now - self._since
        self.of_kernel[self.kernel][step] += now - self._since
        self._since = now

    def begin(self, step: str) -> None:
        self._count()
        self._open.append((step, self._since))

    def end(self) -> float:
        """Seconds since it began, with all that was inside it."""
        self._count()
        return self._since - self._open.pop()[1]

    def of(self, step: str, method: Callable) -> Callable:
        def timed(*arguments: Any) -> Any:
            self.begin(step)
            try:
                return method(*arguments)
            finally:
                self.end()

        return timed


class _Number:
    def __init__(self, value: int) -> None:
        self.value, self.name = value, str(value)


def _loop() -> float:
    """Processor time of what a compiler in Python does most, the better of two: it tells how fast a busy machine is."""
    found = []
    for _ in range(2):
        begun, numbers, total = time.process_time(), {}, 0
        for value in range(25000):
            number = _Number(value)
            numbers[number.name] = number
            total = number.value + 1 if isinstance(number, _Number) else total
        sorted(numbers, key=lambda name: numbers[name].value)
        found.append(time.process_time() - begun)
    return min(found)


class Listener(event.Listener):
    def __init__(self, costs: Costs, kernels: Counter, depth: list[str]) -> None:
        self.costs, self.kernels, self.depth = costs, kernels, depth
        self.loops, self._loop = 0.0, 0.0

    def on_start(self, event: Any) -> None:
        if "dispatcher" in event.data:
            if not self.depth:
                self._loop = _loop()
            self.depth.append(compilation.name_of(event.data["dispatcher"]))
            self.costs.begin("around the steps")
            self.costs.kernel = self.depth[0]
        else:
            self.costs.begin(event.data["name"].partition(" [")[0])

    def on_end(self, event: Any) -> None:
        seconds = self.costs.end()
        if "dispatcher" in event.data:
            name = self.depth.pop()
            if not self.depth:
                self.kernels[name] += seconds
                self.costs.kernel = ""
                self.loops += 2 * seconds / (self._loop + _loop())


def main() -> None:
    job = JOBS[sys.argv[1]]
    costs, kernels = Costs(), Counter[str]()
    listener = Listener(costs, kernels, [])
    compilation.watch(None)
    for method, step in {**_LLVM, "save_overload": "kept on disk"}.items():
        for owner in (codegen.CPUCodeLibrary, codegen.JITCodeLibrary, KernelCache):
            if method in vars(owner):
                setattr(owner, method, costs.of(step, vars(owner)[method]))
    for kind in ("numba:compile", "numba:run_pass"):
        event.register(kind, listener)
    getattr(exercises, job.exercise)()
    print(
        f"{sum(kernels.values()):.1f} s for {len(kernels)} kernels, as long as {listener.loops:.0f} times a fixed loop"
    )
    print("\n| step | s |\n|---|---|")
    for step, seconds in sorted(costs.own.items(), key=lambda item: -item[1])[:_LINES]:
        print(f"| {step.replace('_', ' ')} | {seconds:.2f} |")
    print(f"\n| kernel | s | {' | '.join(_KINDS)} | other |\n|---|---|{'---|' * len(_KINDS)}---|")
    for name, seconds in kernels.most_common(_LINES):
        spent = costs.of_kernel[name]
        parts = [sum(spent[step] for step in steps) for steps in _KINDS.values()]
        columns = " | ".join(f"{part:.2f}" for part in (seconds, *parts, sum(spent.values()) - sum(parts)))
        print(f"| {name.removeprefix('roadbed.')} | {columns} |")


if __name__ == "__main__":
    main()
