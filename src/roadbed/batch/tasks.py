# SPDX-License-Identifier: Apache-2.0
"""The tasks that Ray runs: generators that always end in an outcome, also when they fail. Heavy imports are lazy."""

import errno
import os
from collections.abc import Callable, Iterator
from typing import Any

from roadbed.batch.job import Job, Outcome
from roadbed.batch.sequences import InputSequence
from roadbed.core.errors import OutputError, RoadbedError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def sequence_task(job: Job, sequence: InputSequence) -> Iterator[Any]:
    from roadbed.batch.work import do_sequence

    yield from _guarded(job, sequence.name, lambda: do_sequence(job, sequence))


def merge_task(job: Job, name: str, sequences: tuple[InputSequence, ...]) -> Iterator[Any]:
    from roadbed.batch.work import do_merge

    yield from _guarded(job, name, lambda: do_merge(job, name, sequences))


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
        yield Outcome(name, "failed", reason="out of memory: use fewer --workers")
    except Exception as error:  # one sequence does not end the others
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
    """Whether the cause is a full disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__
    return False
