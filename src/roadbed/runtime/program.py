# SPDX-License-Identifier: Apache-2.0
"""A device program: kernel files of the package, compile-time definitions and structures shared with Python."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

_PACKAGE = Path(__file__).parent.parent
_ALWAYS = ("runtime/prelude.h", "runtime/primitives.cl")
_C_NAMES = {
    "uint64": "address_t",
    "int32": "int",
    "uint32": "uint",
    "float32": "float",
    "float64": "real",
    "uint16": "ushort",
    "uint8": "uchar",
}

# OpenCL may contract a product and a sum into one rounding; for CUDA a compiler option forbids it.
_UNCONTRACTED = ("#ifndef ROADBED_CUDA", "#pragma OPENCL FP_CONTRACT OFF", "#endif")


@dataclass(frozen=True)
class Program:
    """`files` are paths such as `ground/stcrf/em/em.cl`; `exact` forbids relaxed rounding."""

    files: tuple[str, ...]
    definitions: Mapping[str, int | float | np.generic] = field(default_factory=dict)
    structs: Mapping[str, np.dtype] = field(default_factory=dict)
    exact: bool = False

    def source(self, runtime: Mapping[str, int | float]) -> str:
        """The program text: definitions of the runtime and its own, the prelude, the structures, the kernels.

        Definitions that no line uses are left out: a driver caches a program by its text.
        """
        lines = list(_UNCONTRACTED) if self.exact else []
        for file in _ALWAYS:
            lines += _text(file)
        lines += [self._struct(name, dtype) for name, dtype in self.structs.items()]
        for file in self.files:
            lines += _text(file)
        text = "\n".join(lines)
        used, definitions = set(re.findall(r"\w+", text)), {**runtime, **self.definitions}
        return "\n".join([*(f"#define {n} {_literal(value)}" for n, value in definitions.items() if n in used), text])

    def _struct(self, name: str, dtype: np.dtype) -> str:
        """A C structure with the layout of an aligned NumPy record; members may be structures listed before it."""
        assert dtype.fields is not None
        c_names = _C_NAMES | {str(record): inner for inner, record in self.structs.items()}
        lines = []
        for member in dtype.names or ():
            base, shape = dtype.fields[member][0].base, dtype.fields[member][0].shape
            kind = c_names[str(base) if base.fields else base.name]
            lines.append(f"    {kind} {member}{''.join(f'[{n}]' for n in shape)};")
        return "\n".join(["typedef struct {", *lines, f"}} {name};"])


def _text(file: str) -> list[str]:
    return [f'#line 1 "{file}"', (_PACKAGE / file).read_text(encoding="utf-8")]


def _literal(value: int | float | np.generic) -> str:
    if isinstance(value, np.uint32):
        return f"({int(value)}u)"
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return f"({int(value)})"
    if isinstance(value, np.float64):  # a NumPy double stays a double
        return f"({float(value)!r})"
    return f"({float(np.float32(value))!r}f)"
