# SPDX-License-Identifier: Apache-2.0
"""Runs grid variance, ground and occupancy on every OpenCL device of this machine and compares them with the CPU.

Prints one row per driver and stage: whether the results agree, and the time of a frame, as it passes and of all cores
together (on a busy machine only the second says something of a CPU device). Each stage runs in a process of its own,
because drivers may crash. `--single` adds every device once more as if it had no double precision. Ends with 1 if a
result differs or a process ends by itself.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

Seconds = list[tuple[float, float]]  # of each frame: passed, of all cores
STAGES = ("variance", "ground", "occupancy")
GRID = {"length": 60, "width": 60, "spacing": 0.4}
# A quarter of the paper's cells, so that a driver without an optimising compiler ends in time.
OCCUPANCY = {"occupancy": {"grid": GRID, "filter": {"particles": 6000}}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", default="sim:city?sensor=vlp16&frames=6", help="the scans, of any source")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds per driver and stage")
    parser.add_argument("--single", action="store_true", help="also without double precision")
    parser.add_argument("--only", default="", help="part of the name of a driver or device")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--run", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.setdefault("RUSTICL_ENABLE", "llvmpipe")  # Mesa offers no device without it
    if given.run:
        print(json.dumps(run_stage(**given.run)))
        return
    from roadbed.runtime import opencl_devices

    if not opencl_devices.devices():
        sys.exit(opencl_devices.why_missing())
    subprocess.run([sys.executable, "-m", "roadbed", "warm-up"], check=True, stdout=sys.stderr)  # apart from the limit
    print("| driver | device | precision | stage | result | ms per frame | CPU backend | ratio | of processor time |")
    print("|---|---|---|---|---|---|---|---|---|")
    listed = [d for d in opencl_devices.devices() if given.only.lower() in f"{d.driver} {d.name}".lower()]
    fine = bool(listed)
    for device in listed:
        for has_double in (True, False) if given.single and device.has_double else (device.has_double,):
            for stage in given.stages:
                request = {"index": device.index, "has_double": has_double, "stage": stage, "source": given.source}
                found = in_child(request, given.limit)
                fine = fine and found[0].startswith(("agrees", "refused"))
                precision = "double" if has_double else "single"
                row = (device.driver, device.name, precision, stage, *found, *[""] * (5 - len(found)))
                print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)
    sys.exit(not fine)


def in_child(request: dict[str, Any], limit: float) -> list[str]:
    """What `run_stage` returns, or how its process ended."""
    command = [sys.executable, __file__, "--run", json.dumps(request)]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return [f"did not end within {limit:.0f} s"]
    if child.returncode == 0:
        return json.loads(child.stdout.splitlines()[-1])
    ended = signal.Signals(-child.returncode).name if child.returncode < 0 else f"exit status {child.returncode}"
    said = [line.strip() for line in child.stderr.splitlines() if line.strip()] or [""]
    return [f"the process ended: {ended} {said[-1][:150]}"]


def run_stage(index: int, has_double: bool, stage: str, source: str) -> list[str]:
    """One stage over the sequence on one device and, frame by frame in turns, on the CPU: the result and the times."""
    from roadbed.core.errors import DeviceError
    from roadbed.runtime import opencl_devices
    from roadbed.runtime.opencl import OpenclBackend

    backend = OpenclBackend(replace(opencl_devices.devices()[index], has_double=has_double))
    try:
        result, times = (occupancy_row if stage == "occupancy" else partial(ground_row, stage))(backend, source)
    except DeviceError as error:
        return [f"refused: {' '.join(str(error).split())[:300]}"]
    ours, cpu = (1e3 * np.array(seconds[2:]) for seconds in times)  # the first frames build, and start the filters
    return [
        result,
        *(f"{number:.1f}" for number in (np.median(ours[:, 0]), np.median(cpu[:, 0]))),
        *(f"{number:.2f}" for number in np.median(ours / cpu, axis=0)),
    ]


def timed(call: Any, seconds: Seconds, *arguments: Any) -> Any:
    begin = time.perf_counter(), time.process_time()
    result = call(*arguments)
    seconds.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    return result


def ground_row(stage: str, backend: Any, source: str) -> tuple[str, tuple[Seconds, Seconds]]:
    """Labels and unknown nodes; they agree if at most 1 in 10,000 differs, of grid variance if none does."""
    from roadbed import Config, GroundFilter
    from roadbed.runtime.cpu_backend import CpuBackend
    from roadbed.sources import open_source

    config = Config.parse({"ground": {"method": "variance" if stage == "variance" else "stcrf"}})
    ours, theirs = GroundFilter(config, backend), GroundFilter(config, CpuBackend())
    times: tuple[Seconds, Seconds] = ([], [])
    different = points = nodes = 0
    for scan in open_source(source):
        found, expected = timed(ours, times[0], scan), timed(theirs, times[1], scan)
        different += int(np.count_nonzero(found.label != expected.label))
        points += len(expected.label)
        nodes += int(np.count_nonzero(np.isnan(found.elevation) != np.isnan(expected.elevation)))
    agrees = different + nodes <= (0 if stage == "variance" else points / 10_000)
    found_text = f"{different} of {points:,} labels differ, {nodes} nodes are known to one alone"
    return f"{'agrees' if agrees else 'differs'}: {found_text}", times


def occupancy_row(backend: Any, source: str) -> tuple[str, tuple[Seconds, Seconds]]:
    """Cells of all frames on the CPU's ground, compared by the mean relative error of occupancy and static mass.

    In single precision other particles are drawn: 2 % then agree, the paper's figure for its two implementations.
    """
    from roadbed import Config, GroundFilter, OccupancyFilter
    from roadbed.bench.agreement import compare
    from roadbed.runtime.cpu_backend import CpuBackend
    from roadbed.sources import open_source

    config = Config.parse(OCCUPANCY)
    ground = GroundFilter(config, CpuBackend())
    ours, theirs = OccupancyFilter(config, backend), OccupancyFilter(config, CpuBackend())
    times: tuple[Seconds, Seconds] = ([], [])
    errors, different = [], 0
    for scan in open_source(source):
        surface = ground(scan)
        found, expected = timed(ours, times[0], scan, surface), timed(theirs, times[1], scan, surface)
        errors.append(compare(found, expected))
        different += int(np.count_nonzero((found.static != expected.static) | (found.dynamic != expected.dynamic)))
    percent = {name: 100 * float(np.mean([error[name] for error in errors])) for name in errors[0]}
    agrees = max(percent["occupancy"], percent["static"]) <= (0.5 if backend.device.has_double else 2.0)
    off = ", ".join(f"{name} {value:.2g} %" for name, value in percent.items())
    return f"{'agrees' if agrees else 'differs'}: {different} cells differ; off by {off}", times


if __name__ == "__main__":
    main()
