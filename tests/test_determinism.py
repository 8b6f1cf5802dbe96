# SPDX-License-Identifier: Apache-2.0
"""The same scans give the same bytes: whatever the number of threads, in every process, after a reset; and on every
kind of machine the same labels but for a few, and the same surface to a tenth of a millimetre."""

import hashlib
import os
import subprocess
import sys

import numpy as np

import roadbed
from tests.conftest import ROOT

DRIVE = "sim:city?sensor=lux4&frames=5"
SMALL = roadbed.Config.parse({"occupancy": {"grid": {"length": 30, "width": 30}}})


def digest(results) -> str:
    """Of everything a sequence's results hold; objects by the order in which they appear, as no id is given twice."""
    found, order = hashlib.sha256(), dict[int, int]()
    for result in results:
        for frame in (result.ground, result.occupancy):
            for name, values in sorted(vars(frame).items()):
                if hasattr(values, "tobytes"):
                    found.update(name.encode() + values.tobytes())
        objects = [(order.setdefault(item.id, len(order)), item) for item in result.occupancy.objects]
        found.update(repr([(number, item.position, item.velocity) for number, item in objects]).encode())
    return found.hexdigest()


def sequence() -> str:
    return digest(roadbed.Pipeline(SMALL).run(roadbed.open(DRIVE)))


def in_a_process(threads: int) -> str:
    environment = {**os.environ, "NUMBA_NUM_THREADS": str(threads)}
    program = "from tests.test_determinism import sequence; print(sequence())"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=900, check=True
    )
    return done.stdout.strip()


PAPER = roadbed.Config.preset("paper").with_changes(
    ground={"stcrf": {"length": 60, "width": 60}},
    occupancy={"grid": {"length": 30, "width": 30, "ahead": 15, "spacing": 0.3}, "filter": {"particles": 4000}},
)
REFERENCE = ROOT / "tests" / "reference_drive.npz"  # labels of an x86_64 machine, the rest of an aarch64 one


def summary() -> dict[str, np.ndarray]:
    """Labels of every scan, the last surface and the last grid; of the paper's methods, which do not change."""
    results = list(roadbed.Pipeline(PAPER).run(roadbed.open(DRIVE)))
    last = results[-1]
    return {
        "labels": np.concatenate([result.ground.label for result in results]),
        "elevation": last.ground.elevation,
        "occupancy": np.round(100 * last.occupancy.occupied).astype(np.uint8),
    }


def write_reference() -> None:
    """python -c 'from tests.test_determinism import write_reference; write_reference()', after a change on purpose."""
    np.savez_compressed(REFERENCE, **summary())


def test_another_kind_of_machine_gives_the_same_but_for_rounding():
    """Compilers fuse other operations on other processors: a point on a threshold may fall to its other side."""
    here = summary()
    with np.load(REFERENCE) as there:
        assert len(here["labels"]) == len(there["labels"])
        assert np.mean(here["labels"] != there["labels"]) < 2e-3
        known = np.isfinite(here["elevation"])
        assert np.mean(known != np.isfinite(there["elevation"])) < 2e-3
        apart = np.abs(here["elevation"] - there["elevation"])
        assert np.nanmedian(apart) < 1e-5
        assert np.nanpercentile(apart, 99) < 1e-4
        assert np.mean(np.abs(here["occupancy"].astype(int) - there["occupancy"])) < 1  # percent


def test_threads_and_processes_do_not_change_a_byte():
    here = sequence()
    assert in_a_process(1) == here
    assert in_a_process(3) == here


def test_a_reset_pipeline_repeats_its_results():
    pipeline, source = roadbed.Pipeline(SMALL), roadbed.open(DRIVE)
    first = digest(pipeline.run(source))
    pipeline.reset()
    assert digest(pipeline.run(source)) == first
    assert digest(pipeline.run(source[1:])) != first
