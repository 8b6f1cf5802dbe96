# SPDX-License-Identifier: Apache-2.0
"""What a worker does: a drive in one piece, a segment of one, or the joining of its segments."""

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

from roadbed.batch.drives import Drive
from roadbed.batch.folders import appearing
from roadbed.batch.inputs import input_files, input_hash, input_stamp
from roadbed.batch.job import Job
from roadbed.batch.manifest import DRIVE, RUN, DriveManifest, read_run, sizes, versions, write_json
from roadbed.batch.outcome import Frames, Outcome, Split
from roadbed.batch.segments import Ids, Segment, cut
from roadbed.batch.worst import FOLDER as WORST
from roadbed.batch.worst import WorstFrames, worst_of
from roadbed.core.errors import InputError
from roadbed.io.files import read_text
from roadbed.mapping.merge import merge_maps, new_map_folder
from roadbed.mapping.reader import MapReader
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.parts import Part, linked_or_copied
from roadbed.outputs.recording import RunFolder
from roadbed.outputs.report import RunSummary
from roadbed.pipeline import Pipeline
from roadbed.sources.source import Selection, Source

_TELL_EVERY = 1.0  # s
_SEGMENT = "segment.json"  # the last file of a segment
_PARTS = (*RunFolder.PARTS, "map", WORST, DRIVE, RUN)
Told = Iterator[Frames | Split | Outcome]


def do_drive(job: Job, drive: Drive) -> Told:
    """Keep a drive that is complete, do it, or say how a long one is to be split."""
    clock = _Clock()
    source = drive.opening.open(drive.location)
    files = input_files(drive, source)
    stamp = input_stamp(files)
    again = why_again(job, drive, files, stamp)
    if again is None:
        kept = DriveManifest.read(job.of(drive))
        yield Outcome(drive.name, "kept", frames=kept.frames if kept else 0)
        return
    if not len(source):
        raise InputError(f"{drive.location}: found no scans, expected at least one")
    segments = cut(len(source), job.segment, job.warm_up if source.sequential else 0)
    if len(segments) > 1:
        yield Split(drive.name, tuple(segments))
        return
    digest = input_hash(drive, files)
    with appearing(job.of(drive), job.unfinished) as folder:
        out = OutputFolder(folder, _PARTS, command=job.command)
        recording, worst = RunFolder(out, drive.location, job.config, job.layers), WorstFrames()
        for _, count in _perceived(job, source, segments[0], recording, worst, folder / "map"):
            yield Frames(drive.name, count)
        _claim_map(out, folder / "map")
        summary = recording.finish()
        shown = worst.write(out, summary.slides)
        _conclude(job, drive, out, summary, digest, segments, shown, clock.facts(stamp))
    yield Outcome(drive.name, "done", len(summary.frames), again)


def why_again(job: Job, drive: Drive, files: Sequence[Path], stamp: str) -> str | None:
    """None where a drive is complete; else what is missing or no longer as it was, empty where nothing is there."""
    folder = job.of(drive)
    known = DriveManifest.read(folder)
    if known is None:
        return "drive.json is missing or damaged" if folder.exists() else ""
    if known.settings != job.settings_hash(drive):
        return "the settings have changed"
    if known.versions.get("roadbed") != versions()["roadbed"]:
        return f"done by Roadbed {known.versions.get('roadbed')}"
    if read_run(folder).get("stamp") != stamp and known.input != input_hash(drive, files):
        return "the input has changed"
    missing = known.missing(folder)
    return f"{missing} is missing or cut short" if missing else None


def do_segment(job: Job, drive: Drive, segment: Segment) -> Told:
    """A segment into a folder of its own, where the joining finds it."""
    clock = _Clock()
    source = drive.opening.open(drive.location)
    key = _key(job, drive, source)
    target = segment_folder(job, drive, segment)
    if _segment_facts(target).get("key") != key:
        with appearing(target, target.parent) as folder:
            out = OutputFolder(folder, (*_PARTS, "part.json", "slides", _SEGMENT), command=job.command)
            recording = RunFolder(out, drive.location, job.config, job.layers, segment.start)
            worst = WorstFrames()
            seen: list[dict[str, Any]] = []
            for result, count in _perceived(job, source, segment, recording, worst, folder / "map"):
                if result is not None and result.occupancy is not None:
                    seen = [{"id": t.id, "position": t.position.tolist()} for t in result.occupancy.objects]
                if count:
                    yield Frames(drive.name, count)
            _claim_map(out, folder / "map")
            shown = worst.write(out, recording.finish_part().slides)
            facts = {"key": key, "seen": seen, "worst": shown, **clock.facts("")}
            write_json(out.file(_SEGMENT), facts)
    yield Outcome(drive.name, "part", segment.stop - segment.start, segment=segment.number)


