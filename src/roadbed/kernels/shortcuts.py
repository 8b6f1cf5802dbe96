# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""What Numba works out again and again while it compiles, worked out once; what it finds is the same.

Half of the time that types take goes into asking every template of `+` or `[]` what it makes of two numbers, for the
hundredth time. The methods here stand in for Numba's while a kernel is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

from llvmlite import binding as llvm
from llvmlite.ir import Type
from numba.core import ir
from numba.core.callwrapper import PyCallWrapper
from numba.core.lowering import BaseLower
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction
from numba.core.typing.templates import _OverloadFunctionTemplate

from roadbed.kernels import llvm_text

_resolve = BaseFunction.get_call_type
_measure = Type.get_abi_size
_build = PyCallWrapper.build
_sizes = {}  # of LLVM's types in memory, by how they are written
_known = {}  # by the id of a function: itself, and what it returns for arguments and options
_NO_VARIABLES = frozenset({str, int, float, bool, type(None), ir.Loc, ir.Const, ir.Global, ir.FreeVar, ir.Arg})


@contextmanager
def taken() -> Iterator[None]:
    """Numba takes the shortcuts meanwhile, and does not time every call into LLVM."""
    usual = [(owner, name, getattr(owner, name)) for owner, name, _ in _SHORTCUTS]
    lock = llvm.ffi.lib._lock
    timers, lock._cblist = lock._cblist, []
    for owner, name, shortcut in _SHORTCUTS:
        setattr(owner, name, shortcut)
    try:
        yield
    finally:
        lock._cblist = timers
        for owner, name, method in usual:
            setattr(owner, name, method)


def _call_type(function, context, args, kws):
    """The signature that a function of Numba's own has for arguments: the same as the last time."""
    known = _known.setdefault(id(function), (function, {}))[1]
    key = (context, tuple(args), tuple(kws.items()) if kws else (), _handed_down())
    found = known.get(key)
    if found is None:
        signature = _resolve(function, context, args, kws)
        known[key] = signature, function._impl_keys[signature.args]
        return signature
    signature, implementation = found
    function._impl_keys[signature.args] = implementation  # other options may have left another
    return signature


def _implementation(template, args, kws):
    """What Numba compiles for `min` or `np.empty`: once for all callers that hand down the same options."""
    key = (template.context, tuple(args), tuple(kws.items()), _handed_down())
    found = template._impl_cache.get(key)
    return template._build_impl(key, args, kws) if found is None else found


def _handed_down():
    """The options that a function of Numba's own takes over from its caller."""
    options = ConfigStack.top_or_none()
    if options is None:
        return None
    return options.nrt, options.error_model, options.forceinline, frozenset(options.fastmath.flags)


def _size(kind, machine, context=None):
    """How many bytes a type takes: LLVM is asked with a module of its own, which takes it as long as a short kernel."""
    written = str(kind)
    if "%" in written:
        return _measure(kind, machine, context)  # by a name that may mean another type elsewhere
    if (written, machine) not in _sizes:
        _sizes[written, machine] = _measure(kind, machine, context)
    return _sizes[written, machine]


def _entrance(wrapper):
    """What Python calls takes its arguments apart as it is written: a tenth of a microsecond more, and a tenth of
    LLVM's time less. The kernel that it calls is optimised as ever."""
    function, api = _build(wrapper)
    for attribute in ("noinline", "optnone"):
        function.attributes.add(attribute)
    return function, api


def _variables(values: Iterable, found: list) -> list:
    for value in values:
        kind = type(value)
        if kind is ir.Var:
            found.append(value)
        elif kind is ir.Expr:
            _variables(value._kws.values(), found)
        elif kind in _NO_VARIABLES:
            pass
        elif isinstance(value, list | tuple):
            _variables(value, found)
        elif isinstance(value, dict):
            _variables(value.values(), found)
        elif isinstance(value, ir.Inst):
            found += value.list_vars()
    return found


_SHORTCUTS = (
    *llvm_text.SHORTCUTS,
    (PyCallWrapper, "build", _entrance),
    (BaseFunction, "get_call_type", _call_type),
    (_OverloadFunctionTemplate, "_get_impl", _implementation),
    (BaseLower, "create_cfunc_wrapper", lambda _: None),  # nothing calls it: ours have none, Numba's own would
    (Type, "get_abi_size", _size),
    (llvm, "get_process_triple", cache(llvm.get_process_triple)),
    (ir.Stmt, "list_vars", lambda statement: _variables(vars(statement).values(), [])),
    (ir.Expr, "list_vars", lambda expression: _variables(expression._kws.values(), [])),
)
