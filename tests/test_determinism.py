# SPDX-License-Identifier: Apache-2.0
"""The same scans give the same bytes: whatever the number of threads, in every process, after a reset."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import roadbed

DRIVE = "sim:city?sensor=lux4&frames=5"
SMALL = roadbed.Config.parse({"occupancy": {"grid": {"length": 30, "width": 30}}})


def digest(results) -> str:
    """Of everything a drive's results hold."""
    found = hashlib.sha256()
    for result in results:
        for frame in (result.ground, result.occupancy):
            for name, values in sorted(vars(frame).items()):
                if hasattr(values, "tobytes"):
                    found.update(name.encode() + values.tobytes())
        found.update(repr([(item.id, item.position, item.velocity) for item in result.occupancy.objects]).encode())
    return found.hexdigest()


def drive() -> str:
    return digest(roadbed.Pipeline(SMALL).run(roadbed.open(DRIVE)))


def in_a_process(threads: int) -> str:
    environment = {**os.environ, "NUMBA_NUM_THREADS": str(threads)}
    program = "from tests.test_determinism import drive; print(drive())"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=900, check=True
    )
    return done.stdout.strip()


def test_threads_and_processes_do_not_change_a_byte():
    here = drive()
    assert in_a_process(1) == here
    assert in_a_process(3) == here


def test_a_reset_pipeline_drives_the_same_again():
    pipeline, source = roadbed.Pipeline(SMALL), roadbed.open(DRIVE)
    first = digest(pipeline.run(source))
    pipeline.reset()
    assert digest(pipeline.run(source)) == first
    assert digest(pipeline.run(source[1:])) != first
