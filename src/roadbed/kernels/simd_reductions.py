# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""What joins the lanes of a vector: one number of all, several sums at once, chosen ones listed. See `lanes`."""

from __future__ import annotations

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from roadbed.kernels.simd import BOOLX8, FLAGS, FLOAT32X8, INT32X8, LANES

_CAN_COMPRESS = binding.llvm_version_info >= (19,)  # LLVM, on any machine; older ones know only AVX-512's way
_I32 = ir.IntType(32)


def _joined(builder, held, join):
    """One number of all lanes, by halves: always in the same order."""
    width = LANES
    while width > 1:
        width //= 2
        order = ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(width)))
        other = ir.Constant(order.type, list(range(width, 2 * width)))
        undefined = ir.Constant(held.type, ir.Undefined)
        held = join(*(builder.shuffle_vector(held, undefined, half) for half in (order, other)))
    return builder.extract_element(held, ir.Constant(ir.IntType(32), 0))


@intrinsic
def total(_typing_context, lanes):
    """Sum of all lanes."""

    def codegen(_context, builder, _signature, arguments):
        return _joined(builder, arguments[0], lambda a, b: builder.fadd(a, b, flags=FLAGS))

    return types.float32(FLOAT32X8), codegen


@intrinsic
def least(_typing_context, lanes):
    """The smallest of all lanes, of which none is NaN."""

    def codegen(_context, builder, _signature, arguments):
        return _joined(builder, arguments[0], lambda a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))

    return types.float32(FLOAT32X8), codegen


@intrinsic
def how_many(_typing_context, mask):
    """Of how many lanes a mask says so."""

    def codegen(_context, builder, _signature, arguments):
        return builder.zext(builder.ctpop(builder.bitcast(arguments[0], ir.IntType(LANES))), ir.IntType(64))

    return types.int64(BOOLX8), codegen


def _chosen_by_hand(builder, mask, held):
    """Every lane is written where the last chosen one ends: over it, unless that was chosen."""
    room, place = cgutils.alloca_once(builder, held.type), ir.Constant(_I32, 0)
    first = builder.bitcast(room, held.type.element.as_pointer())
    for lane in range(LANES):
        number = ir.Constant(_I32, lane)
        builder.store(builder.extract_element(held, number), builder.gep(first, [place]))
        place = builder.add(place, builder.zext(builder.extract_element(mask, number), _I32))
    return builder.load(room)


@intrinsic
def chosen(_typing_context, mask, lanes):
    """The lanes of which the mask says so, first and in order; after them anything."""

    def codegen(_context, builder, _signature, arguments):
        mask, held = arguments
        if not _CAN_COMPRESS:
            return _chosen_by_hand(builder, mask, held)
        name = f"llvm.experimental.vector.compress.v{LANES}{'f' if lanes == FLOAT32X8 else 'i'}32"
        kind = ir.FunctionType(held.type, [held.type, mask.type, held.type])
        compress = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(compress, [held, mask, ir.Constant(held.type, ir.Undefined)])

    return lanes(BOOLX8, lanes), codegen


@intrinsic
def look_up(_typing_context, array, places, offset):
    """A float32 per lane, of an array without gaps: its number `places + offset`, whatever its axes."""

    def codegen(context, builder, signature, arguments):
        held = context.make_array(signature.args[0])(context, builder, arguments[0])
        found = ir.Constant(ir.VectorType(ir.FloatType(), LANES), ir.Undefined)
        for lane in range(LANES):
            number = ir.Constant(_I32, lane)
            place = builder.sext(builder.extract_element(arguments[1], number), arguments[2].type)
            place = builder.add(place, arguments[2])
            if context.enable_boundscheck:
                cgutils.do_boundscheck(context, builder, place, held.nitems)
            found = builder.insert_element(found, builder.load(builder.gep(held.data, [place]), align=4), number)
        return found

    return FLOAT32X8(array, INT32X8, types.intp), codegen


# Which lanes of two vectors are added to which, in each of three rounds: instructions that stay within half a vector.
_ROUNDS = (
    ([0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]),
    ([0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]),
    ([0, 2, 8, 10, 4, 6, 12, 14], [1, 3, 9, 11, 5, 7, 13, 15]),
)


@intrinsic
def totals(_typing_context, vectors):
    """Of a tuple of LANES vectors the sum of all lanes of each, one per lane: the same as `total`, by a third."""

    def codegen(_context, builder, _signature, arguments):
        held = cgutils.unpack_tuple(builder, arguments[0])
        held = [held[k] for k in (0, 4, 1, 5, 2, 6, 3, 7)]  # so that the sums end in order
        for orders in _ROUNDS:
            low, high = (ir.Constant(ir.VectorType(_I32, LANES), order) for order in orders)
            pairs = zip(held[::2], held[1::2])
            held = [
                builder.fadd(builder.shuffle_vector(a, b, low), builder.shuffle_vector(a, b, high), flags=("nsz",))
                for a, b in pairs
            ]
        return held[0]

    return FLOAT32X8(types.UniTuple(FLOAT32X8, LANES)), codegen


@intrinsic
def store_across(_typing_context, array, index, lanes):
    """Lanes to one column of an array of two axes, from the row of `index` (row, column) on."""

    def codegen(context, builder, signature, arguments):
        kind, places = signature.args[0], cgutils.unpack_tuple(builder, arguments[1])
        row, column = (context.cast(builder, p, k, types.intp) for p, k in zip(places, signature.args[1].types))
        held = context.make_array(kind)(context, builder, arguments[0])
        for lane in range(LANES):
            at = [builder.add(row, ir.Constant(row.type, lane)), column]
            place = cgutils.get_item_pointer(context, builder, kind, held, at, boundscheck=context.enable_boundscheck)
            builder.store(builder.extract_element(arguments[2], ir.Constant(_I32, lane)), place)
        return context.get_dummy_value()

    return types.void(array, index, FLOAT32X8), codegen
