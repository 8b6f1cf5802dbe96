# SPDX-License-Identifier: Apache-2.0
"""The work of a worker: process a sequence, or merge the maps of all sequences."""

import json
import platform
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np

from roadbed.batch.job import FramesDone, Job, Outcome
from roadbed.batch.manifest import RUN, SEQUENCE, SequenceManifest, read_json, sizes, versions, write_json
from roadbed.batch.report import FOLDER as LOWEST
from roadbed.batch.report import LowestFrames
from roadbed.batch.sequences import InputSequence, input_files, input_hash, input_stamp
from roadbed.core.errors import InputError, RoadbedError
from roadbed.io.atomic import atomic_folder
from roadbed.mapping.merge import foreign_to_map, merge_maps, new_map_folder
from roadbed.mapping.reader import MapReader
from roadbed.outputs.folder import OutputFolder, foreign_file
from roadbed.outputs.recording import RunFolder
from roadbed.outputs.report import RunRecorder
from roadbed.pipeline import Pipeline
from roadbed.sources.source import Source

_REPORT_EVERY = 1.0  # s
_MAP = "map"
_PARTS = (*RunFolder.PARTS, _MAP, LOWEST, SEQUENCE, RUN)


def do_sequence(job: Job, sequence: InputSequence) -> Iterator[FramesDone | Outcome]:
    """Process a sequence, unless it is complete."""
    clock = _Clock()
    source = sequence.read_options.open(sequence.location)
    files = input_files(sequence, source)
    stamp = input_stamp(files)
    again = outdated_reason(job, sequence, files, stamp)
    if again is None:
        kept = SequenceManifest.read(job.of(sequence))
        yield Outcome(sequence.name, "kept", frames=kept.frames if kept else 0)
        return
    if not len(source):
        raise InputError(f"{sequence.location}: found no scans, expected at least one")
    digest = input_hash(sequence, files)
    with atomic_folder(job.of(sequence), job.unfinished, foreign_file) as folder:
        out = OutputFolder(folder, _PARTS, command=job.command)
        recording, lowest = RunFolder(out, sequence.location, job.config, job.layers), LowestFrames()
        for count in _run_pipeline(job, source, recording, lowest, folder / _MAP):
            yield FramesDone(sequence.name, count)
        _register_map_files(out, folder / _MAP)
        summary = recording.finish()
        shown = lowest.write(out, summary.slides)
        _write_manifests(job, sequence, out, summary, digest, shown, clock.facts(stamp))
    yield Outcome(sequence.name, "done", len(summary.frames), again)


def complete_frames(job: Job, sequence: InputSequence) -> int | None:
    """Number of frames of a sequence whose results are complete and up to date, else None."""
    try:
        files = input_files(sequence, sequence.read_options.open(sequence.location))
        outdated = outdated_reason(job, sequence, files, input_stamp(files))
    except (RoadbedError, OSError):  # the worker reports it
        return None
    known = SequenceManifest.read(job.of(sequence))
    return None if outdated is not None or known is None else known.frames


def outdated_reason(job: Job, sequence: InputSequence, files: Sequence[Path], stamp: str) -> str | None:
    """None if the results are complete; else the reason to repeat it, empty if there are no results."""
    folder = job.of(sequence)
    known = SequenceManifest.read(folder)
    if known is None:
        return "sequence.json is missing or damaged" if folder.exists() else ""
    if known.settings != job.settings_hash(sequence):
        return "the settings have changed"
    if known.versions.get("roadbed") != versions()["roadbed"]:
        return f"done by Roadbed {known.versions.get('roadbed')}"
    if read_json(folder / RUN).get("stamp") != stamp and known.input != input_hash(sequence, files):
        return "the input has changed"
    missing = known.missing(folder)
    return f"{missing} is missing or cut short" if missing else None


def do_merge(job: Job, name: str, sequences: Sequence[InputSequence]) -> Iterator[Outcome]:
    """Merge the maps of the sequences into one, in the frame of the first.

    A damaged tile is an error: a map without it would look complete.
    """
    folders = [job.of(sequence) / _MAP for sequence in sequences]
    maps = [MapReader(folder) for folder in folders if (folder / "map.json").exists()]
    if not maps:
        raise InputError("no sequence has a map: a map needs odometry and the method stcrf")
    with atomic_folder(job.folder / _MAP, job.unfinished, foreign_to_map) as folder:
        merge_maps(maps, lambda: new_map_folder(folder, folders))
        damaged = [line for stored in maps for line in stored.damaged]
        if damaged:
            raise InputError(damaged[0])
    yield Outcome(name, "done")


def _run_pipeline(
    job: Job, source: Source, recording: RunFolder, lowest: LowestFrames, map_folder: Path
) -> Iterator[int]:
    """Run the pipeline over a sequence; yields about every second the number of frames done since."""
    pipeline = Pipeline(job.config, occupancy=job.occupancy, map_folder=map_folder if job.map else None)
    done, reported = 0, -_REPORT_EVERY  # the first frame is reported at once
    for result in pipeline.run(source):
        lowest.add(recording.add(result), result)
        done += 1
        if time.monotonic() - reported >= _REPORT_EVERY:
            yield done
            done, reported = 0, time.monotonic()
    pipeline.close()
    if done:
        yield done


def _register_map_files(out: OutputFolder, folder: Path) -> None:
    """Enter the files of the map into the manifest of the results."""
    if folder.is_dir():
        written = folder.rename(folder.with_name(".map"))
        folder.mkdir()
        for path in sorted(written.iterdir()):
            path.rename(out.file("map", path.name))
        written.rmdir()


def _write_manifests(
    job: Job,
    sequence: InputSequence,
    out: OutputFolder,
    summary: RunRecorder,
    digest: str,
    lowest: Sequence[Any],
    run: dict[str, Any],
) -> None:
    """Write run.json, then sequence.json, which marks the folder as complete."""
    stages = {stage: float(summary.milliseconds(stage).sum()) / 1e3 for stage in summary.stages()}
    run |= {"frames": len(summary.frames), "stage_seconds": stages, "median_ms": summary.median_ms()}
    write_json(out.file(RUN), run)
    objects = out.path / "objects.jsonl"
    ids = {json.loads(line)["id"] for line in objects.read_text().splitlines()} if objects.exists() else set()
    labels = {
        name: round(sum(frame.shares[name] * frame.points for frame in summary.frames))
        for name in summary.frames[0].shares
    }
    SequenceManifest(
        name=sequence.name,
        source=sequence.location,
        input=digest,
        settings=job.settings_hash(sequence),
        versions=versions(),
        frames=len(summary.frames),
        points=sum(frame.points for frame in summary.frames),
        labels=labels,
        objects=len(ids),
        diagnostics=sum(bool(frame.diagnostics) for frame in summary.frames),
        scores={name: None if np.isnan(value) else round(value, 3) for name, value in summary.mean_scores().items()},
        lowest=lowest,
        files=sizes(out.path),
    ).write(out)


class _Clock:
    """Wall and processor time of one task."""

    def __init__(self) -> None:
        self._wall, self._processor = time.monotonic(), time.process_time()
        self._started = datetime.now(UTC).isoformat("T", "seconds")

    def facts(self, stamp: str) -> dict[str, Any]:
        return {
            "stamp": stamp,
            "started": self._started,
            "host": platform.node(),
            "wall_s": round(time.monotonic() - self._wall, 3),
            "processor_s": round(time.process_time() - self._processor, 3),
            "memory_mb": getrusage(RUSAGE_SELF).ru_maxrss // 1024,
        }
