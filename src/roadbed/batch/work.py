# SPDX-License-Identifier: Apache-2.0
"""The work of a worker: process a sequence, process a segment of it, or join its segments."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np

from roadbed.batch.folders import atomic_folder
from roadbed.batch.job import Frames, Job, Outcome, Split
from roadbed.batch.manifest import RUN, SEQUENCE, SequenceManifest, read_json, sizes, versions, write_json
from roadbed.batch.report import FOLDER as LOWEST
from roadbed.batch.report import LowestFrames, lowest_of
from roadbed.batch.segments import Ids, Segment, cut
from roadbed.batch.sequences import InputSequence, input_files, input_hash, input_stamp
from roadbed.core.errors import InputError, RoadbedError
from roadbed.mapping.merge import merge_maps, new_map_folder
from roadbed.mapping.reader import MapReader
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.recording import Part, RunFolder, link_or_copy
from roadbed.outputs.report import RunSummary
from roadbed.pipeline import Pipeline
from roadbed.sources.source import Selection, Source

_REPORT_EVERY = 1.0  # s
_SEGMENT = "segment.json"  # the last file of a segment
_PARTS = (*RunFolder.PARTS, "map", LOWEST, SEQUENCE, RUN)
Events = Iterator[Frames | Split | Outcome]


def do_sequence(job: Job, sequence: InputSequence) -> Events:
    """Keep a sequence that is complete, process it, or split a long one."""
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
    segments = cut(len(source), job.segment, job.warm_up if source.sequential else 0)
    if len(segments) > 1:
        yield Split(sequence.name, tuple(segments))
        return
    digest = input_hash(sequence, files)
    with atomic_folder(job.of(sequence), job.unfinished) as folder:
        out = OutputFolder(folder, _PARTS, command=job.command)
        recording, lowest = RunFolder(out, sequence.location, job.config, job.layers), LowestFrames()
        for _, count in _run_pipeline(job, source, segments[0], recording, lowest, folder / "map"):
            yield Frames(sequence.name, count)
        _register_map_files(out, folder / "map")
        summary = recording.finish()
        shown = lowest.write(out, summary.slides)
        _write_manifests(job, sequence, out, summary, digest, segments, shown, clock.facts(stamp))
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


def do_segment(job: Job, sequence: InputSequence, segment: Segment) -> Events:
    """Process a segment into a folder of its own, for `do_join`."""
    clock = _Clock()
    source = sequence.read_options.open(sequence.location)
    key = _key(job, sequence, source)
    target = segment_folder(job, sequence, segment)
    if read_json(target / _SEGMENT).get("key") != key:
        with atomic_folder(target, target.parent) as folder:
            out = OutputFolder(folder, (*_PARTS, "part.json", "slides", _SEGMENT), command=job.command)
            recording = RunFolder(out, sequence.location, job.config, job.layers, segment.start)
            lowest = LowestFrames()
            seen: list[dict[str, Any]] = []
            for result, count in _run_pipeline(job, source, segment, recording, lowest, folder / "map"):
                if result is not None and result.occupancy is not None:
                    seen = [{"id": t.id, "position": t.position.tolist()} for t in result.occupancy.objects]
                if count:
                    yield Frames(sequence.name, count)
            _register_map_files(out, folder / "map")
            shown = lowest.write(out, recording.finish_part().slides)
            facts = {"key": key, "seen": seen, "lowest": shown, **clock.facts("")}
            write_json(out.file(_SEGMENT), facts)
    yield Outcome(sequence.name, "part", segment.stop - segment.start, segment=segment.number)


def do_join(job: Job, sequence: InputSequence, segments: Sequence[Segment]) -> Events:
    """Join the segments of a sequence; the caller removes them."""
    clock = _Clock()
    source = sequence.read_options.open(sequence.location)
    files = input_files(sequence, source)
    stamp, digest = input_stamp(files), input_hash(sequence, files)
    folders = [segment_folder(job, sequence, segment) for segment in segments]
    facts = [read_json(folder / _SEGMENT) for folder in folders]
    key = _key(job, sequence, source)
    outdated = next((folder for folder, fact in zip(folders, facts) if fact.get("key") != key), None)
    if outdated is not None:
        raise InputError(f"{outdated}: expected a segment of {sequence.location} as it is now")
    with atomic_folder(job.of(sequence), job.unfinished) as folder:
        out = OutputFolder(folder, _PARTS, command=job.command)
        recording, ids = RunFolder(out, sequence.location, job.config, job.layers), Ids()
        for segment_dir, fact in zip(folders, facts):
            part = Part.read(segment_dir)
            recording.take(segment_dir, part, ids.of_segment(part.objects, part.last, fact["seen"]))
        if job.map:
            maps = [MapReader(part / "map") for part in folders if (part / "map" / "map.json").exists()]
            if maps:
                merge_maps(maps, lambda: new_map_folder(folder / "map", [stored.folder for stored in maps]))
        _register_map_files(out, folder / "map")
        lowest = lowest_of(entry for fact in facts for entry in fact["lowest"])
        for entry in lowest:
            drawn = next(path for part in folders if (path := part / entry["picture"]).exists())
            (folder / LOWEST).mkdir(exist_ok=True)
            link_or_copy(drawn, out.file(entry["picture"]))
        summary = recording.finish()
        run = clock.facts(stamp)
        for name in ("wall_s", "processor_s"):
            run[name] = round(run[name] + sum(fact[name] for fact in facts), 3)
        _write_manifests(job, sequence, out, summary, digest, segments, lowest, run)
    yield Outcome(sequence.name, "done", len(summary.frames))


def segment_folder(job: Job, sequence: InputSequence, segment: Segment) -> Path:
    return job.unfinished / f"{sequence.name}.segments" / f"{segment.number:05d}"


def _run_pipeline(
    job: Job, source: Source, segment: Segment, recording: RunFolder, lowest: LowestFrames, map_folder: Path
) -> Iterator[tuple[Any, int]]:
    """Run the pipeline over a segment; yields the last warm-up result once, and about every second the frames done."""
    pipeline = Pipeline(job.config, occupancy=job.occupancy, map_folder=map_folder if job.map else None)
    whole = segment.first == 0 and segment.stop == len(source)
    part = source if whole else Selection(source, range(segment.first, segment.stop))
    done, reported = 0, -_REPORT_EVERY  # the first frame is reported at once
    for number, result in enumerate(pipeline.run(part, segment.warm_up), segment.first):
        if number < segment.start:
            if number == segment.start - 1:
                yield result, 0
            continue
        lowest.add(recording.add(result), result)
        done += 1
        if time.monotonic() - reported >= _REPORT_EVERY:
            yield None, done
            done, reported = 0, time.monotonic()
    pipeline.close()
    if done:
        yield None, done


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
    summary: RunSummary,
    digest: str,
    segments: Sequence[Segment],
    lowest: Sequence[Any],
    run: dict[str, Any],
) -> None:
    """Write run.json, then sequence.json, which marks the folder as complete."""
    stages = {stage: float(summary.milliseconds(stage).sum()) / 1e3 for stage in summary.stages()}
    medians = {stage: round(float(np.median(summary.steady_milliseconds(stage))), 3) for stage in summary.stages()}
    run |= {"frames": len(summary.frames), "stage_seconds": stages, "median_ms": medians}
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
        segments=[[segment.first, segment.start, segment.stop] for segment in segments],
        frames=len(summary.frames),
        points=sum(frame.points for frame in summary.frames),
        labels=labels,
        objects=len(ids),
        diagnostics=sum(bool(frame.diagnostics) for frame in summary.frames),
        scores={name: None if np.isnan(value) else round(value, 3) for name, value in summary.mean_scores().items()},
        lowest=lowest,
        files=sizes(out.path),
    ).write(out)


def _key(job: Job, sequence: InputSequence, source: Source) -> str:
    """Identifies settings, input and version; a segment with another key is outdated."""
    return f"{job.settings_hash(sequence)} {input_stamp(input_files(sequence, source))} {versions()['roadbed']}"


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
