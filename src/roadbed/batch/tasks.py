# SPDX-License-Identifier: Apache-2.0
"""The door between Ray and the work: each task is a generator that always ends in an outcome, also when it fails."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from roadbed.batch.drives import Drive
from roadbed.batch.job import Job
from roadbed.batch.outcome import Outcome
from roadbed.batch.segments import Segment
from roadbed.core.errors import OutputError, RoadbedError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def drive_task(job: Job, drive: Drive) -> Iterator[Any]:
    from roadbed.batch.work import do_drive

    yield from _guarded(job, drive.name, lambda: do_drive(job, drive))


def segment_task(job: Job, drive: Drive, segment: Segment) -> Iterator[Any]:
    from roadbed.batch.work import do_segment

    yield from _guarded(job, drive.name, lambda: do_segment(job, drive, segment))


def join_task(job: Job, drive: Drive, segments: tuple[Segment, ...]) -> Iterator[Any]:
    from roadbed.batch.work import do_join

    yield from _guarded(job, drive.name, lambda: do_join(job, drive, segments))


def merge_task(job: Job, name: str, maps: tuple[Path, ...], target: Path, onto: Path) -> Iterator[Any]:
    from roadbed.batch.maps import do_merge

    yield from _guarded(job, name, lambda: do_merge(job, name, maps, target, onto))


def _guarded(job: Job, name: str, work: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(min(job.threads, before))
    try:
        if not job.folder.is_dir():
            here = f"{os.uname().nodename} (process {os.getpid()})"
            raise OutputError(f"{job.folder}: not found on {here}, expected a folder that every node has")
        yield from work()
    except MemoryError:
        yield Outcome(name, "failed", reason="out of memory: fewer --workers, or --segment, need less at a time")
    except Exception as error:  # one drive must not end the others
        yield Outcome(name, "failed", reason=_line(error), disk_full=_is_full(error))
    finally:
        numba.set_num_threads(before)


def _line(error: Exception) -> str:
    if isinstance(error, RoadbedError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _is_full(error: BaseException | None) -> bool:
    """Whether a full disk is behind it."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__
    return False
