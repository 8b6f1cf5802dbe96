# SPDX-License-Identifier: Apache-2.0
"""Time of the ground filter in turns with FugSeg and Patchwork++, on the same scans and the same machine.

FugSeg is compiled from the user's checkout, Patchwork++ is the installed package `pypatchworkpp`; nothing is fetched.
"""

import ctypes
import importlib.util
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numba
import numpy as np

from roadbed.config import Config
from roadbed.core.errors import DeviceError, InputError
from roadbed.core.frames import Label, Scan
from roadbed.ground import GroundFilter

FLAGS = ("-O3", "-DNDEBUG", "-march=native")  # Release, for this processor as Numba compiles
EIGEN = "/usr/include/eigen3"
CALLS = 5  # in a row, per turn
_MOST_POINTS = 134_400  # FugSeg's buffers hold no more, and it does not check

# The settings, the new clusters per scan and the place of the clock are those of FugSeg's viewer (viewer.cpp).
_WRAPPER = """
#include <chrono>
#include <ctime>
#include "fugseg/fugseg.h"

static double processor_seconds() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

extern "C" bool extract_ground(const float* xyz, size_t count, unsigned char* ground, double* seconds) {
    static fugseg::GroundExtractor extractor(120, 1.0f, 0.15f, 7.0f, 10.0f);
    fugseg::Cloud cloud;
    cloud.Reset(count);
    for (size_t i = 0; i < count; i++)
        for (size_t axis = 0; axis < 3; axis++)
            cloud.points()(i, axis) = xyz[3 * i + axis];
    fugseg::Cluster3D cluster_ground, cluster_others;
    const double worked = processor_seconds();
    const auto begin = std::chrono::steady_clock::now();
    const bool done = extractor.ExtractGround(cloud, cluster_ground, cluster_others);
    seconds[0] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    seconds[1] = processor_seconds() - worked;
    for (const auto index : cluster_ground)
        ground[index] = 1;
    return done;
}
"""


@dataclass(frozen=True)
class Call:
    """One call of a method: seconds by the clock and of all threads, and the number of ground points."""

    seconds: float
    processor: float
    ground: int


Method = Callable[[Scan], Call]


@contextmanager
def fugseg(checkout: Path) -> Iterator[Method]:
    """FugSeg, compiled from a checkout of its repository into a temporary folder. Its sensor height is 1.73 m."""
    root = checkout / "src" / "fugseg"
    sources = [root / "src" / "fugseg.cpp", root / "src" / "cloud.cpp"]
    if not all(path.is_file() for path in sources):
        raise InputError(f"{checkout}: expected a checkout of FugSeg, with src/fugseg/src/fugseg.cpp")
    compiler = os.environ.get("CXX") or "g++"
    with TemporaryDirectory(prefix="roadbed-peers-") as folder:
        wrapper, built = Path(folder, "wrapper.cpp"), Path(folder, "fugseg.so")
        wrapper.write_text(_WRAPPER)
        command = [compiler, *FLAGS, "-shared", "-fPIC", f"-I{root / 'include'}", f"-I{EIGEN}"]
        try:
            done = subprocess.run(
                [*command, *map(str, sources), str(wrapper), "-o", str(built)], capture_output=True, text=True
            )
        except OSError as error:
            raise DeviceError(f"FugSeg needs a C++ compiler: {compiler}: {error.strerror}; CXX names another") from None
        if done.returncode:
            reason = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
            raise DeviceError(f"FugSeg does not compile (it needs Eigen in {EIGEN}): {reason}")
        extract = ctypes.CDLL(str(built)).extract_ground
        extract.restype = ctypes.c_bool
        yield partial(_call_fugseg, extract)


def _call_fugseg(extract: Any, scan: Scan) -> Call:
    if len(scan) > _MOST_POINTS:
        raise InputError(f"{scan.name}: {len(scan)} points, and FugSeg takes at most {_MOST_POINTS}")
    xyz = np.ascontiguousarray(scan.points, np.float32)
    ground, seconds = np.zeros(len(xyz), np.uint8), np.zeros(2)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (xyz, ground, seconds)]
    if not extract(pointers[0], ctypes.c_size_t(len(xyz)), *pointers[1:]):
        raise DeviceError(f"{scan.name}: FugSeg failed")
    return Call(float(seconds[0]), float(seconds[1]), int(ground.sum()))


