# SPDX-License-Identifier: Apache-2.0
"""Tests and benchmark of the accelerators on this machine; writes docs/benchmarks-gpu.json.

Needs nothing but Python with Roadbed's dependencies on its path: `PYTHONPATH=src python3 scripts/gpu_test.py`.
"""

import argparse
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.masses import mass_rows
from benchmarks.occupancy import PAPER_TABLE_1, layouts, time_from_points, time_steps
from roadbed import Config, GroundFilter, Pipeline, Pose, Scan
from roadbed.bench.agreement import agreement_rows, summary
from roadbed.ground.engine import FrameInput, Placement, Vehicle
from roadbed.ground.stcrf.batch import BatchStcrf
from roadbed.ground.stcrf.device import StcrfDevice
from roadbed.ground.stcrf.sizes import lattice_of
from roadbed.ground.variance.device import VarianceDevice
from roadbed.runtime.device_selection import devices, open_backend
from roadbed.sources import open_source

ROOT = Path(__file__).resolve().parent.parent
HEIGHT = 1.73  # m, of the sensor over the road
POINTS = 124_668
DRIVES = 8  # at once on one device


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scan", type=Path, help="a KITTI .bin file; a simulated HDL-64E scan otherwise")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks-gpu.json")
    parser.add_argument("--no-tests", action="store_true")
    parser.add_argument("--gpus-only", action="store_true", help="do not time OpenCL on the CPU")
    parser.add_argument("--repeats", type=int, default=500)
    options = parser.parse_args()
    use_installed_drivers()

    points = read_scan(options.scan)
    report: dict[str, Any] = {
        "date": date.today().isoformat(),
        "command": "make gpu-test",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "scan": f"{options.scan.name if options.scan else 'simulated HDL-64E'}, {len(points)} points",
        "devices": [f"{d.backend}: {d.name}, {d.driver}" for d in devices()],
    }
    if not options.no_tests:
        report["tests"] = run_tests()
    for device in devices():
        if options.gpus_only and device.kind != "gpu":
            continue
        label = f"{device.backend}: {device.name}"
        print(f"\n{label}")
        report[label] = benchmark(device, points, options.repeats if device.kind == "gpu" else 20)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        print(f"\nwrote {options.output}")
    if report.get("tests", {}).get("exit"):
        sys.exit(1)


def use_installed_drivers() -> None:
    """NVIDIA's OpenCL library is often there without being registered: name it beside the registered ones."""
    vendors = Path("/etc/OpenCL/vendors")
    registered = [f.read_text().strip() for f in sorted(vendors.glob("*.icd"))] if vendors.is_dir() else []
    if any("nvidia" in library for library in registered) or "OCL_ICD_VENDORS" in os.environ:
        return
    own = ROOT / "build" / "opencl-vendors"
    own.mkdir(parents=True, exist_ok=True)
    for k, library in enumerate([*registered, "libnvidia-opencl.so.1"]):
        (own / f"{k}.icd").write_text(library + "\n")
    os.environ["OCL_ICD_VENDORS"] = str(own)


def run_tests() -> dict[str, Any]:
    parts = ("runtime", "ground", "mapping", "occupancy")
    command = [sys.executable, "-m", "pytest", "-v", *(f"tests/{part}" for part in parts)]
    if importlib.util.find_spec("xdist"):
        command += ["-n", str(os.cpu_count()), "--dist", "worksteal"]
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    print(done.stdout[-3000:], done.stderr[-1000:])
    return {
        "exit": done.returncode,
        "seconds": round(time.perf_counter() - begin, 1),
        "summary": next((line for line in reversed(done.stdout.splitlines()) if " passed" in line), "none passed"),
    }