def do_join(job: Job, drive: Drive, segments: Sequence[Segment]) -> Told:
    """Segments of a drive become the drive; they themselves are removed by whoever asked for it."""
    clock = _Clock()
    source = drive.opening.open(drive.location)
    files = input_files(drive, source)
    stamp, digest = input_stamp(files), input_hash(drive, files)
    folders = [segment_folder(job, drive, segment) for segment in segments]
    facts = [_segment_facts(folder) for folder in folders]
    key = _key(job, drive, source)
    torn = next((folder for folder, fact in zip(folders, facts) if fact.get("key") != key), None)
    if torn is not None:
        raise InputError(f"{torn}: expected a segment of {drive.location} as it is now")
    with appearing(job.of(drive), job.unfinished) as folder:
        out = OutputFolder(folder, _PARTS, command=job.command)
        recording, ids = RunFolder(out, drive.location, job.config, job.layers), Ids()
        for place, fact in zip(folders, facts):
            part = Part.read(place)
            recording.take(place, part, ids.of_segment(part.objects, part.last, fact["seen"]))
        if job.map:
            maps = [MapReader(place / "map") for place in folders if (place / "map" / "map.json").exists()]
            if maps:
                merge_maps(maps, lambda: new_map_folder(folder / "map", [stored.folder for stored in maps]))
        _claim_map(out, folder / "map")
        worst = worst_of(entry for fact in facts for entry in fact["worst"])
        for entry in worst:
            drawn = next(place / entry["picture"] for place in folders if (place / entry["picture"]).exists())
            (folder / WORST).mkdir(exist_ok=True)
            linked_or_copied(drawn, out.file(entry["picture"]))
        summary = recording.finish()
        run = clock.facts(stamp)
        for name in ("wall_s", "processor_s"):
            run[name] = round(run[name] + sum(fact[name] for fact in facts), 3)
        _conclude(job, drive, out, summary, digest, segments, worst, run)
    yield Outcome(drive.name, "done", len(summary.frames))


def segment_folder(job: Job, drive: Drive, segment: Segment) -> Path:
    return job.unfinished / f"{drive.name}.segments" / f"{segment.number:05d}"


def _perceived(
    job: Job, source: Source, segment: Segment, recording: RunFolder, worst: WorstFrames, map_folder: Path
) -> Iterator[tuple[Any, int]]:
    """Run the chain over a segment; gives the last warm-up result once, and about every second the frames done."""
    pipeline = Pipeline(job.config, occupancy=job.occupancy, map_folder=map_folder if job.map else None)
    whole = segment.first == 0 and segment.stop == len(source)
    part = source if whole else Selection(source, range(segment.first, segment.stop))
    done, told = 0, -_TELL_EVERY  # the first frame is told at once
    for number, result in enumerate(pipeline.run(part, segment.warm_up), segment.first):
        if number < segment.start:
            if number == segment.start - 1:
                yield result, 0
            continue
        worst.add(recording.add(result), result)
        done += 1
        if time.monotonic() - told >= _TELL_EVERY:
            yield None, done
            done, told = 0, time.monotonic()
    pipeline.close()
    if done:
        yield None, done


def _claim_map(out: OutputFolder, folder: Path) -> None:
    """The files of a map count as results from now on."""
    if folder.is_dir():
        written = folder.rename(folder.with_name(".map"))
        folder.mkdir()
        for path in sorted(written.iterdir()):
            path.rename(out.file("map", path.name))
        written.rmdir()


def _conclude(
    job: Job,
    drive: Drive,
    out: OutputFolder,
    summary: RunSummary,
    digest: str,
    segments: Sequence[Segment],
    worst: Sequence[Any],
    run: dict[str, Any],
) -> None:
    """run.json, then drive.json, which says that all is there."""
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
    DriveManifest(
        name=drive.name,
        source=drive.location,
        input=digest,
        settings=job.settings_hash(drive),
        versions=versions(),
        segments=[[segment.first, segment.start, segment.stop] for segment in segments],
        frames=len(summary.frames),
        points=sum(frame.points for frame in summary.frames),
        labels=labels,
        objects=len(ids),
        diagnostics=sum(bool(frame.diagnostics) for frame in summary.frames),
        scores={name: None if np.isnan(value) else round(value, 3) for name, value in summary.mean_scores().items()},
        worst=worst,
        files=sizes(out.path),
    ).write(out)


def _key(job: Job, drive: Drive, source: Source) -> str:
    """What a segment must agree with the drive in."""
    return f"{job.settings_hash(drive)} {input_stamp(input_files(drive, source))} {versions()['roadbed']}"


def _segment_facts(folder: Path) -> dict[str, Any]:
    try:
        return json.loads(read_text(folder / _SEGMENT))
    except (InputError, ValueError):
        return {}


class _Clock:
    """Times of one task, with where and when."""

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
