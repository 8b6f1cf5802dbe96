# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels on disk: found again, never stale after an edit, and never read from a folder others can write."""

import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import roadbed
from roadbed.kernels import cache
from roadbed.kernels.jit import njit

CONSTANTS = "OFFSET = 1\n"
CALLEE = """
from roadbed.example_constants import OFFSET
from roadbed.kernels.jit import inner

@inner()
def helper(x):
    return x + OFFSET
"""
KERNEL = """
from typing import NamedTuple
from roadbed.example_callee import (
    helper,
)
from roadbed.kernels.jit import njit

class Pair(NamedTuple):
    first: int
    second: int

@njit(cache=True, fastmath={"nsz", "arcp", "contract", "afn", "reassoc"})
def kernel(x, pair):
    return 10 * helper(x) + pair.first
"""
CHECKED = """
import numpy as np
from roadbed.example_callee import helper
from roadbed.kernels.jit import njit

@njit(cache=True)
def checked(values, index):
    return values[helper(index)]

def kernel(x, pair):
    inside = checked(np.arange(3), 1)
    try:
        checked(np.arange(3), 2)
    except IndexError:
        return inside

kernel.stats = checked.stats
Pair = tuple.__new__ and (lambda *numbers: numbers)
"""
MAIN = """
from roadbed.example_cpu import Pair, kernel
print(kernel(5, Pair(1, 2)), sum(kernel.stats.cache_hits.values()))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package that may be edited."""
    folder = tmp_path_factory.mktemp("copy")
    source, copy = Path(roadbed.__file__).parent, folder / "roadbed"
    copy.mkdir()
    shutil.copy(source / "__init__.py", copy)
    for part in ("kernels", "core", "io"):
        shutil.copytree(source / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def write(package, constants=CONSTANTS, callee=CALLEE, kernel=KERNEL):
    files = {"example_constants": constants, "example_callee": callee, "example_cpu": kernel}
    for name, text in files.items():
        path = package / "roadbed" / f"{name}.py"
        path.write_text(text)
        os.utime(path, (1e9, 1e9))  # the same time and, below, the same size: only the content tells


def run(package, kernels, *, constants=CONSTANTS, callee=CALLEE, kernel=KERNEL, **settings):
    """What the kernel returns in a new process, and how often it came from the cache."""
    write(package, constants, callee, kernel)
    environment = {**os.environ, "PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(kernels), **settings}
    command = [sys.executable, "-B", "-c", MAIN]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
    value, hits = done.stdout.split()
    return int(value), int(hits)


def test_an_edit_anywhere_below_a_kernel_compiles_it_again(package, tmp_path):
    assert run(package, tmp_path) == (61, 0)
    assert run(package, tmp_path) == (61, 1)
    assert run(package, tmp_path, constants="OFFSET = 2\n") == (71, 0)
    assert run(package, tmp_path, callee=CALLEE.replace("x + OFFSET", "x - OFFSET")) == (41, 0)
    swapped = KERNEL.replace("first: int\n    second: int", "second: int\n    first: int")
    assert run(package, tmp_path, kernel=swapped) == (62, 0)
    assert run(package, tmp_path) == (61, 1)  # the first version is still there


def test_checked_indices_have_kernels_of_their_own(package, tmp_path):
    settings = {"kernel": CHECKED, "NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "1"}
    run(package, tmp_path)
    assert run(package, tmp_path, **settings) == (2, 0)
    assert run(package, tmp_path, **settings) == (2, 1)


def test_the_user_cache_folder_is_private(package, tmp_path):
    assert run(package, "", XDG_CACHE_HOME=str(tmp_path)) == (61, 0)
    assert (tmp_path / "roadbed" / "kernels").stat().st_mode & 0o777 == 0o700
    assert run(package, "", XDG_CACHE_HOME=str(tmp_path)) == (61, 1)


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """An empty user cache folder for this process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache._config, "CACHE_DIR", "")
    cached = cache._is_usable, cache._prepare
    for function in cached:
        function.cache_clear()
    yield cache.folder()
    for function in cached:
        function.cache_clear()


def double(x):
    return 2 * x


@pytest.mark.parametrize("named", ["user cache", "NUMBA_CACHE_DIR"])
@pytest.mark.parametrize("owner", ["others may write", "others may replace it", "another user", "not writable"])
def test_a_folder_that_others_can_write_is_not_used(fresh, owner, named, monkeypatch, tmp_path):
    """Numba unpickles what it finds there."""
    if named == "NUMBA_CACHE_DIR":
        monkeypatch.setattr(cache._config, "CACHE_DIR", str(tmp_path / "named"))
        fresh = cache.folder()
    fresh.mkdir(parents=True)
    if owner == "others may write":
        fresh.chmod(0o770)
    elif owner == "others may replace it":
        fresh.parent.chmod(0o777)
    elif owner == "another user":
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    else:
        monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.warns(UserWarning, match="are not cached") as told:
        kernels = [njit(cache=True)(double), njit(cache=True)(double)]
    assert [kernel(np.float32(2)) for kernel in kernels] == [4, 4]
    assert len(told) == 1
    assert list(fresh.iterdir()) == []


def test_a_sticky_folder_above_is_as_safe_as_tmp(fresh):
    fresh.parent.mkdir(parents=True)
    fresh.parent.chmod(0o1777)
    assert njit(cache=True)(double)(3) == 6
    assert list(fresh.rglob("*.nbi"))


def test_modes_are_private_whatever_the_umask(package, tmp_path):
    command = [sys.executable, "-B", "-c", MAIN]
    environment = {**os.environ, "PYTHONPATH": str(package), "NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": str(tmp_path)}
    write(package)
    for mask in (0, 0o027):
        subprocess.run(command, env=environment, umask=mask, timeout=600, check=True, capture_output=True)
        folder = tmp_path / "roadbed" / "kernels"
        modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in [folder, *folder.rglob("*")]}
        assert modes == {True: 0o700, False: 0o600}


def test_files_that_others_could_have_written_are_not_loaded(fresh, monkeypatch):
    """A planted index is unpickled by Numba: here it would leave a mark."""
    mark = fresh.parent / "ran"
    assert njit(cache=True)(double)(3) == 6
    (index,) = fresh.rglob("*.nbi")
    planted = pickle.dumps(Planted(str(mark)))

    def start_again():
        cache._is_usable.cache_clear()
        cache._prepare.cache_clear()
        assert njit(cache=True)(double)(3) == 6
        assert not mark.exists()

    index.write_bytes(planted)
    index.chmod(0o666)
    fresh.chmod(0o755)  # others could get there
    start_again()
    os.truncate(index, 0)
    index.write_bytes(planted)
    if os.getuid() == 0:
        os.chown(index, 12345, 12345)
        start_again()


class Planted:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (Path(self.mark),)


def test_folders_that_nobody_used_for_long_are_removed(fresh):
    now, day = time.time(), 86400
    for name, age in (("old-1", 61), ("used-1", 59)):
        (fresh / name / "deep").mkdir(parents=True)
        os.utime(fresh / name, (now - age * day,) * 2)
    (fresh / "ground-1.done").touch()
    os.utime(fresh / "ground-1.done", (now - 61 * day,) * 2)
    fresh.chmod(0o700)
    assert njit(cache=True)(double)(3) == 6
    names = {path.name for path in fresh.iterdir()}
    assert "used-1" in names
    assert not {"old-1", "ground-1.done"} & names
    (own,) = names - {"used-1"}
    os.utime(fresh / own, (now - 59 * day,) * 2)
    cache._prepare.cache_clear()
    njit(cache=True)(double)
    assert now - (fresh / own).stat().st_mtime < day  # in use again


def test_the_digest_covers_modules_imported_by_modules():
    stcrf = Path(roadbed.__file__).parent / "ground" / "stcrf"
    (file,) = stcrf.rglob("em_cpu.py")
    _, imported = cache._read(str(file))
    assert str(Path(cache.__file__).parent / "simd.py") in imported
    assert cache.digest_of(file) != cache.digest_of(*stcrf.rglob("labels_cpu.py"))
