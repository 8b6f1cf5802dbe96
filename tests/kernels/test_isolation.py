# SPDX-License-Identifier: Apache-2.0
"""Importing and using Roadbed changes nothing for other users of Numba in the process."""

import os
import subprocess
import sys

USER = """
import numba

@numba.njit(cache=True)
def triple(x):
    return 3 * x
"""
MAIN = """
import gc, sys
import numba, numpy as np
from numba.core import codegen, config, lowering, typing

def state():
    settings = {name: value for name, value in vars(config).items() if name.isupper()}
    classes = {}
    for module in (codegen, lowering, typing.templates):
        for name, kind in vars(module).items():
            if isinstance(kind, type):
                classes[module.__name__, name] = {key: id(value) for key, value in vars(kind).items()}
    kinds = [numba.typeof(value) for value in (np.zeros(3), 1, 1.0, (np.ones(2, np.int8), 2))]
    array = numba.core.typing.typeof.typeof_impl.dispatch(np.ndarray)
    return settings, classes, kinds, id(array), gc.isenabled(), gc.get_threshold()

@numba.njit
def warm(x):
    return x + x

warm(np.ones(3))  # Numba loads its own parts first
before = state()
if sys.argv[1] == "with":
    import roadbed
    ground = roadbed.GroundFilter(roadbed.Config.parse({"ground": {"method": "variance"}}))
    ground(np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32))
    after = state()
    for one, other in zip(before, after):
        assert one == other, [(key, one[key], other.get(key)) for key in one if one[key] != other.get(key)]
import user
assert user.triple(2) == 6
print(user.triple.stats.cache_path)
"""


def run(folder, which):
    environment = {**os.environ}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", MAIN, which]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip().splitlines()[-1]


def test_numba_is_left_as_it_was_and_caches_where_it_would(tmp_path):
    (tmp_path / "user.py").write_text(USER)
    path = run(tmp_path, "with")
    assert path == run(tmp_path, "without")
    assert "roadbed" not in path.replace(str(tmp_path), "")