def patchwork(height: float) -> Method | None:
    """Patchwork++ with its defaults and the height of the sensor, m; None where it is not installed."""
    if importlib.util.find_spec("pypatchworkpp") is None:
        return None
    import pypatchworkpp

    parameters = pypatchworkpp.Parameters()
    parameters.sensor_height, parameters.verbose = height, False
    method = pypatchworkpp.patchworkpp(parameters)

    def call(scan: Scan) -> Call:
        intensity = np.zeros(len(scan)) if scan.intensity is None else scan.intensity
        points = np.column_stack([scan.points, intensity]).astype(np.float32)
        timed = _timed(lambda: method.estimateGround(points))
        return replace(timed, ground=len(method.getGroundIndices()))

    return call


def roadbed(threads: int, height: float | None, first_scan: bool) -> Method:
    """Roadbed's default, with the sensor's height in m or nothing known; `first_scan`: with a new filter per call."""
    config = Config.parse({"ground": {"mounting": {"height": height}}})
    kept = GroundFilter(config)

    def call(scan: Scan) -> Call:
        ground = GroundFilter(config) if first_scan else kept
        before = numba.get_num_threads()
        numba.set_num_threads(threads)
        try:
            found: list[Any] = []
            timed = _timed(lambda: found.append(ground(scan)))
        finally:
            numba.set_num_threads(before)
        return replace(timed, ground=int((found[0].label == Label.GROUND).sum()))

    return call


def _timed(call: Callable[[], Any]) -> Call:
    start, worked = perf_counter(), process_time()
    call()
    return Call(perf_counter() - start, process_time() - worked, 0)


def roadbed_methods(height: float) -> dict[str, Method]:
    """Roadbed on one thread and, where there are two, on two: nothing known, the same on a first scan, height given."""
    counts = {1: "1 thread", 2: "2 threads"} if numba.get_num_threads() > 1 else {1: "1 thread"}
    known = {"": (None, False), ", first scan": (None, True), ", height given": (height, False)}
    return {
        f"Roadbed, {text}{ending}": roadbed(threads, *given)
        for ending, given in known.items()
        for threads, text in counts.items()
    }


def alone(scan: Scan) -> Scan:
    """The finite points of a scan, without odometry and mounting: what every method can take."""
    return replace(
        scan.part(np.flatnonzero(np.isfinite(scan.points).all(axis=1))), T_world_sensor=None, T_vehicle_sensor=None
    )


def peer_rows(scans: Iterable[Scan], methods: Mapping[str, Method], rounds: int) -> Iterator[dict[str, Any]]:
    """One row per scan and method; the ratios are to the first method in the same round."""
    for scan in scans:
        ground = {name: method(scan).ground for name, method in methods.items()}  # also the warm-up
        turns: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
        for _ in range(rounds):
            for name, method in methods.items():
                calls = [method(scan) for _ in range(CALLS)]
                clock = float(np.median([call.seconds for call in calls]))
                turns[name].append((clock, float(np.median([call.processor for call in calls]))))
        first = np.array(next(iter(turns.values())))
        for name, seconds in turns.items():
            median_ms, processor_ms = 1e3 * np.median(seconds, axis=0)
            yield {
                "case": f"{scan.name} {name}",
                "scan": scan.name,
                "method": name,
                "points": len(scan),
                "ground_percent": round(100 * ground[name] / len(scan), 1),
                "median_ms": round(float(median_ms), 2),
                "processor_ms": round(float(processor_ms), 2),
                **ratios(np.array(seconds) / first),
            }


def ratios(rounds: np.ndarray) -> dict[str, float]:
    """Median, least and most of the ratios by the clock, and of processor time; `rounds` is (rounds, 2)."""
    (ratio, processor), (least, _), (most, _) = (f(rounds, axis=0) for f in (np.median, np.min, np.max))
    values = {"ratio": ratio, "ratio_min": least, "ratio_max": most, "processor_ratio": processor}
    return {name: round(float(value), 3) for name, value in values.items()}


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Per method over all scans: median, least and most of the scans' times and median ratios."""
    found = []
    for method in dict.fromkeys(row["method"] for row in rows):
        of_method = [row for row in rows if row["method"] == method]
        values: dict[str, Any] = {"case": f"{len(of_method)} scans, {method}"}
        for key in ("median_ms", "processor_ms", "ratio", "processor_ratio"):
            of_key = [row[key] for row in of_method]
            values[key] = round(float(np.median(of_key)), 3)
            values[f"{key}_range"] = f"{min(of_key):g}-{max(of_key):g}"
        found.append(values)
    return found
