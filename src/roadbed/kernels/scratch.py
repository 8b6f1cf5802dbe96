# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Room that a kernel works in, on its stack: nothing is allocated, and no references to arrays have to be counted.

block = scratch(_ROOM, np.float64)
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _scratch(_typing_context, count, kind):
    """An array of `count` zeros, a constant of the module and of some thousands at most; gone when the kernel ends."""
    length, number = count.literal_value, kind.dtype

    def codegen(context, builder, signature, _arguments):
        from numba.np.arrayobj import make_array, populate_array  # large, and needed only to compile

        whole, size = ir.IntType(64), context.get_abi_sizeof(context.get_value_type(number))
        room = cgutils.alloca_once(builder, context.get_value_type(number), size=whole(length))
        cgutils.memset(builder, room, whole(length * size), 0)
        array = make_array(signature.return_type)(context, builder)
        populate_array(array, room, [whole(length)], [whole(size)], whole(size), None)
        return array._getvalue()

    return types.Array(number, 1, "C")(count, kind), codegen


scratch: Any = intrinsic(prefer_literal=True)(_scratch)
