# SPDX-License-Identifier: Apache-2.0
"""The whole chain once with every index of the CPU's kernels checked: a write beyond an array fails, not spoils."""

import os
import pickle
import subprocess
import sys

import pytest

import roadbed

pytestmark = pytest.mark.long(100)

CHAIN = """
import gc, pickle, sys
import numpy as np

gc.disable()  # compiled functions keep their objects: to look among them takes a fifth of the time
from roadbed import Config, GroundFilter, Pipeline

drive, rig = pickle.load(open(sys.argv[1], "rb"))
for preset, scans in (("default", drive + rig), ("paper", drive[:2] + rig[:1])):
    pipeline = Pipeline(Config.preset(preset))
    for scan in scans:
        result = pipeline(scan)
turning = GroundFilter(Config.parse({"ground": {"time": {"motion": "vehicle"}}}))
variance = GroundFilter(Config.parse({"ground": {"method": "variance"}}))
for scan in drive[:2]:
    turning(scan)
    variance(scan)
small = GroundFilter(Config.parse({"ground": {"stcrf": {"length": 7, "width": 5, "spacing": 1.0}}}))
for points in (np.zeros((0, 3)), np.full((9, 3), np.nan), np.full((9, 3), 1e30), drive[0].points):
    small(points.astype(np.float32))
print("done")
"""


def test_the_chain_stays_inside_its_arrays(tmp_path):
    every_second = slice(None, None, 2)  # 13,000 points: enough to wake all threads
    drive = [scan.part(every_second) for scan in roadbed.open("sim:city?sensor=vlp16&frames=3")]
    scans = drive, list(roadbed.open("sim:city?sensor=lux4&frames=2"))
    drives = tmp_path / "drives.pickle"
    drives.write_bytes(pickle.dumps(scans))
    # One thread: with more, an error inside a parallel loop is swallowed. Not optimised: compiling takes longest, as
    # Numba does not cache kernels with checked indices ("uses dynamic globals").
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_NUM_THREADS": "1", "NUMBA_OPT": "0"}
    environment = {**os.environ, **checked}
    done = subprocess.run(
        [sys.executable, "-c", CHAIN, str(drives)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "done"
