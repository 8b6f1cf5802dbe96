# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Eight float32 or int32 at once, said outright: `load(x, k) * 2 + load(y, k)` is vector instructions on every machine.

LLVM makes vectors of plain loops only where it can see that no two arrays overlap, and then leaves the last numbers of
a short loop to scalars: of a row of fifty nodes a half. Loops over lanes step by STEP, and keep all in registers.

    for k in range(first, last, STEP):
        store(out, k, where(load(x, k) < limit, load(x, k), splat(limit)))
"""

from __future__ import annotations

import operator
from functools import partial

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from roadbed.kernels.jit import inlined

LANES = 8
STEP = np.uint64(LANES)
FLAGS = ("contract", "nsz")  # products and sums may be one instruction; no sum is reordered
_F32, _I1, _I32 = (ir.VectorType(kind, LANES) for kind in (ir.FloatType(), ir.IntType(1), ir.IntType(32)))


class Float32x8(types.Type):
    """Eight numbers; they live in kernels only."""


class Int32x8(types.Type):
    """Eight whole numbers."""


class Boolx8(types.Type):
    """Eight answers to a comparison."""


FLOAT32X8, INT32X8, BOOLX8 = Float32x8("float32x8"), Int32x8("int32x8"), Boolx8("bool_x8")


@register_model(Float32x8)
class _Float32x8Model(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _F32)


@register_model(Int32x8)
class _Int32x8Model(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _I32)


@register_model(Boolx8)
class _Boolx8Model(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _I1)


def _splat(builder, number):
    """The same number in every lane."""
    undefined = ir.Constant(ir.VectorType(number.type, LANES), ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_I32, [0] * LANES))


_VECTOR_OF = {types.float32: FLOAT32X8, types.int32: INT32X8}
_SCALAR_OF = {FLOAT32X8: types.float32, INT32X8: types.int32, BOOLX8: None}


def _register(function, vector, result, write):
    """`write(builder, a, b)` emits an operator for two vectors, or for a vector and a number, which is in all lanes."""
    scalar = _SCALAR_OF[vector]

    def taken(kind):
        if kind == vector:
            return vector
        return scalar if isinstance(kind, types.Number) else None

    @type_callable(function)
    def resolve(_context):
        def typer(a, b):
            pair = taken(a), taken(b)
            if vector in pair and None not in pair:
                return result(*pair)
            return None

        return typer

    def lower(_context, builder, signature, arguments):
        lanes = [_splat(builder, a) if kind in _VECTOR_OF else a for kind, a in zip(signature.args, arguments)]
        return write(builder, *lanes)

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
    """A sum of lanes that is never made one instruction with the product in it: rounded alike on every machine."""
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


def _pointer(context, builder, signature, arguments, kind=None):
    """To the first of the lanes of an array that begin at an index: of its last axis, if it has two."""
    kind = kind or ir.VectorType(context.get_data_type(signature.args[0].dtype), LANES)
    array, index = signature.args[0], arguments[1]
    inside = cgutils.unpack_tuple(builder, index) if isinstance(signature.args[1], types.BaseTuple) else [index]
    given = list(getattr(signature.args[1], "types", [signature.args[1]]))
    places = [context.cast(builder, place, number, types.intp) for place, number in zip(inside, given)]
    beside = [ir.Constant(places[0].type, 0)] * (array.ndim - len(places))  # of points all axes
    held, checked = context.make_array(array)(context, builder, arguments[0]), context.enable_boundscheck
    if checked:
        last = [*places[:-1], builder.add(places[-1], ir.Constant(places[-1].type, LANES - 1)), *beside]
        cgutils.get_item_pointer(context, builder, array, held, last, boundscheck=True)
    found = cgutils.get_item_pointer(context, builder, array, held, [*places, *beside], boundscheck=checked)
    return builder.bitcast(found, kind.as_pointer())


@intrinsic
def load(_typing_context, array, index):
    """LANES numbers of an array from `index` on, or of its row k from column c on: `load(array, (k, c))`.

    Of whole numbers without sign there may be fewer bits.
    """

    def codegen(context, builder, signature, arguments):
        held = builder.load(_pointer(context, builder, signature, arguments), align=array.dtype.bitwidth // 8)
        return held if array.dtype in _VECTOR_OF else builder.zext(held, _I32)

    return _VECTOR_OF.get(array.dtype, INT32X8)(array, index), codegen


@intrinsic
def store(_typing_context, array, index, lanes):
    """The opposite of `load`."""

    def codegen(context, builder, signature, arguments):
        size, kept = array.dtype.bitwidth, arguments[2]
        if array.dtype not in _VECTOR_OF:
            kept = builder.trunc(kept, ir.VectorType(ir.IntType(size), LANES))
        builder.store(kept, _pointer(context, builder, signature, arguments), align=size // 8)
        return context.get_dummy_value()

    return types.void(array, index, _VECTOR_OF.get(array.dtype, INT32X8)), codegen


def _flat_pointer(context, builder, signature, arguments):
    """To the first of the lanes of an array that begin at a place, counted from its first number."""
    held, place = context.make_array(signature.args[0])(context, builder, arguments[0]), arguments[1]
    if context.enable_boundscheck:
        last = builder.add(place, ir.Constant(place.type, LANES - 1))
        cgutils.do_boundscheck(context, builder, last, held.nitems)
    return builder.bitcast(builder.gep(held.data, [place]), _F32.as_pointer())


@intrinsic
def load_flat(_typing_context, array, place):
    """LANES float32 of an array without gaps, whatever its axes, from its number `place` on.

    Arrays of equal shape share their places: a pointer to each plane of each of them is more than a processor can keep.
    """

    def codegen(context, builder, signature, arguments):
        return builder.load(_flat_pointer(context, builder, signature, arguments), align=4)

    return FLOAT32X8(array, types.intp), codegen


@intrinsic
def store_flat(_typing_context, array, place, lanes):
    """The opposite of `load_flat`."""

    def codegen(context, builder, signature, arguments):
        builder.store(arguments[2], _flat_pointer(context, builder, signature, arguments), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, FLOAT32X8), codegen


@intrinsic
def store_first(_typing_context, array, index, lanes, count):
    """The first `count` of the lanes, maybe none, to an array of one axis; what follows there is left as it is."""

    def codegen(context, builder, signature, arguments):
        kind, wanted = signature.args[0], arguments[3]
        order = ir.Constant(_I32, list(range(LANES)))
        mask = builder.icmp_signed("<", order, _splat(builder, builder.trunc(wanted, ir.IntType(32))))
        held = context.make_array(kind)(context, builder, arguments[0])
        place, checked = context.cast(builder, arguments[1], signature.args[1], types.intp), context.enable_boundscheck
        if checked:
            enough = ir.Constant(wanted.type, LANES)
            stored = builder.select(builder.icmp_signed("<", wanted, enough), wanted, enough)
            last = builder.sub(builder.add(place, stored), ir.Constant(wanted.type, 1))
            last = builder.select(builder.icmp_signed("<", last, place), place, last)
            cgutils.get_item_pointer(context, builder, kind, held, [last], boundscheck=True)
        first = cgutils.get_item_pointer(context, builder, kind, held, [place], boundscheck=checked)
        first, align = builder.bitcast(first, arguments[2].type.as_pointer()), ir.Constant(ir.IntType(32), 4)
        name = f"llvm.masked.store.v{LANES}{'f' if kind.dtype == types.float32 else 'i'}32.p0"
        given = arguments[2], first, align, mask
        function = ir.FunctionType(ir.VoidType(), [value.type for value in given])
        builder.call(cgutils.get_or_insert_function(builder.module, function, name), given)
        return context.get_dummy_value()

    return types.void(array, index, _VECTOR_OF[array.dtype], types.int64), codegen


@intrinsic
def load_points(_typing_context, points, first):
    """x, y and z of LANES points, from an array (N, 3) in which they lie one after the other."""

    def codegen(context, builder, signature, arguments):
        first = _pointer(context, builder, signature, arguments, _F32)
        held = [builder.load(builder.gep(first, [ir.Constant(_I32.element, k)]), align=4) for k in range(3)]
        lanes = []
        for axis in range(3):
            # One coordinate lies in another place of each of the three vectors: they are laid over each other, then put
            # in order. As one vector of all, LLVM would take wider ones, for which processors slow down.
            order = [axis + 3 * lane for lane in range(LANES)]
            owner = {place % LANES: place // LANES for place in order}
            two = ir.Constant(_I32, [k + LANES * (owner[k] == 1) for k in range(LANES)])
            three = ir.Constant(_I32, [k + LANES * (owner[k] == 2) for k in range(LANES)])
            laid = builder.shuffle_vector(builder.shuffle_vector(held[0], held[1], two), held[2], three)
            order = ir.Constant(_I32, [place % LANES for place in order])
            lanes.append(builder.shuffle_vector(laid, laid, order))
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
    """Of `lanes` where the mask says so, else of `others`."""

    def codegen(_context, builder, _signature, arguments):
        return builder.select(*arguments)

    return lanes(BOOLX8, lanes, lanes), codegen


@intrinsic
def none_of(_typing_context, array, index, bits):
    """Where the numbers of an array of uint16, or booleans, from `index` on have none of these bits."""

    def codegen(context, builder, signature, arguments):
        held = builder.load(_pointer(context, builder, signature, arguments), align=1)
        marked = builder.and_(held, _splat(builder, arguments[2]))
        return builder.icmp_unsigned("==", marked, ir.Constant(held.type, [0] * LANES))

    return BOOLX8(array, index, types.uint8 if array.dtype == types.boolean else array.dtype), codegen


@intrinsic
def is_empty(_typing_context, array, index):
    """Whether the whole numbers of an array from `index` on are all zero."""

    def codegen(context, builder, signature, arguments):
        kind = ir.IntType(LANES * signature.args[0].dtype.bitwidth)
        held = builder.load(_pointer(context, builder, signature, arguments, kind), align=1)
        return builder.icmp_unsigned("==", held, ir.Constant(kind, 0))

    return types.boolean(array, index), codegen


@intrinsic
def store_mask(_typing_context, array, index, mask):
    """Answers to an array of booleans, from `index` on."""
    kind = ir.VectorType(ir.IntType(8), LANES)

    def codegen(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature, arguments, kind)
        builder.store(builder.zext(arguments[2], kind), pointer, align=1)
        return context.get_dummy_value()

    return types.void(array, index, BOOLX8), codegen


@intrinsic
def bits(_typing_context, mask):
    """Answers as the lowest bits of one number, that of the first lane lowest."""

    def codegen(_context, builder, _signature, arguments):
        return builder.zext(builder.bitcast(arguments[0], ir.IntType(LANES)), ir.IntType(64))

    return types.uint64(BOOLX8), codegen


@intrinsic
def whole(_typing_context, lanes):
    """Numbers without their fractions; of what is beyond 2^31, or none, anything."""

    def codegen(_context, builder, _signature, arguments):
        return builder.fptosi(arguments[0], _I32)

    return INT32X8(FLOAT32X8), codegen


@intrinsic
def numbers(_typing_context):
    """0, 1, 2 and so on, one in each lane."""

    def codegen(_context, _builder, _signature, _arguments):
        return ir.Constant(_F32, [float(lane) for lane in range(LANES)])

    return FLOAT32X8(), codegen


@intrinsic
def floor(_typing_context, lanes):
    """The next whole number below each."""

    def codegen(_context, builder, _signature, arguments):
        kind = ir.FunctionType(_F32, [_F32])
        floor = cgutils.get_or_insert_function(builder.module, kind, f"llvm.floor.v{LANES}f32")
        return builder.call(floor, arguments)

    return FLOAT32X8(FLOAT32X8), codegen


@intrinsic
def _power_of_two(_typing_context, whole):
    """2^n for whole numbers -126..127."""

    def codegen(_context, builder, _signature, arguments):
        number = builder.fptosi(arguments[0], _I32)
        exponent = builder.add(number, ir.Constant(_I32, [127] * LANES))
        return builder.bitcast(builder.shl(exponent, ir.Constant(_I32, [23] * LANES)), _F32)

    return FLOAT32X8(FLOAT32X8), codegen


@inlined()
def larger(a, b):
    """The larger of two numbers in each lane; of `b` where `a` is none."""
    return where(a >= b, a, b)


@inlined()
def smaller(a, b):
    """The smaller of two numbers in each lane; of `b` where `a` is none."""
    return where(a <= b, a, b)


@inlined()
def exp2_lanes(x):
    """`cpu.exp2_negative` of each lane: 2^x for x <= 0 to 5e-6."""
    limited = larger(x, splat(np.float32(-80)))
    whole = floor(limited)
    part = limited - whole
    series = part * np.float32(0.013534168) + np.float32(0.052011461)
    series = series * part + np.float32(0.241442757)
    series = series * part + np.float32(0.693003834)
    return (series * part + np.float32(1.000002593)) * _power_of_two(whole)
