# SPDX-License-Identifier: Apache-2.0
"""What a kernel is made of: its code, the kernels it calls, the constants both read, and the types of its arguments.

Two kernels with one fingerprint compile to the same machine code, wherever their files lie and however old they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core import types as _types
from numba.core.dispatcher import Dispatcher

types: Any = _types  # what its classes hold is not written down for type checkers
_known: dict[int, str] = {}  # by id: kernels live as long as their module


def fingerprint(kernel: Dispatcher) -> str:
    """Sixteen digits that change with anything that could change what the kernel computes."""
    if id(kernel) not in _known:
        config: Any = numba.config
        settings = (config.BOUNDSCHECK, config.OPT, config.DEBUGINFO_DEFAULT)
        text = "\n".join([repr(settings), *_kernel(kernel, set())])
        _known[id(kernel)] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return _known[id(kernel)]


def called_by(kernel: Any) -> Iterator[Dispatcher]:
    """The kernels that a kernel, or the function it is made of, names, in no order."""
    for value in _named(getattr(kernel, "py_func", kernel)):
        if isinstance(value, Dispatcher) and value is not kernel:
            yield value


def describe_type(kind: Any) -> str:
    """A type with the names of its fields: exchanged fields of one type are another type."""
    if isinstance(kind, types.BaseNamedTuple):
        fields = (f"{name}={describe_type(item)}" for name, item in zip(kind.fields, kind.types))
        return f"{kind.instance_class.__name__}({', '.join(fields)})"
    if isinstance(kind, types.BaseTuple):
        return f"({', '.join(describe_type(item) for item in kind.types)})"
    return str(kind)


def _kernel(kernel: Dispatcher, seen: set[int]) -> Iterator[str]:
    if id(kernel) in seen:
        return
    seen.add(id(kernel))
    options = sorted((name, _text(value)) for name, value in kernel.targetoptions.items())
    yield f"{kernel.py_func.__qualname__} {options}"
    yield from _function(kernel.py_func, seen)


def _function(function: Any, seen: set[int]) -> Iterator[str]:
    yield from _code(function.__code__)
    yield repr(function.__defaults__)
    for value in _named(function):
        yield from _value(value, seen)


def _named(function: Any) -> Iterator[Any]:
    """What the names in a function stand for: globals, members of the package's modules, and the closure's cells."""
    names = sorted(_names(function.__code__))
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType) and value.__name__.startswith("roadbed."):
            yield from (getattr(value, other) for other in names if hasattr(value, other))
        elif value is not None:
            yield value
    for cell in function.__closure__ or ():
        yield cell.cell_contents


def _names(code: CodeType) -> set[str]:
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _code(code: CodeType) -> Iterator[str]:
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield _text(constant)


def _text(value: Any) -> str:
    """As repr writes it, but a set in an order that is the same in every process."""
    return repr(sorted(value, key=repr)) if isinstance(value, set | frozenset) else repr(value)


@cache
def _source(file: str) -> str:
    """Of what writes machine code itself: types and operators beside it count too, and no kernel names them."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def _value(value: Any, seen: set[int]) -> Iterator[str]:
    if isinstance(value, Dispatcher):
        yield from _kernel(value, seen)
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    elif isinstance(value, type) and issubclass(value, Enum):
        yield f"{value.__name__} {[(member.name, member.value) for member in value]}"
    elif isinstance(value, type):
        yield f"{value.__name__} {getattr(value, '_fields', '')}"
    elif isinstance(value, bool | int | float | complex | str | bytes | np.generic | np.dtype):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, tuple | list | set | frozenset):
        ordered = value if isinstance(value, tuple | list) else sorted(value, key=repr)
        for item in ordered:
            yield from _value(item, seen)
    elif isinstance(getattr(value, "_defn", None), FunctionType):  # an intrinsic: the code that writes its code
        yield _source(value._defn.__code__.co_filename)
    else:
        yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"
