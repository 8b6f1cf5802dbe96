# SPDX-License-Identifier: Apache-2.0
"""A device that fails during a sequence: a one-line error, and the caller can go on with another backend."""

import subprocess
import sys
import textwrap
from threading import Thread

import numpy as np
import pytest

from roadbed import Config, Pipeline
from roadbed.core.errors import DeviceError
from roadbed.sources import open_source
from tests.devices import ACCELERATORS, accelerator


@pytest.mark.parametrize("name", [name for name in ACCELERATORS if name != "opencl-lanes"])
def test_a_driver_error_is_one_line_and_the_sequence_goes_on_with_the_cpu(name, monkeypatch):
    """An error of the driver when work is queued; results before it stay valid, and the filter takes further scans."""
    backend, config = accelerator(name), Config()
    scans = list(open_source("sim:city?sensor=lux4&frames=3"))
    pipeline = Pipeline(config, backend)
    before = pipeline(scans[0])
    with monkeypatch.context() as patched:

        def fails(*_):
            raise backend.error_types[0](*_reason(name))

        patched.setattr(type(backend), "enqueue", fails)
        with pytest.raises(DeviceError, match="use another backend") as caught:
            pipeline(scans[1])
    assert backend.device.name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert np.isfinite(before.ground.label).all()
    assert len(pipeline(scans[2]).ground.label) == len(scans[2])
    assert len(Pipeline(config)(scans[2]).ground.label) == len(scans[2])


def _reason(name):
    return (46,) if name == "cuda" else ("enqueue", -5, "out of resources")


@pytest.mark.parametrize("name", [name for name in ACCELERATORS if name != "opencl-lanes"])
@pytest.mark.parametrize("moment", ["scan placed", "occupancy queued", "ground complete"])
def test_a_device_that_fails_between_ground_and_occupancy(name, moment, monkeypatch):
    """A one-line error, whichever call fails; then other threads can use the pipeline."""
    backend, config = accelerator(name), Config()
    scans = list(open_source("sim:city?sensor=lux4&frames=4"))
    pipeline = Pipeline(config, backend)
    pipeline(scans[0])
    pipeline(scans[1])
    passed = []
    with monkeypatch.context() as patched:

        def failing(owner, method, after):
            original = getattr(owner, method)

            def fails(*arguments):
                passed.append(method)
                if len(passed) > after:
                    raise backend.error_types[0](*_reason(name))
                return original(*arguments)

            patched.setattr(owner, method, fails)

        if moment == "scan placed":
            failing(type(backend.event()), "wait", 0)
        elif moment == "occupancy queued":
            failing(type(backend), "enqueue", 1)  # the ground's goes through
        else:
            failing(type(backend), "finish", 1)  # the occupancy's does
        with pytest.raises(DeviceError, match="use another backend") as caught:
            pipeline(scans[2])
    assert passed
    assert "\n" not in str(caught.value)
    results = []
    another = Thread(target=lambda: results.append(pipeline(scans[3])), daemon=True)
    another.start()
    another.join(timeout=60)
    assert [len(result.ground.label) for result in results] == [len(scans[3])]
    assert np.isfinite(results[0].occupancy.static).all()


if "cuda" in ACCELERATORS:  # only an NVIDIA GPU can be lost this way

    def test_a_gpu_whose_context_is_lost():
        """An invalid write of another kernel: from then on every CUDA call of this process fails."""
        script = """
        import cupy
        from roadbed import Config, Pipeline
        from roadbed.core.errors import DeviceError
        from roadbed.sources import open_source
        scans = list(open_source("sim:city?sensor=lux4&frames=3"))
        pipeline = Pipeline(Config(backend="cuda"))
        pipeline(scans[0])
        bad = cupy.RawKernel('extern "C" __global__ void bad(int *a) { a[1ll << 40] = 1; }', "bad")
        bad((1,), (1,), (cupy.zeros(1, "i4"),))
        try:
            pipeline(scans[1])
        except DeviceError as error:
            print(error)
        print(len(Pipeline()(scans[1]).ground.label) == len(scans[1]))
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=300
        )
        line, goes_on = done.stdout.strip().splitlines()[-2:]
        assert "use another backend" in line, done.stderr
        assert goes_on == "True"
