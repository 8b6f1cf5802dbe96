# SPDX-License-Identifier: Apache-2.0
"""Runs every kernel on a small scan under Oclgrind: memory errors, reads of uninitialised memory, data races.

Prints one row per stage and kind of kernels ("gpu" with work-groups, "cpu" without) and each finding; ends with 1 if
there are findings. Needs Debian's package oclgrind. Oclgrind 21.10 has defects that are worked around in the child:
it takes buffers that were filled, or written from an offset on, for uninitialised, and also what `move_prior` wrote in
the frame before, so every buffer is downloaded and uploaded again between frames (all of them start from zeros: only
local and private memory can be uninitialised). It does not know the instructions `freeze` (of optimised kernels) and
`noalias.scope.decl` (of inlined functions with `restrict`). It crashes on vectors made of vectors
(tests/runtime/driver_bugs/oclgrind-21-vectors.cl): they are made of numbers.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

STAGES = ("variance", "ground", "occupancy")
KINDS = ("gpu", "cpu")
REPLACED = {"#define RESTRICT restrict": "#define RESTRICT", "static inline __attribute__((always_inline))": "static"}
SWIZZLE = re.compile(r"([\w.]+)\.s([0-7]{2,4})\b")
JOINED = re.compile(r"\(float8\)\((\(memory\)\[[^]]*\]), (\(memory\)\[[^]]*\])\)")
JOIN = "static float8 join(float4 a, float4 b) { return (float8)(a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w); }\n"
FINDING = re.compile(r"^(\S[^\n]*)\n\tKernel: (\w+)\n(.*?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds per row")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        run_stage(*given.run)
        return
    if shutil.which("oclgrind") is None:
        sys.exit("oclgrind: not found; expected the program of Debian's package oclgrind")
    print("| stage | kernels | result | findings |\n|---|---|---|---|")
    clean = True
    for stage in given.stages:
        for kind in given.kinds:
            result, findings = under_oclgrind(stage, kind, given.limit)
            clean = clean and not findings and result.startswith("agrees")
            print(f"| {stage} | {kind} | {result} | {findings.total()} |", flush=True)
            for finding, count in findings.most_common():
                print(f"    {count} times: {finding}", flush=True)
    sys.exit(not clean)


def under_oclgrind(stage: str, kind: str, limit: float) -> tuple[str, Counter[str]]:
    """The child's last line, and how often each finding occurs."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        checks = ("--uninitialized", "--data-races", "--max-errors", "1000000", "--log", str(log))
        command = ["oclgrind", *checks, sys.executable, __file__, "--run", stage, kind]
        environment = os.environ | {"OCL_ICD_VENDORS": folder}  # no other driver
        try:
            child = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment, check=False)
        except subprocess.TimeoutExpired:
            return f"did not end within {limit:.0f} s", Counter()
        said = (child.stdout if child.returncode == 0 else child.stderr).strip().splitlines() or [""]
        if child.returncode:
            said.append(f"ended with status {child.returncode}: {said[-1]}")
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    found: Counter[str] = Counter()
    for what, kernel, rest in FINDING.findall(text):
        lines = re.findall(r"At line (\d+) \(column \d+\) of ([\w./]+)", rest)
        places = " and ".join(f"{file}:{line}" for line, file in lines)
        found[f"{re.sub(r' at .* address .*| address .*', '', what)}: {kernel}, {places}"] += 1
    return said[-1], found


