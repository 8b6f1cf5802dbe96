# SPDX-License-Identifier: Apache-2.0
"""Cost of a batch: speed-up by workers, overhead over the plain pipeline, a model for a million scans."""

import os
import time
from collections.abc import Iterator, Sequence
from cProfile import Profile
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from roadbed.batch import tasks
from roadbed.batch.batch_run import BatchRun, locked_output
from roadbed.batch.engine import Engine
from roadbed.batch.job import Job
from roadbed.batch.manifest import RUN, read_json
from roadbed.batch.sequences import InputSequence, find_sequences
from roadbed.config import Config
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.sequence_folder import PARTS, record_sequence
from roadbed.sources.read_options import ReadOptions
from roadbed.sources.simulator import SimulatorSource

MANY = 1_000_000  # scans of the model
_DISK = 500e6  # bytes/s that the model's storage takes


def bench_batch(
    workers: Sequence[int], sequences: int, frames: int, sensor: str, config: Config | None = None
) -> dict[str, Any]:
    """`rows`: one per number of workers; `overhead`: of one sequence in this process; `model`: a million scans."""
    config = Config.of(config)
    with TemporaryDirectory(prefix="roadbed-bench-") as folder:
        home = Path(folder)
        listed = _recorded(home / "input", sequences, frames, sensor)
        overhead = _overhead(home, listed[0], config)
        rows = [_row(home / f"out-{count}", listed, config, count) for count in workers]
        for row in rows:
            row["speedup_wall"] = round(row["frames_per_s"] / rows[0]["frames_per_s"], 2)
            # What it would be with a free core for each worker: how much of the time they had something to do.
            row["speedup_on_free_cores"] = round(row["workers"] * row["busy"] / rows[0]["busy"], 2)
        sizes = _bytes_per_scan(home, listed, rows[0]["frames"])
    return {"rows": rows, "overhead": overhead, "model": _model(rows[0], sizes)}


def _recorded(folder: Path, sequences: int, frames: int, sensor: str) -> list[InputSequence]:
    for seed in range(sequences):
        source = SimulatorSource("sim:city", sensor=sensor, frames=frames, seed=seed)
        out = OutputFolder(folder / f"sequence-{seed}", PARTS, command="python -m benchmarks batch")
        for _ in record_sequence(source.sequence, out, reach=2.0):
            pass
    return find_sequences([f"{folder}/sequence-*"], ReadOptions())


def _overhead(home: Path, sequence: InputSequence, config: Config) -> dict[str, float]:
    """Processor time of a sequence in a batch, and of the calls in it that `roadbed run` makes too, by the profiler.

    Of one run, not of two: on a busy machine the same work costs a fifth more or less from run to run.
    """
    for number in range(2):  # the first loads kernels
        job = Job(home / f"batch-{number}", config, "roadbed batch")
        job.folder.mkdir()
        profile = Profile(time.process_time)
        profile.runcall(list, tasks.sequence_task(job, sequence))
    spent = {
        f"{Path(entry.code.co_filename).stem}.{entry.code.co_name}": entry.totaltime
        for entry in profile.getstats()
        if not isinstance(entry.code, str)  # a function written in C
    }
    whole = spent["work.do_sequence"]
    shared = spent["read_options.open"] + spent["work._run_pipeline"] + spent["recording.finish"]
    return {
        "frames": len(sequence.read_options.open(sequence.location)),
        "whole_s": round(whole, 3),
        "shared_with_run_s": round(shared, 3),
        "percent": round(100 * (whole / shared - 1), 2),
    }


def _row(folder: Path, sequences: Sequence[InputSequence], config: Config, workers: int) -> dict[str, Any]:
    """All sequences twice on so many workers: the first time workers start and load kernels, the second is measured."""
    job = Job(folder, config, "python -m benchmarks batch", resume=True)
    with Engine(None, workers) as engine:
        _run(replace(job, folder=folder / "warm"), sequences, engine)
        before = _ray_seconds()
        begin = time.monotonic()
        _run(replace(job, folder=folder / "measured"), sequences, engine)
        wall = time.monotonic() - begin
        ray = _ray_seconds() - before
    runs = [read_json(folder / "measured" / "sequences" / sequence.name / RUN) for sequence in sequences]
    frames, processor = sum(run["frames"] for run in runs), sum(run["processor_s"] for run in runs)
    return {
        "workers": workers,
        "sequences": len(sequences),
        "frames": frames,
        "wall_s": round(wall, 2),
        "frames_per_s": round(frames / wall, 2),
        "processor_ms_per_frame": round(1e3 * processor / frames, 2),
        "ray_ms_per_frame": round(1e3 * max(ray - processor, 0.0) / frames, 2),
        "memory_mb": max(run["memory_mb"] for run in runs),
        "busy": round(sum(run["wall_s"] for run in runs) / (workers * wall), 3),
    }


def _run(job: Job, sequences: Sequence[InputSequence], engine: Engine) -> None:
    with locked_output(job):
        BatchRun(job, sequences, engine, lambda progress, event: None).run(lambda: False)


def _ray_seconds() -> float:
    """Processor time of this process and all that it has started: Ray's own processes and the workers."""
    tick = os.sysconf("SC_CLK_TCK")
    return time.process_time() + sum(ticks for process, ticks in _descendants(os.getpid())) / tick


def _descendants(root: int) -> Iterator[tuple[int, int]]:
    """Processes below one, each with its ticks."""
    parents: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        parents[int(path.parent.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    found = {root}
    while more := {process for process, (parent, _) in parents.items() if parent in found} - found:
        found |= more
    yield from ((process, parents[process][1]) for process in found - {root} if process in parents)


def _bytes_per_scan(home: Path, sequences: Sequence[InputSequence], frames: int) -> dict[str, float]:
    def size(folder: Path, pattern: str = "*") -> int:
        return sum(path.stat().st_size for path in folder.rglob(pattern) if path.is_file())

    read = sum(size(Path(sequence.location) / "velodyne") for sequence in sequences)
    results = next(home.glob("out-*")) / "measured" / "sequences"
    kept = size(results)
    pages = size(results, "report.html") + size(results, "last-frame.png") + size(results, "*.webp")
    return {"read": read / frames, "per_scan": (kept - pages) / frames, "per_drive": pages / len(sequences)}


def _model(row: dict[str, Any], sizes: dict[str, float]) -> dict[str, Any]:
    """From the measured cost of a scan: what a million take, and how many cores fill one storage of 500 MB/s."""
    seconds = (row["processor_ms_per_frame"] + row["ray_ms_per_frame"]) / 1e3
    moved = sizes["read"] + sizes["per_scan"]
    full_at = _DISK / (moved / seconds)
    return {
        "scans": MANY,
        "core_hours": round(MANY * seconds / 3600, 1),
        "read_gb": round(MANY * sizes["read"] / 1e9, 1),
        "written_gb": round(MANY * sizes["per_scan"] / 1e9, 1),
        "pages_mb_per_drive": round(sizes["per_drive"] / 1e6, 2),
        "mb_per_s_per_core": round(moved / seconds / 1e6, 2),
        "cores_that_fill_500_mb_per_s": round(full_at),
        "hours_on_100_cores": round(MANY * seconds / 3600 / min(100, full_at), 2),
        "bottleneck": f"the processors up to {round(full_at)} cores, then writing of labels and layers",
    }
