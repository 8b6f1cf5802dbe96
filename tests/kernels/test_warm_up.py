# SPDX-License-Identifier: Apache-2.0
"""Compiling ahead: with progress, in processes of its own, and so that nothing is left to compile."""

import json
import os
import subprocess
import sys

import numba
import numpy as np
import pytest

from roadbed.core.errors import InputError
from roadbed.kernels import progress
from roadbed.kernels.jit import njit
from roadbed.warm_up.processes import JOBS, cold, kernels_of, warm_up


def roadbed(cache, *arguments):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "roadbed", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)


def test_warming_up_tells_each_kernel_and_leaves_nothing_to_compile(tmp_path):
    first = roadbed(tmp_path, "warm-up", "files", "pictures", "--json")
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["kernels"] == 6
    assert "compiling for this machine, once" in first.stderr
    assert "1 of 6" in first.stderr
    again = roadbed(tmp_path, "warm-up", "files", "pictures", "--json")
    assert json.loads(again.stdout)["kernels"] == 0
    assert again.stderr == ""


def test_unknown_parts_are_named():
    with pytest.raises(InputError, match="expected ground, occupancy"):
        warm_up(["engine"])


def test_every_job_uses_every_kernel_that_usual_drives_need(tmp_path):
    """After all jobs no kernel that Python calls is missing, and a drive from the command line compiles nothing."""
    warm_up(processes=1)  # with the cache that is there
    assert cold() == []
    assert progress.missing(kernel for job in JOBS for kernel in kernels_of(job)) == []
    script = """
import sys
import numba
import numpy as np
import roadbed
from roadbed.kernels import progress

progress.watch(lambda step: print(step.stage, step.kernel))
drive = list(roadbed.open("sim:city?sensor=lux4&frames=3"))
pipeline = roadbed.Pipeline()
for scan in drive:
    pipeline(scan)
roadbed.GroundFilter()(drive[0].points)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=900, check=True)
    assert done.stdout == ""


def test_labels_are_compiled_for_the_types_of_a_scan():
    """Two processes share the kernels of the ground: what `labels` compiles without a scan, `ground` must not again."""
    script = """
from roadbed.ground.stcrf.cpu import compute_variance, describe_surface, drop_small_components, label_points
from roadbed.ground.visibility.cpu import mark_non_ground
from roadbed.ground.visibility.faces_cpu import mark_steep_faces
from roadbed.warm_up import workload

kernels = compute_variance, describe_surface, drop_small_components, label_points, mark_non_ground, mark_steep_faces
for job in (workload.labels, workload.ground):
    job()
    print([len(kernel.signatures) for kernel in kernels])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=900, check=True)
    assert done.stdout.splitlines() == ["[1, 1, 1, 1, 1, 1]"] * 2


def test_a_watcher_hears_what_is_compiled(tmp_path, monkeypatch):
    """Steps count up to their total, and the last one says that all is ready."""

    def newly_made(x):
        return x + 1

    newly_made.__module__, newly_made.__qualname__ = "roadbed.ground.example", "newly_made"
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    kernel = njit(cache=True)(newly_made)
    heard = []
    before = progress.watch(heard.append)
    try:
        assert kernel(np.int8(0)) == 1
    finally:
        progress.watch(before)
    begun, ended = heard
    assert (begun.stage, begun.kernel, begun.done, begun.total) == ("ground", "newly_made", 0, 1)
    assert str(begun) == "ground: newly_made, 1 of 1"
    assert (ended.done, ended.total) == (1, 1)


def test_the_time_left_is_told_once_a_fifth_is_compiled():
    told, names = progress._Progress(), [f"roadbed.ground.example.{k}" for k in range(10)]
    heard = []
    told.watcher = heard.append
    told.expect(names)
    for name in names:
        told.begin(name)
        told.end(name)
    assert [step.seconds_left is None for step in heard[:-1]] == [True, True, *[False] * 8]
    assert heard[-1].done == heard[-1].total == 10


def test_jobs_have_kernels():
    for name in JOBS:
        assert kernels_of(name), name
