# SPDX-License-Identifier: Apache-2.0
"""Compiling ahead: with progress, in processes of its own, and so that nothing is left to compile."""

import json
import os
import subprocess
import sys

import pytest

from roadbed.core.errors import InputError
from roadbed.kernels import progress as compilation
from roadbed.warm_up.processes import JOBS, cold, warm_up


def roadbed(cache, *arguments):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "roadbed", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)


def test_warming_up_tells_each_kernel_and_leaves_nothing_to_compile(tmp_path):
    first = roadbed(tmp_path, "warm-up", "files", "pictures", "--json")
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["kernels"] == 4
    assert "compiling for this machine, once" in first.stderr
    assert "1 of 4" in first.stderr
    again = roadbed(tmp_path, "warm-up", "files", "pictures", "--json")
    assert json.loads(again.stdout)["kernels"] == 0
    assert again.stderr == ""


def test_the_process_that_compiles_loads_and_collects_nothing_for_others(tmp_path):
    script = """
import gc, sys
from roadbed.warm_up import processes as warmup

warmup._serve()
assert "numba.np.arraymath" in sys.modules
assert sys.modules["scipy"] is None
assert not gc.isenabled()
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], input="files\n", env=environment, text=True, timeout=900, check=True)


def test_unknown_parts_are_named():
    with pytest.raises(InputError, match="expected ground, occupancy"):
        warm_up(["engine"])


def test_every_job_uses_every_kernel_that_usual_drives_need(tmp_path):
    """After all jobs no kernel that Python calls is missing, and a drive from the command line compiles nothing."""
    warm_up(processes=1)  # with the cache that is there
    assert cold() == []
    assert compilation.missing(kernel for job in JOBS.values() for kernel in job.kernels()) == []
    script = """
import sys
import numpy as np
import roadbed
from roadbed.kernels import progress as compilation

compilation.watch(lambda step: print(step.stage, step.kernel))
drive = list(roadbed.open("sim:city?sensor=lux4&frames=3"))
pipeline = roadbed.Pipeline()
for scan in drive:
    pipeline(scan)
roadbed.GroundFilter()(drive[0].points)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=900, check=True)
    assert done.stdout == ""


def test_a_watcher_hears_what_is_compiled():
    """Steps count up to their total, and the last one says that all is ready."""
    from roadbed.kernels.jit import njit

    @njit()
    def newly_made(x):
        return x + 1

    newly_made.py_func.__module__ = "roadbed.ground.example"
    heard = []
    before = compilation.watch(heard.append)
    try:
        assert newly_made(1) == 2
    finally:
        compilation.watch(before)
    begun, ended = heard
    assert (begun.stage, begun.kernel, begun.done, begun.total) == ("ground", "newly_made", 0, 1)
    assert str(begun) == "ground: newly_made, 1 of 1"
    assert (ended.done, ended.total) == (1, 1)


def test_jobs_have_kernels():
    for name, job in JOBS.items():
        assert job.kernels(), name
