# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Task counters with which several threads share the phases of one kernel (`parallel.parallel_region`).

Each thread takes the next free chunk of a phase until none is left, then waits at the barrier. Threads are woken once
per kernel, not once per loop. A thread that has taken no chunk delays nobody: on a busy machine one may do all work.

    chunk = first_chunk(tasks, phase)
    while chunk < chunks:
        ...
        chunk = next_chunk(tasks, phase)
    barrier(tasks, phase, chunks)
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from roadbed.kernels.jit import inlined, instruction

TAKEN, DONE, ABANDONED, COUNTERS = 0, 1, 2, 8  # the counters of a phase fill a cache line
_SPINS = 4000  # reads of a counter before the thread yields its core


def new_task_counters(phases: int) -> np.ndarray:
    """Counters of `phases` phases, all zero."""
    return np.zeros((phases, COUNTERS), np.int64)


def _counter(context, builder, signature, arguments):
    tasks = context.make_array(signature.args[0])(context, builder, arguments[0])
    place = builder.add(builder.mul(arguments[1], ir.Constant(ir.IntType(64), COUNTERS)), arguments[2])
    return cgutils.gep_inbounds(builder, tasks.data, place)


@intrinsic
def _add_one(_typing_context, tasks, phase, counter):
    """Atomic fetch-and-add of 1; returns the value before."""

    def codegen(context, builder, signature, arguments):
        pointer = _counter(context, builder, signature, arguments)
        return builder.atomic_rmw("add", pointer, ir.Constant(ir.IntType(64), 1), "acq_rel")

    return types.int64(tasks, types.int64, types.int64), codegen


@intrinsic
def _read(_typing_context, tasks, phase, counter):
    """Atomic read with acquire semantics: what other threads wrote before they counted up is visible after it."""

    def codegen(context, builder, signature, arguments):
        return builder.load_atomic(_counter(context, builder, signature, arguments), "acquire", 8)

    return types.int64(tasks, types.int64, types.int64), codegen


@instruction(types.int32)
def _yield_processor(builder):
    """Calls sched_yield of the C library."""
    kind = ir.FunctionType(ir.IntType(32), [])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])


@inlined()
def first_chunk(tasks, phase):
    """The first chunk for this thread; no chunk is left if the result is not below the number of chunks."""
    return _add_one(tasks, phase, TAKEN)


@inlined()
def next_chunk(tasks, phase):
    """Count the chunk before as done, and take another one."""
    _add_one(tasks, phase, DONE)
    return _add_one(tasks, phase, TAKEN)


@inlined()
def barrier(tasks, phase, chunks):
    """Wait until all chunks of the phase are done, or one has failed (`parallel_region` then raises the exception)."""
    spins = 0
    while _read(tasks, phase, DONE) < chunks and _read(tasks, 0, ABANDONED) == 0:
        spins += 1
        if spins > _SPINS:
            _yield_processor()
