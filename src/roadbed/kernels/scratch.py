# SPDX-License-Identifier: Apache-2.0
"""Scratch arrays on a kernel's stack, without heap allocation: `block = scratch(64, np.float64)`."""

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
