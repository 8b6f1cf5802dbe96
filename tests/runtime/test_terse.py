# SPDX-License-Identifier: Apache-2.0
"""Kernels written down for LLVM in fewer words compute what Numba's own do, and llvmlite's text is the same."""

import numba
import numpy as np
import pytest
from llvmlite import binding as llvm
from llvmlite import ir
from numba.core.codegen import CPUCodeLibrary
from numba.core.runtime import _nrt_python, rtsys

from roadbed.kernels import shortcuts
from roadbed.kernels.jit import njit


def elements(values, first, second):
    found = np.zeros(10)
    found[0], found[1] = values[first, second], values[-1, -2]
    found[2] = values[first][second]
    found[-7] = values[first][-1]
    row = values[second]
    row[first] += 5
    values[-1, first] = row.sum()
    for column in range(values.shape[1]):
        found[4 + column] = values[1, column]
    return found


def planes(values, first, second):
    total = values[0, 0, 0] * 0
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            line, plane = values[row, column], values[row]
            line[-1] += plane[column, first] + values[row, column, second] + len(line) + plane.shape[1]
            total += values[-1 - row, -1, 0]
    values[first, second, -1] = total
    return total + values[first].size


def ranges(_, first, second):
    total, last = 0, -1
    for one in range(first):
        for two in range(one, second + 3):
            total = 3 * total + one - two
            last = two
    for down in range(7, -second, -3):
        total = total * 2 + down
    for _ in range(5, 2):
        total += 1000
    for _ in range(-4):
        total += 1000
    for step in range(0, 9, second):
        total -= step
    return total, last


def others(values, _first, _second):
    total = 0.0
    for place, value in enumerate(values[0]):
        total += place * value
    for one, two in zip(values[1], values[:, 0]):
        total = 2 * total + one - two
    return total


PLANE, SPACE = np.arange(24.0).reshape(4, 6), np.arange(120, dtype=np.int16).reshape(4, 5, 6)
ARRAYS = {
    "C": PLANE,
    "F": np.asfortranarray(PLANE),
    "A": np.repeat(np.repeat(PLANE, 2, axis=1), 3, axis=0)[::3, ::2],
    "backwards": PLANE[::-1, ::-1],
    "bytes": PLANE.astype(np.uint8),
    "single": PLANE.astype(np.float32),
}
SPACES = {"C": SPACE, "F": np.asfortranarray(SPACE), "A": SPACE.transpose(1, 0, 2)}
CASES = [
    *((elements, values) for values in ARRAYS.values()),
    *((planes, values) for values in SPACES.values()),
    (ranges, PLANE),
    (others, PLANE),
]


