# SPDX-License-Identifier: Apache-2.0
"""Constants and small functions that CPU kernels share."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, type_callable

from roadbed.kernels.jit import inner, instruction, njit

# All fastmath flags except "nnan" and "ninf": raw scans contain NaN and infinities.
FAST = {"reassoc", "contract", "arcp", "nsz", "afn"}
F: Any = np.float32
U: Any = np.uint64  # an unsigned index cannot count from the end, so that LLVM vectorises loops
ONE = np.uint64(1)
ZERO: Any = np.int64(0)  # typed, as all constant arguments: Numba compiles a function for every literal
NO, YES = np.bool_(False), np.bool_(True)
HALF_LOG2_E: Any = np.float32(-0.5 * 1.4426950408889634)  # exp(-d^2 / 2 s^2) = 2^(this d^2 / s^2)


@instruction(types.float32, types.int32)
def float_from_bits(builder, bits):
    return builder.bitcast(bits, ir.FloatType())


@instruction(types.int32, types.float32)
def bits_of_float(builder, value):
    return builder.bitcast(value, ir.IntType(32))


def max(a, b):
    """The larger of two numbers, as Python's. Numba compiles Python's for each type and each set of options."""
    return b if b > a else a


def min(a, b):
    """The smaller of two numbers."""
    return b if b < a else a


def _register(function, sign):
    @type_callable(function)
    def resolve(context):
        def typer(a, b):
            number = context.unify_types(types.unliteral(a), types.unliteral(b))
            return number(number, number)

        return typer

    @lower_builtin(function, types.Number, types.Number)
    def lower(_context, builder, signature, arguments):
        kind, (a, b) = signature.return_type, arguments
        if isinstance(kind, types.Float):
            return builder.select(builder.fcmp_ordered(sign, b, a), b, a)
        compare = builder.icmp_signed if kind.signed else builder.icmp_unsigned
        return builder.select(compare(sign, b, a), b, a)


_register(max, ">")
_register(min, "<")


@njit(inline="always", fastmath=True)
def exp2_negative(x):
    """2^x for x <= 0, relative error 5e-6, without branches and calls, so that loops around it vectorise."""
    limited = max(x, F(-80.0))
    whole = np.floor(limited)
    part = limited - whole
    # 2^part on [0, 1): the minimax polynomial of degree 4.
    series = F(1.000002593) + part * (
        F(0.693003834) + part * (F(0.241442757) + part * (F(0.052011461) + part * F(0.013534168)))
    )
    return series * float_from_bits(np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)))


def _normal_equations(x_, y_, z_, weight_, ridge):
    """Arguments of `solve3` for the plane z = level + slope_x x + slope_y y through weighted points, in float64.

    `ridge` is added to the diagonal of the slopes, which a narrow view hardly determines.
    """
    s = sx = sy = sxx = sxy = syy = sz = szx = szy = 0.0
    for k in range(U(x_.shape[0])):
        x, y, z, weight = np.float64(x_[k]), np.float64(y_[k]), np.float64(z_[k]), np.float64(weight_[k])
        s += weight
        sx += weight * x
        sy += weight * y
        sxx += weight * x * x
        sxy += weight * x * y
        syy += weight * y * y
        sz += weight * z
        szx += weight * z * x
        szy += weight * z * y
    return s + 1e-6, sx, sy, sxx + ridge, sxy, syy + ridge, sz, szx, szy


normal_equations = inner()(_normal_equations)
fast_normal_equations = inner(fastmath=FAST)(_normal_equations)  # sums in any order, vectorised


@inner()
def solve3(a00, a01, a02, a11, a12, a22, b0, b1, b2):
    """Solution of a symmetric positive definite 3 x 3 system by an unrolled L D L^T."""
    l1, l2 = a01 / a00, a02 / a00
    d1 = a11 - l1 * a01
    t = a12 - l1 * a02
    l3 = t / d1
    y1 = b1 - l1 * b0
    third = (b2 - l2 * b0 - l3 * y1) / (a22 - l2 * a02 - l3 * t)
    second = y1 / d1 - l3 * third
    return b0 / a00 - l1 * second - l2 * third, second, third