def read_scan(path: Path | None) -> np.ndarray:
    """(N, 3) float32 in the sensor frame."""
    if path is not None:
        return np.fromfile(path, np.float32).reshape(-1, 4)[:, :3].copy()
    rng = np.random.default_rng(0)  # rings on a slightly rolling plane, a third of them stopped by walls
    beams, azimuths = 64, -(-POINTS // 64)
    down = np.radians(np.linspace(2.0, -24.8, beams))[:, None]
    angle = np.linspace(-np.pi, np.pi, azimuths)[None, :]
    reach = np.minimum(HEIGHT / np.maximum(-np.sin(down), 0.02), 60) * (1 + 0.01 * rng.normal(size=(beams, azimuths)))
    reach = np.where(np.sin(3 * angle) > 0.4, np.minimum(reach, 12), reach)
    x, y = reach * np.cos(down) * np.cos(angle), reach * np.cos(down) * np.sin(angle)
    z = np.maximum(reach * np.sin(down), -HEIGHT + 0.2 * np.sin(x / 10))
    return np.stack([x, y, z], -1).reshape(-1, 3)[:POINTS].astype(np.float32)


def measure(call: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Microseconds."""
    for _ in range(10):
        call()
    took = np.empty(repeats)
    for k in range(repeats):
        begin = time.perf_counter()
        call()
        took[k] = time.perf_counter() - begin
    took *= 1e6
    return {"median_us": round(float(np.median(took)), 1), "p99_us": round(float(np.percentile(took, 99)), 1)}


def benchmark(device: Any, points: np.ndarray, repeats: int) -> dict[str, Any]:
    """Per preset: the public call with everything a user gets by default, and the bare engine."""
    backend = open_backend(device.backend, device.index)
    sources = {"NumPy array": points}
    if device.backend == "cuda":
        import cupy

        sources["pinned memory"] = backend.host_array(points.shape, np.float32)
        sources["pinned memory"][:] = points
        sources["GPU array"] = cupy.asarray(points)
    best = sources.get("pinned memory", points)
    rows: dict[str, Any] = {}
    for preset in ("paper", "default"):
        config = Config.preset(preset)
        for name, source in sources.items():
            rows[f"{preset}, public call, cold, {name}"] = public_call(backend, config, source, repeats, warm=False)
        rows[f"{preset}, public call, warm"] = public_call(backend, config, best, repeats, warm=True)
        engine = StcrfDevice(backend, config, fields=())  # labels only
        for name, source in sources.items():
            cold = given(config, source)
            rows[f"{preset}, engine, cold, {name}"] = measure(lambda e=engine, g=cold: frame(e, g), repeats)
        warm = given(config, best, warm=True)
        rows[f"{preset}, engine, warm"] = measure(lambda e=engine, g=warm: frame(e, g), repeats)
        on_device = given(config, sources.get("GPU array", points))
        rows[f"{preset}, kernels"] = kernels(StcrfDevice(backend, config), on_device)
    rows["EM iteration"] = {"median_us": em_iteration(backend, sources.get("GPU array", points))}
    rows.update(variance(backend, sources, repeats))
    rows.update(occupancy(backend, device.kind == "gpu"))
    if device.backend == "cuda":
        rows["whole chain, VLP-16, frames/s"] = drives(device)
        rows["batch, its uploads alone"] = {"scans_per_s": uploads(backend, best)}
    rows["batch"] = {"scans_per_s": batch(backend, best, device.kind == "gpu")}
    rows["batch, labels only"] = {"scans_per_s": batch(backend, best, device.kind == "gpu", fields=())}
    show(rows)
    return rows


def public_call(backend: Any, config: Config, points: Any, repeats: int, warm: bool) -> dict[str, float]:
    """`GroundFilter(...)(scan)`: the mounting is given; warm frames follow each other at one place."""
    ground = GroundFilter(config, backend)
    pose = Pose.from_euler(z=HEIGHT)
    times = iter(range(10**9))

    def call() -> None:
        where = {"T_world_sensor": pose, "time": 0.1 * next(times)} if warm else {}
        ground(Scan(points, T_vehicle_sensor=pose, **where))

    return measure(call, repeats)


def given(config: Config, points: Any, warm: bool = False) -> FrameInput:
    """A scan of a vehicle at the lattice's middle, as the engine takes it."""
    x_min, _, y_min, _ = lattice_of(config.ground).extent
    placement = Placement(np.eye(3), np.array([-x_min, -y_min, HEIGHT]), 0.0)
    return FrameInput(points, placement, Vehicle(-x_min, -y_min), 0.0, warm=warm)


def frame(engine: Any, scan: FrameInput) -> None:
    """Array in, results on the host; a warm frame has the last one's surface as prior."""
    if scan.warm:
        engine.keep()
    engine.frame(scan)


def kernels(engine: Any, scan: FrameInput) -> dict[str, float]:
    """Microseconds per kernel; on CUDA with the gap to the next, which a captured graph shortens."""
    runs = [engine.profile(scan) for _ in range(8)][1:]
    return {name: round(1e6 * float(np.median([run[name] for run in runs])), 2) for name in runs[0]}


def em_iteration(backend: Any, points: Any) -> float:
    """Microseconds, from frames with 10 and 50 iterations."""
    medians = []
    for iterations in (10, 50):
        changes = {"iterations": iterations, "warm_iterations": iterations}
        config = Config.preset("paper").with_changes(ground={"stcrf": changes})
        engine, scan = StcrfDevice(backend, config), given(config, points)
        repeats = 200 if backend.device.kind == "gpu" else 5
        medians.append(measure(lambda e=engine, g=scan: frame(e, g), repeats)["median_us"])
    return round((medians[1] - medians[0]) / 40, 2)


def variance(backend: Any, sources: dict[str, Any], repeats: int) -> dict[str, Any]:
    """The whole scan, as the public call and as the bare engine."""
    config = Config.parse({"ground": {"method": "variance"}})
    rows = {
        f"variance, public call, {name}": public_call(backend, config, source, repeats, warm=False)
        for name, source in sources.items()
    }
    engine = VarianceDevice(backend, config.ground.variance)

    def run(points: Any) -> None:
        engine.queue(points)
        engine.fetch()

    for name, source in sources.items():
        rows[f"variance, engine, {name}"] = measure(lambda s=source: run(s), repeats)
    timed = [engine.profile(sources.get("GPU array", sources["NumPy array"])) for _ in range(7)]
    rows["variance, phases"] = {
        name: round(1e6 * float(np.median([one[name] for one in timed])), 2) for name in timed[0]
    }
    return rows


def occupancy(backend: Any, large: bool) -> dict[str, Any]:
    """Fusion and filter in milliseconds: the paper's largest case in every layout, a large one, and the agreement."""
    paper, default = Config.preset("paper").occupancy, Config().occupancy
    cases = {"paper": (paper, 19_000, 0.1), "default": (default, 19_000, 0.1)}
    if large:
        cases["1.44 M cells, 2 M particles"] = (default, 2_000_000, 0.0323)
    rows: dict[str, Any] = {}
    for name, case in cases.items():
        rows[f"occupancy, {name}"] = time_steps(*case, steps=20, warm_up=6, backend=backend).as_row()
    rows |= {f"occupancy, {name}": found for name, found in layouts(backend, 20, 6).items()}
    scans = open_source("sim:city?sensor=vlp16&frames=200" if large else "sim:city?sensor=vlp16&frames=20")
    rows["occupancy, from points"] = [time_from_points(*case, 20, 6, backend) for case in PAPER_TABLE_1]
    rows["occupancy, agreement"] = summary(list(agreement_rows(scans, Config(), backend)))
    rows["occupancy, masses"] = list(mass_rows(backend, 10_000 if large else 500))[-1]
    return rows


def drives(device: Any, seconds: float = 6.0) -> dict[str, Any]:
    """Frames per second of the whole chain, one drive alone and several at once, each in a process of its own."""
    one, several = frames_per_second(device, 1, seconds), frames_per_second(device, DRIVES, seconds)
    rows = {"1 at once": one, f"{DRIVES} at once": several, "ratio": round(several / one, 2)}
    with multi_process_service() as runs:
        if runs:
            several = frames_per_second(device, DRIVES, seconds)
            rows |= {f"{DRIVES} at once, MPS": several, "ratio, MPS": round(several / one, 2)}
    return rows


def frames_per_second(device: Any, drives: int, seconds: float) -> float:
    context = get_context("spawn")
    given = [(device.backend, device.index, seed, seconds) for seed in range(drives)]
    with context.Pool(drives, wait_at, (context.Barrier(drives),)) as pool:
        return round(sum(pool.starmap(drive, given, chunksize=1)) / seconds, 1)


@contextmanager
def multi_process_service() -> Iterator[bool]:
    """NVIDIA's MPS, where it is installed: kernels of several processes run at the same time, not by turns."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        yield False
        return
    with tempfile.TemporaryDirectory() as folder:
        settings = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        os.environ.update(settings)
        try:
            yield subprocess.run([control, "-d"], capture_output=True).returncode == 0
        finally:
            subprocess.run([control], input=b"quit\n", capture_output=True)
            for name in settings:
                del os.environ[name]


def wait_at(start: Any) -> None:
    """Where the processes wait for each other."""
    globals()["_start"] = start


def drive(backend: str, index: int, seed: int, seconds: float) -> int:
    """How many frames of one drive are computed in that time, once all processes are ready."""
    scans = list(open_source(f"sim:city?sensor=vlp16&frames=20&seed={seed}"))
    pipeline = Pipeline(Config(backend=backend, device=str(index)))
    for scan in scans:
        pipeline(scan)
    globals()["_start"].wait()
    begin, frames = time.perf_counter(), 0
    while time.perf_counter() < begin + seconds:
        if frames % len(scans) == 0:
            pipeline.reset()
        pipeline(scans[frames % len(scans)])
        frames += 1
    return frames


def batch(backend: Any, points: Any, many: bool, fields: tuple[str, ...] | None = None) -> float:
    """Scans per second, paper preset, with all results or only `fields` beside the labels."""
    config = Config.preset("paper")
    engines = BatchStcrf(backend, config, fields)
    scan = (None, given(config, points))
    count = 4000 if many else 24
    for _ in engines.run([scan] * 24):
        pass
    begin = time.perf_counter()
    for _ in engines.run([scan] * count):
        pass
    return round(count / (time.perf_counter() - begin), 1)


def uploads(backend: Any, points: Any, count: int = 4000) -> float:
    """Scans per second that the bus carries to the device: the bound of a batch from host memory."""
    buffer = backend.input_buffer(points.shape, np.float32, device_resident=True)
    begin = time.perf_counter()
    for _ in range(count):
        backend.bind(points, buffer)
    backend.finish()
    return round(count / (time.perf_counter() - begin), 1)


def show(rows: dict[str, Any]) -> None:
    for name, values in rows.items():
        print(f"  {name:42s} {values}")


if __name__ == "__main__":
    main()
