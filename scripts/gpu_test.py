# SPDX-License-Identifier: Apache-2.0
"""Tests and benchmark of the accelerators on this machine; writes docs/benchmarks-gpu.json.

Needs nothing but Python with Roadbed's dependencies on its path: `PYTHONPATH=src python3 scripts/gpu_test.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from roadbed import Pose

ROOT = Path(__file__).resolve().parent.parent
HEIGHT = 1.73  # m, of the sensor over the road
POINTS = 124_668


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scan", type=Path, help="a KITTI .bin file; a simulated HDL-64E scan otherwise")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks-gpu.json")
    parser.add_argument("--no-tests", action="store_true")
    parser.add_argument("--repeats", type=int, default=500)
    options = parser.parse_args()
    use_installed_drivers()

    from roadbed.compute.opening import devices

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
    command = [sys.executable, "-m", "pytest", "-q", "tests/compute", "tests/ground/test_devices.py"]
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    print(done.stdout[-3000:], done.stderr[-1000:])
    return {
        "exit": done.returncode,
        "seconds": round(time.perf_counter() - begin, 1),
        "summary": " ".join(done.stdout.strip().splitlines()[-1:]),
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
    from roadbed import Config
    from roadbed.compute.opening import open_backend
    from roadbed.ground.stcrf.on_device import StcrfOnDevice

    backend = open_backend(device.backend, device.index)
    sources = {"NumPy array": points}
    if device.backend == "cuda":
        import cupy

        sources["pinned memory"] = backend.host(points.shape, np.float32)
        sources["pinned memory"][:] = points
        sources["GPU array"] = cupy.asarray(points)
    rows: dict[str, Any] = {}
    for preset in ("paper", "default"):
        stcrf = StcrfOnDevice(Config.preset(preset).ground, backend)
        for name, source in sources.items():
            rows[f"{preset}, cold, {name}, labels"] = measure(lambda s=source, m=stcrf: frame(m, s, False, 0), repeats)
        best = sources.get("pinned memory", points)
        rows[f"{preset}, cold, all outputs"] = measure(lambda s=best, m=stcrf: frame(m, s, False, 7), repeats)
        rows[f"{preset}, warm, labels"] = measure(lambda s=best, m=stcrf: frame(m, s, True, 0), repeats)
        rows[f"{preset}, kernels"] = kernels(stcrf, sources.get("GPU array", points))
    rows["EM iteration"] = {"median_us": em_iteration(backend, sources.get("GPU array", points))}
    rows.update(variance(backend, sources, repeats))
    rows["batch, labels"] = {"scans_per_s": batch(backend, sources.get("pinned memory", points), device.kind == "gpu")}
    show(rows)
    return rows


def frame(stcrf: Any, points: Any, warm: bool, wanted: int) -> None:
    """Array in, results on the host; `warm` has the last frame's surface as prior."""
    engine = stcrf.engine
    if not hasattr(stcrf, "place_of_sensor"):  # a mounting that does not change
        stcrf.place_of_sensor = stcrf._placement(Pose.from_euler(z=HEIGHT))
        stcrf.place_of_vehicle = stcrf._vehicle(Pose.identity())
    engine.wanted = wanted
    if warm:
        engine.keep()
    engine.sort(points, stcrf.place_of_sensor)
    engine.select(stcrf.place_of_vehicle, None)
    engine.estimate(warm, 0.0)
    engine.fetch()


def kernels(stcrf: Any, points: Any) -> dict[str, float]:
    """Microseconds per kernel; on CUDA with the gap to the next, which a captured graph shortens."""
    frame(stcrf, points, False, 0)
    runs = [stcrf.engine.estimate(False, 0.0, timed=True) for _ in range(7)]
    return {name: round(1e6 * float(np.median([run[name] for run in runs])), 2) for name in runs[0]}


def em_iteration(backend: Any, points: Any) -> float:
    """Microseconds, from frames with 10 and 50 iterations."""
    from roadbed import Config
    from roadbed.ground.stcrf.on_device import StcrfOnDevice

    medians = []
    for iterations in (10, 50):
        config = Config.preset("paper").ground
        config = config.with_changes(stcrf={"iterations": iterations, "warm_iterations": iterations})
        stcrf = StcrfOnDevice(config, backend)
        repeats = 200 if backend.device.kind == "gpu" else 5
        medians.append(measure(lambda m=stcrf: frame(m, points, False, 0), repeats)["median_us"])
    return round((medians[1] - medians[0]) / 40, 2)


def variance(backend: Any, sources: dict[str, Any], repeats: int) -> dict[str, Any]:
    from roadbed.config.ground import VarianceConfig
    from roadbed.ground.variance.device import GridVarianceDevice

    method = GridVarianceDevice(backend, VarianceConfig(axes="forward-left"))
    method.wanted = 0

    def run(points: Any) -> None:
        method.queue(points)
        backend.fetch(method._label, 0, int(points.shape[0]))
        backend.finish()

    rows = {f"variance, {name}, labels": measure(lambda s=source: run(s), repeats) for name, source in sources.items()}
    timed = [method.queue(sources.get("GPU array", sources["NumPy array"]), timed=True) for _ in range(7)]
    rows["variance, phases"] = {
        name: round(1e6 * float(np.median([run[name] for run in timed])), 2) for name in timed[0]
    }
    return rows


def batch(backend: Any, points: Any, many: bool) -> float:
    """Scans per second, paper preset, labels only."""
    from roadbed import Config
    from roadbed.ground.stcrf.batch import BatchStcrf

    engines = BatchStcrf(backend, Config.preset("paper").ground, wanted=0)
    scan = (points, Pose.from_euler(z=HEIGHT))
    count = 4000 if many else 24
    for _ in engines.run([scan] * 24):
        pass
    begin = time.perf_counter()
    for _ in engines.run([scan] * count):
        pass
    return round(count / (time.perf_counter() - begin), 1)


def show(rows: dict[str, Any]) -> None:
    for name, values in rows.items():
        print(f"  {name:42s} {values}")


if __name__ == "__main__":
    main()
