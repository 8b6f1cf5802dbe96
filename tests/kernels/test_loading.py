# SPDX-License-Identifier: Apache-2.0
"""Loading: garbage collection waits for modules and cached kernels, not for compilations, and stays as it was set."""

import gc
import subprocess
import sys
from types import SimpleNamespace

import pytest
from numba.core import event

from roadbed.core.memory import uncollected
from roadbed.kernels import progress

COMPILED = {"dispatcher": SimpleNamespace(py_func=progress.register)}
FIRST_RESULT = """
import sys, numpy, roadbed
roadbed.GroundFilter()(numpy.random.default_rng(0).uniform(-20, 20, (2000, 3)))
print(*sys.modules)
"""


@pytest.fixture(autouse=True)
def collecting():
    gc.enable()
    gc.unfreeze()  # what pytest has frozen
    yield
    gc.enable()
    gc.unfreeze()


def is_old(one):
    return any(other is one for other in gc.get_objects(generation=2))


def test_what_is_loaded_is_old_at_once():
    with uncollected():
        assert not gc.isenabled()
        loaded = [[]]
        assert not is_old(loaded)
    assert gc.isenabled()
    assert is_old(loaded)
    assert gc.get_freeze_count() == 0


def test_a_caller_who_has_decided_on_collection_is_left_alone():
    gc.disable()
    with uncollected():
        pass
    assert not gc.isenabled()
    gc.enable()
    gc.freeze()
    frozen = gc.get_freeze_count()
    with uncollected():
        assert gc.isenabled()
    assert gc.get_freeze_count() == frozen


def test_collection_goes_on_after_an_error():
    with pytest.raises(KeyError), uncollected():
        raise KeyError
    assert gc.isenabled()


def test_collection_waits_for_loads_and_not_for_compilations():
    with event.trigger_event("numba:compiler_lock"), event.trigger_event("numba:compiler_lock"):
        assert not gc.isenabled()
    assert gc.isenabled()
    with event.trigger_event("numba:compiler_lock"):
        with event.trigger_event("numba:compile", data=COMPILED):
            assert gc.isenabled()
            with event.trigger_event("numba:compiler_lock"):
                assert gc.isenabled()
        assert gc.isenabled()


def test_the_cpu_does_not_wait_for_modules_of_accelerators():
    command = [sys.executable, "-c", FIRST_RESULT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("roadbed.")}
    assert "roadbed.ground.stcrf.cpu" in loaded
    devices = ("opencl", "cuda", "program_cache", "build_probe", "packed_outputs")
    assert not loaded & {f"roadbed.runtime.{name}" for name in devices}
    assert not loaded & {"roadbed.mapping.tile_store", "roadbed.ground.cloud.tiles"}
