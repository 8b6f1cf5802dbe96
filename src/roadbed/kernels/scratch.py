# SPDX-License-Identifier: Apache-2.0
"""Arrays without references: on a kernel's stack, `block = scratch(64, np.float64)`, and a kernel's arguments."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _scratch(_typing_context, count, dtype):
    """Array of `count` zeros, a constant of at most a few thousand; valid until the calling function returns."""
    length, number = count.literal_value, dtype.dtype

    def codegen(context, builder, signature, _arguments):
        whole, size = ir.IntType(64), context.get_abi_sizeof(context.get_value_type(number))
        room = cgutils.alloca_once(builder, context.get_value_type(number), size=whole(length))
        cgutils.memset(builder, room, whole(length * size), 0)
        array = context.make_array(signature.return_type)(context, builder)
        array.data, array.nitems, array.itemsize = room, whole(length), whole(size)
        array.shape = cgutils.pack_array(builder, [whole(length)])
        array.strides = cgutils.pack_array(builder, [whole(size)])
        array.meminfo = cgutils.get_null_value(array.meminfo.type)  # Numba does not own this memory
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()

    return types.Array(number, 1, "C")(count, dtype), codegen


scratch: Any = intrinsic(prefer_literal=True)(_scratch)


@intrinsic
def uncounted(_typing_context, given):
    """The same arrays, or tuples of them, without references that Numba would count, with an atomic operation at each
    row or argument. For what the caller holds: arguments of a kernel that Python calls."""

    def strip(context, builder, kind, value):
        if isinstance(kind, (types.UniTuple, types.Tuple, types.NamedTuple, types.NamedUniTuple)):
            parts = zip(kind.types, cgutils.unpack_tuple(builder, value))
            return context.make_tuple(builder, kind, [strip(context, builder, *part) for part in parts])
        if not isinstance(kind, types.Array):
            return value
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()

    def codegen(context, builder, signature, arguments):
        return strip(context, builder, signature.return_type, arguments[0])

    return given(given), codegen