def run_stage(stage: str, kind: str) -> None:
    """One stage on Oclgrind's device and on the CPU; the last line says whether they agree."""
    from roadbed import Config, GroundFilter, OccupancyFilter, Pose, Scan
    from roadbed.runtime import opencl_devices
    from roadbed.runtime.cpu_backend import CpuBackend

    device = next(device for device in opencl_devices.devices() if "Oclgrind" in device.name)
    backend = checked_backend(replace(device, kind=kind, native_floats=8))
    lattice = {"length": 8, "width": 8, "spacing": 1.0}
    grid = {"length": 8, "width": 8, "spacing": 0.5}
    limits = {"x_min": -6, "x_max": 6, "y_min": -6, "y_max": 6}
    config = Config.parse(
        {
            "ground": {"method": "variance" if stage == "variance" else "stcrf", "mounting": {"height": 1.8}}
            | ({"variance": {"pointcloud_limits": limits}} if stage == "variance" else {"stcrf": lattice}),
            "occupancy": {"grid": grid, "filter": {"particles": 200}},
        }
    )
    different = 0
    ground = GroundFilter(config, CpuBackend())
    ours: Any = OccupancyFilter(config, backend) if stage == "occupancy" else GroundFilter(config, backend)
    theirs = OccupancyFilter(config, CpuBackend())
    pose = Pose.from_euler(z=1.8)
    for frame in range(1 if stage == "variance" else 3 if stage == "occupancy" else 2):
        scan = Scan(scan_of(frame), time=0.1 * frame, T_world_sensor=pose, T_vehicle_sensor=pose)
        surface = ground(scan)
        if stage == "occupancy":
            found, expected = ours(scan, surface), theirs(scan, surface)
            different += int(np.count_nonzero((found.static != expected.static) | (found.dynamic != expected.dynamic)))
        else:
            different += int(np.count_nonzero(ours(scan).label != surface.label))
        backend.renew()
    print("agrees" if different == 0 else f"differs: {different} points or cells")


def scan_of(frame: int) -> np.ndarray:
    """300 points: ground, and a box that moves."""
    random = np.random.default_rng(frame)
    flat = np.c_[random.uniform(-4, 4, (270, 2)), random.normal(-1.8, 0.02, 270)]
    box = np.c_[
        random.uniform(1.5, 2.5, 30), random.uniform(-0.5, 0.5, 30) + 0.1 * frame, random.uniform(-1.5, -0.3, 30)
    ]
    return np.concatenate([flat, box]).astype(np.float32)


def checked_backend(device: Any) -> Any:
    """The OpenCL backend without what Oclgrind misjudges."""
    import pyopencl as cl

    from roadbed.runtime.opencl import OpenclBackend

    class CheckedBackend(OpenclBackend):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            self._made: list[Any] = []
            super().__init__(*arguments, **options)

        def zeros(self, shape: Any, dtype: Any) -> Any:
            self._made.append(super().zeros(shape, dtype))
            return self._made[-1]

        def renew(self) -> None:
            for buffer in self._made:
                self.upload(self.download(buffer, 0, buffer.data.size // buffer.dtype.itemsize), buffer)
            self.finish()

        def _compile(self, program: Any, text: str) -> Any:
            for old, new in REPLACED.items():
                assert old in text
                text = text.replace(old, new)
            text = SWIZZLE.sub(lambda of: ", ".join(f"{of[1]}.s{number}" for number in of[2]), text)
            return super()._compile(program, JOIN + JOINED.sub(r"join(\1, \2)", text))

    plain_copy = cl.enqueue_copy

    def fill(queue: Any, buffer: Any, pattern: Any, offset: int, size: int) -> Any:
        assert not pattern.any()
        assert offset == 0
        return plain_copy(queue, buffer, np.zeros(size, np.uint8))

    def copy(queue: Any, to: Any, source: Any, **options: Any) -> Any:
        start = options.pop("dst_offset", 0)
        if not start:
            return plain_copy(queue, to, source, **options)
        whole = np.empty(to.size, np.uint8)
        plain_copy(queue, whole, to)
        whole[start : start + source.nbytes] = np.ascontiguousarray(source).reshape(-1).view(np.uint8)
        return plain_copy(queue, to, whole)

    cl.enqueue_fill_buffer, cl.enqueue_copy = fill, copy
    return CheckedBackend(device, optimise=False, probe=False)


if __name__ == "__main__":
    main()
