# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels are kept by what they are made of: a change anywhere below is seen, a change of place is not."""

import os
import subprocess
import sys

HELPER = """
from roadbed.compute.kernels import njit
OFFSET = 1

@njit(cache=True)
def helped(x):
    return x + OFFSET
"""
KERNEL = """
from typing import NamedTuple
from helper import helped
from roadbed.compute.kernels import njit

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
from roadbed.compute.kernels import njit

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
    for path in (cache / "roadbed").glob("*.nbc"):
        path.write_bytes(path.read_bytes()[:100])
    assert run(tmp_path / "a", cache) == (61, 0)
    assert run(tmp_path / "a", cache) == (61, 1)


def test_a_kernel_with_checked_indices_is_kept_too_also_when_it_is_not_optimised(tmp_path):
    settings = {"kernel": CHECKED, "NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0"}
    assert run(tmp_path / "a", tmp_path / "cache", **settings) == (2, 0)
    assert run(tmp_path / "a", tmp_path / "cache", **settings) == (2, 1)  # and still refuses an index outside
