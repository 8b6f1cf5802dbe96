# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Explicit SIMD vectors of eight float32 or int32: `load(x, k) * 2 + load(y, k)` compiles to vector instructions.

LLVM vectorises an ordinary loop only if it can prove that no two arrays overlap, and computes the rest of a short loop
with scalars: about half of a row of fifty nodes. Loops over vectors step by STEP.

    for k in range(first, last, STEP):
        store(out, k, where(load(x, k) < limit, load(x, k), splat(limit)))
"""

import operator
from functools import partial

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from roadbed.kernels.jit import inlined, instruction

LANES = 8
STEP = np.uint64(LANES)
FLAGS = ("contract", "nsz")  # a product and a sum may become one instruction (FMA); sums are not reordered
_F32, _I1, _I32 = (ir.VectorType(element, LANES) for element in (ir.FloatType(), ir.IntType(1), ir.IntType(32)))


class Float32x8(types.Type):
    """Eight float32; exists in kernels only."""


class Int32x8(types.Type):
    """Eight int32."""


class Boolx8(types.Type):
    """A mask of eight booleans, the result of a comparison."""


FLOAT32X8, INT32X8, BOOLX8 = Float32x8("float32x8"), Int32x8("int32x8"), Boolx8("bool_x8")


def _register_type(numba_type, llvm_type):
    @register_model(numba_type)
    class Model(models.PrimitiveModel):
        def __init__(self, manager, fe_type):
            super().__init__(manager, fe_type, llvm_type)


for _numba_type, _llvm_type in ((Float32x8, _F32), (Int32x8, _I32), (Boolx8, _I1)):
    _register_type(_numba_type, _llvm_type)


def _splat(builder, number):
    """The same number in every lane."""
    undefined = ir.Constant(ir.VectorType(number.type, LANES), ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_I32, [0] * LANES))


_VECTOR_OF = {types.float32: FLOAT32X8, types.int32: INT32X8}
_SCALAR_OF = {FLOAT32X8: types.float32, INT32X8: types.int32, BOOLX8: None}


def _register(function, vector, result, write):
    """Register an operator for two vectors, or for a vector and a number; `write(builder, a, b)` emits it."""
    scalar = _SCALAR_OF[vector]

    def operand(argument):
        if argument == vector:
            return vector
        return scalar if isinstance(argument, types.Number) else None

    @type_callable(function)
    def resolve(_context):
        def typer(a, b):
            pair = operand(a), operand(b)
            if vector in pair and None not in pair:
                return result(*pair)
            return None

        return typer

    def lower(_context, builder, signature, arguments):
        vectors = [_splat(builder, a) if given in _VECTOR_OF else a for given, a in zip(signature.args, arguments)]
        return write(builder, *vectors)

    pairs = [(vector, vector)] if scalar is None else [(vector, vector), (vector, scalar), (scalar, vector)]
    for pair in pairs:
        lower_builtin(function, *pair)(lower)


def _compared(builder, a, b, sign):
    return builder.fcmp_ordered(sign, a, b, flags=("nsz",))


_register(operator.add, FLOAT32X8, FLOAT32X8, lambda builder, a, b: builder.fadd(a, b, flags=FLAGS))
_register(operator.sub, FLOAT32X8, FLOAT32X8, lambda builder, a, b: builder.fsub(a, b, flags=FLAGS))
_register(operator.mul, FLOAT32X8, FLOAT32X8, lambda builder, a, b: builder.fmul(a, b, flags=FLAGS))
_register(operator.truediv, FLOAT32X8, FLOAT32X8, lambda builder, a, b: builder.fdiv(a, b, flags=FLAGS))


def rounded_sum(a, b):
    """a + b, never fused with a product into one instruction: rounded the same on every machine."""
    return a + b


_register(rounded_sum, FLOAT32X8, FLOAT32X8, lambda builder, a, b: builder.fadd(a, b))
for _function, _sign in ((operator.lt, "<"), (operator.le, "<="), (operator.gt, ">"), (operator.ge, ">=")):
    _register(_function, FLOAT32X8, BOOLX8, partial(_compared, sign=_sign))
_register(operator.add, INT32X8, INT32X8, lambda builder, a, b: builder.add(a, b))
_register(operator.mul, INT32X8, INT32X8, lambda builder, a, b: builder.mul(a, b))
_register(operator.and_, INT32X8, INT32X8, lambda builder, a, b: builder.and_(a, b))
_register(operator.ne, INT32X8, BOOLX8, lambda builder, a, b: builder.icmp_signed("!=", a, b))
_register(operator.and_, BOOLX8, BOOLX8, lambda builder, a, b: builder.and_(a, b))
_register(operator.or_, BOOLX8, BOOLX8, lambda builder, a, b: builder.or_(a, b))


def _pointer(context, builder, signature, arguments, pointee=None):
    """Pointer to the LANES elements of an array that begin at an index; missing trailing indices are 0."""
    pointee = pointee or ir.VectorType(context.get_data_type(signature.args[0].dtype), LANES)
    array, index = signature.args[0], arguments[1]
    parts = cgutils.unpack_tuple(builder, index) if isinstance(signature.args[1], types.BaseTuple) else [index]
    given = list(getattr(signature.args[1], "types", [signature.args[1]]))
    indices = [context.cast(builder, part, number, types.intp) for part, number in zip(parts, given)]
    trailing = [ir.Constant(indices[0].type, 0)] * (array.ndim - len(indices))
    held, checked = context.make_array(array)(context, builder, arguments[0]), context.enable_boundscheck
    if checked:
        last = [*indices[:-1], builder.add(indices[-1], ir.Constant(indices[-1].type, LANES - 1)), *trailing]
        cgutils.get_item_pointer(context, builder, array, held, last, boundscheck=True)
    found = cgutils.get_item_pointer(context, builder, array, held, [*indices, *trailing], boundscheck=checked)
    return builder.bitcast(found, pointee.as_pointer())


@intrinsic
def load(_typing_context, array, index):
    """LANES elements of an array from `index` on, or of its row k from column c on: `load(array, (k, c))`.

    Smaller unsigned integers are extended to int32.
    """

    def codegen(context, builder, signature, arguments):
        held = builder.load(_pointer(context, builder, signature, arguments), align=array.dtype.bitwidth // 8)
        return held if array.dtype in _VECTOR_OF else builder.zext(held, _I32)

    return _VECTOR_OF.get(array.dtype, INT32X8)(array, index), codegen


@intrinsic
def store(_typing_context, array, index, lanes):
    """Store a vector where `load` reads it."""

    def codegen(context, builder, signature, arguments):
        size, value = array.dtype.bitwidth, arguments[2]
        if array.dtype not in _VECTOR_OF:
            value = builder.trunc(value, ir.VectorType(ir.IntType(size), LANES))
        builder.store(value, _pointer(context, builder, signature, arguments), align=size // 8)
        return context.get_dummy_value()

    return types.void(array, index, _VECTOR_OF.get(array.dtype, INT32X8)), codegen


def _flat_pointer(context, builder, signature, arguments):
    """Pointer to the LANES elements of an array that begin at a flat index."""
    held, index = context.make_array(signature.args[0])(context, builder, arguments[0]), arguments[1]
    if context.enable_boundscheck:
        last = builder.add(index, ir.Constant(index.type, LANES - 1))
        cgutils.do_boundscheck(context, builder, last, held.nitems)
    return builder.bitcast(builder.gep(held.data, [index]), _F32.as_pointer())


@intrinsic
def load_flat(_typing_context, array, index):
    """LANES float32 of a contiguous array of any shape, from the flat index on.

    Arrays of equal shape share flat indices, which saves registers: pointers to all their planes would not fit.
    """

    def codegen(context, builder, signature, arguments):
        return builder.load(_flat_pointer(context, builder, signature, arguments), align=4)

    return FLOAT32X8(array, types.intp), codegen


@intrinsic
def store_flat(_typing_context, array, index, lanes):
    """Store a vector where `load_flat` reads it."""

    def codegen(context, builder, signature, arguments):
        builder.store(arguments[2], _flat_pointer(context, builder, signature, arguments), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, FLOAT32X8), codegen


@intrinsic
def store_first(_typing_context, array, index, lanes, count):
    """Store the first `count` lanes (0 to LANES) to a 1-D array; the elements behind them do not change."""

    def codegen(context, builder, signature, arguments):
        array_type, count = signature.args[0], arguments[3]
        order = ir.Constant(_I32, list(range(LANES)))
        mask = builder.icmp_signed("<", order, _splat(builder, builder.trunc(count, ir.IntType(32))))
        held = context.make_array(array_type)(context, builder, arguments[0])
        index, checked = context.cast(builder, arguments[1], signature.args[1], types.intp), context.enable_boundscheck
        if checked:
            all_lanes = ir.Constant(count.type, LANES)
            stored = builder.select(builder.icmp_signed("<", count, all_lanes), count, all_lanes)
            last = builder.sub(builder.add(index, stored), ir.Constant(count.type, 1))
            last = builder.select(builder.icmp_signed("<", last, index), index, last)
            cgutils.get_item_pointer(context, builder, array_type, held, [last], boundscheck=True)
        first = cgutils.get_item_pointer(context, builder, array_type, held, [index], boundscheck=checked)
        first, align = builder.bitcast(first, arguments[2].type.as_pointer()), ir.Constant(ir.IntType(32), 4)
        name = f"llvm.masked.store.v{LANES}{'f' if array_type.dtype == types.float32 else 'i'}32.p0"
        given = arguments[2], first, align, mask
        function = ir.FunctionType(ir.VoidType(), [value.type for value in given])
        builder.call(cgutils.get_or_insert_function(builder.module, function, name), given)
        return context.get_dummy_value()

    return types.void(array, index, _VECTOR_OF[array.dtype], types.int64), codegen


@intrinsic
def load_points(_typing_context, points, first):
    """x, y and z of LANES consecutive points of an array (N, 3), as three vectors."""

    def codegen(context, builder, signature, arguments):
        first = _pointer(context, builder, signature, arguments, _F32)
        held = [builder.load(builder.gep(first, [ir.Constant(_I32.element, k)]), align=4) for k in range(3)]
        lanes = []
        for axis in range(3):
            # A coordinate has other lanes in each of the three vectors: blend them, then permute. One shuffle of all
            # 24 numbers would make LLVM use wider vectors, which lower the clock of some processors.
            order = [axis + 3 * lane for lane in range(LANES)]
            owner = {index % LANES: index // LANES for index in order}
            two = ir.Constant(_I32, [k + LANES * (owner[k] == 1) for k in range(LANES)])
            three = ir.Constant(_I32, [k + LANES * (owner[k] == 2) for k in range(LANES)])
            blended = builder.shuffle_vector(builder.shuffle_vector(held[0], held[1], two), held[2], three)
            order = ir.Constant(_I32, [index % LANES for index in order])
            lanes.append(builder.shuffle_vector(blended, blended, order))
        return context.make_tuple(builder, signature.return_type, lanes)

    return types.UniTuple(FLOAT32X8, 3)(points, first), codegen


@intrinsic
def splat(_typing_context, number):
    """The same number in every lane."""

    def codegen(_context, builder, _signature, arguments):
        return _splat(builder, arguments[0])

    return _VECTOR_OF[number](number), codegen


@intrinsic
def where(_typing_context, mask, lanes, others):
    """Lanes of `lanes` where the mask is true, else of `others`."""

    def codegen(_context, builder, _signature, arguments):
        return builder.select(*arguments)

    return lanes(BOOLX8, lanes, lanes), codegen


@intrinsic
def lacks_bits(_typing_context, array, index, bits):
    """Mask of the LANES elements (uint16 or boolean) from `index` on that have none of these bits."""

    def codegen(context, builder, signature, arguments):
        held = builder.load(_pointer(context, builder, signature, arguments), align=1)
        marked = builder.and_(held, _splat(builder, arguments[2]))
        return builder.icmp_unsigned("==", marked, ir.Constant(held.type, [0] * LANES))

    return BOOLX8(array, index, types.uint8 if array.dtype == types.boolean else array.dtype), codegen


@intrinsic
def all_zero(_typing_context, array, index):
    """Whether the LANES integers of an array from `index` on are all zero."""

    def codegen(context, builder, signature, arguments):
        wide_integer = ir.IntType(LANES * signature.args[0].dtype.bitwidth)
        held = builder.load(_pointer(context, builder, signature, arguments, wide_integer), align=1)
        return builder.icmp_unsigned("==", held, ir.Constant(wide_integer, 0))

    return types.boolean(array, index), codegen


@intrinsic
def store_mask(_typing_context, array, index, mask):
    """Store a mask to an array of booleans, from `index` on."""
    eight_bytes = ir.VectorType(ir.IntType(8), LANES)

    def codegen(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature, arguments, eight_bytes)
        builder.store(builder.zext(arguments[2], eight_bytes), pointer, align=1)
        return context.get_dummy_value()

    return types.void(array, index, BOOLX8), codegen


@instruction(types.uint64, BOOLX8)
def mask_bits(builder, mask):
    """The mask as an integer; bit k is lane k."""
    return builder.zext(builder.bitcast(mask, ir.IntType(LANES)), ir.IntType(64))


@instruction(INT32X8, FLOAT32X8)
def to_int32(builder, lanes):
    """Truncate to int32; undefined for NaN and beyond 2^31."""
    return builder.fptosi(lanes, _I32)


@instruction(FLOAT32X8)
def lane_indices(_builder):
    """0, 1, 2, ... 7 as float32."""
    return ir.Constant(_F32, [float(lane) for lane in range(LANES)])


def _each(builder, name, lanes):
    """A function of LLVM of each lane."""
    kind = ir.FunctionType(_F32, [_F32])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f32"), [lanes])


@instruction(FLOAT32X8, FLOAT32X8)
def floor(builder, lanes):
    """The largest integer not above each lane."""
    return _each(builder, "floor", lanes)


@instruction(FLOAT32X8, FLOAT32X8)
def square_root(builder, lanes):
    """The square root of each lane; NaN below zero."""
    return _each(builder, "sqrt", lanes)


@instruction(FLOAT32X8, FLOAT32X8, FLOAT32X8)
def _scaled(builder, lanes, whole):
    """Lanes times 2^n, n held as float32, by adding to the exponents: the results must be normal numbers."""
    exponent = builder.shl(builder.fptosi(whole, _I32), ir.Constant(_I32, [23] * LANES))
    return builder.bitcast(builder.add(builder.bitcast(lanes, _I32), exponent), _F32)


@inlined()
def maximum(a, b):
    """The larger of two numbers in each lane; `b` where `a` is NaN."""
    return where(a >= b, a, b)


@inlined()
def minimum(a, b):
    """The smaller of two numbers in each lane; `b` where `a` is NaN."""
    return where(a <= b, a, b)


@inlined()
def exp2_lanes(x):
    """2^x for x <= 0 in each lane, relative error 5e-6: the polynomial of `numeric.exp2_negative`."""
    limited = maximum(x, splat(np.float32(-80)))
    whole = floor(limited)
    part = limited - whole
    series = part * np.float32(0.013534168) + np.float32(0.052011461)
    series = series * part + np.float32(0.241442757)
    series = series * part + np.float32(0.693003834)
    return _scaled(series * part + np.float32(1.000002593), whole)
