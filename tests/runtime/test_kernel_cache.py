# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels are kept by what they are made of: a change anywhere below is seen, a change of place is not."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numba.core.errors import NumbaTypeError

from roadbed.kernels.jit import njit

HELPER = """
from roadbed.kernels.jit import njit
OFFSET = 1

@njit(cache=True)
def helped(x):
    return x + OFFSET
"""
KERNEL = """
from typing import NamedTuple
from helper import helped
from roadbed.kernels.jit import njit

class Pair(NamedTuple):
    first: int
    second: int

@njit(cache=True, fastmath={"nsz", "arcp", "contract", "afn", "reassoc"})
def kernel(x, pair):
    return 10 * helped(x) + pair.first

print(kernel(5, Pair(1, 2)), sum(kernel.stats.cache_hits.values()))
"""


CHECKED = """
import numpy as np
from helper import helped
from roadbed.kernels.jit import njit

@njit(cache=True)
def kernel(values, place):
    return values[helped(place)]

inside = kernel(np.arange(3), 1)
try:
    kernel(np.arange(3), 2)
except IndexError:
    print(inside, sum(kernel.stats.cache_hits.values()))
"""


def run(folder, cache, helper=HELPER, kernel=KERNEL, **settings):
    """What the kernel gives in a new process, and whether it came from the cache."""
    folder.mkdir(exist_ok=True)
    (folder / "helper.py").write_text(helper)
    (folder / "main.py").write_text(kernel)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), **settings}
    command = [sys.executable, "-B", "main.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=True)
    value, hits = done.stdout.split()
    return int(value), int(hits)


def test_a_kernel_is_known_by_all_it_is_made_of(tmp_path):
    cache = tmp_path / "cache"
    assert run(tmp_path / "a", cache) == (61, 0)
    assert run(tmp_path / "b", cache) == (61, 1)  # another place, another time stamp: the same code
    constant = HELPER.replace("OFFSET = 1", "OFFSET = 2")
    assert run(tmp_path / "a", cache, helper=constant) == (71, 0)  # a constant of another file
    code = HELPER.replace("x + OFFSET", "x - OFFSET")
    assert run(tmp_path / "a", cache, helper=code) == (41, 0)  # a kernel of another file
    swapped = KERNEL.replace("first: int\n    second: int", "second: int\n    first: int")
    assert run(tmp_path / "a", cache, kernel=swapped) == (62, 0)  # fields of one type exchanged
    assert run(tmp_path / "a", cache) == (61, 1)  # what was compiled first is still there


def test_a_damaged_file_is_compiled_again(tmp_path):
    cache = tmp_path / "cache"
    run(tmp_path / "a", cache)
    for damage in (lambda stored: stored[:100], lambda stored: b"", _with_one_bit_turned):
        for path in (cache / "roadbed").glob("*.nbc"):
            path.write_bytes(damage(path.read_bytes()))
        assert run(tmp_path / "a", cache) == (61, 0)
        assert run(tmp_path / "a", cache) == (61, 1)


def _with_one_bit_turned(stored):
    """In the middle, where a file holds machine code, which nothing else would notice."""
    middle = len(stored) // 2
    return stored[:middle] + bytes([stored[middle] ^ 1]) + stored[middle + 1 :]


def test_a_kernel_with_checked_indices_is_kept_too_also_when_it_is_not_optimised(tmp_path):
    settings = {"kernel": CHECKED, "NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0"}
    assert run(tmp_path / "a", tmp_path / "cache", **settings) == (2, 0)
    assert run(tmp_path / "a", tmp_path / "cache", **settings) == (2, 1)  # and still refuses an index outside


PAIR = """
from typing import NamedTuple

class Pair(NamedTuple):
    first: float
    second: float
"""
RETURNED = """
import sys
import numpy as np
from helper import Pair
from roadbed.kernels.jit import njit

@njit(cache=True)
def kernel(values):
    if values.size < 2:
        raise ValueError("too few", values.size)
    return Pair(values[0], values.copy().sum())  # an object of Python, and memory of Numba's runtime

found = kernel(np.arange(1.0, 4.0))
assert isinstance(found, Pair), found
try:
    kernel(np.zeros(1))
except ValueError as error:
    assert error.args == ("too few", 1)
needed_to_compile = {"roadbed.kernels.lean", "numba.np.arrayobj", "numpy.ma"} & set(sys.modules)
hits = sum(kernel.stats.cache_hits.values())
assert not (hits and needed_to_compile), needed_to_compile
print(int(found.first + 10 * found.second), hits)
"""


def test_a_kept_kernel_returns_objects_allocates_and_raises_and_nothing_is_loaded_that_only_compiling_needs(tmp_path):
    cache = tmp_path / "cache"
    assert run(tmp_path / "a", cache, PAIR, RETURNED) == (61, 0)
    assert len(list((cache / "roadbed").glob("numba.runtime-*.nbc"))) == 1
    assert run(tmp_path / "a", cache, PAIR, RETURNED) == (61, 1)


LINKED = """
import numpy as np
from helper import helped
from roadbed.kernels.jit import njit

first = helped(2)  # brought from the disk as a kernel of its own

@njit(cache=True)
def kernel(x):
    return 100 * first + helped(x)

value = kernel(5)
(compiled,) = helped.overloads.values()
assert not compiled.library.get_function(compiled.fndesc.llvm_func_name).is_declaration
print(value, sum(helped.stats.cache_hits.values()))
"""


def test_a_kept_kernel_is_linked_into_one_that_is_compiled(tmp_path):
    cache = tmp_path / "cache"
    assert run(tmp_path / "a", cache, kernel=LINKED) == (306, 0)
    for path in (cache / "roadbed").glob("*kernel-*.nbc"):
        path.unlink()
    assert run(tmp_path / "a", cache, kernel=LINKED) == (306, 1)


def test_a_masked_array_is_refused_as_ever():
    with pytest.raises(NumbaTypeError, match="MaskedArray"):
        njit()(lambda values: values.sum())(np.ma.masked_array(np.ones(3), [True, False, False]))
