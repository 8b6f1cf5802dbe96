# SPDX-License-Identifier: Apache-2.0
"""A device that fails in the middle of a drive: one line, and the caller goes on elsewhere."""

from __future__ import annotations

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

CONFIG = {"ground": {"stcrf": {"length": 20, "width": 20}}, "occupancy": {"grid": {"length": 12, "width": 12}}}


@pytest.mark.parametrize("name", [name for name in ACCELERATORS if name != "opencl-lanes"])
def test_what_the_runtime_says_is_one_line_and_the_drive_goes_on_on_the_cpu(name, monkeypatch):
    """The runtime's own error, raised where work is queued; what was known before the scan is known after it."""
    backend, config = accelerator(name), Config.parse(CONFIG)
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
    assert len(Pipeline(config, "cpu")(scans[2]).ground.label) == len(scans[2])


def _reason(name):
    return (46,) if name == "cuda" else ("enqueue", -5, "out of resources")


@pytest.mark.parametrize("name", [name for name in ACCELERATORS if name != "opencl-lanes"])
@pytest.mark.parametrize("moment", ["scan placed", "occupancy queued", "ground complete"])
def test_a_device_that_fails_while_the_ground_is_under_way(name, moment, monkeypatch):
    """One line, whichever wait or post fails; then other threads get their turn, and the drive goes on."""
    backend, config = accelerator(name), Config.parse(CONFIG)
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
        """A kernel of someone else writes where it must not: from then on every call of this process fails."""
        script = f"""
        import cupy
        from roadbed import Config, Pipeline
        from roadbed.core.errors import DeviceError
        from roadbed.sources import open_source
        scans = list(open_source("sim:city?sensor=lux4&frames=3"))
        config = Config.parse({CONFIG!r})
        pipeline = Pipeline(config, "cuda")
        pipeline(scans[0])
        bad = cupy.RawKernel('extern "C" __global__ void bad(int *a) {{ a[1ll << 40] = 1; }}', "bad")
        bad((1,), (1,), (cupy.zeros(1, "i4"),))
        try:
            pipeline(scans[1])
        except DeviceError as error:
            print(error)
        print(len(Pipeline(config, "cpu")(scans[1]).ground.label) == len(scans[1]))
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=300
        )
        line, goes_on = done.stdout.strip().splitlines()[-2:]
        assert "use another backend" in line, done.stderr
        assert goes_on == "True"
