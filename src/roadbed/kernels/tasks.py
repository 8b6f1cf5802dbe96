# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Several threads inside one plain kernel: its phases follow each other, the parts of a phase go to whoever is free.

`prange` does this with Numba's threads, and compiles the body of each loop several times; `threads.spread` wakes its
threads for every loop. `threads.together` wakes them once. Nobody waits for a thread that has taken no part: on a busy
machine one may do all the work.

    part = first_chunk(tasks, phase)
    while part < parts:
        ...
        part = next_chunk(tasks, phase)
    barrier(tasks, phase, parts)
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from roadbed.kernels.jit import inlined

TAKEN, DONE, ABANDONED, COUNTERS = 0, 1, 2, 8  # counters of a phase fill a cache line
_PATIENCE = 4000  # looks at a counter before others may have the processor


def new_task_counters(phases: int) -> np.ndarray:
    """Counters for so many phases, none of which has begun."""
    return np.zeros((phases, COUNTERS), np.int64)


def _counter(context, builder, signature, arguments):
    tasks = context.make_array(signature.args[0])(context, builder, arguments[0])
    place = builder.add(builder.mul(arguments[1], ir.Constant(ir.IntType(64), COUNTERS)), arguments[2])
    return cgutils.gep_inbounds(builder, tasks.data, place)


@intrinsic
def _add_one(_typing_context, tasks, phase, counter):
    """Counts up, whoever else does so at the same time; returns the number before."""

    def codegen(context, builder, signature, arguments):
        pointer = _counter(context, builder, signature, arguments)
        return builder.atomic_rmw("add", pointer, ir.Constant(ir.IntType(64), 1), "acq_rel")

    return types.int64(tasks, types.int64, types.int64), codegen


@intrinsic
def _read(_typing_context, tasks, phase, counter):
    """What is written before another thread counts up is seen after this."""

    def codegen(context, builder, signature, arguments):
        return builder.load_atomic(_counter(context, builder, signature, arguments), "acquire", 8)

    return types.int64(tasks, types.int64, types.int64), codegen


@intrinsic
def _yield_processor(_typing_context):
    """The C library's sched_yield: another thread may have this processor."""

    def codegen(_context, builder, _signature, _arguments):
        kind = ir.FunctionType(ir.IntType(32), [])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])

    return types.int32(), codegen


@inlined()
def first_chunk(tasks, phase):
    """The first part for this thread; none is left where the number is as large as that of all parts."""
    return _add_one(tasks, phase, TAKEN)


@inlined()
def next_chunk(tasks, phase):
    """The part before is done; another one."""
    _add_one(tasks, phase, DONE)
    return _add_one(tasks, phase, TAKEN)


@inlined()
def barrier(tasks, phase, parts):
    """Until every part of the phase is done, by whomever; or one has failed, of which Python tells."""
    looks = 0
    while _read(tasks, phase, DONE) < parts and _read(tasks, 0, ABANDONED) == 0:
        looks += 1
        if looks > _PATIENCE:
            _yield_processor()
