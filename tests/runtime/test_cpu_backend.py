# SPDX-License-Identifier: Apache-2.0
"""The backend of a stage: by configuration or argument, in several threads and in forked processes."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from roadbed import Config, GroundFilter
from roadbed.core.errors import DeviceError
from roadbed.runtime.cpu_backend import CpuBackend
from roadbed.runtime.device_selection import open_backend
from tests.devices import BACKENDS, accelerator, backend


def test_the_configuration_names_the_backend_and_an_open_one_can_be_shared():
    """With the method that has one small program, which is built in a child process first."""
    device, config = accelerator("opencl"), Config.parse({"backend": "opencl", "ground": {"method": "variance"}})
    assert GroundFilter(config).backend.device.backend == "opencl"
    assert GroundFilter(config, backend=device).backend is device
    assert isinstance(GroundFilter().backend, CpuBackend)


def test_the_cpu_has_no_devices_to_choose_from():
    with pytest.raises(DeviceError, match="has no devices"):
        open_backend("cpu", device="GeForce")


def scene(seed, n=4000):
    random = np.random.default_rng(seed)
    points = random.uniform([-20, -20, -1.85], [20, 20, -1.75], (n, 3))
    points[: n // 5, 2] += random.uniform(0, 2, n // 5)
    return points.astype(np.float32)


@pytest.mark.parametrize("name", BACKENDS)
def test_one_filter_in_several_threads_returns_the_labels_of_each_scan(name):
    scans = [scene(k, 2000 + 500 * k) for k in range(8)]
    ground = GroundFilter(backend=backend(name))
    expected = [ground(points).label for points in scans]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            found = list(pool.map(lambda points: ground(points).label, scans))
            for a, b in zip(found, expected):
                assert np.count_nonzero(a != b) <= len(b) / 1000  # a device's sums may run in another order


def run(script, **environment):
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


TWO_THREADS = """
import threading
import numpy as np
from roadbed import GroundFilter
points = np.random.default_rng(0).uniform(-20, 20, (20000, 3)).astype(np.float32)
expected = GroundFilter()(points).label
different = []
def work():
    ground = GroundFilter()
    for _ in range(5):
        different.append((ground(points).label != expected).sum())
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(different), sum(different))
"""


def test_several_threads_with_one_filter_each():
    """With the threading layer of Numba that aborts when two threads enter it: Roadbed does not use it."""
    assert run(TWO_THREADS, NUMBA_THREADING_LAYER="workqueue").split() == ["15", "0"]


FORKED = """
import multiprocessing
import numpy as np
from roadbed import GroundFilter
from roadbed.core.errors import DeviceError
points = np.random.default_rng(0).uniform(-20, 20, (2000, 3)).astype(np.float32)
def work(queue):
    try:
        GroundFilter()(points)
        queue.put("worked")
    except DeviceError as error:
        queue.put(str(error))
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    for _ in range(2):
        queue = context.Queue()
        child = context.Process(target=work, args=(queue,))
        child.start()
        print(queue.get(timeout=600))
        child.join(600)
        assert child.exitcode == 0
        GroundFilter()(points)
"""


def test_a_process_forked_before_the_first_use_works_and_later_ones_are_refused_with_advice():
    before, after = run(FORKED).splitlines()
    assert before == "worked"
    assert "spawn" in after
