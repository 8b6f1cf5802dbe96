# SPDX-License-Identifier: Apache-2.0
"""All drives in order: begun, split, joined, told; then the map and the report. Whatever stops it, it can go on."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from roadbed import __version__
from roadbed.batch import maps, tasks
from roadbed.batch.drives import Drive
from roadbed.batch.engine import Engine, Lost, Task
from roadbed.batch.folders import remove_abandoned
from roadbed.batch.job import Job
from roadbed.batch.manifest import write_json
from roadbed.batch.outcome import Frames, Outcome, Progress, Split
from roadbed.batch.report import write_batch_report
from roadbed.batch.segments import Segment
from roadbed.core.errors import OutputError
from roadbed.io.atomic import output_errors

MARKER = "roadbed-batch.json"
MAP = "map"
_OF_MAP = "the map"  # no drive can be called so


Tell = Callable[[Progress, dict[str, Any]], None]


@contextmanager
def claimed(job: Job) -> Iterator[None]:
    """The output folder for this call alone: a new or empty one, or with --resume one of an earlier batch."""
    marker = job.folder / MARKER
    with output_errors(job.folder):
        if job.folder.exists() and not job.folder.is_dir():
            raise OutputError(f"{job.folder}: found a file, expected a folder or a new name")
        if marker.exists() and not job.resume:
            raise OutputError(f"{job.folder}: holds a batch; go on with --resume, or name another folder with -o")
        if not marker.exists() and job.folder.exists() and any(job.folder.iterdir()):
            raise OutputError(f"{job.folder}: is not empty and not a batch; name another folder with -o")
        job.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(marker, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"{job.folder}: another batch is writing there") from None
        except OSError:  # where a file system has no locks, nobody can be seen there
            pass
        os.ftruncate(descriptor, 0)
        os.write(descriptor, (json.dumps({"roadbed": __version__, "command": job.command}) + "\n").encode())
        remove_abandoned(job.unfinished)
        yield
    finally:
        os.close(descriptor)


class Campaign:
    """`run` does all drives on an engine; `tell` gets the progress and each event, a dictionary for JSON."""

    def __init__(self, job: Job, drives: Sequence[Drive], engine: Engine, tell: Tell) -> None:
        self.job, self.drives, self.engine, self.tell = job, list(drives), engine, tell
        self.progress = Progress(len(self.drives))
        self._by_name = {drive.name: drive for drive in drives}
        self._split: dict[str, tuple[Segment, ...]] = {}
        self._parts_done: dict[str, set[int | None]] = {}
        self._between = job.unfinished / "maps"
        self._ended: set[str] = set()  # a worker may be lost after it has told how its drive ended

    def run(self, stopped: threading.Event) -> Progress:
        for drive in self.drives:
            self.engine.add(Task(drive.name, tasks.drive_task, (self.job, drive)))
        self._work(stopped)
        if self.job.map and not stopped.is_set() and not self.progress.stopped:
            self._merge(stopped)
        if stopped.is_set():
            self.progress.stopped = "interrupted"
        return self.progress

    def complete(self) -> list[Drive]:
        """Drives whose results are there as this call asks for them, in the order of their names."""
        return [drive for drive in self.drives if drive.name in self._ended]

    def _work(self, stopped: threading.Event) -> None:
        for task, told in self.engine.told(stopped):
            if isinstance(told, Frames):
                self.progress.frames += told.count
                self._say("frames", told.drive, count=told.count, worker=told.worker)
            elif isinstance(told, Split) and told.drive not in self._split:
                self._say("split", told.drive, segments=len(told.segments))
                self._split[told.drive] = told.segments
                for segment in told.segments:
                    drive = self._by_name[told.drive]
                    self.engine.add(Task(told.drive, tasks.segment_task, (self.job, drive, segment)))
            elif isinstance(told, Lost):
                self._lost(task, told)
            elif isinstance(told, Outcome):
                self._take(told)

    def _take(self, outcome: Outcome) -> None:
        name, progress = outcome.drive, self.progress
        if outcome.status == "part":
            done = self._parts_done.setdefault(name, set())
            if outcome.segment not in done:
                done.add(outcome.segment)
                if len(done) == len(self._split[name]):
                    self.engine.add(Task(name, tasks.join_task, (self.job, self._by_name[name], self._split[name])))
        elif outcome.status == "failed":
            self._failed(name, outcome.reason)
            if outcome.disk_full and not progress.stopped:
                progress.stopped = "the disk is full"
                self.engine.drop_waiting()
        elif name not in self._ended:
            self._say(outcome.status, name, frames=outcome.frames, reason=outcome.reason)
            if name == _OF_MAP:
                return
            self._ended.add(name)
            progress.done += outcome.status == "done"
            progress.kept += outcome.status == "kept"
            shutil.rmtree(self.job.unfinished / f"{name}.segments", ignore_errors=True)

    def _failed(self, name: str, reason: str) -> None:
        if name in self.progress.failures:
            return  # another segment of the drive has failed before
        if name == _OF_MAP:
            self.progress.map_failure = reason
        else:
            self.progress.failures[name] = reason
        self._say("failed", name, reason=reason)

    def _lost(self, task: Task, lost: Lost) -> None:
        if lost.again:
            self.progress.retries += 1
            self._say("lost", task.about, reason=lost.reason, attempt=lost.attempt)
        else:
            self._failed(task.about, f"{lost.reason} ({lost.attempt} attempts)")

    def _merge(self, stopped: threading.Event) -> None:
        """The maps of all complete drives; level by level, as each needs what the one before has made."""
        found = [folder for drive in self.complete() if (folder := self.job.of(drive) / MAP / "map.json").exists()]
        if not found:
            self._failed(_OF_MAP, "no drive has a map: was there odometry, and the method stcrf?")
            return
        folders = [path.parent for path in found]
        for merges in maps.levels(folders, self.job.folder / MAP, self._between):
            for merge in merges:
                arguments = (self.job, _OF_MAP, merge.maps, merge.target, folders[0])
                self.engine.add(Task(_OF_MAP, tasks.merge_task, arguments))
            self._work(stopped)
            if self.progress.map_failure or stopped.is_set():
                return

    def clear(self) -> None:
        """Once no worker writes: segments of drives that are not joined yet stay, all else that is unfinished goes."""
        remove_abandoned(self.job.unfinished)
        shutil.rmtree(self._between, ignore_errors=True)
        if self.job.unfinished.is_dir() and not any(self.job.unfinished.iterdir()):
            self.job.unfinished.rmdir()

    def _say(self, event: str, drive: str, **more: Any) -> None:
        self.tell(self.progress, {"event": event, "drive": drive, **{k: v for k, v in more.items() if v != ""}})


def write_summary(job: Job, complete: Sequence[Drive], progress: Progress) -> dict[str, Any]:
    """report.html and summary.json: how the call ended; where even they do not fit on the disk, that is said."""
    try:
        write_batch_report(job, complete, progress)
        write_json(job.folder / "summary.json", _facts(progress))
    except OutputError as error:
        progress.stopped = progress.stopped or str(error)
    return _facts(progress)


def _facts(progress: Progress) -> dict[str, Any]:
    facts = asdict(progress)
    del facts["begun"]
    return facts | {"left": progress.left, "seconds": round(progress.seconds, 1)}
