# SPDX-License-Identifier: Apache-2.0
"""The screen says when kernels are being compiled, and only then."""

import os
import subprocess
import sys

SCRIPT = """
import numpy as np
from roadbed import Config, GroundFilter
ground = GroundFilter(Config.loads("grid_resolution: 0.3"))
ground(np.zeros((10, 3), np.float32))
"""


def run(cache):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=True)
    return done.stderr


def test_compilation_is_announced_once(tmp_path):
    assert "compiling" in run(tmp_path)
    assert run(tmp_path) == ""
