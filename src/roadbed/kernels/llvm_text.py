# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Instructions for LLVM made and written out in fewer steps than llvmlite takes; the text is the same."""

from __future__ import annotations

from llvmlite.ir._utils import DuplicatedNameError, NameScope, _StrCaching, _StringReferenceCaching
from llvmlite.ir.instructions import ExtractValue, GEPInstr, InsertValue, Instruction, LoadInstr, StoreInstr
from llvmlite.ir.values import Block


def _register(scope, name, deduplicate=False):
    used = scope._useset
    if name in used:
        if not deduplicate:
            raise DuplicatedNameError(name)
        base, number = name, scope._basenamemap[name]
        while name in used:
            number += 1
            name = f"{base}.{number}"
        scope._basenamemap[base] = number
    used.add(name)
    return name


def _text(value):
    """Remembered, and not by an error that says that it was not yet."""
    remembered = value.__dict__
    if "_text" not in remembered:
        remembered["_text"] = value._to_string()
    return remembered["_text"]


def _forget(value):
    value.__dict__.pop("_text", None)


def _reference(value):
    remembered = value.__dict__
    if "_reference" not in remembered:
        remembered["_reference"] = value._get_reference()
    return remembered["_reference"]


def _make_instruction(instruction, parent, kind, opname, operands, name="", flags=()):
    instruction.parent, instruction.type = parent, kind
    instruction._name = parent.scope.register(name, deduplicate=instruction.deduplicate_name)
    instruction.opname, instruction.operands, instruction.flags = opname, operands, list(flags)
    instruction.metadata = {}


def _extract(it):
    whole, position = it.aggregate, ", ".join(map(str, it.indices))
    return f"  {it.get_reference()} = extractvalue {whole.type} {whole.get_reference()}, {position}\n"


def _insert(it):
    whole, part, position = it.aggregate, it.value, ", ".join(map(str, it.indices))
    return (
        f"  {it.get_reference()} = insertvalue {whole.type} {whole.get_reference()}, "
        f"{part.type} {part.get_reference()}, {position}\n"
    )


def _address(it):
    place, bounds = it.pointer, " inbounds" if it.inbounds else ""
    steps = ", ".join([f"{step.type} {step.get_reference()}" for step in it.indices])
    return (
        f"  {it.get_reference()} = getelementptr{bounds} {it.source_etype}, "
        f"{place.type} {place.get_reference()}, {steps}\n"
    )


def _load(it):
    (place,) = it.operands
    align = "" if it.align is None else f", align {it.align}"
    return f"  {it.get_reference()} = load {it.type}, {place.type} {place.get_reference()}{align}\n"


def _store(it):
    value, place = it.operands
    align = "" if it.align is None else f", align {it.align}"
    return f"  store {value.type} {value.get_reference()}, {place.type} {place.get_reference()}{align}\n"


_WRITERS = {ExtractValue: _extract, InsertValue: _insert, GEPInstr: _address, LoadInstr: _load, StoreInstr: _store}


def _write(block, buffer):
    buffer.append(f"{block._format_name()}:\n")
    for instruction in block.instructions:
        writer = None if instruction.metadata else _WRITERS.get(type(instruction))
        buffer.append(f"  {instruction}\n" if writer is None else writer(instruction))


SHORTCUTS = (
    (_StrCaching, "__str__", _text),
    (_StrCaching, "_clear_string_cache", _forget),
    (_StringReferenceCaching, "get_reference", _reference),
    (NameScope, "register", _register),
    (Instruction, "__init__", _make_instruction),
    (Block, "descr", _write),
)