def _copy(values):
    """With the same strides."""
    room = np.zeros(2 * np.abs(values.strides).max() * max(values.shape), np.uint8)
    copy = np.ndarray(values.shape, values.dtype, room, room.size // 2 // 8 * 8, values.strides)
    copy[:] = values
    return copy


@pytest.mark.parametrize("number", [np.int64, np.uint64, np.int32, np.uint8])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_results_are_those_of_numbas_own(case, number):
    function, values = CASES[case]
    outcomes = []
    for kernel in (njit()(function), numba.njit(function)):
        given = _copy(values)
        outcomes.append((np.array(kernel(given, number(3), number(2))).tobytes(), given.tobytes()))
    assert outcomes[0] == outcomes[1]


def test_a_range_without_a_step_is_an_error():
    with pytest.raises(ValueError, match="must not be zero"):
        njit()(ranges)(PLANE, 3, 0)


def flags(values):
    count = 0
    for place in range(values.size):
        values[place] = not values[place]
        if values[place]:
            count += 1
    return count


def test_truths_are_kept_as_bytes():
    values = np.array([True, False, False])
    assert njit()(flags)(values) == 2
    assert values.tolist() == [False, True, True]


def rows(count):
    held = np.zeros((1, 4))
    for place in range(count):
        table = np.ones((3, 4))
        held[0] = table[place % 3]
        row = table[1]
        row[2] = held[0, 1] + place
        held[0, 3] += row[2]
    return held


def test_what_rows_refer_to_is_released_once():
    kernel = njit()(rows)
    kernel(1)
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        assert kernel(50)[0, 3] == 51.0
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free > 50


class Written:
    """Modules handed to LLVM, and their text at that time."""

    def __init__(self, monkeypatch):
        self.modules, self.texts = [], []
        add = CPUCodeLibrary.add_ir_module

        def note(library, module):
            self.modules.append(module)
            self.texts.append(str(module))
            add(library, module)

        monkeypatch.setattr(CPUCodeLibrary, "add_ir_module", note)

    def instructions(self, named):
        """Of functions that have this in their names."""
        functions = [function for module in self.modules for function in module.functions if named in function.name]
        return sum(len(block.instructions) for function in functions for block in function.blocks)


def test_the_plain_cases_take_two_thirds_of_the_words(monkeypatch):
    """A Numba whose inside changed, so that the short ways are not taken any more, is seen here."""
    words = []
    for decorate in (njit(allocates=False), numba.njit):
        with monkeypatch.context() as context:
            written = Written(context)
            decorate(planes)(SPACE.copy(), 3, 2)
            words.append(written.instructions("planes"))
    assert 0 < 3 * words[0] < 2 * words[1]


def test_the_text_is_llvmlites_own(monkeypatch):
    written, values = Written(monkeypatch), np.ones(4, np.uint16)  # no other test has anything compiled for these
    njit()(lambda values: checked(values, 2) + np.sort(values)[0] + sum([x * x for x in values]))(values)
    assert len(written.modules) > 5
    for module, text in zip(written.modules, written.texts, strict=True):
        assert str(module) == text
        assert not any("cfunc" in function.name for function in module.functions), "an entrance that nothing uses"


@njit()
def checked(values, k):
    if k < 0:
        raise ValueError("below zero", k)
    return min(values[k], 3.0)


def test_numba_is_left_as_it_was():
    njit()(flags)(np.array([True]))
    assert not any(getattr(owner, name) is shortcut for owner, name, shortcut in shortcuts._SHORTCUTS)


def test_only_the_entrance_is_not_optimised():
    ours, theirs = njit()(flags), numba.njit(flags)
    for kernel in (ours, theirs):
        kernel(np.array([True]))
    (text,) = ours.inspect_llvm().values()
    lines = [line for line in text.splitlines() if line.startswith("define")]
    plain = {line.rpartition("#")[2].split()[0] for line in lines if "_ZN7cpython" in line}
    attributes = {line.split()[1]: line for line in text.splitlines() if line.startswith("attributes")}
    assert all("optnone" in attributes[f"#{number}"] for number in plain)
    (kernel,) = (line for line in lines if "_ZN7cpython" not in line and "flags" in line)
    assert "#" not in kernel or "optnone" not in attributes[f"#{kernel.rpartition('#')[2].split()[0]}"]
    (text,) = theirs.inspect_llvm().values()
    assert "optnone" not in text
    assert "cfunc" in text
    assert not any("cfunc" in line for line in lines)


def test_sizes_are_remembered_by_what_a_type_is_made_of():
    machine = llvm.create_target_data("e-m:e-i64:64-n8:16:32:64")
    number, byte = ir.IntType(64), ir.IntType(8)
    named = []
    for parts in ((byte, number), (byte, byte)):
        kind = ir.Context().get_identified_type("pair")
        kind.set_body(*parts)
        named.append(kind)
    with shortcuts.taken():
        for _ in range(2):
            assert ir.LiteralStructType((byte, number)).get_abi_size(machine) == 16
            assert ir.LiteralStructType((byte, byte)).get_abi_size(machine) == 2
            assert [kind.get_abi_size(machine, kind.context) for kind in named] == [16, 2]
