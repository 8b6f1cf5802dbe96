# SPDX-License-Identifier: Apache-2.0
"""Operations across the lanes of a vector: reductions, compression by a mask, gather (see `simd`)."""

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from roadbed.kernels.jit import instruction
from roadbed.kernels.simd import BOOLX8, FLAGS, FLOAT32X8, INT32X8, LANES

_CAN_COMPRESS = binding.llvm_version_info >= (19,)  # older LLVM compresses with AVX-512 only
_I32 = ir.IntType(32)


def _reduce(builder, held, join):
    """Reduce all lanes to one number by halves, always in the same order."""
    width = LANES
    while width > 1:
        width //= 2
        order = ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(width)))
        other = ir.Constant(order.type, list(range(width, 2 * width)))
        undefined = ir.Constant(held.type, ir.Undefined)
        held = join(*(builder.shuffle_vector(held, undefined, half) for half in (order, other)))
    return builder.extract_element(held, ir.Constant(ir.IntType(32), 0))


@instruction(types.float32, FLOAT32X8)
def sum_lanes(builder, lanes):
    """Sum of all lanes."""
    return _reduce(builder, lanes, lambda a, b: builder.fadd(a, b, flags=FLAGS))


@instruction(types.float32, FLOAT32X8)
def min_lanes(builder, lanes):
    """The smallest lane; none is NaN."""
    return _reduce(builder, lanes, lambda a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))


@instruction(types.int64, BOOLX8)
def count_true(builder, mask):
    """Number of true lanes of a mask."""
    return builder.zext(builder.ctpop(builder.bitcast(mask, ir.IntType(LANES))), ir.IntType(64))


def _compress_by_stores(builder, mask, held):
    """Store every lane; the position advances only behind lanes whose mask is true."""
    room, position = cgutils.alloca_once(builder, held.type), ir.Constant(_I32, 0)
    first = builder.bitcast(room, held.type.element.as_pointer())
    for lane in range(LANES):
        number = ir.Constant(_I32, lane)
        builder.store(builder.extract_element(held, number), builder.gep(first, [position]))
        position = builder.add(position, builder.zext(builder.extract_element(mask, number), _I32))
    return builder.load(room)


@intrinsic
def compress(_typing_context, mask, lanes):
    """Move the lanes whose mask is true to the front, in order; the lanes behind them are undefined."""

    def codegen(_context, builder, _signature, arguments):
        mask, held = arguments
        if not _CAN_COMPRESS:
            return _compress_by_stores(builder, mask, held)
        name = f"llvm.experimental.vector.compress.v{LANES}{'f' if lanes == FLOAT32X8 else 'i'}32"
        function = ir.FunctionType(held.type, [held.type, mask.type, held.type])
        compress = cgutils.get_or_insert_function(builder.module, function, name)
        return builder.call(compress, [held, mask, ir.Constant(held.type, ir.Undefined)])

    return lanes(BOOLX8, lanes), codegen


@intrinsic
def gather(_typing_context, array, indices, offset):
    """One float32 per lane from a contiguous array of any shape, at the flat index `indices + offset`."""

    def codegen(context, builder, signature, arguments):
        held = context.make_array(signature.args[0])(context, builder, arguments[0])
        found = ir.Constant(ir.VectorType(ir.FloatType(), LANES), ir.Undefined)
        for lane in range(LANES):
            number = ir.Constant(_I32, lane)
            index = builder.sext(builder.extract_element(arguments[1], number), arguments[2].type)
            index = builder.add(index, arguments[2])
            if context.enable_boundscheck:
                cgutils.do_boundscheck(context, builder, index, held.nitems)
            found = builder.insert_element(found, builder.load(builder.gep(held.data, [index]), align=4), number)
        return found

    return FLOAT32X8(array, INT32X8, types.intp), codegen


# Lanes of two vectors that are added in each of three rounds; no instruction crosses the halves of a vector.
_ROUNDS = (
    ([0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]),
    ([0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]),
    ([0, 2, 8, 10, 4, 6, 12, 14], [1, 3, 9, 11, 5, 7, 13, 15]),
)


@instruction(FLOAT32X8, types.UniTuple(FLOAT32X8, LANES))
def sum_each(builder, vectors):
    """`sum_lanes` of each of LANES vectors, one per lane, in a third of the instructions."""
    held = cgutils.unpack_tuple(builder, vectors)
    held = [held[k] for k in (0, 4, 1, 5, 2, 6, 3, 7)]  # so that the sums are in order at the end
    for orders in _ROUNDS:
        low, high = (ir.Constant(ir.VectorType(_I32, LANES), order) for order in orders)
        held = [
            builder.fadd(builder.shuffle_vector(a, b, low), builder.shuffle_vector(a, b, high), flags=("nsz",))
            for a, b in zip(held[::2], held[1::2])
        ]
    return held[0]


@intrinsic
def store_column(_typing_context, array, index, lanes):
    """Store the lanes to one column of a 2-D array, from `index` (row, column) on."""

    def codegen(context, builder, signature, arguments):
        array_type, indices = signature.args[0], cgutils.unpack_tuple(builder, arguments[1])
        row, column = (context.cast(builder, i, t, types.intp) for i, t in zip(indices, signature.args[1].types))
        held, checked = context.make_array(array_type)(context, builder, arguments[0]), context.enable_boundscheck
        for lane in range(LANES):
            at = [builder.add(row, ir.Constant(row.type, lane)), column]
            pointer = cgutils.get_item_pointer(context, builder, array_type, held, at, boundscheck=checked)
            builder.store(builder.extract_element(arguments[2], ir.Constant(_I32, lane)), pointer)
        return context.get_dummy_value()

    return types.void(array, index, lanes), codegen
