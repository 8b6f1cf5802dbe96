# SPDX-License-Identifier: Apache-2.0
"""A batch run: every sequence on the workers, then the merged map and the report. It can be resumed at any point."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from roadbed import __version__
from roadbed.batch import tasks
from roadbed.batch.engine import Engine, LostWorker, Task
from roadbed.batch.job import FramesDone, Job, Outcome, Progress
from roadbed.batch.manifest import write_json
from roadbed.batch.report import write_batch_report
from roadbed.batch.sequences import InputSequence
from roadbed.core.errors import OutputError
from roadbed.io.atomic import output_errors

MARKER = "roadbed-batch.json"
_OF_MAP = "the map"  # instead of the name of a sequence, which has no space
OnEvent = Callable[[Progress, dict[str, Any]], None]


@contextmanager
def locked_output(job: Job) -> Iterator[None]:
    """Lock the output folder: a new or empty one, or with --resume one of an earlier batch."""
    marker = job.folder / MARKER
    with output_errors(job.folder):
        if job.folder.exists() and not job.folder.is_dir():
            raise OutputError(f"{job.folder}: found a file, expected a folder or a new name")
        if marker.exists() and not job.resume:
            raise OutputError(f"{job.folder}: holds a batch; continue with --resume, or name another folder with -o")
        if not marker.exists() and job.folder.exists() and any(job.folder.iterdir()):
            raise OutputError(f"{job.folder}: is not empty and not a batch; name another folder with -o")
        job.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(marker, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"{job.folder}: another batch is writing there") from None
        except OSError:  # the file system has no locks
            pass
        os.ftruncate(descriptor, 0)
        os.write(descriptor, (json.dumps({"roadbed": __version__, "command": job.command}) + "\n").encode())
        shutil.rmtree(job.unfinished, ignore_errors=True)  # of an interrupted run
        yield
        shutil.rmtree(job.unfinished, ignore_errors=True)  # no worker writes any more
    finally:
        os.close(descriptor)


class BatchRun:
    """`run` processes all sequences on an engine; `on_event` gets the progress and each event as a dictionary."""

    def __init__(self, job: Job, sequences: Sequence[InputSequence], engine: Engine, on_event: OnEvent) -> None:
        self.job, self.sequences, self.engine, self.on_event = job, list(sequences), engine, on_event
        self.progress = Progress(len(self.sequences))
        self._ended: set[str] = set()  # a worker may be lost after it has reported the end

    def keep_complete(self) -> bool:
        """Whether every sequence is complete from before, and no map is to be merged: then no worker is needed."""
        from roadbed.batch.work import complete_frames

        if self.job.map:
            return False
        kept = []
        for sequence in self.sequences:
            frames = complete_frames(self.job, sequence)
            if frames is None:
                return False
            kept.append(Outcome(sequence.name, "kept", frames))
        for outcome in kept:
            self._take(outcome)
        return True

    def run(self, is_stopped: Callable[[], bool]) -> Progress:
        for sequence in self.sequences:
            self.engine.add(Task(sequence.name, tasks.sequence_task, (self.job, sequence)))
        self._work(is_stopped)
        if self.job.map and not is_stopped() and not self.progress.stopped:
            self.engine.add(Task(_OF_MAP, tasks.merge_task, (self.job, _OF_MAP, tuple(self.complete()))))
            self._work(is_stopped)
        if is_stopped():
            self.progress.stopped = "interrupted"
        return self.progress

    def complete(self) -> list[InputSequence]:
        """Sequences whose results are complete, in the order of their names."""
        return [sequence for sequence in self.sequences if sequence.name in self._ended]

    def _work(self, is_stopped: Callable[[], bool]) -> None:
        for task, event in self.engine.events(is_stopped):
            if isinstance(event, FramesDone):
                self.progress.frames += event.count
                self._emit("frames", event.sequence, count=event.count, worker=event.worker)
            elif isinstance(event, LostWorker):
                self._lost(task, event)
            elif isinstance(event, Outcome):
                self._take(event)

    def _take(self, outcome: Outcome) -> None:
        name, progress = outcome.sequence, self.progress
        if outcome.status == "failed":
            self._failed(name, outcome.reason)
            if outcome.disk_full and not progress.stopped:
                progress.stopped = "the disk is full"
                self.engine.drop_waiting()
        elif name not in self._ended:
            self._emit(outcome.status, name, frames=outcome.frames, reason=outcome.reason)
            if name == _OF_MAP:
                return
            self._ended.add(name)
            progress.done += outcome.status == "done"
            progress.kept += outcome.status == "kept"

    def _failed(self, name: str, reason: str) -> None:
        if name == _OF_MAP:
            self.progress.map_failure = reason
        else:
            self.progress.failures[name] = reason
        self._emit("failed", name, reason=reason)

    def _lost(self, task: Task, lost: LostWorker) -> None:
        if lost.again:
            self.progress.retries += 1
            self._emit("lost", task.about, reason=lost.reason, attempt=lost.attempt)
        else:
            self._failed(task.about, f"{lost.reason} ({lost.attempt} attempts)")

    def _emit(self, event: str, sequence: str, **more: Any) -> None:
        self.on_event(
            self.progress, {"event": event, "sequence": sequence, **{k: v for k, v in more.items() if v != ""}}
        )


def write_summary(job: Job, complete: Sequence[InputSequence], progress: Progress) -> dict[str, Any]:
    """Write report.html and summary.json; a full disk is reported in `stopped`."""
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
